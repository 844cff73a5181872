//! Builds what rprof carries inside itself and hands to other processes: `programs/loader.rs`, a program, and `programs/collector.rs`, a
//! library. Both are built without the standard library and without symbol versions, so that they run on any host's C library,
//! whatever this host has.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Parts of the C library that the embedded programs name as needed.
const LIBRARIES: [&str; 2] = ["libc.so.6", "libdl.so.2"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=programs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut needed = vec!["-nostdlib".to_owned(), "-Wl,--no-as-needed".to_owned()];
    for soname in LIBRARIES {
        let stub = out.join(soname);
        rustc("libc_stub.rs", "cdylib", &stub, &["-nostdlib".into(), format!("-Wl,-soname,{soname}")]);
        needed.push(stub.display().to_string());
    }
    let program = [&["-nostartfiles".to_owned()], &needed[..]].concat();
    rustc("loader.rs", "bin", &out.join("loader"), &program);
    rustc("collector.rs", "cdylib", &out.join("collector.so"), &needed);
}

/// Compiles a file of `programs/` for the target.
fn rustc(source: &str, kind: &str, output: &Path, link: &[String]) {
    let mut command = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    command.args(["--edition", "2024", "--crate-type", kind, "--crate-name", "embedded", "--target"]);
    command.arg(env::var_os("TARGET").expect("cargo sets TARGET"));
    command.args(["-C", "opt-level=2", "-C", "panic=abort", "-C", "strip=symbols"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        command.arg("-C").arg(format!("linker={}", linker.display()));
    }
    command.args(link.iter().map(|argument| format!("-Clink-arg={argument}")));
    command.arg("-o").arg(output).arg(Path::new("programs").join(source));
    let status = command.status().unwrap_or_else(|e| panic!("{command:?} could not be run: {e}"));
    assert!(
        status.success(),
        "crates/embedded/programs/{source} could not be compiled: {command:?} ended with {status}"
    );
}
