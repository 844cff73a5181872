//! Names in files as other compilers, linkers and distributions make them.

use std::fs;
use std::path::Path;

use rprof::join::Resolver;
use rprof::symbols::Symbols;

use crate::common::{address, available, compile, module, name_at, path, run};

#[test]
fn names_that_a_distribution_packed_away_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let binary = compile("cc", "names/kernels.c", &["-O2", "-fno-ipa-cp"], folder.path(), "kernels");
    let starts = ["hot_kernel", "other_kernel"].map(|name| (name, address(&binary, name, &[])));
    // As Fedora does it: the symbols of functions alone, in an ELF file of their own, packed with xz.
    run("objcopy", &["--only-keep-debug", path(&binary), path(&file("mini"))]);
    run("objcopy", &["-S", "--keep-symbol=hot_kernel", "--keep-symbol=other_kernel", path(&file("mini"))]);
    run("xz", &[path(&file("mini"))]);
    run("strip", &[path(&binary), "-o", path(&file("bare"))]);
    let section = format!(".gnu_debugdata={}", path(&file("mini.xz")));
    run("objcopy", &["--add-section", &section, path(&file("bare")), path(&file("stripped"))]);
    for (name, start) in starts {
        assert_eq!(name_at(&mut Symbols::default(), &file("bare"), start), format!("bare+{start:#x}"));
        assert_eq!(name_at(&mut Symbols::default(), &file("stripped"), start + 4), name);
    }
    // Damaged, it yields nothing.
    let mut packed = fs::read(file("mini.xz")).unwrap();
    packed[40..].fill(0xee);
    fs::write(file("mini.xz"), packed).unwrap();
    run("objcopy", &["--add-section", &section, path(&file("bare")), path(&file("damaged"))]);
    assert_eq!(name_at(&mut Symbols::default(), &file("damaged"), starts[0].1), format!("damaged+{:#x}", starts[0].1));
}

#[test]
fn split_debug_information_says_the_same_as_whole() {
    for compiler in ["g++", "clang++"] {
        for format in ["-gdwarf-5", "-gdwarf-4"] {
            if available(compiler) {
                split_as_whole(compiler, format);
            }
        }
    }
}

fn split_as_whole(compiler: &str, format: &str) {
    let what = format!("{compiler} {format}");
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, options: &[&str]| {
        let object = compile(
            compiler,
            "names/inlined.cc",
            &[&["-O2", "-c", format], options].concat(),
            folder.path(),
            &format!("{name}.o"),
        );
        let binary = folder.path().join(name);
        run(compiler, &[path(&object), "-o", path(&binary)]);
        binary
    };
    let (whole, split) = (build("whole", &["-g"]), build("split", &["-g", "-gsplit-dwarf"]));
    let dwo = folder.path().join("split.dwo");
    assert!(dwo.exists(), "{what}");
    let name = "outer_kernel(std::vector<Vec, std::allocator<Vec> > const&, int)";
    let all = |binary: &Path| {
        let mut symbols = Symbols::default();
        let module = module(binary);
        let start = address(binary, name, &["-C"]);
        let end = symbols.function(&module, start).part_end;
        let facts: Vec<_> = (start..end)
            .map(|at| (symbols.inlined(&module, at), symbols.line(&module, at), symbols.host_line(&module, at)))
            .collect();
        (facts, symbols.warnings())
    };
    let (expected, warnings) = all(&whole);
    assert!(expected.iter().any(|(inlined, ..)| inlined.iter().any(|f| f.name.starts_with("dot"))), "{what}");
    assert_eq!(warnings, [], "{what}");
    assert_eq!(all(&split), (expected.clone(), Vec::new()), "{what}: split");
    let with_types = build("types", &["-g", "-gsplit-dwarf", "-fdebug-types-section"]);
    assert_eq!(all(&with_types), (expected.clone(), Vec::new()), "{what}: types in units of their own");

    // Moved with the program.
    let moved = tempfile::tempdir().unwrap();
    for file in [&split, &dwo] {
        fs::rename(file, moved.path().join(file.file_name().unwrap())).unwrap();
    }
    let split = moved.path().join("split");
    assert_eq!(all(&split), (expected.clone(), Vec::new()), "{what}: moved");

    // Packed; the files are gone.
    let packer = if compiler == "g++" { "dwp" } else { "llvm-dwp" };
    let dwo = moved.path().join("split.dwo");
    // binutils' dwp does not know the indices of DWARF 5.
    if available(packer) && !(packer == "dwp" && format == "-gdwarf-5") {
        run(packer, &[path(&dwo), "-o", path(&moved.path().join("split.dwp"))]);
        fs::rename(&dwo, moved.path().join("hidden")).unwrap();
        assert_eq!(all(&split), (expected.clone(), Vec::new()), "{what}: packed");
        fs::remove_file(moved.path().join("split.dwp")).unwrap();
    } else {
        fs::rename(&dwo, moved.path().join("hidden")).unwrap();
    }

    // Missing, or another one's.
    for other in [false, true] {
        if other {
            let object = build("other", &["-g", "-gsplit-dwarf", "-DOTHER=1", "-O1"]);
            assert!(object.exists());
            fs::copy(folder.path().join("other.dwo"), &dwo).unwrap();
        }
        let (facts, warnings) = all(&split);
        assert!(facts.iter().all(|(inlined, ..)| inlined.is_empty()), "{what}");
        assert_eq!(warnings.len(), 1, "{what}: {warnings:?}");
        assert_eq!(warnings[0].code, "split-debug-info-missing");
        assert!(warnings[0].text.contains("split.dwo"), "{}", warnings[0].text);
    }
}

#[test]
fn names_may_begin_with_a_dollar_sign() {
    let folder = tempfile::tempdir().unwrap();
    let plain = compile("cc", "names/kernels.c", &["-O2", "-fno-ipa-cp"], folder.path(), "plain");
    let swift = folder.path().join("swift");
    run("objcopy", &["--redefine-sym", "hot_kernel=$s4main6kernelyS2dF", path(&plain), path(&swift)]);
    let start = address(&plain, "hot_kernel", &[]);
    assert_eq!(name_at(&mut Symbols::default(), &swift, start + 4), "$s4main6kernelyS2dF");
}

#[test]
fn stripped_go_programs_have_the_names_of_their_own_table() {
    if !available("go") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/names/hot.go");
    for mode in ["exe", "pie"] {
        let build = |name: &str, flags: &str| {
            let binary = folder.path().join(name);
            let arguments = [
                "build",
                &format!("-buildmode={mode}"),
                &format!("-ldflags={flags}"),
                "-o",
                path(&binary),
                path(&source),
            ];
            let mut go = std::process::Command::new("go");
            go.args(arguments)
                .env("GOCACHE", folder.path().join("cache"))
                .env("CGO_ENABLED", "0")
                .env("GO111MODULE", "off");
            let output = go.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            binary
        };
        let (whole, stripped) = (build("whole", ""), build("stripped", "-s -w"));
        for name in ["main.hotGo", "main.main", "runtime.mallocgc"] {
            let start = address(&whole, name, &[]);
            let mut symbols = Symbols::default();
            let names = [&whole, &stripped].map(|binary| {
                // Without its symbols the program may lie elsewhere by what its headers are shorter.
                let text = |binary: &Path| address_of_text(binary);
                name_at(&mut symbols, binary, start - text(&whole) + text(binary) + 2)
            });
            assert_eq!(names, [name, name], "{mode}");
        }
    }
}

fn address_of_text(binary: &Path) -> u64 {
    let text = run("readelf", &["-SW", path(binary)]);
    let line = text.lines().find(|line| line.contains(" .text ")).unwrap();
    u64::from_str_radix(line.split("PROGBITS").nth(1).unwrap().split_whitespace().next().unwrap(), 16).unwrap()
}
