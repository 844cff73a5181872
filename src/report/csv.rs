//! Comma-separated values after RFC 4180: one line per function, base SI units, empty where not measured.

use crate::profile::{Function, Profile};

type Field = (&'static str, fn(&Function) -> Option<String>);

const FIELDS: [Field; 31] = [
    ("name", |f| Some(f.name.clone())),
    ("module", |f| Some(f.module.clone())),
    ("file", |f| f.file.clone()),
    ("line", |f| text(f.line)),
    ("share", |f| text(f.share)),
    ("time_s", |f| text(f.time_s)),
    ("time_ci95_s", |f| text(f.time_ci95_s)),
    ("cpu_s", |f| text(f.cpu_s)),
    ("inclusive_s", |f| text(f.inclusive_s)),
    ("team", |f| text(f.team)),
    ("instructions", |f| text(f.instructions)),
    ("fp_instructions", |f| text(f.fp_instructions)),
    ("int_ops", |f| text(f.int_ops)),
    ("flops", |f| text(f.flops.map(|x| x.total))),
    ("flop_rate", |f| text(f.analysis.flop_rate)),
    ("axis", |f| f.analysis.axis.clone()),
    ("bytes_l1", |f| text(f.bytes.and_then(|b| b.l1))),
    ("bytes_l2", |f| text(f.bytes.and_then(|b| b.l2))),
    ("bytes_l3", |f| text(f.bytes.and_then(|b| b.l3))),
    ("bytes_dram", |f| text(f.bytes.and_then(|b| b.dram))),
    ("oi_dram", |f| text(f.analysis.oi.dram)),
    ("simd_use", |f| text(f.analysis.simd_use)),
    ("fma_balance", |f| text(f.analysis.fma_balance)),
    ("ilp", |f| text(f.analysis.ilp)),
    ("load_balance", |f| text(f.analysis.load_balance)),
    ("binding", |f| f.analysis.binding.clone()),
    ("class", |f| f.analysis.class.clone()),
    ("confidence", |f| f.analysis.confidence.as_ref().map(|c| c.level.name().to_owned())),
    ("nearest", |f| f.analysis.nearest.clone()),
    ("roof_fraction", |f| text(f.analysis.roof_fraction)),
    ("best_saving_s", |f| text(f.analysis.savings.first().map(|s| s.seconds))),
];

fn text<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|v| v.to_string())
}

/// The whole table with a header line.
pub fn table(profile: &Profile) -> String {
    let header: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    let mut out = header.join(",") + "\r\n";
    for f in &profile.functions {
        let cells: Vec<String> = FIELDS.iter().map(|(_, cell)| quoted(&cell(f).unwrap_or_default())).collect();
        out += &(cells.join(",") + "\r\n");
    }
    out
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}
