//! Load imbalance (A.2): the ceilings that remain when only some threads work, below the roof (Figure A2) or below the
//! lowest in-core ceiling (Figure A3), and the bandwidths that remain when only some cores generate traffic (Figure A4).

use svg::node::element::Group;
use svg::{Document, Node};

use super::axes::Axes;
use super::host;
use super::layout::{Area, Taken};
use super::lines::{self, Ceiling, Slope};
use super::page;
use crate::number::si;
use rprof_profile::Machine;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 1080.0;
/// Height of one panel with its axis.
const PANEL: f64 = 500.0;

/// The picture: both placements, one below the other; `None` if there is no imbalance to have.
pub fn svg(machine: &Machine) -> Option<String> {
    let parts: Vec<u32> =
        machine.ceilings.iter().filter_map(|c| c.id.strip_prefix("imbalance.")?.parse().ok()).collect();
    if parts.is_empty() {
        return None;
    }
    let ladder = lines::ceilings(machine, Axes::Dp);
    let roof = ladder.iter().find(|c| c.class == "rf-roof")?;
    let lowest = ladder.iter().min_by(|a, b| a.value.total_cmp(&b.value))?;
    let slopes = traffic(machine);
    let title = format!("Load imbalance on {}", machine.cpu);
    let note = "double precision; slopes: the best DRAM bandwidth, and reads by n cores";
    let mut page = page::document(WIDTH, HEIGHT, &title, note);

    let mut below_roof = vec![roof.clone()];
    below_roof.extend(parts.iter().filter_map(|part| {
        let value = lines::most_threads(machine, &format!("imbalance.{part}"))?;
        Some(fan(*part, value))
    }));
    panel(&mut page, 0.0, "balance first: ceilings below the roof (Figure A2)", &below_roof, &slopes);

    let mut below_lowest = ladder.clone();
    let scale = lowest.value / roof.value;
    below_lowest.extend(below_roof.iter().skip(1).zip(&parts).map(|(c, part)| fan(*part, c.value * scale)));
    below_lowest.sort_by(|a, b| a.value.total_cmp(&b.value));
    panel(&mut page, PANEL, "cores first: ceilings below thread-level parallelism (Figure A3)", &below_lowest, &slopes);
    Some(format!("{page}\n"))
}

fn fan(part: u32, value: f64) -> Ceiling {
    let id = format!("imbalance.{part}");
    Ceiling { id, label: format!("1/{part} of the threads work, {}", si(value, "FLOP/s")), value, class: "rf-ceiling" }
}

/// The best DRAM bandwidth with most threads, and reading by fewer cores.
fn traffic(machine: &Machine) -> Vec<Slope> {
    let best = lines::slopes(machine).into_iter().filter(|s| s.class == "rf-dram");
    let mut cores: Vec<(u32, f64)> = machine
        .ceilings
        .iter()
        .filter_map(|c| Some((c.id.strip_prefix("dram.cores.")?.parse().ok()?, c.value?)))
        .collect();
    cores.sort_by_key(|(k, _)| *k);
    let fan = cores.into_iter().map(|(k, value)| {
        let label = format!(
            "{k} core{} read{}, {}",
            if k == 1 { "" } else { "s" },
            if k == 1 { "s" } else { "" },
            si(value, "B/s")
        );
        Slope { id: format!("dram.cores.{k}"), label, value, class: "rf-slope" }
    });
    best.chain(fan).collect()
}

fn panel(page: &mut Document, top: f64, title: &str, ceilings: &[Ceiling], slopes: &[Slope]) {
    let top = page::TOP + 22.0 + top;
    let area = Area { left: page::LEFT, top, right: WIDTH - page::RIGHT, bottom: top + PANEL - 80.0 };
    let frame = host::frame(area, ceilings, slopes);
    let mut g = Group::new();
    g.append(page::text(area.left, area.top - 8.0, "rf-axis", title));
    g.append(page::axes(
        area,
        (&frame.x, "operational intensity [FLOP/byte]", ""),
        (&frame.y, "performance", "FLOP/s"),
    ));
    let mut taken = Taken::new(area);
    g.append(lines::draw_ceilings(&frame, ceilings, slopes, &mut taken));
    g.append(lines::draw_slopes(&frame, slopes, ceilings, &mut taken));
    page.append(g);
}
