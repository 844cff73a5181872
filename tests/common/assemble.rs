//! Assembles Intel syntax with the system's `as`, so that tests show the code that they check.

use std::process::Command;

use iced_x86::{Decoder, DecoderOptions, Instruction};

/// Address of the first assembled instruction.
pub const ORIGIN: u64 = 0;

/// The machine code of `source` (Intel syntax, no prefixes).
pub fn machine_code(source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.s"), format!(".intel_syntax noprefix\n{source}\n"))
        .expect("the temporary folder is writable");
    let run = |command: &mut Command| {
        let output = command.output().expect("binutils are installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new("as").arg("--64").arg("-o").arg(path("a.o")).arg(path("a.s")));
    run(Command::new("objcopy").args(["-O", "binary", "-j", ".text"]).arg(path("a.o")).arg(path("a.bin")));
    std::fs::read(path("a.bin")).expect("objcopy wrote its output")
}

/// The decoded instructions of `source`, the first at [`ORIGIN`].
pub fn instructions(source: &str) -> Vec<Instruction> {
    Decoder::with_ip(64, &machine_code(source), ORIGIN, DecoderOptions::NONE).into_iter().collect()
}
