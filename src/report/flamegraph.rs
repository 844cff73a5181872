//! Flame graphs, drawn by `inferno`: CPU time by class with a legend in seconds, the time lost below the bound, two profiles compared.
//!
//! ```text
//! by class   a frame is as wide as the CPU time of its stacks; each function has the colour of its class
//! lost       a stack counts with CPU time × (1 − roof fraction of its function)
//! compared   as wide as in the later profile; red where it takes longer than before, blue where less
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};

use crate::profile::{Function, Profile};

use super::error::ReportError;
use super::name::{self, printable};
use super::number::{percent, seconds};
use super::{palette, stacks};

/// What the widths of frames mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flames {
    /// CPU time.
    #[default]
    Time,
    /// CPU time above the bound.
    Lost,
}

/// Width of the legend.
const LEGEND_WIDTH: f64 = 1180.0;
/// Height of a row of the legend.
const ROW: f64 = 18.0;

/// The flame graph as SVG.
///
/// # Errors
/// [`ReportError::Render`] if `inferno` refuses the stacks.
pub fn svg(profile: &Profile, flames: Flames) -> Result<String, ReportError> {
    sized(profile, flames, 0.01, usize::MAX)
}

/// The same in at most `most` bytes where that is possible: small frames are left out, and the subtitle says so. Names have at most
/// `width` characters.
///
/// # Errors
/// As [`svg`].
pub fn within(profile: &Profile, most: usize, width: usize) -> Result<String, ReportError> {
    let mut last = String::new();
    // Percent of the whole below which a frame is left out.
    for least in [0.01, 0.05, 0.2, 0.5, 1.0, 2.0] {
        last = sized(profile, Flames::Time, least, width)?;
        if last.len() <= most {
            break;
        }
    }
    Ok(last)
}

fn sized(profile: &Profile, flames: Flames, least: f64, width: usize) -> Result<String, ReportError> {
    let by_name: BTreeMap<String, &Function> =
        profile.functions.iter().rev().map(|f| (stacks::plain(&f.name), f)).collect();
    let work = stacks::work(profile);
    let all_s: f64 = work.values().sum();
    let (mut kept_s, mut unbound_s) = (0.0, 0.0);
    let mut classes: BTreeMap<&str, f64> = BTreeMap::new();
    let mut lines = Vec::new();
    for (names, own) in &work {
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
        *classes.entry(f.and_then(|f| f.analysis.class.as_deref()).unwrap_or("not counted")).or_default() += s;
        let micros = (s * 1e6).round() as u64;
        if micros > 0 {
            let stack: Vec<String> = names.iter().map(|name| name::shorten(name, width)).collect();
            lines.push(format!("{} {micros}", stack.join(";")));
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
    let mut palette = palette_map(profile, &by_name, width);
    let mut options = options(&title, &subtitle, least);
    options.palette_map = Some(&mut palette);
    Ok(with_legend(&drawn(&mut options, &lines)?, classes, kept_s))
}

/// Two profiles: frames as wide as in `new`, coloured by the difference.
///
/// # Errors
/// [`ReportError::Render`] if `inferno` refuses the stacks.
pub fn difference(old: &Profile, new: &Profile) -> Result<String, ReportError> {
    let (before, after) = (stacks::work(old), stacks::work(new));
    let micros = |work: &BTreeMap<Vec<String>, f64>, names: &Vec<String>| {
        (work.get(names).copied().unwrap_or(0.0) * 1e6).round() as u64
    };
    let mut stacks: Vec<&Vec<String>> = before.keys().chain(after.keys()).collect();
    stacks.sort();
    stacks.dedup();
    let lines: Vec<String> = stacks
        .iter()
        .map(|names| format!("{} {} {}", names.join(";"), micros(&before, names), micros(&after, names)))
        .collect();
    let (old_s, new_s): (f64, f64) = (before.values().sum(), after.values().sum());
    if old_s <= 0.0 || new_s <= 0.0 {
        return Ok(empty("Nothing to compare: one of the profiles has no samples."));
    }
    let title = format!("CPU time of {}, compared", printable(&new.run.command.join(" ")));
    let subtitle = format!("{} before, {} now; red: longer than before, blue: shorter", seconds(old_s), seconds(new_s));
    drawn(&mut options(&title, &subtitle, 0.01), &lines)
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
    String::from_utf8(out).map_err(|e| failed(e.to_string()))
}

/// Colour by function name; frames that are no hot function are light grey.
fn palette_map(profile: &Profile, by_name: &BTreeMap<String, &Function>, width: usize) -> PaletteMap {
    let mut map = PaletteMap::default();
    // inferno knows the root by the empty name, and shows it as `all`.
    map.insert("", Color { r: 200, g: 203, b: 208 });
    for frame in 0..profile.frames.len() as u32 {
        let name = stacks::name(profile, frame);
        let (r, g, b) = match by_name.get(&name) {
            Some(f) => lighter(palette::rgb(f.analysis.class.as_deref())),
            None => (216, 218, 222),
        };
        map.insert(name::shorten(&name, width), Color { r, g, b });
    }
    map
}

/// Black text must stay readable on it.
fn lighter((r, g, b): (u8, u8, u8)) -> (u8, u8, u8) {
    let mix = |c: u8| c + (f32::from(255 - c) * 0.4) as u8;
    (mix(r), mix(g), mix(b))
}

/// The picture with a legend below it: each class with its seconds, largest first.
fn with_legend(svg: &str, classes: BTreeMap<&str, f64>, all_s: f64) -> String {
    let mut classes: Vec<(&str, f64)> = classes.into_iter().filter(|(_, s)| *s > 0.0).collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((root, height)) = root(svg) else { return svg.to_owned() };
    let (mut x, mut y) = (10.0, height + 14.0);
    let mut legend = String::from("<g id=\"legend\" font-family=\"monospace\" font-size=\"12\" fill=\"#333\">");
    for (class, s) in classes {
        let text = format!("{class} {} ({})", seconds(s), percent(s / all_s));
        let width = 24.0 + 7.4 * text.chars().count() as f64;
        if x + width > LEGEND_WIDTH {
            (x, y) = (10.0, y + ROW);
        }
        let (r, g, b) = lighter(palette::rgb(Some(class)));
        let _ = write!(
            legend,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"11\" height=\"11\" fill=\"rgb({r},{g},{b})\"/><text x=\"{:.0}\" y=\"{y:.0}\">{text}</text>",
            y - 10.0,
            x + 16.0
        );
        x += width;
    }
    legend += "</g>";
    let taller = y + 10.0;
    let grown = root.replacen(&format!(" height=\"{height}\""), &format!(" height=\"{taller}\""), 1).replacen(
        &format!(" {height}\""),
        &format!(" {taller}\""),
        1,
    );
    let ground = format!(
        "<rect x=\"0\" y=\"{height}\" width=\"100%\" height=\"{}\" fill=\"rgb(250,250,250)\"/>",
        taller - height
    );
    let body = svg.replacen(root, &grown, 1);
    match body.rfind("</svg>") {
        Some(end) => format!("{}{ground}{legend}{}", &body[..end], &body[end..]),
        None => body,
    }
}

/// The opening tag of the picture and its height.
fn root(svg: &str) -> Option<(&str, f64)> {
    let tag = &svg[svg.find("<svg")?..];
    let tag = &tag[..=tag.find('>')?];
    let height = tag.split(" height=\"").nth(1)?.split('"').next()?.parse().ok()?;
    Some((tag, height))
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
    use crate::report::tests::sample;

    fn legend(svg: &str) -> Vec<&str> {
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
        let all = legend(&svg);
        assert!(all.len() > 4 && all.iter().all(|text| text.contains(" %)")), "{all:?}");
        let work: f64 = profile.samples.iter().filter(|s| !s.waiting).map(|s| s.weight_s).sum();
        assert!(svg.contains(&format!("; {} in all", seconds(work))));
        let (_, height) = root(&svg).unwrap();
        let lowest =
            svg.split("id=\"legend\"").nth(1).unwrap().rsplit(" y=\"").next().unwrap().split('"').next().unwrap();
        assert!(lowest.parse::<f64>().unwrap() < height, "the legend is inside the picture");
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
        assert!(legend(&svg)[0].starts_with("unknown "), "{:?}", legend(&svg));
    }

    #[test]
    fn a_difference_needs_both_profiles() {
        let old = sample::profile();
        let mut new = old.clone();
        new.samples.iter_mut().for_each(|s| s.weight_s *= 2.0);
        let both = difference(&old, &new).unwrap();
        assert!(both.contains("red: longer than before") && both.contains("triad"));
        new.samples.clear();
        assert!(difference(&old, &new).unwrap().contains("Nothing to compare"));
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
