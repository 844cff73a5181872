//! Metrics that each chip has, and the passes that they take.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rprof::device::groups::{GLOBAL_SECTORS, Group, groups, received};

use crate::recorded::logs::fixture;

/// Chips by compute capability.
const CHIPS: [(&str, u32, u32); 7] = [
    ("TU102", 7, 5),
    ("GA100", 8, 0),
    ("GA102", 8, 6),
    ("AD102", 8, 9),
    ("GH100", 9, 0),
    ("GB100", 10, 0),
    ("GB202", 12, 0),
];

/// CUPTI's answers: passes of metrics that are counted together on a chip; `None`: the chip lacks one.
fn answers() -> HashMap<(String, String), Option<u32>> {
    let text = fixture("metrics.tsv");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let passes = (cells[2] != "unknown").then(|| cells[2].parse().unwrap());
        ((cells[0].to_owned(), cells[1].to_owned()), passes)
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

#[test]
fn groups_ask_each_chip_for_the_metrics_that_it_has() {
    let answers = answers();
    let passes = |chip: &str, metrics: &str| {
        let answer = answers.get(&(chip.to_owned(), metrics.to_owned()));
        *answer.unwrap_or_else(|| panic!("{chip} {metrics}: add it to metrics.tsv (fixtures/gpu/metrics.py)"))
    };
    for (chip, major, minor) in CHIPS {
        let groups: Vec<Group> = groups(major, minor).into_iter().chain([received()]).collect();
        let asked: Vec<&str> = groups.iter().flat_map(|group| group.metrics.iter().copied()).collect();
        assert!(asked.contains(&GLOBAL_SECTORS));
        for ((_, metric), known) in answers.iter().filter(|((c, metrics), _)| c == chip && !metrics.contains(' ')) {
            assert_eq!(asked.contains(&metric.as_str()), known.is_some(), "{chip} {metric}");
        }
        for metric in asked {
            assert!(passes(chip, metric).is_some(), "{chip} lacks {metric}");
        }
        let each: Vec<_> = groups.iter().map(|group| passes(chip, &group.metrics.join(" "))).collect();
        let expected = match chip {
            "TU102" => [2, 1, 1, 5],
            "GA100" => [2, 1, 6, 5],
            "GA102" => [1, 1, 6, 5],
            "AD102" => [1, 1, 7, 5],
            "GB100" => [1, 1, 6, 3],
            "GB202" => [1, 1, 5, 3],
            // GH100: bytes and FLOPs take one pass each.
            _ => [1, 1, 6, 2],
        };
        assert_eq!(each, expected.map(Some), "{chip}");
    }
}

#[test]
fn nvidias_library_answers_about_metrics_as_it_did() {
    let test = "nvidias_library_answers_about_metrics_as_it_did";
    let Some(folder) = std::env::var_os("RPROF_NVPERF").map(PathBuf::from) else {
        println!("SKIPPED: pypi: {test}: RPROF_NVPERF is not set; tests/run gets the libraries");
        return;
    };
    let file = |name: &str| format!("{}/fixtures/gpu/{name}", env!("CARGO_MANIFEST_DIR"));
    let asked = fs::File::open(file("metrics.tsv")).expect("metrics.tsv");
    let output = Command::new("python3")
        .arg(file("metrics.py"))
        .arg(folder.join("libcupti.so.13"))
        .env("LD_LIBRARY_PATH", &folder)
        .stdin(asked)
        .output()
        .expect("python3 is needed: tests/run installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept = fixture("metrics.tsv");
    let answers = String::from_utf8(output.stdout).expect("text");
    let differing: Vec<_> = kept.lines().zip(answers.lines()).filter(|(kept, now)| kept != now).collect();
    assert!(kept.lines().count() == answers.lines().count() && differing.is_empty(), "{differing:?}");
}
