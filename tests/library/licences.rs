//! Every dependency's licence is one that rprof may be distributed with.

use std::process::Command;

const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDDL-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression can be met with the allowed licences: one alternative of each `AND` operand.
fn allowed(expression: &str) -> bool {
    let expression = expression.trim();
    let inner = expression.strip_prefix('(').and_then(|e| e.strip_suffix(')')).filter(|e| balanced(e));
    if let Some(inner) = inner {
        return allowed(inner);
    }
    // The old form of crates.io: "MIT/Apache-2.0".
    for (separator, all) in [(" OR ", false), ("/", false), (" AND ", true)] {
        let parts = split(expression, separator);
        if parts.len() > 1 {
            return if all { parts.iter().all(|p| allowed(p)) } else { parts.iter().any(|p| allowed(p)) };
        }
    }
    ALLOWED.contains(&expression)
}

fn depth_changes(c: char) -> i32 {
    match c {
        '(' => 1,
        ')' => -1,
        _ => 0,
    }
}

fn balanced(text: &str) -> bool {
    let mut depth = 0;
    text.chars().all(|c| {
        depth += depth_changes(c);
        depth >= 0
    }) && depth == 0
}

/// Splits at `separator` outside parentheses.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices(separator) {
        if balanced(&text[start..at]) {
            parts.push(&text[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

#[test]
fn expressions_are_understood() {
    for good in ["MIT", "MIT OR GPL-3.0", "GPL-2.0/MIT", "(MIT OR GPL-3.0) AND Unicode-3.0", "(MIT)"] {
        assert!(allowed(good), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND (GPL-2.0 OR GPL-3.0)", ""] {
        assert!(!allowed(bad), "{bad}");
    }
}

#[test]
fn every_dependency_is_allowed() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let wrong: Vec<String> = packages
        .iter()
        .filter(|p| !p["license"].as_str().is_some_and(allowed))
        .map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]))
        .collect();
    assert!(packages.len() > 20, "only {} packages found", packages.len());
    assert!(wrong.is_empty(), "licences that are not on the list:\n{}", wrong.join("\n"));
}
