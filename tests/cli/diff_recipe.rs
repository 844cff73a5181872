//! The recipe of docs/ci.md: its script and the commands of its workflows are taken from the page and run on a small repository.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use crate::cli::{Sandbox, status, stderr, stdout};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci.md")).unwrap()
}

/// The code block of `language` that comes first after `heading`.
fn block<'p>(page: &'p str, heading: &str, language: &str) -> &'p str {
    let after = page.split_once(heading).unwrap_or_else(|| panic!("{heading}")).1;
    let fence = format!("```{language}\n");
    after.split_once(&fence).unwrap_or_else(|| panic!("{language} after {heading}")).1.split_once("```").unwrap().0
}

/// The shell commands of a workflow for GitHub: what `run:` has, but for the installation.
fn github() -> Vec<String> {
    let page = page();
    let workflow = block(&page, "## GitHub Actions", "yaml");
    let runs: Vec<&str> = workflow.lines().filter_map(|line| line.trim().strip_prefix("run: ")).collect();
    assert!(runs[0].starts_with("pip install"), "{runs:?}");
    runs[1..].iter().map(|line| (*line).to_owned()).collect()
}

/// Those of a job for GitLab.
fn gitlab() -> Vec<String> {
    let page = page();
    let job = block(&page, "## GitLab", "yaml");
    let script = job.split_once("  script:\n").unwrap().1;
    let commands = script.lines().take_while(|line| line.starts_with("    - "));
    commands.map(|line| line.trim_start_matches("    - ").to_owned()).collect()
}

/// The program: `work` rounds of a loop with bounds that the compiler does not know.
fn source(rounds: &str) -> String {
    format!(
        "#include <stdio.h>\n#include <stdlib.h>\n\
         __attribute__((noinline)) static double sum(const double *a, int n) {{\n    double s = 0;\n    \
         for (int i = 0; i < {rounds}; i++) s += a[i % n];\n    return s;\n}}\n\
         int main(int argc, char **argv) {{\n    static double a[1000];\n    int times = argc > 1 ? atoi(argv[1]) : 1;\n    double s = 0;\n    \
         for (int k = 0; k < times; k++) {{ a[k % 1000] = k; s += sum(a, 1000); }}\n    printf(\"%g\\n\", s);\n    return 0;\n}}\n"
    )
}

const MAKEFILE: &str = "app: app.c\n\tcc -O1 -g -o app app.c\n";

/// A repository with the script of the page; its first commit is the base.
fn repository() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_rprof"), sandbox.path().join("bin/rprof")).unwrap();
    fs::create_dir(sandbox.path().join("ci")).unwrap();
    sandbox.file("ci/counts.sh", block(&page(), "# A gate", "sh"), 0o755);
    sandbox.file("Makefile", MAKEFILE, 0o644);
    sandbox.file("app.c", source("n"), 0o644);
    sandbox.file(".gitignore", "bin\ncounts\napp\nsummary.md\n", 0o644);
    let git =
        "git init -q . && git add -A && git -c user.name=t -c user.email=t@t commit -qm base && git rev-parse HEAD";
    let output = sandbox.shell(git).output().unwrap();
    assert_eq!(status(&output), 0, "git is needed: tests/run installs it: {}", stderr(&output));
    let base = stdout(&output).trim().to_owned();
    (sandbox, base)
}

/// Runs a command of the page as a runner does.
fn run(sandbox: &Sandbox, command: &str, base: &str) -> Output {
    let path = format!("{}:{}", sandbox.path().join("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = sandbox.shell(command);
    shell.env("PATH", path).env("BASE", base).env("CI_MERGE_REQUEST_DIFF_BASE_SHA", base);
    shell.env("GITHUB_STEP_SUMMARY", sandbox.path().join("summary.md"));
    shell.output().unwrap()
}

#[test]
fn a_pull_request_without_more_work_passes_in_both() {
    let (sandbox, base) = repository();
    // Another source, the same work; the function moves down.
    sandbox.file("app.c", format!("/* A comment. */\n\n{}", source("n")), 0o644);
    for commands in [github(), gitlab()] {
        for command in commands {
            let output = run(&sandbox, &command, &base);
            assert_eq!(status(&output), 0, "{command}: {}\n{}", stdout(&output), stderr(&output));
        }
    }
    let summary = fs::read_to_string(sandbox.path().join("summary.md")).unwrap();
    // The loader's strings lie at random addresses, on which a few instructions of its `strcmp` depend.
    assert!(
        summary.starts_with("### rprof diff: ") && !summary.contains("| `sum` |") && !summary.contains("| `main` |"),
        "{summary}"
    );
    assert!(fs::read_to_string(sandbox.path().join("counts/diff.html")).unwrap().starts_with("<!DOCTYPE html>"));
}

#[test]
fn a_pull_request_with_more_work_fails_and_names_the_function() {
    let (sandbox, base) = repository();
    sandbox.file("app.c", source("n + n / 10"), 0o644);
    let commands = github();
    let output = run(&sandbox, &commands[0], &base);
    assert_eq!(status(&output), 1, "{}\n{}", stdout(&output), stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("--fail-if program.instructions>1% holds: Instructions: +"), "{told}");
    assert!(told.contains("--fail-if instructions>3% holds: sum: instructions "), "{told}");
    assert!(stdout(&output).contains(" sum "), "{}", stdout(&output));
    // The summary is written in spite of the failure.
    assert_eq!(status(&run(&sandbox, &commands[1], &base)), 0);
    let summary = fs::read_to_string(sandbox.path().join("summary.md")).unwrap();
    assert!(summary.contains("| `sum` |") && summary.len() < 5000, "{summary}");
    assert_eq!(status(&run(&sandbox, &gitlab()[0], &base)), 1);
}

/// Every condition in the page's table is understood, and the exit statuses are those of its table.
#[test]
fn conditions_and_exit_statuses_are_those_of_the_page() {
    let (sandbox, base) = repository();
    let output = run(&sandbox, &gitlab()[0], &base);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let judge = |condition: &str| sandbox.run(["diff", "counts/old", "counts/new", "--fail-if", condition]);
    let page = page();
    let table = page.split_once("| condition |").unwrap().1.split_once("\n\n").unwrap().0;
    let forms = || {
        let cells = table.lines().skip(2).flat_map(|line| line.split('`').skip(1).step_by(2));
        cells.filter(|form| !form.starts_with('…'))
    };
    let mut all = vec!["diff".to_owned(), "counts/old".into(), "counts/new".into()];
    for figure in ["instructions", "flops", "bytes.l1", "bytes.dram"] {
        let filled = forms().map(|form| {
            let form = form.replace("FIGURE", figure).replace("NAME", "sum").replace("solve", "sum");
            format!("--fail-if={}", form.replace("CLASS", "ilp").replace(">N", ">5").replace("<N", "<5"))
        });
        all.extend(filled);
    }
    assert!(all.len() > 40, "{all:?}");
    let output = sandbox.run(&all);
    assert_eq!(status(&output), 1, "one that is not understood is 2: {}", stderr(&output));
    for (condition, wanted) in [
        ("instructions(sum)>5", 1),
        ("instructions>0%", 0),
        ("time(sum)>5%", 125),
        ("instructions(nothing)>5%", 2),
        ("speed>5%", 2),
    ] {
        let output = judge(condition);
        assert_eq!(status(&output), wanted, "{condition}: {}", stderr(&output));
        let lines = stderr(&output).lines().count();
        assert_eq!(lines, usize::from(wanted != 0), "one line: {}", stderr(&output));
    }
}
