//! Compares the `use crate::` edges of `src/` with the table in ARCHITECTURE.md, and checks that the paths it names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Modules named after `crate::` anywhere in `text`, `use crate::{a, b::c}` groups included.
fn edges(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        if at > 0 && text.as_bytes()[at - 1].is_ascii_alphanumeric() {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let (mut depth, mut start) = (0, 0);
            for (i, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => {
                        found.insert(head(&group[start..i]));
                        break;
                    }
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        found.insert(head(&group[start..i]));
                        start = i + 1;
                    }
                    _ => {}
                }
            }
        } else {
            found.insert(head(rest));
        }
    }
    found.remove("");
    found
}

fn head(path: &str) -> String {
    path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// `folder → may use` from the table; `None` stands for "all but cli".
fn allowed() -> BTreeMap<String, Option<BTreeSet<String>>> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut table = BTreeMap::new();
    for line in page.lines().filter(|l| l.starts_with("| `src/")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let folder = cells[1].trim_matches('`').trim_start_matches("src/").trim_end_matches('/').to_owned();
        let uses = if cells[3].starts_with("all but") || cells[3].contains("what it names") {
            None
        } else {
            Some(cells[3].split_whitespace().map(|w| w.trim_matches('`').to_owned()).collect())
        };
        table.insert(folder, uses);
    }
    table
}

#[test]
fn edges_agree_with_the_picture() {
    let table = allowed();
    let src = root().join("src");
    let mut wrong = Vec::new();
    for (folder, uses) in &table {
        let mut files = Vec::new();
        rust_files(&src.join(folder), &mut files);
        assert!(!files.is_empty(), "src/{folder} is empty");
        for file in files {
            for edge in edges(&fs::read_to_string(&file).unwrap()) {
                let known = table.contains_key(&edge);
                let fine = edge == *folder
                    || match uses {
                        None => edge != "cli" || folder == "cli",
                        Some(set) => set.contains(&edge),
                    };
                if known && !fine {
                    wrong.push(format!("{} uses {edge}", file.strip_prefix(root()).unwrap().display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "edges that ARCHITECTURE.md does not have:\n{}", wrong.join("\n"));
    for entry in fs::read_dir(src).unwrap().flatten().filter(|e| e.path().is_dir()) {
        let name = entry.file_name().into_string().unwrap();
        assert!(table.contains_key(&name), "src/{name} is not in ARCHITECTURE.md");
    }
}

#[test]
fn named_paths_exist() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut checked = 0;
    for piece in page.split('`').skip(1).step_by(2).filter(|p| p.contains('/') && !p.contains(' ')) {
        assert!(root().join(piece).exists(), "ARCHITECTURE.md names {piece}, which does not exist");
        checked += 1;
    }
    assert!(checked > 14, "only {checked} paths found on the page");
}

#[test]
fn a_forbidden_edge_is_found() {
    let found = edges("use crate::{isa::facts, report::{text, html}};\nlet x = crate::memory::new();");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["isa", "memory", "report"]);
}
