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
    let note = "double precision; slopes: reads of memory by all cores, and by fewer";
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

/// Reading memory with most threads, and by fewer cores: the same kernel.
fn traffic(machine: &Machine) -> Vec<Slope> {
    let all = lines::measured(machine, "dram.read");
    let roof = all.and_then(|all| {
        let value = all.value?;
        let label = format!("all {} cores read, {}", all.threads, si(value, "B/s"));
        Some(Slope { id: "dram.read".into(), label, value, class: "rf-dram" })
    });
    let most = all.map_or(u32::MAX, |all| all.threads);
    let mut cores: Vec<(u32, f64)> = machine
        .ceilings
        .iter()
        .filter_map(|c| Some((c.id.strip_prefix("dram.cores.")?.parse().ok()?, c.value?)))
        .filter(|(k, _)| *k < most)
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
    roof.into_iter().chain(fan).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::example;

    #[test]
    fn fans_halve_the_roof_of_their_kernel_down_to_one_thread() {
        assert_eq!(svg(&example::machine(1)), None, "nothing to balance");
        for threads in [4u32, 8, 16, 64] {
            let machine = example::machine(threads);
            let picture = svg(&machine).expect("several threads");
            let parts: Vec<u32> = (1..=threads.ilog2()).map(|i| 1 << i).collect();
            for part in &parts {
                let label = format!("1/{part} of the threads work, ");
                assert_eq!(picture.matches(&label).count(), 2, "{threads} threads: {label} in both panels");
            }
            assert!(!picture.contains(&format!("1/{} of", 2 * threads)), "less than one thread");
            let slopes = traffic(&machine);
            assert_eq!((slopes[0].id.as_str(), slopes[0].value), ("dram.read", example::read(threads)));
            let cores: Vec<f64> = slopes[1..].iter().map(|slope| slope.value).collect();
            let expected: Vec<f64> = (0..threads.ilog2()).map(|i| example::read(1 << i)).collect();
            assert_eq!(cores, expected, "{threads} threads: powers of two below all");
            assert!(slopes.iter().all(|slope| slope.value <= slopes[0].value), "the roof is of the same kernel");
        }
    }
}
