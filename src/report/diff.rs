//! Two profiles side by side: which functions became slower or faster, by more than the error of the measurement.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::str::FromStr;

use comfy_table::{ContentArrangement, Table, presets};

use crate::profile::{Function, Profile};

use super::name::shorten;
use super::number::{percent, seconds};
use super::table::class;

/// A function in both profiles, or in one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Name.
    pub name: String,
    /// Module file name.
    pub module: String,
    /// Elapsed seconds before and after; `None`: not in that profile.
    pub time_s: (Option<f64>, Option<f64>),
    /// Half width of the 95 % interval of after − before.
    pub ci95_s: f64,
    /// Class before and after.
    pub class: (String, String),
    /// Roof fraction before and after.
    pub roof_fraction: (Option<f64>, Option<f64>),
    /// FLOPs before and after.
    pub flops: (Option<f64>, Option<f64>),
    /// DRAM bytes before and after.
    pub dram: (Option<f64>, Option<f64>),
}

impl Change {
    /// after − before in seconds; a function that is not there takes none.
    pub fn seconds(&self) -> f64 {
        self.time_s.1.unwrap_or(0.0) - self.time_s.0.unwrap_or(0.0)
    }

    /// Whether the difference exceeds its interval.
    pub fn is_real(&self) -> bool {
        self.seconds().abs() > self.ci95_s
    }
}

/// All changes, the greatest difference first. Functions are the same if name and module are.
pub fn changes(old: &Profile, new: &Profile) -> Vec<Change> {
    let key = |f: &Function| (f.name.clone(), f.module.clone());
    let keys: BTreeSet<_> = old.functions.iter().chain(&new.functions).map(key).collect();
    let find = |p: &Profile, k: &(String, String)| p.functions.iter().find(|f| key(f) == *k).cloned();
    let mut changes: Vec<Change> = keys.iter().map(|k| change(k, find(old, k), find(new, k))).collect();
    changes.sort_by(|a, b| b.seconds().abs().total_cmp(&a.seconds().abs()));
    changes
}

fn change(key: &(String, String), old: Option<Function>, new: Option<Function>) -> Change {
    let both = |read: fn(&Function) -> Option<f64>| (old.as_ref().and_then(read), new.as_ref().and_then(read));
    let interval = both(|f| f.time_ci95_s);
    let name = |f: &Option<Function>| f.as_ref().map_or_else(|| "–".to_owned(), class);
    Change {
        name: key.0.clone(),
        module: key.1.clone(),
        time_s: both(|f| f.time_s),
        ci95_s: interval.0.unwrap_or(0.0).hypot(interval.1.unwrap_or(0.0)),
        class: (name(&old), name(&new)),
        roof_fraction: both(|f| f.analysis.roof_fraction),
        flops: both(|f| f.flops.map(|x| x.total as f64)),
        dram: both(|f| f.bytes.and_then(|b| b.dram).map(|b| b as f64)),
    }
}

/// The changes as a table; differences within their interval are counted, not listed.
pub fn text(changes: &[Change], width: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16);
    table.set_header(["function", "before", "after", "difference", "±", "held by", "at"]);
    let (real, same): (Vec<_>, Vec<_>) = changes.iter().partition(|c| c.is_real());
    let time = |t: Option<f64>| t.map_or_else(|| "–".to_owned(), seconds);
    for c in &real {
        let held = if c.class.0 == c.class.1 { c.class.0.clone() } else { format!("{} → {}", c.class.0, c.class.1) };
        let at = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), percent);
        table.add_row([
            shorten(&c.name, width / 3),
            time(c.time_s.0),
            time(c.time_s.1),
            format!("{}{}", if c.seconds() > 0.0 { "+" } else { "" }, seconds(c.seconds())),
            seconds(c.ci95_s),
            held,
            format!("{} → {}", at(c.roof_fraction.0), at(c.roof_fraction.1)),
        ]);
    }
    let mut text = String::new();
    if real.is_empty() {
        let _ = writeln!(text, "No function's time differs by more than its 95 % interval.");
    } else {
        table.to_string().lines().for_each(|line| text += &format!("{}\n", line.trim_end()));
    }
    let differ = if real.len() == 1 { "function differs" } else { "functions differ" };
    let _ = writeln!(text, "{} {differ}, {} do not by more than their interval.", real.len(), same.len());
    text
}

/// `FIELD>N%` or `FIELD<N%`: a function whose field grew (fell) by more than N percent, and beyond its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    field: Field,
    grows: bool,
    share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Time,
    RoofFraction,
    Flops,
    Dram,
}

const FIELDS: [(&str, Field); 4] = [
    ("time_s", Field::Time),
    ("roof_fraction", Field::RoofFraction),
    ("flops", Field::Flops),
    ("bytes.dram", Field::Dram),
];

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || format!("{text}: expected FIELD>N% or FIELD<N%, FIELD one of time_s, roof_fraction, flops, bytes.dram");
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let field = FIELDS.iter().find(|(name, _)| *name == text[..at].trim()).ok_or_else(form)?.1;
        let number = text[at + 1..].trim().strip_suffix('%').ok_or_else(form)?;
        let share = number.trim().parse::<f64>().map_err(|_| form())? / 100.0;
        Ok(Condition { field, grows: text.as_bytes()[at] == b'>', share })
    }
}

impl Condition {
    /// Whether it holds for `change`. A function that one profile lacks, or whose field was not measured, meets none but
    /// `time_s>`: time that was not there before.
    pub fn holds(&self, change: &Change) -> bool {
        let pair = match self.field {
            Field::Time if !change.is_real() => return false,
            Field::Time => change.time_s,
            Field::RoofFraction => change.roof_fraction,
            Field::Flops => change.flops,
            Field::Dram => change.dram,
        };
        match pair {
            (Some(old), Some(new)) if old > 0.0 => {
                let growth = new / old - 1.0;
                if self.grows { growth > self.share } else { growth < -self.share }
            }
            (None, Some(_)) => self.field == Field::Time && self.grows,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, time_s: f64, ci: f64) -> Function {
        Function { name: name.into(), time_s: Some(time_s), time_ci95_s: Some(ci), ..Function::default() }
    }

    fn pair(old: Function, new: Function) -> Change {
        change(&("f".into(), "m".into()), Some(old), Some(new))
    }

    #[test]
    fn noise_is_no_change() {
        let c = pair(function("f", 1.00, 0.03), function("f", 1.04, 0.04));
        assert!(!c.is_real() && (c.ci95_s - 0.05).abs() < 1e-12);
        assert!(!"time_s>1%".parse::<Condition>().unwrap().holds(&c));
    }

    #[test]
    fn conditions() {
        let slower = pair(function("f", 1.0, 0.01), function("f", 1.2, 0.01));
        let holds = |text: &str, c: &Change| text.parse::<Condition>().unwrap().holds(c);
        assert!(holds("time_s>15%", &slower) && !holds("time_s > 25 %", &slower) && !holds("time_s<5%", &slower));
        let faster = pair(function("f", 1.0, 0.01), function("f", 0.5, 0.01));
        assert!(holds("time_s<40%", &faster));
        assert!(!holds("flops>0%", &slower), "not measured is not a growth");
        let new = change(&("g".into(), "m".into()), None, Some(function("g", 0.3, 0.01)));
        assert!(holds("time_s>500%", &new));
        for wrong in ["time_s", "time>5%", "time_s>5", "time_s>x%"] {
            assert!(wrong.parse::<Condition>().unwrap_err().contains(wrong));
        }
    }
}
