//! One ceiling of the host (docs/ceilings.md).

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// Suffix of the ids of ceilings on pages of 4 KiB; ids without it are of huge pages.
pub const ON_SMALL_PAGES: &str = ".4k";

/// The name of a ceiling, for instance `dp.fma`, `l2.triad`, `lat.dram` (the list is in `machine/mod.rs`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CeilingId(String);

impl fmt::Display for CeilingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Deref for CeilingId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for CeilingId {
    fn from(id: &str) -> Self {
        CeilingId(id.into())
    }
}

impl From<String> for CeilingId {
    fn from(id: String) -> Self {
        CeilingId(id)
    }
}

impl PartialEq<str> for CeilingId {
    fn eq(&self, id: &str) -> bool {
        self.0 == id
    }
}

impl PartialEq<&str> for CeilingId {
    fn eq(&self, id: &&str) -> bool {
        self.0 == *id
    }
}

/// How far a ceiling can be trusted (docs/ceilings.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// Another measurement finds it within its interval.
    Reproduced,
    /// Its rounds differ too much, or it contradicts another ceiling, or the machine has changed since.
    Noisy,
    /// There is no value.
    Missing(Missing),
}

/// Why a ceiling has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// It did not fit the time: a later run measures it.
    Time,
    /// A quick measurement leaves it out.
    Effort,
    /// This host has no such thing, or not the memory for it.
    Host,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Kernels were timed.
    Measured,
    /// It was computed from other ceilings.
    Derived,
}

/// One ceiling at one thread count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Recorded", into = "Recorded")]
pub struct Ceiling {
    /// Its name.
    pub id: CeilingId,
    /// Value in `unit` for all `threads` together (latencies: one access); `None` if `quality` is missing.
    pub value: Option<f64>,
    /// `flop/s op/s instr/s access/s byte/s s`; `op` for counts such as `overlap.window`.
    pub unit: String,
    /// Threads it was measured with.
    pub threads: u32,
    /// Core clock while it ran, in hertz.
    pub clock_hz: Option<f64>,
    /// The core's clock about 50 µs later, if it differs by then: wide vectors lower the clock of many CPUs, and some of these
    /// raise it again that soon. A probe between two stretches of such work sees this value.
    pub idle_clock_hz: Option<f64>,
    /// The relative interval: distance of the median and of the best round from the value, at least the minimum for ceilings of its kind.
    pub spread: Option<f64>,
    /// How far it can be trusted.
    pub quality: Quality,
    /// Where the value comes from.
    pub how: How,
    /// For people: why there is no value, how it was derived, or the evidence against it.
    pub reason: Option<String>,
    /// Device: `cpu`, later others.
    pub device: String,
}

impl Ceiling {
    /// A measured one without a value yet.
    pub fn blank(id: impl Into<CeilingId>, unit: &str, threads: u32) -> Self {
        Ceiling {
            id: id.into(),
            value: None,
            unit: unit.into(),
            threads,
            clock_hz: None,
            idle_clock_hz: None,
            spread: None,
            quality: Quality::Missing(Missing::Host),
            how: How::Measured,
            reason: None,
            device: "cpu".into(),
        }
    }

    /// A measured one that was reproduced.
    pub fn reproduced(id: &str, value: f64, unit: &str, threads: u32) -> Self {
        Ceiling { value: Some(value), quality: Quality::Reproduced, ..Ceiling::blank(id, unit, threads) }
    }

    /// The same, but not to be relied on, since `reason`.
    pub fn noisy(self, reason: impl Into<String>) -> Self {
        Ceiling { quality: Quality::Noisy, reason: Some(reason.into()), ..self }
    }

    /// Whether another measurement would find its value within its interval.
    pub fn is_reproduced(&self) -> bool {
        self.quality == Quality::Reproduced
    }

    /// Clock while running divided by the reference clock: below 1 only if wide vectors reduce the frequency.
    pub fn license_ratio(&self) -> f64 {
        self.clock_hz
            .zip(self.reference_clock_hz())
            .filter(|(_, looked)| *looked > 0.0)
            .map_or(1.0, |(own, looked)| own / looked)
    }

    /// The clock that a probe sees between two stretches of such work.
    pub fn reference_clock_hz(&self) -> Option<f64> {
        self.idle_clock_hz.or(self.clock_hz)
    }

    /// Whether it is ceiling `id` at `threads`.
    pub fn is(&self, id: &str, threads: u32) -> bool {
        self.id == id && self.threads == threads
    }

    /// Whether `other` is a value of the same ceiling at the same thread count.
    pub fn is_same(&self, other: &Ceiling) -> bool {
        self.id == other.id && self.threads == other.threads
    }

    /// By how much `other` is better, relative to this one: a rate that is higher, a time that is shorter; 0 if one has no value.
    pub fn gain(&self, other: &Ceiling) -> f64 {
        match (self.value, other.value) {
            (Some(own), Some(new)) if own > 0.0 && new > 0.0 && self.unit == "s" => own / new - 1.0,
            (Some(own), Some(new)) if own > 0.0 && new > 0.0 => new / own - 1.0,
            _ => 0.0,
        }
    }
}

/// A ceiling as `profile.json` has it.
#[derive(Clone, Serialize, Deserialize)]
struct Recorded {
    id: CeilingId,
    value: Option<f64>,
    unit: String,
    threads: u32,
    clock_hz: Option<f64>,
    /// `resting_hz` in older files.
    #[serde(default, alias = "resting_hz", skip_serializing_if = "Option::is_none")]
    idle_clock_hz: Option<f64>,
    spread: Option<f64>,
    /// Whether it is reproduced; files of schema 1 have this field alone.
    settled: bool,
    #[serde(default)]
    quality: Option<Quality>,
    how: How,
    reason: Option<String>,
    #[serde(default = "cpu")]
    device: String,
}

fn cpu() -> String {
    "cpu".into()
}

impl From<Recorded> for Ceiling {
    fn from(of: Recorded) -> Self {
        let of_schema_1 = match (of.value, of.settled) {
            (None, _) => Quality::Missing(Missing::Host),
            (Some(_), true) => Quality::Reproduced,
            (Some(_), false) => Quality::Noisy,
        };
        let Recorded { id, value, unit, threads, clock_hz, idle_clock_hz, spread, how, reason, device, .. } = of;
        let quality = of.quality.unwrap_or(of_schema_1);
        Ceiling { id, value, unit, threads, clock_hz, idle_clock_hz, spread, quality, how, reason, device }
    }
}

impl From<Ceiling> for Recorded {
    fn from(of: Ceiling) -> Self {
        let settled = of.is_reproduced();
        let Ceiling { id, value, unit, threads, clock_hz, idle_clock_hz, spread, quality, how, reason, device } = of;
        let quality = Some(quality);
        Recorded { id, value, unit, threads, clock_hz, idle_clock_hz, spread, settled, quality, how, reason, device }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_schema_1_are_read_and_settled_still_means_reproduced() {
        let read = |value: &str, settled: bool| -> Ceiling {
            let text = format!(
                r#"{{"id":"dp.fma","value":{value},"unit":"flop/s","threads":1,"clock_hz":null,"spread":0.01,
                "settled":{settled},"how":"measured","reason":null}}"#
            );
            serde_json::from_str(&text).expect("a ceiling of schema 1")
        };
        let with_two_clocks = r#"{"id":"dp.fma.512","value":1.0,"unit":"flop/s","threads":1,"clock_hz":3e9,"resting_hz":3.5e9,"spread":0.01,
            "settled":true,"how":"measured","reason":null}"#;
        let older: Ceiling =
            serde_json::from_str(with_two_clocks).expect("a ceiling with its older name of the second clock");
        assert_eq!((older.idle_clock_hz, older.reference_clock_hz()), (Some(3.5e9), Some(3.5e9)));
        assert_eq!(read("1.0", true).quality, Quality::Reproduced);
        assert_eq!(read("1.0", false).quality, Quality::Noisy);
        assert_eq!(read("null", false).quality, Quality::Missing(Missing::Host));
        for (quality, told) in [
            (Quality::Noisy, serde_json::json!("noisy")),
            (Quality::Missing(Missing::Time), serde_json::json!({"missing": "time"})),
        ] {
            let ceiling = Ceiling { quality, ..read("1.0", true) };
            let json = serde_json::to_value(&ceiling).expect("JSON");
            assert_eq!((&json["settled"], &json["quality"]), (&false.into(), &told));
            assert_eq!(serde_json::from_value::<Ceiling>(json).expect("read again"), ceiling);
        }
    }
}
