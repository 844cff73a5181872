//! The data that a real program's lines come from: their names and shares.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use rprof::instrument::Translator;
use rprof::join::{Evidence, join};
use rprof::memory::{CacheModel, LastLevelPolicy, PageColoring};
use rprof::profile::Run;
use rprof::profile::data::{Data, DataKind};
use rprof::symbols::Symbols;

use crate::end_to_end::{build, run};
use crate::kernels::host;

/// Shares of the data of the function that brings most lines from memory in `fixtures/memory/named.c`.
fn data(program: &Path, passes: &str, model: CacheModel) -> Vec<Data> {
    let counted = run(&mut Translator::new(), program, &[passes], model.of_host_processes());
    let evidence =
        Evidence { counted: Some(&counted.evidence), memory: counted.memory.as_ref(), ..Evidence::default() };
    let profile = join(&evidence, Run::default(), Default::default(), &mut Symbols::default(), false);
    let moved = |f: &rprof::profile::Function| f.bytes.and_then(|b| b.dram).unwrap_or(0);
    profile.functions.into_iter().max_by_key(moved).unwrap().data
}

#[test]
fn arrays_are_named_by_variable_allocating_function_and_kind() {
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "named", &["-O1", "-g"]);
    let stripped = dir.path().join("stripped");
    assert!(Command::new("strip").arg("-o").arg(&stripped).arg(&program).status().unwrap().success());
    let exact = || CacheModel::exact(host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new());
    let sampled = || CacheModel::sampled(host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new());
    let runs =
        [("exact", "1", exact as fn() -> CacheModel, 0.05), ("sampled", "120", sampled as fn() -> CacheModel, 0.12)];
    for (mode, passes, model, off) in runs {
        for program in [&program, &stripped] {
            let found = data(program, passes, model());
            println!("{mode} {}: {found:?}", program.display());
            let is_stripped = program == &stripped;
            let mut share: HashMap<(DataKind, String), f64> = HashMap::new();
            found.iter().for_each(|d| *share.entry((d.kind, d.name.clone())).or_default() += d.share);
            let of = |kind: DataKind, starts: &str| -> f64 {
                share.iter().filter(|((k, name), _)| *k == kind && name.starts_with(starts)).map(|(_, s)| s).sum()
            };
            let close = |what: &str, found: f64, expected: f64| {
                let near = (found - expected).abs() < off && found > expected / 3.0;
                assert!(near, "{mode} {what}: {found}, {expected} expected; {share:?}");
            };
            if is_stripped {
                close("static data", of(DataKind::Static, "data of stripped"), 0.5);
                close("allocated", of(DataKind::Allocated, "stripped+0x"), 5.0 / 12.0);
            } else {
                close("first", of(DataKind::Static, "first"), 1.0 / 3.0);
                close("second", of(DataKind::Static, "second"), 1.0 / 6.0);
                close("table", of(DataKind::Allocated, "make_table:"), 1.0 / 3.0);
                close("mapped", of(DataKind::Allocated, "main:"), 1.0 / 12.0);
                assert!(found.iter().any(|d| d.name == "first" && d.bytes == Some(16 * MIB)));
            }
            close("stack", of(DataKind::Stack, "stack"), 1.0 / 12.0);
        }
    }
}
