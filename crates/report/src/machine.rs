//! `rprof machine`: the host's ceilings as a table, as JSON, and as pictures.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::error::ReportError;
use super::number::{NOT_MEASURED, percent, si};
use super::{gpu, plot, wrap};
use rprof_profile::Machine;
use rprof_profile::machine::{Ceiling, Quality};

/// The ceilings as a table: one line per id, one column per thread count.
pub fn text(machine: &Machine, width: usize) -> String {
    let mut out = format!("{}, {} CPU{}\n", machine.cpu, machine.cores, if machine.cores == 1 { "" } else { "s" });
    for c in &machine.caches {
        out += &format!("L{} {} KiB, {} ways, shared by {}\n", c.level, c.size >> 10, c.ways, c.shared_by);
    }
    out += &core_to_core(machine);
    if !machine.ceilings.is_empty() {
        out += &table(machine, width);
    }
    for gpu in &machine.gpus {
        out += &format!("\n{}", gpu::text(gpu, width));
    }
    out
}

/// The CPU's ceilings.
fn table(machine: &Machine, width: usize) -> String {
    let mut out = "\n".to_owned();
    let mut counts: Vec<u32> = machine.ceilings.iter().map(|c| c.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    let counts = thinned(&counts);
    let mut ids: Vec<&str> = Vec::new();
    for c in &machine.ceilings {
        if !ids.contains(&&*c.id) {
            ids.push(&c.id);
        }
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let right = |t: String| Cell::new(t).set_alignment(CellAlignment::Right);
    let threads = counts.iter().map(|n| right(format!("{n} thread{}", if *n == 1 { "" } else { "s" })));
    table.set_header(
        std::iter::once(Cell::new("ceiling")).chain(threads).chain([right("spread".into()), Cell::new("")]),
    );
    let mut absent = Vec::new();
    for id in ids {
        let all: Vec<&Ceiling> = machine.ceilings.iter().filter(|c| c.id == id).collect();
        if all.iter().all(|c| c.value.is_none()) {
            absent.push((id, all.iter().find_map(|c| c.reason.clone()).unwrap_or_else(|| "no reason given".into())));
            continue;
        }
        let at = |n: &u32| all.iter().find(|c| c.threads == *n).map_or(String::new(), |c| value(c));
        let spread =
            all.iter().filter_map(|c| c.spread).fold(None, |m: Option<f64>, s| Some(m.map_or(s, |m| m.max(s))));
        let noisy = if all.iter().any(|c| c.quality == Quality::Noisy) { "noisy" } else { "" };
        let cells = counts.iter().map(|n| right(at(n)));
        let row = std::iter::once(Cell::new(id)).chain(cells);
        table.add_row(row.chain([right(spread.map_or(String::new(), percent)), Cell::new(noisy)]));
    }
    out.extend(table.to_string().lines().map(|l| format!("{}\n", l.trim_end())));
    if !absent.is_empty() {
        out += &format!("\n{NOT_MEASURED}:\n");
        for (id, reason) in absent {
            out += &wrap::hanging(&format!("  {id}: {reason}"), width, 4);
        }
    }
    out
}

/// The places of the CPUs.
fn core_to_core(machine: &Machine) -> String {
    let here = machine.core_to_core.as_ref().filter(|c| !c.pairs().is_empty());
    here.map_or(String::new(), |here| format!("core to core: {}\n", here.words()))
}

/// At most four thread counts: one, some between, all.
fn thinned(counts: &[u32]) -> Vec<u32> {
    match counts {
        [first, middle @ .., last] if middle.len() > 2 => {
            let third = middle.len() / 3;
            vec![*first, middle[third], middle[2 * third], *last]
        }
        few => few.to_vec(),
    }
}

fn value(c: &Ceiling) -> String {
    let unit = c.unit.replace("flop", "FLOP").replace("byte", "B");
    c.value.map_or_else(|| NOT_MEASURED.to_owned(), |v| si(v, &unit))
}

/// Section 8's "machine" object.
///
/// # Errors
/// [`ReportError::Render`] (never for finite numbers).
pub fn json(machine: &Machine) -> Result<String, ReportError> {
    serde_json::to_string_pretty(machine)
        .map(|s| s + "\n")
        .map_err(|e| ReportError::Render { what: "machine", problem: e.to_string() })
}

/// The pictures as (file name, SVG): roofline with all ceilings, ladder, imbalance, sweeps.
pub fn pictures(machine: &Machine) -> Vec<(String, String)> {
    let mut out = vec![
        ("machine-roofline.svg".to_owned(), plot::host::svg(machine)),
        ("machine-ladder.svg".to_owned(), plot::ladder::svg(machine)),
    ];
    out.extend(plot::fans::svg(machine).map(|svg| ("machine-imbalance.svg".to_owned(), svg)));
    for family in plot::sweep::families(machine) {
        if let Some(svg) = plot::sweep::svg(machine, &family) {
            out.push((format!("machine-{family}.svg"), svg));
        }
    }
    out.extend(machine.gpus.iter().flat_map(plot::gpu_curves::pictures));
    out
}
