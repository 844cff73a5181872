//! Lines about changes that were tried in copies of the program.
//!
//! ```text
//! tried: denormal numbers flushed to zero in decay (x.c:8): 0.015 of its time (0.014–0.016), saves 1.20 s
//! tried, no gain: huge pages in decay
//! not tried: update (x.c:9): its copies end too early
//! ```

use rprof_profile::Profile;
use rprof_profile::trial::{Ratio, Trial, Trials};

use super::number::seconds;
use super::{name, wrap};

/// Characters of a name.
const NAME_WIDTH: usize = 30;

/// The lines, most important first.
pub fn lines(profile: &Profile) -> Vec<String> {
    let Some(trials) = &profile.trials else { return Vec::new() };
    let mut gains: Vec<&Trial> = trials.made.iter().filter(|trial| trial.gains()).collect();
    gains.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    let mut lines: Vec<String> = gains.into_iter().filter_map(gain).collect();
    lines.extend(no_gain(trials));
    lines.extend(undecided(trials));
    lines.extend(untried(trials));
    lines.extend(trials.reasons.first().map(|reason| format!("not tried: {reason}")));
    lines
}

/// The lines in at most `room` lines of text.
pub fn text(profile: &Profile, width: usize, room: usize) -> String {
    let mut out = String::new();
    for line in lines(profile) {
        let line = wrap::at_most(&line, width, 2, 2);
        if out.lines().count() + line.lines().count() <= room {
            out += &line;
        }
    }
    out
}

fn saved(trial: &Trial) -> f64 {
    trial.saves_s.map_or(0.0, |(least, most)| (least + most) / 2.0)
}

fn place(trial: &Trial) -> String {
    let at = match (&trial.file, trial.line) {
        (Some(file), Some(line)) => format!(" ({}:{line})", file.rsplit('/').next().unwrap_or(file)),
        _ => String::new(),
    };
    format!("{}{at}", name::shorten(&trial.function, NAME_WIDTH))
}

fn gain(trial: &Trial) -> Option<String> {
    let (change, ratio) = (trial.change?, trial.ratio?);
    let most = if change.keeps_meaning() { "" } else { "at most " };
    Some(format!(
        "tried: {change} in {}: {} of its time, saves {most}{} of CPU time",
        place(trial),
        shares(ratio),
        seconds(saved(trial))
    ))
}

/// `0.48 (0.46–0.50)`
fn shares(ratio: Ratio) -> String {
    let digits = if ratio.value < 0.1 { 3 } else { 2 };
    format!("{:.digits$} ({:.digits$}–{:.digits$})", ratio.value, ratio.least, ratio.most)
}

/// Groups trials by place: `huge pages, prefetch in f; huge pages in g`.
fn grouped(trials: &[&Trial]) -> String {
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    for trial in trials {
        let (at, change) = (place(trial), trial.change.map_or(String::new(), |change| change.to_string()));
        match places.iter_mut().find(|(known, _)| *known == at) {
            Some((_, changes)) => changes.push(change),
            None => places.push((at, vec![change])),
        }
    }
    let of_place = |(at, changes): (String, Vec<String>)| format!("{} in {at}", changes.join(", "));
    places.into_iter().map(of_place).collect::<Vec<_>>().join("; ")
}

fn no_gain(trials: &Trials) -> Option<String> {
    let without: Vec<&Trial> = trials.made.iter().filter(|trial| trial.gains_nothing()).collect();
    (!without.is_empty()).then(|| format!("tried, no gain: {}", grouped(&without)))
}

fn undecided(trials: &Trials) -> Option<String> {
    let is_open = |t: &&Trial| t.change.is_some() && t.ratio.is_some() && !t.gains() && !t.gains_nothing();
    let open: Vec<&Trial> = trials.made.iter().filter(is_open).collect();
    (!open.is_empty()).then(|| format!("tried, undecided (the times of copies differ too much): {}", grouped(&open)))
}

fn untried(trials: &Trials) -> Option<String> {
    let first = trials.made.iter().find(|trial| trial.ratio.is_none())?;
    let change = first.change.map_or(String::new(), |change| format!("{change} in "));
    Some(format!("not tried: {change}{}: {}", place(first), first.reason.as_deref().unwrap_or("no time was measured")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::trial::Change;

    fn trial(change: Change, value: f64) -> Trial {
        Trial {
            function: "decay".into(),
            module: "x".into(),
            file: Some("/a/x.c".into()),
            line: Some(8),
            change: Some(change),
            share: 0.9,
            ratio: Some(Ratio { value, least: 0.98 * value, most: 1.02 * value }),
            unchanged: None,
            pairs: vec![(1.0, value); 5],
            saves_s: Some((1.0 - value, 1.0 - value)),
            reason: None,
        }
    }

    #[test]
    fn trials_are_told_by_their_outcome() {
        let untried = Trial { ratio: None, reason: Some("its copies end".into()), ..trial(Change::HugePages, 1.0) };
        let made = vec![trial(Change::HugePages, 1.0), trial(Change::FlushDenormals, 0.015), untried];
        let trials = Some(Trials { made, ..Trials::default() });
        let lines = lines(&Profile { trials, ..Profile::default() });
        assert!(lines[0].starts_with("tried: denormal numbers flushed to zero in decay (x.c:8): 0.015"), "{lines:?}");
        assert_eq!(lines[1], "tried, no gain: huge pages in decay (x.c:8)");
        assert_eq!(lines[2], "not tried: huge pages in decay (x.c:8): its copies end");
        assert!(super::lines(&Profile::default()).is_empty());
    }
}
