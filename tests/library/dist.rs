//! What `dist/build` makes: a static binary, a tarball, a Debian package, a source archive that builds without network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::shared::filled_once;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// `bash -c SCRIPT` in `folder`; its output, and a panic if it fails.
fn shell(folder: &Path, script: &str) -> String {
    let output = attempt(folder, script);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}: {}\n{text}", output.status);
    text
}

fn attempt(folder: &Path, script: &str) -> Output {
    let mut command = Command::new("bash");
    // The tests' own cargo names its folders in these.
    command.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    command.args(["-eu", "-o", "pipefail", "-c", script]).current_dir(folder).output().unwrap()
}

/// The folder with all that `dist/build` makes, built once for all tests.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        filled_once("dist", |_| drop(shell(&root(), "dist/build target/dist")));
        root().join("target/dist")
    })
}

/// `rprof-VERSION`.
fn name() -> String {
    format!("rprof-{}", env!("CARGO_PKG_VERSION"))
}

#[test]
fn every_linked_crate_has_its_licence() {
    let text = shell(&root(), "dist/licences");
    for name in ["\nclap 4", "\niced-x86 1", "\nserde_json 1", "GNU C library", "Rust's standard library"] {
        assert!(text.contains(name), "no {name:?} in the output of dist/licences");
    }
    for absent in ["\nproptest ", "\ninsta ", "\nserde_derive "] {
        assert!(!text.contains(absent), "{absent:?} is not linked into rprof");
    }
}

/// Packages that pages tell a user to install and that are others'.
const OTHERS: [&str; 3] = ["maturin", "nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12"];

/// The names that a text has a user install from a registry: of `cargo install`, then of `pip install`. Paths and options are none.
fn named(text: &str) -> [Vec<String>; 2] {
    let is_package = |word: &&str| !word.starts_with('-') && !word.contains('/') && *word != ".";
    let of = |command: &str| {
        let commands = text.match_indices(command).map(|(at, _)| &text[at + command.len()..]);
        let ends = |c: char| "`\n#)|&;".contains(c);
        let words = commands.map(|rest| rest.split(ends).next().unwrap_or_default());
        let words = words.filter(|words| !words.contains("--path")).flat_map(str::split_whitespace);
        words.map(|word| word.trim_matches(['\'', '"', ':', ',', '.'])).filter(is_package).map(str::to_owned).collect()
    };
    [of("cargo install "), of("pip install ")]
}

#[test]
fn packages_of_registries_that_pages_name_are_ours() {
    let project = fs::read_to_string(root().join("pyproject.toml")).unwrap();
    let field =
        |name: &str| project.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}"));
    let on_pypi = field("name = ").trim_matches('"');
    assert_eq!((on_pypi, env!("CARGO_PKG_NAME")), ("rprof", "rprof-roofline"));
    let extras = project.split("[project.optional-dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let is_extra = |name: &str| extras.lines().any(|line| line.starts_with(&format!("{name} = ")));
    let mut pages = vec![root().join("README.md"), root().join("python/rprof/__init__.py")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path)
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path)
            }
        }
    }
    let mut seen = 0;
    for page in pages {
        let [crates, projects] = named(&fs::read_to_string(&page).unwrap());
        for name in crates {
            assert_eq!(name, env!("CARGO_PKG_NAME"), "{}: cargo install", page.display());
            seen += 1;
        }
        for name in projects {
            let (name, extra) = name.split_once('[').unwrap_or((&name, ""));
            let extra = extra.trim_end_matches(']');
            let is_ours = name == on_pypi && (extra.is_empty() || is_extra(extra));
            assert!(is_ours || OTHERS.contains(&name), "{}: pip install {name}[{extra}]", page.display());
            seen += 1;
        }
    }
    assert!(seen > 5, "only {seen} names");
}

#[test]
fn names_of_registries_are_found() {
    let text = "run: cargo install --locked rprof\nor `pip install 'rprof[data]'`, `pip install -q x` or `cargo install --path .`";
    assert_eq!(named(text), [vec!["rprof".to_owned()], vec!["rprof[data]".to_owned(), "x".to_owned()]]);
}

#[test]
fn a_binary_that_needs_a_c_library_is_refused() {
    let output = attempt(&root(), &format!("dist/check-binary {}", env!("CARGO_BIN_EXE_rprof")));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("crt-static"), "{said}");
}

#[test]
#[ignore = "builds a release: many minutes"]
fn the_tarball_has_what_a_user_needs() {
    let folder = built();
    shell(folder, "sha256sum -c SHA256SUMS");
    let place = tempfile::tempdir().unwrap();
    shell(place.path(), &format!("tar -xf {}/{}-x86_64-linux.tar.xz", folder.display(), name()));
    let unpacked = place.path().join(format!("{}-x86_64-linux", name()));
    for file in
        ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "LICENCES-OF-CRATES", "include/rprof.h", "completions/rprof.zsh"]
    {
        assert!(fs::metadata(unpacked.join(file)).is_ok_and(|file| file.len() > 100), "{file}");
    }
    let page = shell(&unpacked, "man -l man/man1/rprof.1 | col -b");
    assert!(page.contains("SYNOPSIS") && page.contains("--passes"), "{page}");
    shell(&unpacked, "bash -n completions/rprof.bash");
    // Paths of the host that built it.
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".into());
    shell(&unpacked, &format!("! grep -q {home}/.cargo bin/rprof"));
}

/// Profiles programs with the static binary: both passes, symbols of the demo, the helper that loads libraries.
const USE: &str = "
    rprof --version
    rprof doctor | grep 'trace a child process: works'
    rprof machine --quick | grep -i 'dram'
    rprof --quiet --passes both -o first -- gzip -c /bin/bash >gzip.out 2>report
    grep -q '^ function ' report
    gzip -c /bin/bash | cmp - gzip.out
    rprof query first explain gzip | grep -E 'instructions +[0-9]'";

#[test]
#[ignore = "builds a release: many minutes"]
fn the_static_binary_does_its_work() {
    let folder = built();
    let place = tempfile::tempdir().unwrap();
    let binary = folder.join(format!("{}-x86_64-linux/bin", name()));
    shell(place.path(), &format!("export PATH={}:$PATH XDG_CACHE_HOME=$PWD/cache\n{USE}", binary.display()));
    let demo = format!("XDG_CACHE_HOME=$PWD/cache {}/rprof demo --quiet -o demo 2>&1", binary.display());
    let demo = shell(place.path(), &demo);
    // Long names of kernels are cut, the classes are not.
    assert!(demo.contains("peak ✓") && demo.contains("dram-bandwidth ✓"), "{demo}");
    // A static program cannot load a library itself; its helper loads the driver, of which this is a stand-in.
    let stand_in = root().join("fixtures/gpu/libcuda.c");
    shell(place.path(), &format!("cc -shared -fPIC -O1 -o libcuda.so.1 {}", stand_in.display()));
    let gpu = format!("LD_LIBRARY_PATH=$PWD XDG_CACHE_HOME=$PWD/cache {}/rprof machine --gpu", binary.display());
    assert!(shell(place.path(), &gpu).contains("NVIDIA H200"));
}

#[test]
#[ignore = "builds a release: many minutes"]
fn the_debian_package_pleases_lintian() {
    let folder = built();
    let package = format!("rprof_{}_amd64.deb", env!("CARGO_PKG_VERSION"));
    let files = shell(folder, &format!("dpkg-deb -c {package}"));
    for file in ["./usr/bin/rprof", "./usr/share/man/man1/rprof.1.gz", "./usr/share/bash-completion/completions/rprof"]
    {
        assert!(files.contains(file), "{file} is missing:\n{files}");
    }
    if attempt(folder, "command -v lintian").status.success() {
        shell(folder, &format!("lintian --fail-on error,warning {package}"));
    } else {
        println!("SKIPPED: packages: no lintian");
    }
}

/// The oldest release that Debian's servers have.
const OLDEST: &str = "bullseye";

#[test]
#[ignore = "builds a release: many minutes"]
fn the_package_works_in_the_oldest_debian() {
    if !attempt(&root(), "test $(id -u) = 0").status.success() {
        println!("SKIPPED: root: debootstrap needs it");
        return;
    }
    let folder = built();
    let place = tempfile::tempdir().unwrap();
    let bootstrap = format!("debootstrap --variant=minbase {OLDEST} tree http://deb.debian.org/debian");
    if !attempt(place.path(), &bootstrap).status.success() {
        println!("SKIPPED: packages: no tree of {OLDEST}: no debootstrap, or no network");
        return;
    }
    shell(place.path(), &format!("cp {}/rprof_*.deb tree/rprof.deb", folder.display()));
    let inside = format!("dpkg -i /rprof.deb; cd /tmp; export HOME=/tmp\nldd --version{USE}");
    fs::write(place.path().join("tree/use"), inside).unwrap();
    // The tree has its own /proc as long as the command runs.
    let mounts = "mount -t proc proc tree/proc && mount -t tmpfs none tree/tmp";
    let command =
        format!("unshare --mount --pid --fork sh -c '{mounts} && exec chroot tree bash -eux -o pipefail /use'");
    println!("{}", shell(place.path(), &command));
}

/// A tree of Debian with Python and pip, without a compiler: the wheel is installed into a fresh virtual environment there, from the file alone.
#[test]
#[ignore = "builds a release: many minutes"]
fn the_wheel_installs_in_a_bare_debian() {
    if !attempt(&root(), "test $(id -u) = 0").status.success() {
        println!("SKIPPED: root: debootstrap needs it");
        return;
    }
    let folder = built();
    if !attempt(folder, "ls *.whl").status.success() {
        println!("SKIPPED: pypi: no maturin made a wheel");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let bootstrap = "debootstrap --variant=minbase --include=python3-venv bookworm tree http://deb.debian.org/debian";
    if !attempt(place.path(), bootstrap).status.success() {
        println!("SKIPPED: packages: no tree of bookworm: no debootstrap, or no network");
        return;
    }
    shell(place.path(), &format!("cp {}/*.whl tree/", folder.display()));
    let inside = "cd /tmp; export HOME=/tmp
        ! command -v cc; ! command -v gcc; ! command -v rustc
        python3 -m venv fresh
        time fresh/bin/pip install --no-index /*.whl
        export PATH=/tmp/fresh/bin:$PATH
        rprof --version
        rprof demo --quiet -o demo 2>&1 | grep 'dram-bandwidth ✓'
        python3 -c 'import rprof' 2>&1 | grep \"pip install 'rprof.data.'\"";
    fs::write(place.path().join("tree/use"), inside).unwrap();
    let mounts = "mount -t proc proc tree/proc && mount -t tmpfs none tree/tmp && mount --bind /sys tree/sys && mount --bind /dev tree/dev";
    let command =
        format!("unshare --mount --pid --fork sh -c '{mounts} && exec chroot tree bash -eux -o pipefail /use'");
    println!("{}", shell(place.path(), &command));
}

#[test]
#[ignore = "builds everything without network: many minutes"]
fn the_source_archive_builds_without_network() {
    let folder = built();
    let place = tempfile::tempdir().unwrap();
    shell(place.path(), &format!("tar -xf {}/{}-source.tar.xz", folder.display(), name()));
    // An empty CARGO_HOME: no crates but those of the archive.
    let install = format!(
        "export CARGO_HOME=$PWD/home CARGO_NET_OFFLINE=true CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0
        cd {} && cargo install --path . --locked --offline --debug --root ../installed",
        name()
    );
    shell(place.path(), &install);
    let version = shell(place.path(), "installed/bin/rprof --version");
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}
