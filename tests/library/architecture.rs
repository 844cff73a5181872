//! Compares the crates' dependencies and the `use crate::` edges of folders with the tables in ARCHITECTURE.md, and checks that the paths
//! it names exist.

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
            found.extend(pieces(group).into_iter().map(head));
        } else {
            found.insert(head(rest));
        }
    }
    found.remove("");
    found
}

/// Pieces of a `use` group between its commas, up to the brace that ends the group if there is one.
fn pieces(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut all) = (0, 0, Vec::new());
    for (i, c) in group.char_indices().chain([(group.len(), '}')]) {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                all.push(&group[start..i]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(&group[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    all
}

fn head(path: &str) -> String {
    path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The path of a module below the `src/` of its crate, with the crate's name before it: `crates/memory/src/caches/` is `memory/caches`,
/// `src/cli/` is `cli`.
fn module_path(folder: &str) -> String {
    let inner = folder.trim_start_matches("crates/").trim_start_matches("src/").trim_end_matches('/');
    inner.replacen("/src", "", usize::from(folder.starts_with("crates/")))
}

/// The folder of the crate `name`; that of the program for folders of `src/`.
fn source_folder(name: &str) -> PathBuf {
    let own = root().join("crates").join(name).join("src");
    if own.exists() { own } else { root().join("src").join(name) }
}

/// `folder → may use` from the table of folders, or that of their rooms (`folder/room`); `None` means "all but cli".
fn allowed(of_rooms: bool) -> BTreeMap<String, Option<BTreeSet<String>>> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut table = BTreeMap::new();
    let is_room = |line: &str| line.split('`').nth(1).is_some_and(|path| module_path(path).contains('/'));
    let is_row = |line: &str| line.starts_with("| `src/") || line.starts_with("| `crates/");
    for line in page.lines().filter(|l| is_row(l) && l.matches('|').count() == 4 && is_room(l) == of_rooms) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let folder = module_path(cells[1].trim_matches('`'));
        let uses = if cells[3].starts_with("all but") || cells[3].contains("what it names") {
            None
        } else {
            Some(cells[3].split_whitespace().map(|w| w.trim_matches('`').to_owned()).collect())
        };
        table.insert(folder, uses);
    }
    table
}

/// The crates of this workspace that the crate `name` needs.
fn needed(name: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let needs = manifest.split("[dependencies]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
    let packages = packages();
    let own = needs.lines().filter(|line| line.starts_with("rprof-")).filter_map(|line| line.split('.').next());
    own.map(|package| packages.get(package).unwrap_or_else(|| panic!("{package} is not in Cargo.toml")).clone())
        .collect()
}

/// The folders of the packages of this workspace, by the packages' names.
fn packages() -> BTreeMap<String, String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let folder = |line: &str| {
        let (name, rest) = line.split_once(" = {")?;
        let folder = rest.split("path = \"crates/").nth(1)?.split('"').next()?;
        Some((name.to_owned(), folder.to_owned()))
    };
    manifest.lines().filter_map(folder).collect()
}

#[test]
fn edges_agree_with_the_picture() {
    let table = allowed(false);
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(root().join(folder)).unwrap().flatten().filter(|e| e.path().is_dir());
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    for name in names("crates").into_iter().chain(names("src")) {
        assert!(table.contains_key(&name), "{name} is not in ARCHITECTURE.md");
    }
    let everyones = ["basics", "embedded"].map(str::to_owned);
    let mut wrong = Vec::new();
    for name in names("crates") {
        let uses = table[&name].clone().unwrap_or_default();
        let needs = needed(&name);
        let further = needs.iter().filter(|needed| !everyones.contains(needed) && !uses.contains(*needed));
        wrong.extend(further.map(|needed| format!("crates/{name} needs {needed}")));
    }
    for name in names("src") {
        let mut files = Vec::new();
        rust_files(&source_folder(&name), &mut files);
        assert!(!files.is_empty(), "src/{name} is empty");
        for file in files {
            let edges = edges(&fs::read_to_string(&file).unwrap());
            if edges.contains("cli") && name != "cli" {
                wrong.push(format!("{} uses cli", file.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "edges that ARCHITECTURE.md does not have:\n{}", wrong.join("\n"));
}

#[test]
fn rooms_use_what_their_table_allows() {
    let table = allowed(true);
    assert!(table.len() > 10, "{} rooms", table.len());
    let room_of = |module: &[String]| {
        let paths = (2..=module.len()).map(|n| module[..n].join("/"));
        paths.rev().find(|path| table.contains_key(path))
    };
    let mut wrong = Vec::new();
    for (module, uses) in imports() {
        let Some(own) = room_of(&module) else { continue };
        for used in uses.iter().filter(|used| used[0] == module[0]) {
            let Some(other) = room_of(used).filter(|other| *other != own) else { continue };
            let name = other.rsplit('/').next().unwrap_or_default();
            if !table[&own].as_ref().is_some_and(|may| may.contains(name)) {
                wrong.push(format!("{} uses {other}", module.join("/")));
            }
        }
    }
    assert!(wrong.is_empty(), "edges that the rooms of ARCHITECTURE.md do not have:\n{}", wrong.join("\n"));
    let folders = ["machine", "memory", "instrument", "instrument/translator"];
    for folder in folders {
        let (name, inner) = folder.split_once('/').unwrap_or((folder, ""));
        for entry in fs::read_dir(source_folder(name).join(inner)).unwrap().flatten() {
            let room = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            let is_known = table.contains_key(&room) || folders.contains(&room.as_str());
            assert!(!entry.path().is_dir() || is_known, "{room} is not in ARCHITECTURE.md");
        }
    }
}

/// Paths of the `use` declarations in `text` that begin with `crate`, `super` or `self`, in pieces: groups are opened.
fn used_paths(text: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for line in text.split(';') {
        let Some(at) = line.find("use ") else { continue };
        let is_declaration =
            line[..at].lines().last().is_none_or(|before| before.trim().is_empty() || before.contains("pub"));
        if is_declaration {
            open_group(Vec::new(), line[at + 4..].trim(), &mut all);
        }
    }
    all.retain(|path: &Vec<String>| matches!(path.first().map(String::as_str), Some("crate" | "super" | "self")));
    all
}

/// `a::{b, c::d}` becomes `a::b` and `a::c::d`, each behind `before`.
fn open_group(before: Vec<String>, rest: &str, all: &mut Vec<Vec<String>>) {
    let mut path = before;
    let mut rest = rest.trim();
    while let Some((name, after)) = rest.split_once("::").filter(|(name, _)| !name.contains('{')) {
        path.push(name.trim().to_owned());
        rest = after.trim();
    }
    match rest.strip_prefix('{').and_then(|group| group.strip_suffix('}')) {
        None => all.push(path.into_iter().chain([head(rest)]).collect()),
        Some(group) => {
            for piece in pieces(group).into_iter().filter(|piece| !piece.trim().is_empty()) {
                open_group(path.clone(), piece, all);
            }
        }
    }
}

/// Paths that begin with `crate` anywhere in the code of `text` but in its `use` declarations, in pieces.
fn full_paths(text: &str) -> Vec<Vec<String>> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let lines = text.lines().filter(is_code);
    lines
        .flat_map(|line| line.match_indices("crate::").map(move |(at, _)| &line[at..]))
        .map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next().unwrap_or_default())
        .map(|path| path.split("::").map(head).take_while(|piece| !piece.is_empty()).collect())
        .collect()
}

/// The modules of all crates by path (the crate's name first, nothing for the program's own), and which others of its crate each uses. A
/// module that is a folder is its `mod.rs` or `lib.rs`.
fn imports() -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let of_crates = fs::read_dir(root().join("crates")).unwrap().flatten();
    of_crates.for_each(|entry| rust_files(&entry.path().join("src"), &mut files));
    let module = |file: &PathBuf| -> Vec<String> {
        let inner = file.strip_prefix(root()).unwrap().with_extension("");
        let mut path: Vec<String> = module_path(inner.to_str().unwrap()).split('/').map(str::to_owned).collect();
        if path.last().is_some_and(|last| last == "mod" || last == "lib") {
            path.pop();
        }
        path
    };
    let is_crate = |name: &String| root().join("crates").join(name).exists();
    let modules: BTreeMap<Vec<String>, &PathBuf> = files.iter().map(|file| (module(file), file)).collect();
    let of = |(own, file): (&Vec<String>, &&PathBuf)| {
        let mut uses = BTreeSet::new();
        let text = fs::read_to_string(file).unwrap();
        for path in used_paths(&text).into_iter().chain(full_paths(&text)) {
            let mut rest = &path[..];
            let mut at = own.clone();
            if rest[0] == "crate" {
                at.truncate(usize::from(at.first().is_some_and(is_crate)));
            }
            while let Some("super") = rest.first().map(String::as_str) {
                at.pop();
                rest = &rest[1..];
            }
            let skipped = usize::from(matches!(rest.first().map(String::as_str), Some("crate" | "self")));
            at.extend_from_slice(&rest[skipped..]);
            while !at.is_empty() && !modules.contains_key(&at) {
                at.pop();
            }
            if !at.is_empty() && at != *own {
                uses.insert(at);
            }
        }
        (own.clone(), uses)
    };
    modules.iter().map(of).collect()
}

/// Modules that use each other in a circle: strongly connected parts, without the folders themselves. A folder's `mod.rs` may name the
/// modules in it, and they may name it.
fn cycles(imports: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> Vec<BTreeSet<Vec<String>>> {
    let reach = |from: &Vec<String>| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from.clone()];
        while let Some(at) = next.pop() {
            for used in imports.get(&at).into_iter().flatten() {
                if seen.insert(used.clone()) {
                    next.push(used.clone());
                }
            }
        }
        seen
    };
    let is_folder = |module: &Vec<String>| {
        let (name, inner) =
            module.split_first().map_or((String::new(), String::new()), |(n, rest)| (n.clone(), rest.join("/")));
        let folder = source_folder(&name).join(inner);
        folder.join("mod.rs").exists() || folder.join("lib.rs").exists()
    };
    let reached: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = imports.keys().map(|m| (m, reach(m))).collect();
    let mut found: Vec<BTreeSet<Vec<String>>> = Vec::new();
    for (module, others) in &reached {
        if found.iter().any(|cycle| cycle.contains(*module)) {
            continue;
        }
        let cycle: BTreeSet<Vec<String>> = others
            .iter()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(*module)) && !is_folder(other))
            .cloned()
            .collect();
        if cycle.len() > 1 {
            found.push(cycle);
        }
    }
    found
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let imports = imports();
    assert!(imports.len() > 300, "{} modules", imports.len());
    let names = |cycle: BTreeSet<Vec<String>>| cycle.iter().map(|m| m.join("/")).collect::<Vec<_>>().join(", ");
    let wrong: Vec<String> = cycles(&imports).into_iter().map(names).collect();
    assert!(wrong.is_empty(), "files that import each other:\n{}", wrong.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let edge = |from: &str, to: &[&str]| (module(from), to.iter().map(|to| module(to)).collect());
    let circle = BTreeMap::from([edge("a", &["b"]), edge("b", &["c"]), edge("c", &["a"]), edge("d", &["a"])]);
    let found = cycles(&circle);
    assert_eq!(found, [["a", "b", "c"].map(module).into_iter().collect()]);
    let text = "use super::{x::Y, z};\npub use crate::a::b;\nlet reuse = 1;\nuse std::io;";
    let paths: Vec<String> = used_paths(text).iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["super::x::Y", "super::z", "crate::a::b"]);
    let text = "//! [`x`](crate::a::x)\nlet y = crate::b::c::D::new(1) + crate::e();";
    let paths: Vec<String> = full_paths(text).iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["crate::b::c::D::new", "crate::e"]);
}

#[test]
fn named_paths_exist() {
    for (name, fewest) in [("ARCHITECTURE.md", 14), ("docs/glossary.md", 30), ("docs/ceilings.md", 3)] {
        let page = fs::read_to_string(root().join(name)).unwrap();
        let is_path = |p: &&str| {
            p.contains('/')
                && !p.contains(' ')
                && (name == "ARCHITECTURE.md" || p.starts_with("src/") || p.starts_with("crates/"))
        };
        let mut checked = 0;
        for piece in page.split('`').skip(1).step_by(2).filter(is_path) {
            assert!(root().join(piece).exists(), "{name} names {piece}, which does not exist");
            checked += 1;
        }
        assert!(checked > fewest, "only {checked} paths found on {name}");
    }
}

/// Features that a host of the tests may lack; `RPROF_REQUIRE` of `tests/run` names some of them.
const LACKING: [&str; 15] = [
    "avx2",
    "avx512",
    "bf16",
    "caches",
    "cgroups",
    "cpus",
    "huge-pages",
    "kernel",
    "memory",
    "packages",
    "perf",
    "pmu",
    "pypi",
    "root",
    "tsx",
];

#[test]
fn what_is_skipped_says_what_it_lacks() {
    let mut files = Vec::new();
    ["src", "crates", "tests"].iter().for_each(|folder| rust_files(&root().join(folder), &mut files));
    let mark = ["\"SKIP", "PED: "].concat();
    let mut found = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (at, _) in text.match_indices(&mark) {
            let said = text[at + mark.len()..].split(['"', ' ']).next().unwrap_or_default();
            let tag = said.trim_end_matches(':');
            assert!(
                LACKING.contains(&tag) || tag == "{tag}",
                "{}: `{said}` is not what a host can lack",
                file.display()
            );
            found += 1;
        }
    }
    assert!(found > 50, "only {found} places");
}

/// Each takes seconds to link after every change.
#[test]
fn tests_are_in_few_binaries() {
    let is_binary = |path: &PathBuf| path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").exists();
    let binaries =
        |folder: &str| fs::read_dir(root().join(folder)).unwrap().flatten().map(|e| e.path()).filter(is_binary);
    assert!(binaries("tests").count() <= 10, "{:?}", binaries("tests").collect::<Vec<_>>());
    assert_eq!(binaries("examples").count(), 1);
}

#[test]
fn a_forbidden_edge_is_found() {
    let found = edges("use crate::{isa::facts, report::{text, html}};\nlet x = crate::memory::new();");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["isa", "memory", "report"]);
}
