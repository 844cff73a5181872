//! Functions that communicate, as dots in both pictures of the communication-aware roofline.

use svg::node::element::{Circle, Line};

use super::page;
use crate::number::{percent, seconds, si};
use crate::{name, palette};
use rprof_profile::communication::Communication;
use rprof_profile::network::Distance;
use rprof_profile::vocabulary::Class;

/// A function in the picture. Rates are of all ranks together.
pub struct Spot<'p> {
    pub of: &'p Communication,
    pub oi: f64,
    pub cai: f64,
    /// FLOPs a second.
    pub rate: f64,
}

/// The limits of all ranks together.
pub struct Roofs {
    /// FLOPs a second.
    pub compute: f64,
    /// Bytes of memory a second.
    pub memory: f64,
    /// Bytes that ranks hand over a second, all at the same time.
    pub network: f64,
    /// What is between the ranks.
    pub between: Distance,
}

/// Of a dot.
pub const RADIUS: f64 = 6.0;
const NAME_WIDTH: usize = 500;

/// The dot of a function, with its figures.
pub fn dot(x: f64, y: f64, spot: &Spot<'_>) -> Circle {
    let mut dot = Circle::new()
        .set("cx", page::round(x))
        .set("cy", page::round(y))
        .set("r", RADIUS)
        .set("class", "rf-dot")
        .set("fill", palette::hex(Some(class(spot))));
    let of = spot.of;
    let name = name::shorten(&of.name, NAME_WIDTH);
    let mut text = format!("{name}\n{} of work, {} in MPI", seconds(of.work_s.unwrap_or(0.0)), seconds(of.mpi_s));
    if let Some(waiting) = of.waiting_s {
        text += &format!(", {} of it waiting", seconds(waiting));
    }
    text += &format!("\n{} · OI {:.3} · CAI {:.3} FLOP/byte", si(spot.rate, "FLOP/s"), spot.oi, spot.cai);
    if let Some(at) = of.roof_fraction {
        text += &format!("\nat {} of its bound", percent(at));
    }
    page::tooltip(&mut dot, &text);
    dot
}

/// The dot of a function that communicates and does no FLOP.
pub fn dot_of_calls(x: f64, y: f64, of: &Communication) -> Circle {
    let fill = palette::hex(Some(of.class.unwrap_or_default()));
    let dot = Circle::new().set("cx", page::round(x)).set("cy", page::round(y)).set("r", RADIUS);
    let mut dot = dot.set("class", "rf-dot").set("fill", fill);
    let waiting = of.waiting_s.map_or(String::new(), |waiting| format!(", {} of it waiting", seconds(waiting)));
    let name = name::shorten(&of.name, NAME_WIDTH);
    page::tooltip(&mut dot, &format!("{name}\nno FLOPs; {} in MPI{waiting}", seconds(of.mpi_s)));
    dot
}

/// Functions that work more than they communicate have the colour of work.
pub fn class(spot: &Spot<'_>) -> Class {
    spot.of.class.unwrap_or(Class::Peak)
}

/// A vertical line from a dot down to the axis or line below it.
pub fn stem(from: (f64, f64), to: (f64, f64)) -> Line {
    page::line(from, to, "rf-leader")
}
