//! Flame graphs, drawn by `inferno`: CPU time by class with a legend in seconds, the time lost below the bound, two profiles compared.
//!
//! ```text
//! by class   a frame is as wide as the CPU time of its stacks; each function has the colour of its class
//! lost       a stack counts with CPU time × (1 − roof fraction of its function)
//! compared   as wide as in the later profile, from `main` on; red where it takes longer than before, blue where less
//! ```

mod ground;
mod legend;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};

use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile, names};

use super::error::ReportError;
use super::name::{self, printable};
use super::number::{percent, seconds};
use super::{palette, stacks};
use crate::words;

/// The meaning of the widths of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flames {
    /// CPU time.
    #[default]
    Time,
    /// CPU time above the bound.
    Lost,
}

/// Percent of the whole below which frames are left out, as more room is needed.
const LEAST: [f64; 6] = [0.01, 0.05, 0.2, 0.5, 1.0, 2.0];

/// The flame graph as SVG.
///
/// # Errors
/// [`ReportError::Render`] if `inferno` refuses the stacks.
pub fn svg(profile: &Profile, flames: Flames) -> Result<String, ReportError> {
    sized(profile, &stacks::work(profile), flames, 0.01, usize::MAX)
}

/// The same in at most `most` bytes if that is possible: small frames are left out, and the subtitle says so. Names have at most
/// `width` characters.
///
/// # Errors
/// As [`svg`].
pub fn within(profile: &Profile, most: usize, width: usize) -> Result<String, ReportError> {
    let mut last = String::new();
    let work = stacks::work(profile);
    for least in LEAST {
        last = sized(profile, &work, Flames::Time, least, width)?;
        if last.len() <= most {
            break;
        }
    }
    Ok(last)
}

/// CPU seconds of stacks by their names.
type Work = BTreeMap<Vec<String>, f64>;

fn sized(profile: &Profile, work: &Work, flames: Flames, least: f64, width: usize) -> Result<String, ReportError> {
    let by_name: BTreeMap<String, &Function> =
        profile.functions.iter().rev().map(|f| (stacks::plain(&f.name), f)).collect();
    let all_s: f64 = work.values().sum();
    let (mut kept_s, mut unbound_s) = (0.0, 0.0);
    let mut classes: BTreeMap<Option<Class>, f64> = BTreeMap::new();
    let mut lines = Vec::new();
    let shortened = short_names(work.keys().flatten(), width);
    for (names, own) in work {
        let f = names.last().and_then(|leaf| by_name.get(leaf));
        let part = match flames {
            Flames::Time => 1.0,
            Flames::Lost => match f.and_then(|f| f.analysis.roof_fraction) {
                Some(at) => (1.0 - at).max(0.0),
                None => {
                    unbound_s += own;
                    continue;
                }
            },
        };
        let s = own * part;
        kept_s += s;
        *classes.entry(f.and_then(|f| f.analysis.class)).or_default() += s;
        let micros = (s * 1e6).round() as u64;
        if micros > 0 {
            let mut line = String::new();
            for name in names {
                line += if line.is_empty() { "" } else { ";" };
                line += &shortened[name.as_str()];
            }
            lines.push(format!("{line} {micros}"));
        }
    }
    if lines.is_empty() {
        return Ok(empty(if all_s > 0.0 { "No time lost: no function runs below its bound." } else { NO_SAMPLES }));
    }
    lines.sort_unstable();
    let command = printable(&profile.run.command.join(" "));
    let left_out = if least > 0.01 { format!("; frames below {least} % are left out") } else { String::new() };
    let (title, subtitle) = match flames {
        Flames::Time => (
            format!("CPU time of {command}"),
            format!("coloured by what holds each function; {} in all{left_out}", seconds(all_s)),
        ),
        Flames::Lost => {
            let unbound = if unbound_s > 0.0 {
                format!("; {} in functions without a bound are left out", seconds(unbound_s))
            } else {
                String::new()
            };
            (
                format!("Time lost below the bound, {command}"),
                format!("{} of {}{unbound}{left_out}", seconds(kept_s), seconds(all_s)),
            )
        }
    };
    let mut palette = palette_map(profile, &by_name, &shortened);
    let mut options = options(&title, &subtitle, least);
    options.palette_map = Some(&mut palette);
    Ok(legend::below(&drawn(&mut options, &lines)?, &of_classes(classes, kept_s)))
}

/// Two profiles: frames as wide as in `new`, coloured by the difference.
///
/// # Errors
/// [`ReportError::Render`] if `inferno` refuses the stacks.
pub fn difference(old: &Profile, new: &Profile) -> Result<String, ReportError> {
    compared(old, new, 0.01, usize::MAX)
}

/// The same in at most `most` bytes if that is possible, names in at most `width` characters.
///
/// # Errors
/// As [`difference`].
pub fn difference_within(old: &Profile, new: &Profile, most: usize, width: usize) -> Result<String, ReportError> {
    let mut last = String::new();
    for least in LEAST {
        last = compared(old, new, least, width)?;
        if last.len() <= most {
            break;
        }
    }
    Ok(last)
}

fn compared(old: &Profile, new: &Profile, least: f64, width: usize) -> Result<String, ReportError> {
    let (before, after) = (stacks::work(old), stacks::work(new));
    let (old_s, new_s): (f64, f64) = (before.values().sum(), after.values().sum());
    if old_s <= 0.0 || new_s <= 0.0 {
        return Ok(empty("Nothing to compare: one of the profiles has no samples."));
    }
    let mut both: BTreeMap<&[String], (f64, f64)> = BTreeMap::new();
    before.iter().for_each(|(names, s)| both.entry(stacks::from_main(names)).or_default().0 += *s);
    after.iter().for_each(|(names, s)| both.entry(stacks::from_main(names)).or_default().1 += *s);
    let micros = |s: f64| (s * 1e6).round() as u64;
    let short = short_names(both.keys().copied().flatten(), width);
    let shown = |names: &[String]| names.iter().map(|n| short[n.as_str()].as_str()).collect::<Vec<_>>().join(";");
    let mut lines: Vec<String> = both
        .iter()
        .map(|(names, (before, after))| format!("{} {} {}", shown(names), micros(*before), micros(*after)))
        .collect();
    // Shortened names may order otherwise.
    lines.sort_unstable();
    let title = format!("CPU time of {}, compared", printable(&new.run.command.join(" ")));
    let left_out = if least > 0.01 { format!("; frames below {least} % are left out") } else { String::new() };
    let subtitle = format!("{} before, {} now; as wide as now{left_out}", seconds(old_s), seconds(new_s));
    let picture = drawn(&mut options(&title, &subtitle, least), &lines)?;
    Ok(legend::below(&picture, &of_differences(both.values())))
}

/// The legend of a comparison's colours: the seconds that stacks took longer and shorter than before, and the difference that has the
/// full colour.
fn of_differences<'a>(stacks: impl Iterator<Item = &'a (f64, f64)>) -> Vec<legend::Entry> {
    let (mut longer, mut shorter, mut greatest) = (0.0, 0.0, 0.0f64);
    for (before, after) in stacks {
        let by = after - before;
        if by > 0.0 {
            longer += by
        } else {
            shorter -= by
        }
        greatest = greatest.max(by.abs());
    }
    let entry = |color, text: String| legend::Entry { color, text };
    vec![
        entry((255, 100, 100), format!("longer than before: +{} in all", seconds(longer))),
        entry((100, 100, 255), format!("shorter: -{} in all", seconds(shorter))),
        entry((250, 250, 250), "no difference in the frame itself".into()),
        entry((255, 175, 175), format!("paler: a smaller difference; full colour: {}", seconds(greatest))),
    ]
}

/// The names of `frames` as the picture has them: different names stay different.
fn short_names<'a>(frames: impl Iterator<Item = &'a String>, width: usize) -> HashMap<&'a str, String> {
    let all: BTreeSet<&str> = frames.map(String::as_str).collect();
    let all: Vec<&str> = all.into_iter().collect();
    let short = |(name, difference): (&&str, Option<names::Difference>)| match difference {
        Some(difference) => name::printable(&difference.shorten(name, width)),
        None => name::shorten(name, width),
    };
    all.iter().zip(names::differences(&all)).map(|pair| (*pair.0, frame_name(short(pair)))).collect()
}

/// `name` as a frame of inferno's, which takes a number after a space at the end for a weight: that space does not break.
fn frame_name(name: String) -> String {
    match name.rsplit_once(' ') {
        Some((before, last)) if last.parse::<f64>().is_ok() => format!("{before}\u{a0}{last}"),
        _ => name,
    }
}

fn options(title: &str, subtitle: &str, least: f64) -> Options<'static> {
    let mut options = Options::default();
    options.title = name::shorten(title, 120);
    options.subtitle = Some(subtitle.to_owned());
    options.count_name = "µs".into();
    options.name_type = "".into();
    options.font_size = 12;
    options.deterministic = true;
    options.min_width = least;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.bgcolors = Some(BackgroundColor::Flat(Color { r: 250, g: 250, b: 250 }));
    options
}

fn drawn(options: &mut Options<'_>, lines: &[String]) -> Result<String, ReportError> {
    let failed = |problem: String| ReportError::Render { what: "flame graph", problem };
    let mut out = Vec::new();
    flamegraph::from_lines(options, lines.iter().map(String::as_str), &mut out).map_err(|e| failed(e.to_string()))?;
    Ok(ground::of_reader(&String::from_utf8(out).map_err(|e| failed(e.to_string()))?))
}

/// Colour by function name; frames that are no hot function are light grey.
fn palette_map(profile: &Profile, by_name: &BTreeMap<String, &Function>, shown: &HashMap<&str, String>) -> PaletteMap {
    let mut map = PaletteMap::default();
    // inferno knows the root by the empty name, and shows it as `all`.
    map.insert("", Color { r: 200, g: 203, b: 208 });
    for frame in 0..profile.frames.len() as u32 {
        let name = stacks::name(profile, frame);
        let Some(shown) = shown.get(name.as_str()) else { continue };
        let (r, g, b) = match by_name.get(&name) {
            Some(f) => lighter(palette::rgb(f.analysis.class)),
            None => (216, 218, 222),
        };
        map.insert(shown, Color { r, g, b });
    }
    map
}

/// Black text must stay readable on it.
fn lighter((r, g, b): (u8, u8, u8)) -> (u8, u8, u8) {
    let mix = |c: u8| c + (f32::from(255 - c) * 0.4) as u8;
    (mix(r), mix(g), mix(b))
}

/// Each class with its seconds, largest first.
fn of_classes(classes: BTreeMap<Option<Class>, f64>, all_s: f64) -> Vec<legend::Entry> {
    let mut classes: Vec<(Option<Class>, f64)> = classes.into_iter().filter(|(_, s)| *s > 0.0).collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let entry = |(class, s): (Option<Class>, f64)| legend::Entry {
        color: lighter(palette::rgb(class)),
        text: format!("{} {} ({})", words::name_of(class), seconds(s), percent(s / all_s)),
    };
    classes.into_iter().map(entry).collect()
}

const NO_SAMPLES: &str = "No samples: too little to draw a flame graph.";

fn empty(why: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 600 60\"><text x=\"20\" y=\"35\" \
         font-family=\"sans-serif\" font-size=\"14\" fill=\"#777\">{why}</text></svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn texts(svg: &str) -> Vec<&str> {
        let legend = svg.split("id=\"legend\"").nth(1).unwrap().split("</g>").next().unwrap();
        legend
            .split("</text>")
            .filter_map(|text| text.rsplit_once('>'))
            .map(|(_, text)| text)
            .filter(|t| !t.is_empty())
            .collect()
    }

    #[test]
    fn the_legend_has_each_class_with_its_seconds() {
        let profile = sample::profile();
        let svg = svg(&profile, Flames::Time).unwrap();
        let all = texts(&svg);
        assert!(all.len() > 4 && all.iter().all(|text| text.contains(" %)")), "{all:?}");
        let work: f64 = profile.samples.iter().filter(|s| !s.waiting).map(|s| s.weight_s).sum();
        assert!(svg.contains(&format!("; {} in all", seconds(work))));
        let height = legend::height(&svg).unwrap();
        let lowest =
            svg.split("id=\"legend\"").nth(1).unwrap().rsplit(" y=\"").next().unwrap().split('"').next().unwrap();
        assert!(lowest.parse::<f64>().unwrap() < height, "the legend is inside the picture");
    }

    #[test]
    fn its_ground_is_the_readers() {
        let profile = sample::profile();
        for picture in [svg(&profile, Flames::Time).unwrap(), difference(&profile, &profile).unwrap()] {
            let style = picture.split("<style").nth(1).unwrap().split("</style>").next().unwrap();
            assert!(
                style.contains("prefers-color-scheme: dark") && style.contains(":root[data-theme=dark]"),
                "{style}"
            );
            // All that fills the ground follows the style, the legend's included.
            let grounds = picture.split('<').filter(|tag| tag.starts_with("rect") && tag.contains("width=\"100%\""));
            let followed = |tag: &str| tag.contains("url(#background)") || tag.contains("class=\"ground\"");
            assert!(grounds.clone().count() == 2 && grounds.clone().all(followed), "{:?}", grounds.collect::<Vec<_>>());
        }
    }

    #[test]
    fn lost_time_leaves_out_what_is_at_its_bound_and_says_what_has_none() {
        let profile = sample::profile();
        let svg = svg(&profile, Flames::Lost).unwrap();
        assert!(svg.contains("without a bound are left out") && svg.contains("branchy"));
        let share = |name: &str| -> f64 {
            let title =
                svg.split(&format!("<title>{name} (")).nth(1).map_or("0%", |rest| rest.split(')').next().unwrap());
            title.rsplit(' ').next().unwrap().trim_end_matches('%').parse().unwrap()
        };
        assert!(share("branchy") > 50.0 && share("dot_reduce") < 2.0, "what is at its bound lost nothing");
        assert!(texts(&svg)[0].starts_with("unknown "), "{:?}", texts(&svg));
    }

    #[test]
    fn a_difference_needs_both_profiles() {
        let old = sample::profile();
        let mut new = old.clone();
        new.samples.iter_mut().for_each(|s| s.weight_s *= 2.0);
        let both = difference(&old, &new).unwrap();
        let work: f64 = old.samples.iter().filter(|s| !s.waiting).map(|s| s.weight_s).sum();
        assert_eq!(texts(&both)[0], format!("longer than before: +{} in all", seconds(work)));
        assert_eq!(texts(&both)[1], "shorter: -0 s in all");
        assert!(
            both.contains("triad") && both.contains(&format!("{} before, {} now", seconds(work), seconds(2.0 * work)))
        );
        let back = difference(&new, &old).unwrap();
        assert_eq!(texts(&back)[1], format!("shorter: -{} in all", seconds(work)));
        let small = difference_within(&old, &new, 1000, 40).unwrap();
        assert!(small.contains("frames below 2 % are left out") && small.len() < both.len());
        new.samples.clear();
        assert!(difference(&old, &new).unwrap().contains("Nothing to compare"));
    }

    #[test]
    fn stacks_that_were_followed_to_different_roots_are_compared_from_main() {
        let work = |root: &[&str], s: f64| {
            let names: Vec<String> = root.iter().chain(&["main", "f 2"]).map(|name| (*name).to_owned()).collect();
            (names, s)
        };
        let (old, new) = (work(&["_start", "__libc_start_main"], 1.0), work(&["__libc_start_call_main"], 0.25));
        assert_eq!(stacks::from_main(&old.0), stacks::from_main(&new.0));
        assert_eq!(stacks::from_main(&old.0[..2]), &old.0[..2], "without main nothing is cut");
        assert_eq!(frame_name(old.0[3].clone()), "f\u{a0}2");
        assert_eq!(frame_name("operator new".into()), "operator new");
    }

    #[test]
    fn a_small_picture_says_what_it_leaves_out() {
        let profile = sample::profile();
        let small = within(&profile, 1000, 40).unwrap();
        assert!(
            small.contains("frames below 2 % are left out") && small.len() < svg(&profile, Flames::Time).unwrap().len()
        );
    }
}
