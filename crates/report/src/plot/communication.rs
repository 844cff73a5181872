//! `communication.svg`: the communication-aware roofline (Cardwell 2019, Figures 2.3 and 2.12). Left performance over FLOPs per byte of
//! memory, right over FLOPs per byte that ranks hand over, with one vertical axis and the same functions; below both at once.

use svg::Node;
use svg::node::element::{Circle, Group};

use super::axes::Axes;
use super::layout::{Area, Taken, text_width};
use super::lines::{self, Ceiling, Frame, Slope};
use super::scale::LogScale;
use super::spots::{RADIUS, Roofs, Spot, class, dot, dot_of_calls};
use super::{page, volume};
use crate::number::{seconds, si};
use crate::{Precision, name, palette};
use rprof_profile::Profile;
use rprof_profile::communication::Communication;
use rprof_profile::vocabulary::Class;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 1080.0;
/// Lower end of the pair.
const PAIR: f64 = 520.0;
/// Most functions that are drawn.
const MOST: usize = 12;
const NAME_WIDTH: usize = 26;

/// The intensity of a function that a panel is drawn over.
type Intensity = fn(&Spot<'_>) -> f64;

/// Content of the picture.
struct Content<'p> {
    axes: Axes,
    spots: Vec<Spot<'p>>,
    /// Functions that hand bytes over and do no FLOP.
    calls_alone: Vec<&'p Communication>,
    slopes: Vec<Slope>,
    roofs: Roofs,
}

/// `None` without functions that communicate, and without ceilings of the network.
fn content(profile: &Profile) -> Option<Content<'_>> {
    let axes = Axes::of_flops(profile, Precision::Mixed);
    let slopes = lines::slopes(&profile.machine);
    let roofs = Roofs {
        compute: lines::most_threads(&profile.machine, &format!("{}.fma", axes.name()))?,
        memory: slopes.iter().find(|slope| slope.class == "rf-dram")?.value,
        network: rate_of_network(profile)?,
        between: profile.network.as_ref()?.distance(),
    };
    let (spots, calls_alone) = (spots(profile), calls_alone(profile));
    let is_empty = spots.is_empty() && calls_alone.is_empty();
    (!is_empty).then_some(Content { axes, spots, calls_alone, slopes, roofs })
}

/// Whether there is a picture.
pub fn is_drawn(profile: &Profile) -> bool {
    content(profile).is_some()
}

/// The picture, if [`is_drawn`].
pub fn svg(profile: &Profile) -> Option<String> {
    let Content { axes, spots, calls_alone, slopes, roofs } = content(profile)?;
    let title = format!("Communication-aware roofline of {}", name::shorten(&profile.run.command.join(" "), 70));
    let ranks = profile.run.ranks.len();
    let note = format!("functions with all that they call, {ranks} ranks together · ceilings: {}", axes.name());
    let mut page = page::document(WIDTH, HEIGHT, &title, &note);
    let ceilings = lines::ceilings(&profile.machine, axes);
    let middle = (page::LEFT + WIDTH - page::RIGHT) / 2.0;
    let pair = |left, right| Area { left, top: page::TOP, right, bottom: PAIR - 84.0 };
    let rates = || spots.iter().map(|spot| spot.rate).chain(ceilings.iter().map(|ceiling| ceiling.value));
    let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let of_network = Slope {
        id: "net".into(),
        label: format!("{} {}", roofs.between.words(), si(roofs.network, "B/s")),
        value: roofs.network,
        class: "rf-dram",
    };
    let sides: [(Area, &str, &str, Vec<Slope>, Intensity); 2] = [
        (pair(page::LEFT, middle - 34.0), "FLOP/byte of memory", "performance", slopes, |spot| spot.oi),
        (pair(middle + 56.0, WIDTH - page::RIGHT), "FLOP/byte that ranks hand over", "", vec![of_network], |spot| {
            spot.cai
        }),
    ];
    for (area, x_title, y_title, slopes, intensity) in sides {
        let frame = frame(area, (low, high), &slopes, spots.iter().map(intensity));
        page.append(page::axes(area, (&frame.x, x_title, ""), (&frame.y, y_title, "FLOP/s")));
        page.append(panel(&frame, (&spots, &calls_alone), intensity, &slopes, &ceilings));
    }
    let of_calls = calls_alone.iter().map(|of| of.class.unwrap_or_default());
    let classes: Vec<Class> = spots.iter().map(class).chain(of_calls).collect();
    page.append(legend(&classes, PAIR - 26.0));
    let below = Area { left: page::LEFT, top: PAIR + 20.0, right: WIDTH - page::RIGHT, bottom: HEIGHT - 30.0 };
    if !spots.is_empty() {
        page.append(volume::draw(below, &roofs, &spots));
    }
    Some(format!("{page}\n"))
}

/// Functions that have FLOPs, bytes of memory and bytes that they hand over, those with most seconds first.
fn spots(profile: &Profile) -> Vec<Spot<'_>> {
    let ranks = profile.run.ranks.len().max(1) as f64;
    let spot = |of| -> Option<Spot<'_>> {
        let of: &Communication = of;
        let elapsed = (of.work_s.unwrap_or(0.0) + of.mpi_s) / ranks;
        let rate = of.flops.filter(|flops| *flops > 0.0 && elapsed > 0.0)? / elapsed;
        Some(Spot { of, oi: of.oi.filter(|oi| *oi > 0.0)?, cai: of.cai.filter(|cai| *cai > 0.0)?, rate })
    };
    let mut spots: Vec<Spot<'_>> = profile.mpi.iter().flat_map(|mpi| &mpi.functions).filter_map(spot).collect();
    let all = |spot: &Spot<'_>| spot.of.mpi_s + spot.of.work_s.unwrap_or(0.0);
    spots.sort_by(|a, b| all(b).total_cmp(&all(a)));
    spots.truncate(MOST);
    spots
}

/// Functions that hand bytes over, or wait for others, and do no FLOP: those with most seconds first.
fn calls_alone(profile: &Profile) -> Vec<&Communication> {
    let no_flops = |of: &&Communication| of.flops.is_none_or(|flops| flops <= 0.0) && of.mpi_s > 0.0;
    let mut all: Vec<&Communication> =
        profile.mpi.iter().flat_map(|mpi| &mpi.functions).filter(|of| of.calls_mpi).filter(no_flops).collect();
    all.sort_by(|a, b| b.mpi_s.total_cmp(&a.mpi_s));
    all.truncate(MOST);
    all
}

/// Bytes a second that all ranks together hand over when all do at the same time.
fn rate_of_network(profile: &Profile) -> Option<f64> {
    let network = profile.network.as_ref()?;
    let of_host = network.hosts.iter().map(|host| host.ranks.len() as u32).max()?;
    let pair = network.pair(network.distance(), of_host)?;
    Some(pair.bytes_per_s? * profile.run.ranks.len() as f64)
}

fn frame(area: Area, (low, high): (f64, f64), slopes: &[Slope], intensities: impl Iterator<Item = f64>) -> Frame {
    let slowest = slopes.iter().map(|slope| slope.value).fold(f64::INFINITY, f64::min);
    let ridge = high / slowest;
    let (left, right) = intensities.fold((ridge / 100.0, ridge * 8.0), |(a, b), x| (x.min(a), x.max(b)));
    Frame {
        area,
        x: LogScale::new(left / 1.8, right * 1.8, area.left, area.right),
        y: LogScale::new(low.min(high / 100.0) / 2.0, high * 2.0, area.bottom, area.top),
    }
}

fn panel(
    frame: &Frame,
    (spots, calls_alone): (&[Spot<'_>], &[&Communication]),
    intensity: Intensity,
    slopes: &[Slope],
    ceilings: &[Ceiling],
) -> Group {
    let mut g = Group::new();
    let mut taken = Taken::new(frame.area);
    let place = |spot: &Spot<'_>| (frame.x.at(intensity(spot)), frame.y.at(spot.rate));
    for spot in spots {
        let (x, y) = place(spot);
        taken.take(Area::around(x, y, RADIUS));
    }
    // Without FLOPs they have no height: they stand on the axis.
    let on_axis = |n: usize| (frame.area.left + 14.0 + 20.0 * n as f64, frame.area.bottom - RADIUS);
    for n in 0..calls_alone.len() {
        let (x, y) = on_axis(n);
        taken.take(Area::around(x, y, RADIUS));
    }
    for (n, of) in calls_alone.iter().enumerate() {
        let (x, y) = on_axis(n);
        g.append(dot_of_calls(x, y, of));
        let label = format!("{}: no FLOPs, {} in MPI", name::shorten(&of.name, NAME_WIDTH), seconds(of.mpi_s));
        let chars = label.chars().count();
        let above = |row: u32| y - 12.0 - 15.0 * f64::from(row);
        let rows: Vec<Area> = (0..8).map(|row| Area::of_text(x - 4.0, above(row), chars, 12.0)).collect();
        if let Some(i) = taken.place(&rows) {
            g.append(page::text(x - 4.0, above(i as u32), "rf-name", &label));
        }
    }
    g.append(lines::draw_slopes(frame, slopes, ceilings, &mut taken));
    g.append(lines::draw_ceilings(frame, ceilings, slopes, &mut taken));
    for spot in spots {
        let (x, y) = place(spot);
        g.append(dot(x, y, spot));
        let label = name::shorten(&spot.of.name, NAME_WIDTH);
        let chars = label.chars().count();
        let width = text_width(chars, 12.0);
        let around =
            [(9.0, 4.0), (-9.0 - width, 4.0), (-width / 2.0, -10.0), (-width / 2.0, 20.0), (9.0, -10.0), (9.0, 18.0)];
        let areas: Vec<Area> = around.iter().map(|(dx, dy)| Area::of_text(x + dx, y + dy, chars, 12.0)).collect();
        if let Some(i) = taken.place(&areas) {
            g.append(page::text(x + around[i].0, y + around[i].1, "rf-name", &label));
        }
    }
    g
}

fn legend(classes: &[Class], y: f64) -> Group {
    let mut g = Group::new();
    let mut x = page::LEFT;
    for of_legend in palette::legend().flatten() {
        if !classes.contains(&of_legend) {
            continue;
        }
        let words = if of_legend == Class::Peak { "works more than it communicates" } else { of_legend.name() };
        g.append(
            Circle::new()
                .set("cx", page::round(x + 5.0))
                .set("cy", y - 4.0)
                .set("r", 5)
                .set("fill", palette::hex(Some(of_legend))),
        );
        g.append(page::text(x + 15.0, y, "rf-note", words));
        x += 34.0 + text_width(words.chars().count(), 12.0);
    }
    g
}
