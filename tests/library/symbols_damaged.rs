//! Damaged, truncated and foreign files: every look-up still answers, and nothing panics or exhausts memory.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use proptest::prelude::*;
use rprof::join::Resolver;
use rprof::profile::ModuleInfo;
use rprof::profile::code::ModuleKind;
use rprof::symbols::Symbols;

/// A program with symbols, debug information and a compressed section.
fn intact() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/symbols/plain.c");
        let binary = folder.path().join("plain");
        let status = Command::new("cc").args(["-O2", "-g", "-gz=zlib"]).arg(source).arg("-o").arg(&binary).status();
        assert!(status.unwrap().success());
        std::fs::read(binary).unwrap()
    })
}

/// Asks for everything at addresses spread over the file's address range.
fn ask_everything(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    std::fs::write(&path, bytes).unwrap();
    let module =
        ModuleInfo { kind: ModuleKind::File, path: path.to_str().unwrap().into(), build_id: None, pid: 1, bias: 0 };
    let mut symbols = Symbols::new(folder.path());
    for at in (0x1000..0x1300).step_by(0x11).chain([0, 1, u64::MAX, 1 << 47]) {
        let function = symbols.function(&module, at);
        assert!(!function.name.is_empty());
        symbols.line(&module, at);
        symbols.inlined(&module, at);
        symbols.code(&module, at, at.saturating_add(16));
        symbols.code(&module, at, 0);
    }
    symbols.warnings();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn scattered_damage(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut bytes = intact().to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        ask_everything(&bytes);
    }

    #[test]
    fn damage_in_the_headers(damage in prop::collection::vec((0usize..2048, any::<u8>()), 1..12), tail in any::<bool>()) {
        let mut bytes = intact().to_vec();
        let length = bytes.len();
        for (at, value) in damage {
            // The ELF and program headers are at the front, the section headers at the end.
            let at = if tail { length - 1 - at } else { at };
            bytes[at] = value;
        }
        ask_everything(&bytes);
    }

    #[test]
    fn truncation(length in any::<prop::sample::Index>()) {
        let bytes = intact();
        ask_everything(&bytes[..length.index(bytes.len())]);
    }
}

#[test]
fn foreign_files_are_named_in_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("script");
    std::fs::write(&text, "#!/bin/sh\nexit 0\n".repeat(10)).unwrap();
    for path in [text.as_path(), folder.path()] {
        let path = path.to_str().unwrap().to_owned();
        let module = ModuleInfo { kind: ModuleKind::File, path: path.clone(), build_id: None, pid: 1, bias: 0 };
        let mut symbols = Symbols::default();
        assert!(!symbols.function(&module, 0x10).named);
        assert_eq!(symbols.warnings().len(), 1);
        assert!(symbols.warnings()[0].text.contains(&path), "{:?}", symbols.warnings());
    }
}
