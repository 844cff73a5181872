//! FLOPs exactly equal to the analytic count, for every truth program, with one and two threads; and different for each mutant.

use std::path::Path;
use std::sync::Mutex;

use rprof::instrument::SingleStep;
use rprof::instrument::translator::Translator;

use crate::truth::cli;
use crate::truth::engine;
use crate::truth::program;
use crate::truth::program::Link;

/// Engines wait for any child of this process: one at a time.
static ONE_ENGINE: Mutex<()> = Mutex::new(());

/// Compares the figures of `flops` with those of each header. `flops`: (executable, folder for output) → figures.
fn check(link: Link, flops: impl Fn(&Path, &Path) -> program::Figures) {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut checked = 0;
    for truth in program::programs() {
        let lacks = truth.lacks();
        if !lacks.is_empty() {
            let tag = if lacks.iter().any(|feature| feature.contains("512")) { "avx512" } else { "avx2" };
            println!("SKIPPED: {tag}: {}: this CPU lacks {}", truth.name, lacks.join(", "));
            continue;
        }
        for threads in [1, 2] {
            let program = truth.compile(folder.path(), threads, link, false);
            assert_eq!(
                flops(&program, folder.path()),
                truth.expected(threads),
                "{} with {threads} threads",
                truth.name
            );
        }
        let mutant = truth.compile(folder.path(), 1, link, true);
        assert_ne!(flops(&mutant, folder.path()), truth.expected(1), "{}: its mutant is not noticed", truth.name);
        checked += 1;
    }
    assert!(checked > 0, "every CPU that rprof runs on has SSE2");
}

#[test]
fn single_stepping_counts_the_truth() {
    check(Link::Static, |program, _| engine::flops(program, &mut SingleStep::new()));
}

#[test]
fn the_translator_counts_the_truth() {
    check(Link::Dynamic, |program, _| engine::flops(program, &mut Translator::new()));
}

#[test]
fn the_command_reports_the_truth() {
    check(Link::Dynamic, cli::flops);
}
