//! Compiled fixtures, and the names that rprof gives their addresses.

#![allow(dead_code)] // each test uses a part

use std::path::{Path, PathBuf};
use std::process::Command;

use rprof::join::Resolver;
use rprof::profile::ModuleInfo;
use rprof::profile::code::ModuleKind;
use rprof::symbols::Symbols;

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles `fixtures/SOURCE` with `arguments` into `folder/name`.
pub fn compile(compiler: &str, source: &str, arguments: &[&str], folder: &Path, name: &str) -> PathBuf {
    let binary = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(source);
    let mut all = arguments.to_vec();
    all.extend([path(&source), "-o", path(&binary)]);
    run(compiler, &all);
    binary
}

pub fn available(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: packages: {program} is not installed");
    }
    found
}

/// Address of the symbol that `nm` prints as `name`.
pub fn address(binary: &Path, name: &str, options: &[&str]) -> u64 {
    let mut arguments = options.to_vec();
    arguments.push(path(binary));
    let text = run("nm", &arguments);
    let line = text.lines().find(|l| l.len() > 19 && l.get(19..) == Some(name));
    let line = line.unwrap_or_else(|| panic!("nm has no {name}:\n{text}"));
    u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap()
}

pub fn module(path: &Path) -> ModuleInfo {
    ModuleInfo {
        kind: ModuleKind::File,
        path: path.to_str().unwrap().into(),
        build_id: rprof::symbols::elf_file::ElfFile::open(path).unwrap().build_id(),
        pid: 1,
        bias: 0,
    }
}

pub fn name_at(symbols: &mut Symbols, path: &Path, offset: u64) -> String {
    symbols.function(&module(path), offset).name.to_string()
}

pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
