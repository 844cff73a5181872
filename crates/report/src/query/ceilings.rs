//! `rprof query PROFILE ceilings`: the machine's ceilings by id.

use serde_json::{Value, json};

use crate::View;
use crate::number::{or_unmeasured, si};
use crate::regions::{self, Rows};
use rprof_profile::Machine;
use rprof_profile::machine::Ceiling;

/// Those with this prefix; of each id the one of most threads that has a value, else any.
fn wanted<'m>(machine: &'m Machine, prefix: &str) -> Vec<&'m Ceiling> {
    let mut all: Vec<&Ceiling> = machine.ceilings.iter().filter(|c| c.id.starts_with(prefix)).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id).then(b.value.is_some().cmp(&a.value.is_some())).then(b.threads.cmp(&a.threads)));
    all.dedup_by(|later, first| later.id == first.id);
    all
}

/// As JSON.
pub fn json(machine: &Machine, prefix: &str, limit: usize) -> Value {
    let all = wanted(machine, prefix);
    let items = all.iter().take(limit).map(|c| json!(c)).collect();
    json!({ "cpu": machine.cpu, "cores": machine.cores, "caches": machine.caches, "ceilings": super::list(items, all.len()) })
}

/// As a table.
pub fn text(machine: &Machine, prefix: &str, limit: usize, view: &View) -> String {
    let all = wanted(machine, prefix);
    let row = |c: &&Ceiling| {
        let doubt = if c.value.is_some() && !c.is_reproduced() { "noisy" } else { "" };
        let unit = match c.unit.as_str() {
            "flop/s" => "FLOP/s",
            "byte/s" => "B/s",
            other => other,
        };
        let why = c.reason.clone().unwrap_or_default();
        vec![c.id.to_string(), or_unmeasured(c.value, |v| si(v, unit)), c.threads.to_string(), doubt.into(), why]
    };
    let rows = Rows {
        title: String::new(),
        titles: vec!["ceiling", "value", "threads", "", "reason"],
        rows: all.iter().take(limit).map(row).collect(),
        words: vec![3, 4],
        notes: Vec::new(),
    };
    format!(
        "{}, {} CPUs\n{}{}",
        machine.cpu,
        machine.cores,
        regions::table(&rows, view.width),
        super::cut(rows.rows.len(), all.len())
    )
}
