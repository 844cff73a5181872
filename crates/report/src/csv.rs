//! Comma-separated values after RFC 4180: one line per function and per kernel of a GPU (module `gpu0`, `gpu1`, …), base SI units, empty
//! if not measured. Control characters in names are `?`: a spreadsheet or terminal that shows the file must not obey them.

use super::{View, name};
use rprof_profile::device::Kernel;
use rprof_profile::{Function, Profile};

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
    ("class", |f| f.analysis.class.map(|class| class.name().to_owned())),
    ("confidence", |f| f.analysis.confidence.as_ref().map(|c| c.level.name().to_owned())),
    ("nearest", |f| f.analysis.nearest.map(|class| class.name().to_owned())),
    ("roof_fraction", |f| text(f.analysis.roof_fraction)),
    ("best_saving_s", |f| text(f.analysis.savings.iter().map(|s| s.seconds).reduce(f64::max))),
];

fn text<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|v| v.to_string())
}

/// The whole table with a header line: the functions that `view` keeps, and kernels of GPUs.
pub fn table(profile: &Profile, view: &View) -> String {
    let header: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    let mut out = header.join(",") + "\r\n";
    for f in view.kept(profile) {
        let cells: Vec<String> = FIELDS.iter().map(|(_, cell)| quoted(&cell(f).unwrap_or_default())).collect();
        out += &(cells.join(",") + "\r\n");
    }
    let kernels = profile.devices.iter().flat_map(|devices| &devices.kernels);
    for kernel in kernels.filter(|kernel| view.keeps_name(&kernel.name)) {
        let cells: Vec<String> =
            FIELDS.iter().map(|(name, _)| quoted(&of_kernel(kernel, name).unwrap_or_default())).collect();
        out += &(cells.join(",") + "\r\n");
    }
    out
}

/// A field of a kernel. Its counts are of the launches that were counted, so that only rates and ratios are comparable.
fn of_kernel(kernel: &Kernel, field: &str) -> Option<String> {
    let analysis = kernel.analysis.as_ref();
    match field {
        "name" => Some(kernel.name.clone()),
        "module" => Some(format!("gpu{}", kernel.device)),
        "time_s" => Some(kernel.seconds.to_string()),
        "flop_rate" => text(analysis.and_then(|a| a.flops_per_s)),
        "oi_dram" => text(analysis.and_then(|a| a.intensity)),
        "binding" => analysis.and_then(|a| a.binding.clone()),
        "class" => analysis.map(|a| a.class.name().to_owned()),
        "roof_fraction" => text(analysis.and_then(|a| a.roof_fraction)),
        "best_saving_s" => {
            text(analysis.and_then(|a| a.advice.iter().filter_map(|advice| advice.seconds).max_by(f64::total_cmp)))
        }
        _ => None,
    }
}

/// A cell that spreadsheets would take for a formula begins with an apostrophe.
fn quoted(cell: &str) -> String {
    let cell = name::printable(cell);
    let is_formula = cell.starts_with(['=', '+', '@', '-']) && cell.parse::<f64>().is_err();
    let cell = if is_formula { format!("'{cell}") } else { cell };
    if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_neither_commands_for_terminals_nor_line_breaks() {
        assert_eq!(quoted("a\u{1b}[31mb"), "a?[31mb");
        assert_eq!((quoted("=HYPERLINK()"), quoted("-1.5e-3")), ("'=HYPERLINK()".into(), "-1.5e-3".into()));
        assert_eq!(quoted("f<int, 3>\r\n"), "\"f<int, 3>??\"");
        let f = Function { name: "evil\u{1b}]0;x\u{7}".into(), ..Function::default() };
        let table = table(&Profile { functions: vec![f], ..Profile::default() }, &View::default());
        assert!(!table.chars().any(|c| c.is_control() && !"\r\n".contains(c)), "{table:?}");
        assert_eq!(table.lines().count(), 2);
    }
}
