//! Hot loops of a program without debug information: their very instructions, with exact executions.

use std::process::Command;

use serde_json::Value;

use crate::cli::{Sandbox, function, status, stderr, stdout};

const ROUNDS: u64 = 200_000_000;

const PROGRAM: &str = "__attribute__((noinline)) double sum(const double *x, long n)
{
    double s = 0;
    for (long i = 0; i < n; i++)
        s += x[i & 63];
    return s;
}
int main(int argc, char **argv)
{
    static double x[64];
    x[argc & 63] = argc;
    return sum(x, ROUNDS) < 0;
}
";

/// (address, mnemonic) of the instructions of `sum` from the target of its jump backwards to this, as objdump has them.
fn loop_of_sum(program: &std::path::Path) -> Vec<(u64, String)> {
    let output = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", "-M", "intel", "--disassemble=sum"])
        .arg(program)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut all: Vec<(u64, String, String)> = Vec::new();
    for line in text.lines() {
        let Some((address, instruction)) = line.split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
        let (mnemonic, operands) = instruction.trim().split_once(' ').unwrap_or((instruction.trim(), ""));
        all.push((address, mnemonic.to_owned(), operands.trim().to_owned()));
    }
    let target = |operands: &str| u64::from_str_radix(operands.split(' ').next().unwrap(), 16).ok();
    let backwards = all.iter().find_map(|(at, mnemonic, operands)| {
        let to = target(operands).filter(|to| mnemonic.starts_with('j') && to < at)?;
        Some((to, *at))
    });
    let (first, last) = backwards.expect("a jump backwards");
    all.into_iter().filter(|(at, ..)| (first..=last).contains(at)).map(|(at, mnemonic, _)| (at, mnemonic)).collect()
}

#[test]
fn a_hot_loop_without_lines_is_disassembled() {
    let sandbox = Sandbox::new();
    sandbox.file("sum.c", PROGRAM.replace("ROUNDS", &ROUNDS.to_string()), 0o644);
    assert!(sandbox.shell("cc -O2 -fcf-protection=none -o sum sum.c").status().unwrap().success());
    let output = sandbox.run(["--memory", "off", "--passes", "both", "--", "./sum"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));

    let profile = sandbox.profile("rprof.out");
    let sum = function(&profile, "sum");
    assert_eq!(sum["lines"].as_array().unwrap().len(), 0);
    let inner = &sum["loops"][0];
    let found = inner["disassembly"]["instructions"].as_array().unwrap();
    let word = |i: &Value| i["text"].as_str().unwrap().split(' ').next().unwrap().to_owned();
    let of_rprof: Vec<(u64, String)> = found.iter().map(|i| (i["offset"].as_u64().unwrap(), word(i))).collect();
    assert_eq!(of_rprof, loop_of_sum(&sandbox.path().join("sum")));
    for pair in found.windows(2) {
        assert_eq!(pair[0]["offset"].as_u64().unwrap() + pair[0]["length"].as_u64().unwrap(), pair[1]["offset"]);
    }
    assert!(found.iter().all(|i| i["executions"] == ROUNDS), "{found:?}");
    // Every sample of the loop is at one of its instructions.
    let time: f64 = found.iter().filter_map(|i| i["cpu_s"].as_f64()).sum();
    assert!((time - inner["cpu_s"].as_f64().unwrap()).abs() < 1e-6, "{time} of {}", inner["cpu_s"]);

    let address = format!("{:#x}", of_rprof[0].0);
    let report = |arguments: [&str; 2]| {
        let output = sandbox.rprof(["report", "rprof.out/profile.json"]).args(arguments).output().unwrap();
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    let text = report(["--function", "^sum$"]);
    let (_, part) = text.split_once("Instructions of its hottest loop").unwrap_or_else(|| panic!("{text}"));
    assert!(part.contains(&format!("at sum+{address}")) && part.contains("200 M"), "{part}");
    let page = report(["--format", "html"]);
    assert!(page.contains("Instructions of hot loops") && page.contains(&format!("<td>{address}<td>")));
}
