//! `rprof query PROFILE explain NAME`: the whole argument about one function, with its figures and their sources.

use serde_json::{Value, json};

use crate::{View, explain, name, regions, wrap};
use rprof_model::ranking::Gain;
use rprof_profile::function::LineFacts;
use rprof_profile::{Function, Profile};

use super::{NoSuchName, find, list, top};

/// Items of each list at most.
const MOST: usize = 10;

/// As JSON.
pub fn json(profile: &Profile, wanted: &str) -> Result<Value, NoSuchName> {
    let (f, others) = find(profile, wanted)?;
    let a = &f.analysis;
    let mut lines: Vec<&LineFacts> = f.lines.iter().collect();
    lines.sort_by(|a, b| b.cpu_s.unwrap_or(0.0).total_cmp(&a.cpu_s.unwrap_or(0.0)));
    let first = |all: Vec<Value>| {
        let total = all.len();
        list(all.into_iter().take(MOST).collect(), total)
    };
    let of = |inner: &Function| top::summary(&Gain::of(inner));
    Ok(json!({
        "function": of(f),
        "argument": explain::argument(profile, f),
        "figures": {
            "instructions": f.instructions, "flops": f.flops.map(|x| x.total), "int_ops": f.int_ops, "bytes": f.bytes,
            "intensity": a.oi, "simd_use": a.simd_use, "fma_balance": a.fma_balance, "ilp": a.ilp, "fp_fraction": a.fp_fraction,
            "load_balance": a.load_balance, "team": f.team, "clock_hz": f.clock_hz,
        },
        "sources": f.source,
        "terms_s": a.terms,
        "account": f.account.as_ref().map(|account| json!({
            "model_s": account.model_s, "error": account.error, "parts_s": account.parts, "bursts": account.bursts,
        })),
        "ceilings": first(a.ceilings.iter().filter(|c| c.value.is_some()).map(|c| json!({
            "id": c.id, "kind": c.kind, "value": c.value, "value_alone": c.value_alone, "refuted": c.refuted,
            "from": c.from.iter().take(MOST).collect::<Vec<_>>(), "from_cut": c.from.len().saturating_sub(MOST),
        })).collect()),
        "savings": first(a.savings.iter().map(|s| json!(s)).collect()),
        "remarks": a.remarks,
        "lines": first(lines.iter().map(|l| json!(l)).collect()),
        "loops": first(f.loops.iter().map(of).collect()),
        "also_matches": first(others.iter().map(|f| json!(f.name)).collect()),
    }))
}

/// As sentences and a table of figures with their sources.
pub fn text(profile: &Profile, wanted: &str, view: &View) -> Result<String, NoSuchName> {
    let (f, others) = find(profile, wanted)?;
    let mut out = wrap::hanging(&name::printable(&f.name), view.width, 2);
    out += &format!("  {}\n\n", explain::place(f));
    for line in explain::argument(profile, f) {
        out += &wrap::hanging(&line, view.width, 2);
    }
    out.push('\n');
    out += &regions::table(&explain::measures(f), view.width);
    if !others.is_empty() {
        out += &format!(
            "\n{} other names contain {}; the hottest with it is explained.\n",
            others.len(),
            name::shorten(wanted, 40)
        );
    }
    Ok(out)
}
