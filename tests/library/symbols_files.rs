//! Names, lines and inline frames of compiled fixtures, compared with the output of `nm`, `readelf` and `addr2line`.

use std::process::Command;

use rprof::join::Resolver;
use rprof::profile::ModuleInfo;
use rprof::profile::code::ModuleKind;
use rprof::symbols::Symbols;

use crate::common::{address, available, compile, module, name_at, path, run};

#[test]
fn c_names_lines_inline_frames_and_linkage() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile("cc", "symbols/plain.c", &["-O2", "-g"], folder.path(), "plain");
    let mut symbols = Symbols::default();
    let start = address(&binary, "sum_of_squares", &[]);
    let function = symbols.function(&module(&binary), start + 1);
    assert_eq!((&*function.name, function.start, function.named), ("sum_alias", start, true));
    assert_eq!(&*function.module, "plain");
    assert_eq!(name_at(&mut symbols, &binary, address(&binary, "sizeless", &[]) + 3), "sizeless");
    assert_eq!(name_at(&mut symbols, &binary, address(&binary, "sizeless_next", &[])), "sizeless_next");
    assert_eq!(name_at(&mut symbols, &binary, address(&binary, "_start", &[]) + 4), "_start");

    // Every address of the function: line and inline frames as addr2line (binutils) has them.
    let mut inlined = 0;
    for at in start..function.part_end {
        let text = run("addr2line", &["-f", "-i", "-e", binary.to_str().unwrap(), &format!("{at:#x}")]);
        let theirs: Vec<&str> = text.lines().collect();
        let expected = theirs[1].rsplit(':').next().unwrap().split(' ').next().unwrap().parse::<u32>().ok();
        let ours = symbols.line(&module(&binary), at);
        assert_eq!(ours.as_ref().map(|l| l.line), expected.filter(|l| *l > 0), "line at {at:#x}: {text}");
        let names: Vec<String> = symbols.inlined(&module(&binary), at).iter().map(|f| f.name.to_string()).collect();
        let host = theirs.len() / 2 - 1;
        let expected: Vec<&str> = theirs.iter().step_by(2).take(host).copied().collect();
        assert_eq!(names, expected, "inline frames at {at:#x}");
        inlined += names.len();
    }
    assert!(inlined > 0, "square was not inlined");
    let text = run("objdump", &["-d", "--no-show-raw-insn", binary.to_str().unwrap()]);
    let mut seen = 0;
    for line in text.lines().filter(|l| l.ends_with("@plt>:")) {
        let (at, name) = line.split_once(" <").unwrap();
        let at = u64::from_str_radix(at, 16).unwrap();
        assert_eq!(name_at(&mut symbols, &binary, at), name.trim_end_matches(">:"));
        seen += 1;
    }
    assert!(seen >= 2, "only {seen} linkage entries in\n{text}");
    assert_eq!(symbols.warnings(), []);
}

#[test]
fn cold_parts_belong_to_their_function() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile("cc", "symbols/cold.c", &["-O2"], folder.path(), "cold");
    let mut symbols = Symbols::default();
    let cold = address(&binary, "checked.cold", &[]);
    let function = symbols.function(&module(&binary), cold);
    assert_eq!((&*function.name, function.start), ("checked", address(&binary, "checked", &[])));
    assert_eq!(function.part_start, cold);
    assert!(function.part_end > cold);
}

#[test]
fn cpp_rust_and_fortran_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut symbols = Symbols::default();
    let binary = compile("c++", "symbols/templates.cpp", &["-O2", "-g"], folder.path(), "templates");
    for name in ["solver::Grid<double>::relax(double)", "solver::Grid<float>::relax(float)"] {
        let at = address(&binary, name, &["-C"]);
        assert_eq!(name_at(&mut symbols, &binary, at + 2), name);
    }
    if available("rustc") {
        let binary = compile("rustc", "symbols/names.rs", &["-O", "-g"], folder.path(), "names");
        let text = run("nm", &[binary.to_str().unwrap()]);
        let line = text.lines().find(|l| l.contains("7advance") || l.contains("advance")).unwrap();
        let at = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        assert_eq!(name_at(&mut symbols, &binary, at), "names::kernels::Field::advance");
        let end = symbols.function(&module(&binary), at).part_end;
        let mut lines = (at..end).filter_map(|at| symbols.line(&module(&binary), at));
        assert!(lines.any(|l| l.file.ends_with("names.rs") && l.line == 7), "no address has line 7");
    }
    if available("gfortran") {
        let binary = compile(
            "gfortran",
            "symbols/solver.f90",
            &["-O2", "-g", "-J", folder.path().to_str().unwrap()],
            folder.path(),
            "solver",
        );
        let at = address(&binary, "__solver_MOD_step", &[]);
        assert_eq!(name_at(&mut symbols, &binary, at), "solver::step");
        let at = address(&binary, "external_sweep_", &[]);
        assert_eq!(name_at(&mut symbols, &binary, at), "external_sweep");
    }
}

#[test]
fn stripped_binaries_have_one_function_per_unwind_range() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile("cc", "symbols/plain.c", &["-O2", "-g"], folder.path(), "plain");
    let starts: Vec<u64> = ["sum_of_squares", "checked", "main"].map(|n| address(&binary, n, &[])).into();
    let stripped = folder.path().join("stripped");
    run("strip", &[binary.to_str().unwrap(), "-o", stripped.to_str().unwrap()]);
    let mut symbols = Symbols::default();
    for start in &starts {
        for at in [*start, start + 3] {
            let function = symbols.function(&module(&stripped), at);
            assert_eq!(*function.name, format!("stripped+{start:#x}"));
            assert!(!function.named);
        }
    }
    // Without unwind tables the targets of direct calls show the starts of functions.
    let bare = folder.path().join("bare");
    run("objcopy", &["--strip-all", "-R", ".eh_frame", "-R", ".eh_frame_hdr", path(&binary), path(&bare)]);
    for start in &starts[..2] {
        assert_eq!(name_at(&mut symbols, &bare, start + 3), format!("bare+{start:#x}"));
    }
    // Without section headers too.
    let mut bytes = std::fs::read(&bare).unwrap();
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    let headless = folder.path().join("headless");
    std::fs::write(&headless, bytes).unwrap();
    assert_eq!(name_at(&mut symbols, &headless, starts[0] + 3), format!("headless+{:#x}", starts[0]));
}

#[test]
fn split_and_compressed_debug_information_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("debug");
    let binary = compile("cc", "symbols/plain.c", &["-O2", "-g"], folder.path(), "plain");
    let start = address(&binary, "sum_of_squares", &[]);
    let line = Symbols::new(&root).line(&module(&binary), start).expect("a line");
    assert!(line.file.ends_with("plain.c"), "{line:?}");
    let id = module(&binary).build_id.expect("a build id");
    let by_id = root.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    std::fs::create_dir_all(by_id.parent().unwrap()).unwrap();
    run("objcopy", &["--only-keep-debug", path(&binary), path(&by_id)]);
    let stripped = folder.path().join("stripped");
    run("strip", &[path(&binary), "-o", path(&stripped)]);
    let mut symbols = Symbols::new(&root);
    assert_eq!(name_at(&mut symbols, &stripped, start), "sum_alias");
    assert_eq!(symbols.line(&module(&stripped), start), Some(line.clone()));
    assert_ne!(name_at(&mut Symbols::new(&folder.path().join("none")), &stripped, start), "sum_alias");

    // By link: beside the program, without a build id, checksum checked.
    let anonymous = compile("cc", "symbols/plain.c", &["-O2", "-g", "-Wl,--build-id=none"], folder.path(), "anonymous");
    let start = address(&anonymous, "sum_of_squares", &[]);
    let debug = folder.path().join("anonymous.debug");
    run("objcopy", &["--only-keep-debug", path(&anonymous), path(&debug)]);
    let linked = folder.path().join("linked");
    let link = format!("--add-gnu-debuglink={}", path(&debug));
    run("objcopy", &["--strip-all", &link, path(&anonymous), path(&linked)]);
    assert_eq!(name_at(&mut Symbols::new(&root), &linked, start), "sum_alias");
    std::fs::write(&debug, std::fs::read(&binary).unwrap()).unwrap();
    assert_ne!(name_at(&mut Symbols::new(&root), &linked, start), "sum_alias", "a foreign debug file was believed");

    for kind in ["zlib", "zlib-gnu", "zstd"] {
        let packed = folder.path().join(kind);
        let option = format!("--compress-debug-sections={kind}");
        let done = Command::new("objcopy").args([&option, path(&binary), path(&packed)]).output().unwrap();
        if !done.status.success() {
            println!("SKIPPED: packages: this objcopy does not compress with {kind}");
            continue;
        }
        let start = address(&binary, "sum_of_squares", &[]);
        assert_eq!(Symbols::new(&root).line(&module(&packed), start), Some(line.clone()), "{kind}");
    }
}

#[test]
fn a_file_that_changed_since_it_ran_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile("cc", "symbols/plain.c", &["-O2"], folder.path(), "plain");
    let mut info = module(&binary);
    info.build_id = Some("00112233".into());
    let mut symbols = Symbols::default();
    let start = address(&binary, "main", &[]);
    symbols.call_targets(&info, &[start]);
    assert_eq!(*symbols.function(&info, start + 1).name, format!("plain+{start:#x}"));
    assert_eq!(symbols.warnings()[0].code, "symbols-unreadable");
    let gone = ModuleInfo { path: "/nonexistent/program".into(), ..info };
    assert_eq!(&*symbols.function(&gone, 0x1234).name, "program+0x0");
}

#[test]
fn the_vdso_has_names() {
    let info =
        ModuleInfo { kind: ModuleKind::Vdso, path: "[vdso]".into(), build_id: None, pid: 1, bias: 0x7fff_0000_0000 };
    let elf = rprof::symbols::vdso::image().expect("a vdso");
    let known = rprof::symbols::elf_symbols::code_symbols(&elf);
    let clock = known.iter().find(|s| s.name.ends_with("clock_gettime")).expect("clock_gettime");
    let function = Symbols::default().function(&info, clock.start + 1);
    assert_eq!(&*function.name, "__vdso_clock_gettime", "the name that tells it from the C library's");
    assert_eq!(function.start, clock.start);
}
