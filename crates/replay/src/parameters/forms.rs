//! Latencies and ports of the forms.

use crate::form::{FORMS, Form, Kind};
use rprof_isa::operation::{Precision, Width};

use super::source::Source;

/// Bits of the integer ALU ports.
pub const INTEGER_PORTS: u32 = 0xff;
/// Bits of the vector ports.
pub const VECTOR_PORTS: u32 = 0xff00;
/// The dividers, which are no ports but are kept busy like ones.
pub const INTEGER_DIVIDER: u32 = 1 << 26;
pub const VECTOR_DIVIDER: u32 = 1 << 27;

/// Latencies are kept in sixteenths of a cycle: some are means of two.
pub const PER_CYCLE: u16 = 16;

/// Cost of an operation of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FormCost {
    /// Cycles × [`PER_CYCLE`] from issue to the result.
    pub latency: u16,
    /// Ports that can do it, one bit each.
    pub ports: u32,
    /// Cycles × [`PER_CYCLE`] for which it keeps the divider busy; 0 if it is pipelined.
    pub occupies: u16,
    /// Its index in [`Bypass`].
    pub bypass: u8,
}

/// Operations with results that reach some consumers sooner than others.
pub const BYPASSES: usize = 4;

/// `extra[producer][consumer]`: cycles × [`PER_CYCLE`] on top of the producer's latency. Index 0 is for everything that is not measured,
/// 1 for additions, 2 for multiplications, 3 for FMA.
pub type Bypass = [[i16; BYPASSES]; BYPASSES];

pub(super) fn ticks(cycles: f64) -> u16 {
    let ticks = cycles.clamp(0.0, 4000.0) * f64::from(PER_CYCLE);
    let whole = cycles.round() * f64::from(PER_CYCLE);
    // Measurements of whole cycles scatter.
    let near = (ticks - whole).abs() <= 0.15 * f64::from(PER_CYCLE);
    if near { whole as u16 } else { ticks as u16 }
}

/// Costs of all forms.
pub(super) fn forms(source: &Source) -> [FormCost; FORMS] {
    let mut costs = [FormCost::default(); FORMS];
    for (form, kind, width) in Form::all() {
        costs[form.0 as usize] = cost(source, kind, width);
    }
    costs
}

fn cost(source: &Source, kind: Kind, width: Width) -> FormCost {
    let (_, name, has_width, assumed_latency, assumed_rate) = Kind::ALL[kind as usize];
    let id = |what: &str| {
        let width = if width == Width::Scalar { "s" } else { width.name() };
        if has_width { format!("form.{name}.{width}.{what}") } else { format!("form.{name}.{what}") }
    };
    let is_used = has_width || width == Width::Scalar;
    let or = |what: &str, measured: Option<f64>, otherwise: f64| match is_used {
        true => source.or(&id(what), measured, otherwise),
        false => otherwise,
    };
    let latency = or("lat", source.cycles(&id("lat")).or_else(|| older_latency(source, kind, width)), assumed_latency);
    let rate = or("rate", source.rate(&id("rate")).or_else(|| older_rate(source, kind, width)), assumed_rate);
    let divides = matches!(
        kind,
        Kind::Div64
            | Kind::Div32
            | Kind::FDiv
            | Kind::FSqrt
            | Kind::FDivs
            | Kind::FSqrts
            | Kind::Special
            | Kind::Locked
    );
    let ports = ports(source, kind, width)
        .or_else(|| ports(source, like(kind), width).map(|mask| lowest(mask, rate)))
        .unwrap_or_else(|| match kind {
            Kind::FAdd => beside_fma(source, width, nested(kind, rate)),
            _ => nested(kind, rate),
        });
    let divider = if kind.is_vector() { VECTOR_DIVIDER } else { INTEGER_DIVIDER };
    let bypass = match kind {
        Kind::FAdd => 1,
        Kind::FMul => 2,
        Kind::FFma => 3,
        _ => 0,
    };
    FormCost {
        latency: ticks(latency),
        ports: if divides { divider } else { ports },
        occupies: if divides { ticks(1.0 / rate) } else { 0 },
        bypass,
    }
}

/// The measured ports of a form; a measurement at 256 bits also holds for narrower vectors.
fn ports(source: &Source, kind: Kind, width: Width) -> Option<u32> {
    let (_, name, has_width, _, _) = Kind::ALL[kind as usize];
    let at = |suffix: &str| source.count(&format!("form.{name}{suffix}.ports"));
    let found = match width {
        _ if !has_width => at(""),
        Width::W512 => at(".512"),
        Width::W256 => at(".256").or_else(|| at(".128")),
        _ => at(".256").or_else(|| at(".128")).or_else(|| at(".s")),
    };
    found.map(|mask| mask as u32 & (INTEGER_PORTS | VECTOR_PORTS)).filter(|&mask| mask != 0)
}

/// The form with measured ports that runs on the same ports as `kind` on most cores.
fn like(kind: Kind) -> Kind {
    match kind {
        Kind::VMul => Kind::FMul,
        Kind::VShift => Kind::FFma,
        Kind::Blend => Kind::VLogic,
        Kind::FMinmax | Kind::FRound => Kind::FAdd,
        Kind::CvtInt => Kind::Cvt,
        Kind::Fcomi | Kind::MovVecGpr => Kind::FMul,
        Kind::MovGprVec => Kind::Shuffle,
        Kind::Setcc | Kind::Adc => Kind::Cmov,
        Kind::ShiftCl => Kind::Shift,
        other => other,
    }
}

/// As many of the ports as the rate needs.
fn lowest(mask: u32, rate: f64) -> u32 {
    let mut kept = 0;
    for port in (0..32).filter(|port| mask >> port & 1 == 1).take((rate - 0.1).ceil().max(1.0) as usize) {
        kept |= 1 << port;
    }
    kept
}

/// As many ports as the rate needs, the same ones for all forms that need as many.
fn nested(kind: Kind, rate: f64) -> u32 {
    let ports = (rate - 0.1).ceil().clamp(1.0, 8.0) as u32;
    let first = if kind.is_vector() { 8 } else { 0 };
    ((1 << ports) - 1) << first
}

/// The ports of additions: moved away from those of FMA as far as both together run on more ports than either alone.
fn beside_fma(source: &Source, width: Width, ports: u32) -> u32 {
    let together = source.rate(&format!("dp.coissue.fma+add.{}", width.name()));
    let both = together.map_or(0, |rate| (rate - 0.1).ceil().clamp(0.0, 8.0) as u32);
    ports << both.saturating_sub(ports.count_ones())
}

fn older_latency(source: &Source, kind: Kind, width: Width) -> Option<f64> {
    let name = width.name();
    let after = |p: &str, op: &str| source.cycles(&format!("lat.{p}.{op}.after.{op}.{name}"));
    match kind {
        Kind::Add => source.cycles("lat.int.add"),
        Kind::Imul => source.cycles("lat.int.mul"),
        Kind::Div64 | Kind::Div32 => source.cycles("lat.int.div").map(|cycles| cycles - 2.0),
        Kind::FAdd => after("dp", "add"),
        Kind::FMul => after("dp", "mul"),
        Kind::FFma => after("dp", "fma"),
        Kind::FDiv => after("dp", "div"),
        Kind::FSqrt => after("dp", "sqrt"),
        Kind::FDivs => after("sp", "div"),
        Kind::FSqrts => after("sp", "sqrt"),
        Kind::Shuffle => source.cycles("lat.vector"),
        _ => None,
    }
}

fn older_rate(source: &Source, kind: Kind, width: Width) -> Option<f64> {
    let name = width.name();
    let flops = |precision: Precision, op: &str, per_lane: f64| {
        let rate = source.rate(&format!("{}.{op}.{name}", precision.name()))?;
        Some(rate / f64::from(width.lanes(precision)) / per_lane)
    };
    let lanes = |bits: f64| match width {
        Width::Scalar => None,
        Width::W128 => Some(128.0 / bits),
        Width::W256 => Some(256.0 / bits),
        Width::W512 => Some(512.0 / bits),
    };
    let integer = |op: &str, bits: f64| Some(source.rate(&format!("int.{op}.{name}"))? / lanes(bits)?);
    match kind {
        Kind::Add => source.rate("int.add.scalar"),
        Kind::Imul => source.rate("int.mul.scalar"),
        Kind::VAdd => integer("add", 32.0),
        Kind::VLogic => integer("logic", 64.0),
        Kind::FAdd => flops(Precision::Dp, "add", 1.0),
        Kind::FMul => flops(Precision::Dp, "mul", 1.0),
        Kind::FFma => flops(Precision::Dp, "fma", 2.0),
        Kind::FDiv => flops(Precision::Dp, "div", 1.0),
        Kind::FSqrt => flops(Precision::Dp, "sqrt", 1.0),
        Kind::FDivs => flops(Precision::Sp, "div", 1.0),
        Kind::FSqrts => flops(Precision::Sp, "sqrt", 1.0),
        _ => None,
    }
}

/// Extra latencies by `lat.dp.a.after.b.scalar` of two different operations. A chain that alternates between them measures only the sum of
/// both directions. The excess over both own latencies goes to the direction from the quicker operation to the slower one.
pub(super) fn bypass(source: &Source) -> Bypass {
    let names = ["", "add", "mul", "fma"];
    let mut extra = [[0; BYPASSES]; BYPASSES];
    let own = |n: usize| source.cycles(&format!("lat.dp.{0}.after.{0}.scalar", names[n]));
    for a in 1..BYPASSES {
        for b in a + 1..BYPASSES {
            let way =
                |to: usize, from: usize| source.cycles(&format!("lat.dp.{}.after.{}.scalar", names[to], names[from]));
            let (Some(there), Some(back), Some(own_a), Some(own_b)) = (way(b, a), way(a, b), own(a), own(b)) else {
                continue;
            };
            let more = (there + back - own_a - own_b).round();
            let ticks = (more * f64::from(PER_CYCLE)) as i16;
            let (from, to) = if own_a <= own_b { (a, b) } else { (b, a) };
            extra[from][to] = ticks.max(0);
        }
    }
    // Everything else waits as long as the slowest of those that were measured.
    for consumers in &mut extra[1..] {
        consumers[0] = consumers.iter().copied().max().unwrap_or(0);
    }
    extra
}
