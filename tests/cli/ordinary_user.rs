//! The counted pass for a user without any capability.

use std::fs;
use std::process::{Command, Output};

use crate::cli::{Sandbox, status, stderr, stdout};

const NOBODY: [&str; 5] = ["--reuid=65534", "--regid=65534", "--clear-groups", "timeout", "120"];

/// Output of `argv` in `open` when the user nobody runs it.
fn nobody(sandbox: &Sandbox, argv: &[&str]) -> Output {
    let open = sandbox.path().join("open");
    let mut command = Command::new("setpriv");
    command.args(NOBODY).args(argv).current_dir(&open).env("HOME", &open).env("XDG_CACHE_HOME", &open);
    command.output().unwrap()
}

/// Runs `argv` natively and counted, and compares; its report says that all was counted.
fn same(sandbox: &Sandbox, argv: &[&str]) {
    let native = nobody(sandbox, argv);
    let prefix = ["../rprof", "--passes", "counted", "--memory", "off", "--quiet", "--"];
    let counted = nobody(sandbox, &[&prefix, argv].concat());
    let told = || format!("{argv:?}: {}", stderr(&counted));
    assert_eq!((status(&counted), stdout(&counted)), (status(&native), stdout(&native)), "{}", told());
    let profile = sandbox.profile("open/rprof.out");
    let pass = &profile["run"]["passes"][0];
    assert_eq!((&pass["kind"], pass["uncounted_share"].as_f64()), (&"counted".into(), Some(0.0)), "{}", told());
    fs::remove_dir_all(sandbox.path().join("open/rprof.out")).unwrap();
}

#[test]
fn programs_of_an_ordinary_user_are_counted_also_undumpable_ones() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: root: programs_of_an_ordinary_user: whoever runs the tests is one, or cannot become one");
        return;
    }
    let sandbox = Sandbox::new();
    let open = sandbox.path().join("open");
    fs::create_dir(&open).unwrap();
    assert!(Command::new("chmod").arg("777").arg(&open).status().unwrap().success());
    fs::copy(env!("CARGO_BIN_EXE_rprof"), sandbox.path().join("rprof")).unwrap();
    let source = format!("{}/fixtures/guests/hosted/attributes.c", env!("CARGO_MANIFEST_DIR"));
    let built =
        Command::new("cc").args(["-O2", "-w", "-o"]).arg(sandbox.path().join("attributes")).arg(source).status();
    assert!(built.unwrap().success());
    same(&sandbox, &["../attributes"]);
    same(&sandbox, &["sh", "-c", "for i in 1 2 3; do (echo $i; cat /usr/bin/env | md5sum); done | sort; exit 3"]);
    same(&sandbox, &["gzip", "-c", "/usr/bin/env"]);
    same(&sandbox, &["perl", "-e", "my $s = 0; $s += $_ for 1..1000; print qq($s\\n); kill 9, fork || sleep 9; wait"]);
}
