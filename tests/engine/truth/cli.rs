//! FLOPs of a program's kernels from the `profile.json` that the command writes.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::program::Figures;

/// Runs `rprof --passes counted -- PROGRAM` and adds up the FLOPs of the functions called `kernel_…`.
pub fn flops(program: &Path, folder: &Path) -> Figures {
    let output = folder.join(format!("{}.out", program.file_name().expect("a file name").to_string_lossy()));
    let mut rprof = Command::new(env!("CARGO_BIN_EXE_rprof"));
    rprof.args(["--passes", "counted", "--memory", "off", "--quiet", "-o"]).arg(&output).arg("--").arg(program);
    let run = rprof.stdout(Stdio::null()).output().expect("rprof starts");
    assert!(run.status.success(), "rprof: {}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(output.join("profile.json")).expect("rprof wrote a profile");
    let profile: Value = serde_json::from_str(&text).expect("valid JSON");
    let mut figures = Figures::new();
    for function in profile["functions"].as_array().expect("functions") {
        let name = function["name"].as_str().expect("a name");
        if !name.starts_with("kernel_") {
            continue;
        }
        let flops = &function["flops"];
        assert!(flops.is_object(), "{name}: FLOPs are {flops}, {}", function["source"]);
        for part in [flops, &flops["by_op"], &flops["by_width"]] {
            for (key, value) in part.as_object().expect("an object") {
                if let Some(value) = value.as_u64().filter(|&value| value > 0 && key != "total") {
                    *figures.entry(key.clone()).or_default() += value;
                }
            }
        }
    }
    figures
}
