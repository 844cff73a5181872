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
