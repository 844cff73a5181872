//! `--format pprof` in speedscope, which reads it in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use data_encoding::BASE64;
use rprof::report::{self, Format, View};

use crate::browser;
use crate::shared::turn;

/// The program in a folder below `target/`, got from npm once.
const VERSION: &str = "speedscope@1.25.0";

/// Its page; `None` where npm cannot get it.
fn page() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("speedscope");
    let page = folder.join("node_modules/speedscope/dist/release/index.html");
    let _turn = turn("speedscope");
    if !page.exists() {
        fs::create_dir_all(&folder).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", VERSION]).current_dir(&folder);
        if !npm.status().is_ok_and(|status| status.success()) {
            println!("SKIPPED: packages: npm cannot install speedscope");
            return None;
        }
    }
    Some(page)
}

#[test]
fn speedscope_shows_the_functions_and_their_time() {
    let Some(page) = page() else { return };
    let profile = browser::sample();
    let bytes = report::bytes(&profile, Format::Pprof, &View::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = folder.path().join("load.js");
    fs::write(&load, format!("speedscope.loadFileFromBase64('kernels.pb.gz', '{}')", BASE64.encode(&bytes))).unwrap();
    let address = format!("file://{}#view=sandwich&localProfilePath={}", page.display(), load.display());
    let options = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"];
    let Some(seen) = browser::document(&address, &options) else { return };
    assert!(seen.document.contains("<title>kernels.pb.gz"), "{}", seen.messages);
    for name in ["triad", "gemm_block", "branchy"] {
        assert!(seen.document.contains(name), "no {name}: {}", seen.messages);
    }
}
