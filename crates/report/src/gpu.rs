//! A GPU's ceilings as a table.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::number::{NOT_MEASURED, percent, si};
use super::wrap;
use rprof_profile::gpu::Gpu;
use rprof_profile::machine::{Ceiling, Quality};

/// A GPU's properties, and a line for each of its ceilings: value, interval, clock.
pub fn text(gpu: &Gpu, width: usize) -> String {
    let mut out = facts(gpu, width);
    out.push('\n');
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let device = format!("gpu{}", gpu.index);
    table.set_header([
        Cell::new("ceiling"),
        right(device),
        right("spread".into()),
        right("clock".into()),
        Cell::new(""),
    ]);
    for ceiling in gpu.ceilings.iter().filter(|c| c.value.is_some()) {
        let clock = ceiling.clock_hz.map_or_else(String::new, |hz| format!("{:.0} MHz", hz / 1e6));
        let spread = ceiling.spread.map_or_else(String::new, percent);
        let doubt = if ceiling.quality == Quality::Noisy { "noisy" } else { "" };
        let value = right(value(ceiling));
        table.add_row([Cell::new(&*ceiling.id), value, right(spread), right(clock), Cell::new(doubt)]);
    }
    out.extend(table.to_string().lines().map(|line| format!("{}\n", line.trim_end())));
    out + &absent(gpu, width)
}

fn facts(gpu: &Gpu, width: usize) -> String {
    let bus = gpu.bus_bytes_per_s.map_or_else(String::new, |rate| format!(" at up to {}", si(rate, "B/s")));
    let line = format!(
        "GPU {}: {}, compute capability {}.{}, {} multiprocessors at up to {:.0} MHz, L2 {} MiB, {:.0} GiB of memory{bus}",
        gpu.index,
        gpu.name,
        gpu.capability.0,
        gpu.capability.1,
        gpu.multiprocessors,
        gpu.clock_hz / 1e6,
        gpu.l2_bytes >> 20,
        gpu.memory_bytes as f64 / f64::from(1 << 30),
    );
    wrap::hanging(&line, width, 2)
}

/// Ceilings without a value, by reason.
fn absent(gpu: &Gpu, width: usize) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for ceiling in gpu.ceilings.iter().filter(|c| c.value.is_none()) {
        let reason = ceiling.reason.as_deref().unwrap_or("no reason given");
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, ids)) => ids.push(&ceiling.id),
            None => reasons.push((reason, vec![&ceiling.id])),
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let lines = reasons.iter().map(|(why, ids)| wrap::hanging(&format!("  {}: {why}", ids.join(" ")), width, 4));
    format!("\n{NOT_MEASURED}:\n{}", lines.collect::<String>())
}

fn value(ceiling: &Ceiling) -> String {
    let unit = ceiling.unit.replace("flop", "FLOP").replace("byte", "B");
    ceiling.value.map_or_else(|| NOT_MEASURED.to_owned(), |value| si(value, &unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::machine::Missing;

    #[test]
    fn values_have_their_clock_and_gaps_their_reason() {
        let fma = Ceiling {
            clock_hz: Some(1.98e9),
            spread: Some(0.01),
            ..Ceiling::reproduced("gpu.fp32.fma", 66e12, "flop/s", 0)
        };
        let gap = |id: &str| Ceiling {
            quality: Quality::Missing(Missing::Effort),
            reason: Some("a quick measurement leaves it out".into()),
            ..Ceiling::blank(id, "byte/s", 0)
        };
        let ceilings = vec![fma, gap("gpu.l1.read"), gap("gpu.dram.write")];
        let gpu = Gpu { name: "NVIDIA H200".into(), capability: (9, 0), ceilings, ..Gpu::default() };
        let text = text(&gpu, 100);
        assert!(text.contains("66.0 TFLOP/s") && text.contains("1980 MHz"), "{text}");
        assert!(text.contains("gpu.l1.read gpu.dram.write: a quick measurement leaves it out"), "{text}");
    }
}
