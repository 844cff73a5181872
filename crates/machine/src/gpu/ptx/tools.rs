//! `ptxas` and `nvdisasm` for the tests: assembling a kernel, reading registers and spills, finding loops in the machine
//! code.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

use super::Kernel;

/// The path of a tool from an environment variable; without it says that the test is skipped.
pub(super) fn tool(variable: &str, test: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        println!("SKIPPED: pypi: {test}: {variable} is not set; tests/run gets the tool");
    }
    path
}

/// An architecture of `ptxas` on which the kernel can be checked, by capability.
pub(super) fn architecture(kernel: &Kernel, major: u32, minor: u32) -> Option<String> {
    let suffix = if kernel.needs.exact { "a" } else { "" };
    kernel.runs_on(major, minor).then(|| format!("sm_{major}{minor}{suffix}"))
}

/// The output of `ptxas -v` for one kernel.
#[derive(Debug)]
pub(super) struct Assembled {
    pub cubin: PathBuf,
    pub registers: u32,
    /// Bytes of stack, spill stores, spill loads.
    pub local: [u32; 3],
    pub messages: String,
}

impl Drop for Assembled {
    fn drop(&mut self) {
        // A file left behind in the folder for temporary files does no harm.
        let _ = std::fs::remove_file(&self.cubin);
    }
}

/// Assembles a module; panics with the messages of `ptxas` when it refuses. `name` is free, but another one for each call.
pub(super) fn assemble(ptxas: &PathBuf, name: &str, ptx: &str, architecture: &str) -> Assembled {
    let stem = format!("rprof-ptx-{}-{name}-{architecture}", std::process::id());
    let [source, cubin] = ["ptx", "cubin"].map(|kind| std::env::temp_dir().join(format!("{stem}.{kind}")));
    std::fs::write(&source, ptx).expect("writing PTX");
    let output = Command::new(ptxas)
        .args(["-v", "-arch", architecture])
        .arg(&source)
        .arg("-o")
        .arg(&cubin)
        .output()
        .expect("ptxas");
    std::fs::remove_file(&source).expect("removing PTX");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name} for {architecture}:\n{messages}");
    let before =
        |words: &str| number_before(&messages, words).unwrap_or_else(|| panic!("no '{words}' in:\n{messages}"));
    let local = ["bytes stack frame", "bytes spill stores", "bytes spill loads"].map(before);
    let registers = before("registers");
    Assembled { cubin, registers, local, messages }
}

/// The number before `words`.
fn number_before(text: &str, words: &str) -> Option<u32> {
    text[..text.find(words)?].split_whitespace().next_back()?.parse().ok()
}

/// Machine code in the order of addresses.
#[derive(Debug)]
pub(super) struct Code {
    /// Instructions with their guards, without address and encoding.
    pub instructions: Vec<String>,
    /// From the target of each backward branch to the branch.
    pub loops: Vec<Range<usize>>,
}

impl Code {
    /// Instructions of a loop with one of `stems` at the start of their mnemonic.
    pub fn within(&self, range: &Range<usize>, stems: &[&str]) -> usize {
        self.instructions[range.clone()].iter().filter(|line| begins(line, stems)).count()
    }

    /// The most of them in a loop that contains no other loop.
    pub fn most(&self, stems: &[&str]) -> usize {
        let inner = |range: &&Range<usize>| {
            !self.loops.iter().any(|other| other != *range && range.start <= other.start && other.end <= range.end)
        };
        self.loops.iter().filter(inner).map(|range| self.within(range, stems)).max().unwrap_or(0)
    }

    /// Instructions that no loop contains.
    pub fn outside(&self) -> impl Iterator<Item = &String> {
        let inside = |place: usize| self.loops.iter().any(|range| range.contains(&place));
        self.instructions.iter().enumerate().filter(move |(place, _)| !inside(*place)).map(|(_, line)| line)
    }
}

/// Whether the mnemonic of an instruction, after its guard, begins with one of `stems`.
pub(super) fn begins(line: &str, stems: &[&str]) -> bool {
    let mnemonic = line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
    stems.iter().any(|stem| mnemonic.starts_with(stem))
}

/// `HFMA2 Rd, -RZ, RZ, …`: how the assembler loads a constant. It is no arithmetic.
pub(super) fn is_move(line: &str) -> bool {
    begins(line, &["HFMA2"]) && line.contains("-RZ, RZ")
}

/// Kernels of one target in one module, with the text that they share at its begin.
pub(super) fn joined(kernels: &[Kernel]) -> Vec<(Vec<&Kernel>, String)> {
    const END: &str = ".address_size 64\n";
    let mut modules: Vec<(Vec<&Kernel>, String)> = Vec::new();
    for kernel in kernels {
        let (head, entry) = kernel.ptx.split_once(END).expect("a header");
        match modules.iter_mut().find(|(_, text)| text.starts_with(&format!("{head}{END}"))) {
            Some((members, text)) => {
                members.push(kernel);
                *text += entry;
            }
            None => modules.push((vec![kernel], kernel.ptx.clone())),
        }
    }
    modules
}

/// Disassembles a cubin: the code of each of its functions by name.
pub(super) fn disassemble(nvdisasm: &PathBuf, assembled: &Assembled) -> HashMap<String, Code> {
    let output = Command::new(nvdisasm).arg("-c").arg(&assembled.cubin).output().expect("nvdisasm");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut functions: HashMap<String, Vec<&str>> = HashMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(next) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            name = next.to_owned();
        }
        functions.entry(name.clone()).or_default().push(line);
    }
    functions.into_iter().map(|(name, lines)| (name, code(&lines))).collect()
}

/// The code of one function.
fn code(lines: &[&str]) -> Code {
    let (mut instructions, mut labels) = (Vec::new(), Vec::new());
    for line in lines {
        if let Some(label) = line.strip_suffix(':').filter(|label| label.starts_with(".L_x_")) {
            labels.push((format!("`({label})"), instructions.len()));
        } else if let Some((_, rest)) = line.trim_start().strip_prefix("/*").and_then(|rest| rest.split_once("*/"))
            && let Some((instruction, _)) = rest.split_once(';')
        {
            instructions.push(instruction.trim().to_owned());
        }
    }
    let backward = |(place, line): (usize, &String)| {
        let (_, target) = labels.iter().find(|(label, _)| line.contains(label))?;
        // The branch to itself that ends a function is no loop.
        (*target < place).then_some(*target..place + 1)
    };
    let branches = instructions.iter().enumerate().filter(|(_, line)| begins(line, &["BRA"]));
    let loops = branches.filter_map(backward).collect();
    Code { instructions, loops }
}
