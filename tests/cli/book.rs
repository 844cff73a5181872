//! The book (`docs/`) and the README: every page is listed, every link leads somewhere, and every command runs.
//!
//! A page says in comments what its blocks are; `docs/record` understands the same and writes real output into pages:
//!
//! ```text
//! <!-- file: NAME -->          the next block is the file NAME
//! <!-- exits: N -->            the last command of the next block ends with N, all others with 0
//! <!-- show: N -->             output is shown in part
//! <!-- not run: WHY -->        the next block is not run
//! <!-- class: NAME -->         the report of the next block's last command has this class for `before`
//! <!-- run by: FILE -->        a script that another test runs
//! <!-- needs: TAG: COMMAND --> the page is skipped where COMMAND fails; TAG is what the host lacks
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::page::{Page, Run};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All pages below `folder`, relative to it.
fn pages(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                found.insert(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found
}

/// Targets of the links of a text, code left out.
fn links(text: &str) -> Vec<String> {
    let mut in_code = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    });
    let prose: Vec<&str> = prose.collect();
    let prose = prose.join("\n");
    let ends = prose.match_indices("](").map(|(at, _)| &prose[at + 2..]);
    ends.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.to_owned())).collect()
}

/// The anchor of a heading, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Why a link of `page` leads nowhere.
fn broken(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { page.to_owned() } else { page.parent().unwrap().join(path) };
    let Ok(text) = fs::read(&path) else { return Some(format!("{}: {target} does not exist", page.display())) };
    let text = String::from_utf8_lossy(&text);
    let mut headings = text.lines().filter(|l| l.starts_with('#')).map(|l| anchor(l.trim_start_matches('#')));
    let is_there = fragment.is_empty() || headings.any(|heading| heading == fragment);
    (!is_there).then(|| format!("{}: {target} names no heading", page.display()))
}

#[test]
fn the_summary_lists_every_page_once() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = links(&summary).into_iter().map(PathBuf::from).collect();
    let once: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    let mut there = pages(&docs);
    there.remove(Path::new("SUMMARY.md"));
    assert_eq!(once, there);
    assert_eq!(listed.len(), once.len(), "a page is listed twice");
}

#[test]
fn links_lead_somewhere() {
    let docs = root().join("docs");
    let mut all: Vec<PathBuf> = pages(&docs).into_iter().map(|page| docs.join(page)).collect();
    all.extend(["README.md", "ARCHITECTURE.md", "tests/README.md"].map(|page| root().join(page)));
    let mut wrong = Vec::new();
    let mut seen = 0;
    for page in all {
        let targets = links(&fs::read_to_string(&page).unwrap());
        seen += targets.len();
        wrong.extend(targets.iter().filter_map(|target| broken(&page, target)));
    }
    assert!(seen > 100, "only {seen} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_link_to_nothing_is_found() {
    let page = root().join("README.md");
    assert_eq!(links("a [b](c.md) `d`\n```\n[e](f)\n```\n[g](h#i)"), ["c.md", "h#i"]);
    assert!(broken(&page, "missing.md").is_some() && broken(&page, "README.md#no-such-heading").is_some());
    assert!(broken(&page, "README.md#limits").is_none());
}

#[test]
fn every_class_has_a_page() {
    let shown = fs::read_to_string(root().join("docs/classes/README.md")).unwrap();
    for class in
        rprof::report::palette::legend().map(rprof::report::words::name_of).filter(|class| !class.starts_with("gpu-"))
    {
        let page = format!("{}.md", class.replace(' ', "-"));
        assert!(shown.contains(&format!("]({page})")), "docs/classes/README.md has no link to {page}");
    }
}

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    let docs = root().join("docs");
    let all = pages(&docs).into_iter().map(|page| docs.join(page)).chain([root().join("README.md")]);
    let mut commands = 0;
    for path in all {
        let page = Page::read(&path);
        for block in &page.blocks {
            let is_run = block.language != "sh" || block.note("run by").is_some();
            assert!(is_run, "{}: commands are in ```console blocks, after `$ `", path.display());
            if block.language == "console" && block.note("not run").is_none() {
                assert!(!block.commands().is_empty(), "{}: a block without commands: {}", path.display(), block.body);
            }
            commands += block.commands().len();
        }
    }
    assert!(commands > 60, "only {commands} commands");
}

/// Runs the commands of a page: what did not go as it says, and the classes that it shows, and whether they came.
fn run(page: &str) -> (Vec<String>, Vec<(String, bool)>) {
    match Page::read(&root().join(page)).run() {
        Run::Lacks(lacking) => println!("{lacking}"),
        Run::Done { wrong, classes } => {
            return (wrong.iter().map(|wrong| format!("{page}:\n{wrong}")).collect(), classes);
        }
    }
    Default::default()
}

fn check(page: &str) {
    let (wrong, _) = run(page);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_commands_of_the_readme_run() {
    check("README.md");
}

#[test]
fn the_commands_of_the_tutorial_run() {
    check("docs/tutorial.md");
}

#[test]
#[ignore = "minutes: all other pages"]
fn the_commands_of_all_other_pages_run() {
    let docs = root().join("docs");
    let others = pages(&docs).into_iter().filter(|page| page != Path::new("tutorial.md"));
    let (wrong, classes): (Vec<_>, Vec<_>) = others.map(|page| run(&format!("docs/{}", page.display()))).unzip();
    let (wrong, classes) = (wrong.concat(), classes.concat());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let missed: Vec<&str> = classes.iter().filter(|(_, came)| !came).map(|(class, _)| class.as_str()).collect();
    // Not every machine has the caches that a page was written for.
    assert!(classes.len() >= 18, "only {} pages show a class", classes.len());
    assert!(4 * missed.len() <= classes.len(), "these pages did not show their class: {missed:?}");
}
