//! The steps of the GitHub action (action.yml), run on a small repository as a runner runs them, with a stand-in for GitHub's `gh`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use crate::cli::{Sandbox, status, stderr, stdout};

const MAKEFILE: &str = "app: layout.c\n\tcc -O1 -g -o app layout.c\n";

/// A repository with two commits: the program, and the same with wider records. Returns the first one.
fn repository(sandbox: &Sandbox) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::create_dir(sandbox.path().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_rprof"), sandbox.path().join("bin/rprof")).unwrap();
    let source = fs::read_to_string(root.join("fixtures/gate/layout.c")).unwrap();
    sandbox.file("layout.c", &source, 0o644);
    sandbox.file("Makefile", MAKEFILE, 0o644);
    sandbox.file(".gitignore", "bin\napp\nsummary.md\noutput\ncalls\n", 0o644);
    let commit = "git add -A && git -c user.name=t -c user.email=t@t commit -qm c";
    let output = sandbox.shell(&format!("git init -q . && {commit} && git rev-parse HEAD")).output().unwrap();
    assert_eq!(status(&output), 0, "git is needed: tests/run installs it: {}", stderr(&output));
    sandbox.file("layout.c", format!("#define WIDE\n{source}"), 0o644);
    assert_eq!(status(&sandbox.shell(commit).output().unwrap()), 0);
    stdout(&output).trim().to_owned()
}

/// Runs a script of the action with these variables.
fn step(sandbox: &Sandbox, script: &str, variables: &[(&str, &str)]) -> Output {
    let path = format!("{}:{}", sandbox.path().join("bin").display(), std::env::var("PATH").unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("dist/action").join(script);
    let mut shell = sandbox.shell("exec sh \"$SCRIPT\"");
    shell.env("PATH", path).env("SCRIPT", script).envs(variables.iter().copied());
    shell.env("GITHUB_STEP_SUMMARY", sandbox.path().join("summary.md"));
    shell.env("GITHUB_OUTPUT", sandbox.path().join("output")).env("GITHUB_REPOSITORY", "owner/name");
    shell.output().unwrap()
}

#[test]
fn base_and_head_are_compared_and_commented() {
    let sandbox = Sandbox::new();
    let base = repository(&sandbox);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let settings = |base| {
        [("RPROF_BASE", base), ("RPROF_BUILD", "make -s app"), ("RPROF_PROGRAM", "./app"), ("RPROF_FOLDER", folder)]
    };
    let output = step(&sandbox, "gate.sh", &settings(&base));
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    let comment = stdout(&output);
    assert!(comment.contains("a regression") && comment.contains("| `walk` |"), "{comment}");
    assert_eq!(fs::read_to_string(sandbox.path().join("summary.md")).unwrap(), comment);
    let written = fs::read_to_string(sandbox.path().join("output")).unwrap();
    assert!(written.starts_with("verdict=regression\ncomment="), "{written}");
    let output = step(&sandbox, "gate.sh", &settings("HEAD"));
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).starts_with("### Modelled cycles: unchanged\n"), "{}", stdout(&output));

    let file = format!("{folder}/comment.md");
    let comment = [("RPROF_COMMENT", file.as_str()), ("RPROF_PULL_REQUEST", "7")];
    sandbox.file("bin/gh", "#!/bin/sh\necho \"$@\" >> calls\ncase \"$*\" in *paginate*) echo 42;; esac\n", 0o755);
    let output = step(&sandbox, "comment.sh", &comment);
    assert_eq!((status(&output), stdout(&output).as_str()), (0, ""), "{}", stderr(&output));
    let calls = fs::read_to_string(sandbox.path().join("calls")).unwrap();
    assert!(calls.contains("--method PATCH repos/owner/name/issues/comments/42 -F body=@"), "{calls}");
    sandbox.file("bin/gh", "#!/bin/sh\nexit 1\n", 0o755);
    let output = step(&sandbox, "comment.sh", &comment);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("not permitted to comment on pull request 7"), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("### Modelled cycles"), "it prints instead: {}", stdout(&output));
}

#[test]
fn an_action_without_base_says_so_in_one_line() {
    let sandbox = Sandbox::new();
    repository(&sandbox);
    let output = step(&sandbox, "gate.sh", &[("RPROF_PROGRAM", "./app")]);
    assert_eq!((status(&output), stderr(&output).trim().lines().count()), (125, 1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no base"), "{}", stderr(&output));
}

/// The steps of action.yml run these scripts, with inputs that the scripts read.
#[test]
fn the_actions_steps_are_the_scripts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let action = fs::read_to_string(root.join("action.yml")).unwrap();
    for script in ["gate.sh", "comment.sh"] {
        assert!(action.contains(&format!("run: sh \"$GITHUB_ACTION_PATH/dist/action/{script}\"")), "{script}");
        let text = fs::read_to_string(root.join("dist/action").join(script)).unwrap();
        assert!(text.starts_with("#!/bin/sh\n"));
    }
    let scripts: String =
        ["gate.sh", "comment.sh"].map(|s| fs::read_to_string(root.join("dist/action").join(s)).unwrap()).concat();
    let variables = action.lines().filter_map(|line| line.trim().split_once(": ")).map(|(name, _)| name);
    let ours: Vec<&str> = variables.filter(|name| name.starts_with("RPROF_")).collect();
    assert!(ours.len() >= 7, "{ours:?}");
    assert!(
        ours.iter().all(|name| scripts.contains(&format!("${{{name}")) || scripts.contains(&format!("${name}"))),
        "{ours:?}"
    );
}
