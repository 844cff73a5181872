//! The programs of `fixtures/paper/`: every step yields the result of step 0, with the widest vectors and with the narrowest.

use std::path::Path;
use std::process::Command;
use std::thread;

const PROGRAMS: &[&str] = &["spmv", "lbm", "stencil", "fft", "multigrid", "pic", "planewave"];

#[test]
fn every_step_computes_the_same() {
    let dir = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for program in PROGRAMS {
            scope.spawn(|| check(dir.path(), program));
        }
    });
}

fn check(dir: &Path, name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/paper/{name}.c"));
    let program = dir.join(name);
    // Without optimisation, which takes most of the time.
    let status = Command::new("cc").args(["-w", "-fopenmp", "-o"]).arg(&program).arg(source).arg("-lm").status();
    assert!(status.expect("cc is needed: tests/run installs it").success(), "cc cannot build {name}");
    for lanes in ["8", "2"] {
        let mut command = Command::new(&program);
        let output = command.arg("check").env("PAPER_LANES", lanes).env("OMP_WAIT_POLICY", "passive").output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name} with {lanes} lanes:\n{told}");
        assert!(told.lines().count() >= 5 && told.lines().all(|l| l.contains(": ok ")), "{told}");
    }
}
