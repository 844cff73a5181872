//! A truth program: its header, and the executables made from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// FLOPs by the names of the profile (`dp`, `fma`, `512` …); a name that is missing is 0.
pub type Figures = BTreeMap<String, u64>;

/// How a program is linked. Static ones start with far fewer instructions, which single-stepping needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Static,
    Dynamic,
}

/// A program of `fixtures/truth/` and the contents of its header.
pub struct Truth {
    pub name: String,
    pub needs: Vec<String>,
    pub expect: Figures,
    flags: Vec<String>,
    source: PathBuf,
}

/// All truth programs.
pub fn programs() -> Vec<Truth> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/truth");
    let entries = std::fs::read_dir(&folder).expect("fixtures/truth exists");
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    sources.into_iter().map(Truth::read).collect()
}

impl Truth {
    fn read(source: PathBuf) -> Truth {
        let text = std::fs::read_to_string(&source).expect("a readable fixture");
        let words = |key: &str| -> Vec<String> {
            let line = text.lines().find_map(|line| line.trim_start_matches(" * ").strip_prefix(key));
            line.unwrap_or_else(|| panic!("{}: no {key} in the header", source.display()))
                .split_whitespace()
                .map(Into::into)
                .collect()
        };
        let figure = |word: &String| {
            let (name, value) = word.split_once('=').expect("NAME=FLOPS");
            (name.to_string(), value.parse().expect("a number"))
        };
        let name = source.file_stem().expect("a file name").to_string_lossy().into_owned();
        Truth {
            name,
            needs: words("needs:"),
            expect: words("expect:").iter().map(figure).collect(),
            flags: words("flags:"),
            source,
        }
    }

    /// The features that this CPU lacks.
    pub fn lacks(&self) -> Vec<&str> {
        self.needs.iter().map(String::as_str).filter(|feature| !has(feature)).collect()
    }

    /// Compiles it into `folder`.
    pub fn compile(&self, folder: &Path, threads: u32, link: Link, mutant: bool) -> PathBuf {
        let program = folder.join(format!("{}-{threads}{}", self.name, if mutant { "-mutant" } else { "" }));
        let mut cc = Command::new("cc");
        cc.args("-O2 -ffp-contract=off -fno-tree-vectorize -fno-math-errno -pthread".split(' ')).args(&self.flags);
        cc.arg(format!("-DTHREADS={threads}")).args(mutant.then_some("-DMUTANT"));
        cc.args((link == Link::Static).then_some("-static"));
        let output =
            cc.arg("-o").arg(&program).arg(&self.source).arg("-lm").output().expect("a C compiler is installed");
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Expected figures with `threads` threads.
    pub fn expected(&self, threads: u32) -> Figures {
        self.expect.iter().map(|(name, value)| (name.clone(), value * u64::from(threads))).collect()
    }
}

fn has(feature: &str) -> bool {
    match feature {
        "sse2" => is_x86_feature_detected!("sse2"),
        "sse3" => is_x86_feature_detected!("sse3"),
        "fxsr" => is_x86_feature_detected!("fxsr"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        other => panic!("no way to find out whether the CPU has {other}"),
    }
}
