//! The text report that a run prints: verdict, trust, the functions with most to save, what to do, a pointer to the rest. Fits 25
//! lines of 80 columns for a program without GPU work and regions.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use rprof_model::diagnosis::{self, Candidate, Diagnosis, Place};
use rprof_model::ranking::{self, Gain};
use rprof_profile::{Function, Profile};

use super::number::{percent, seconds};
use super::trust::{Level, Trust};
use super::{View, blas, devices, mpi, name, regions, summary, table, text, tried, verdict, words, wrap};

/// Rows of the table.
const ROWS: usize = 7;
/// Advice is given from this share of the elapsed time on.
const WORTHWHILE: f64 = 0.02;
/// Lines of the report at most, without GPUs and regions.
const LINES: usize = 24;
/// Functions that get a line of advice.
const ADVISED: usize = 3;
/// Lines that the advice on one function may take.
const ADVICE_LINES: usize = 2;
/// Ends of cut texts: the options that show it whole.
const CUT_DOUBT: &str = "… (--all)";
const CUT_ADVICE: &str = "… (--function)";
/// Lines about trials.
const TRIED_LINES: usize = 6;
/// Lines that the verdict may take.
const VERDICT_LINES: usize = 3;

/// The report.
pub fn report(profile: &Profile, view: &View) -> String {
    let width = view.width.clamp(60, 200);
    let found = diagnosis::of(profile);
    let mut out = format!("rprof: {}\n", name::shorten(&profile.run.command.join(" "), width - 7));
    out += &wrap::at_most(&ended(profile), width, 0, 1);
    if let Some(missing) = profile.run.warnings.iter().find(|warning| warning.code == "ranks-missing") {
        out += &wrap::at_most(&summary::sentence(&missing.text), width, 0, 2);
    }
    out += &wrap::at_most(&verdict::sentence_of(profile, found.as_ref()), width, 0, VERDICT_LINES);
    let all = if profile.run.warnings.is_empty() { "" } else { " (--all)" };
    let trust = Trust::of(profile);
    out += &wrap::at_most(&format!("{}{all}", trust.line()), width, 2, 2);
    let shown = view.kept(profile).count();
    if shown == 0 && !profile.functions.is_empty() {
        out += &format!("\nNone of the {} functions has a name that matches.\n", profile.functions.len());
    } else if shown > 0 {
        out.push('\n');
        let rest = more(view, width).lines().count() + 1;
        let room = LINES.saturating_sub(out.lines().count() + rest);
        out += &functions(profile, found.as_ref(), view, width, room);
    }
    let tried = tried::text(profile, width, TRIED_LINES);
    if !tried.is_empty() {
        out += &format!("\n{tried}");
    }
    if trust.level < Level::Good {
        let room = LINES.saturating_sub(out.lines().count() + more(view, width).lines().count() + 2);
        out += &doubts(profile, width, room);
    }
    out += &devices::text(profile, view, width);
    if let Some(sentence) = blas::sentence(profile) {
        out += &format!("\n{}", wrap::at_most(&sentence, width, 2, ADVICE_LINES));
    }
    out.extend(mpi::rows(profile, mpi::FEW).iter().map(|rows| regions::text(rows, width)));
    out.extend(regions::tables(profile).iter().map(|rows| regions::text(rows, width)));
    out.push('\n');
    out + &more(view, width)
}

/// Warnings in at most `room` lines, if the experiment is not to be trusted without them.
fn doubts(profile: &Profile, width: usize, room: usize) -> String {
    let mut out = String::new();
    for warning in &profile.run.warnings {
        let line = wrap::cut_at_sentence(&format!("! {}", summary::doubt(warning)), width, 2, ADVICE_LINES, CUT_DOUBT);
        if out.lines().count() + line.lines().count() <= room {
            out += &line;
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// How the program ended, if that was not well.
fn ended(profile: &Profile) -> String {
    match (profile.run.exit_status, profile.run.signal) {
        (_, Some(signal)) => format!("It was ended by signal {signal}."),
        (Some(status), _) if status != 0 => format!("It ended with exit status {status}."),
        _ => String::new(),
    }
}

/// The commands that show everything else.
pub fn more(view: &View, width: usize) -> String {
    let from = &view.source;
    wrap::hanging(&format!("More: rprof report {from} --function NAME, --all or --format html"), width, 2)
}

/// Table and advice in at most `room` lines.
fn functions(profile: &Profile, found: Option<&Diagnosis>, view: &View, width: usize, room: usize) -> String {
    if profile.functions.iter().any(|f| f.analysis.expected.is_some()) {
        return text::functions(profile, view, width) + &text::left_out(profile, view);
    }
    let mut ranked = ranking::by_gain(view.kept(profile));
    let busy: f64 = profile.functions.iter().map(busy_s).sum();
    ranked.sort_by_key(|gain| importance(busy_s(gain.function) / busy));
    let is_seen = |gain: &&Gain<'_>| busy_s(gain.function) > 0.0 || gain.saving.is_some();
    let sampled = ranked.iter().filter(is_seen).count();
    // Without any sample, the first of those that were counted.
    let most = if sampled > 0 { sampled.min(ROWS) } else { ROWS };
    let first = ranked.iter().filter(|gain| sampled == 0 || is_seen(gain)).take(most);
    let shown: &[Gain<'_>] = &first.copied().collect::<Vec<_>>();
    let mut out = rows(shown, busy, view, width);
    let rest = sampled.saturating_sub(shown.iter().filter(is_seen).count());
    let unsampled = ranked.len() - shown.len() - rest;
    let parts = [(rest, "more"), (unsampled, "without a sample")];
    let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if !parts.is_empty() {
        out += &format!(" … and {}\n", parts.join(", "));
    }
    if let Some(why) = table::faster("at", shown.iter().filter_map(|gain| gain.function.analysis.roof_fraction)) {
        out += &wrap::hanging(&format!(" {why}"), width, 1);
    }
    let unnamed = Some(profile).filter(|p| summary::nameless_share(p) >= summary::MOSTLY).and_then(names_missing);
    let mut advised = found.map(advice).unwrap_or_default().into_iter().take(ADVISED);
    let first = advised.next();
    let mut told = String::new();
    for line in counts_missing(profile).into_iter().chain(first).chain(unnamed).chain(advised) {
        let line = wrap::cut(&line, width, 2, ADVICE_LINES, CUT_ADVICE);
        if out.lines().count() + 1 + told.lines().count() + line.lines().count() <= room {
            told += &line;
        }
    }
    if told.is_empty() { out } else { format!("{out}\n{told}") }
}

/// CPU seconds in a function and, on its behalf, in the kernel.
fn busy_s(f: &Function) -> f64 {
    f.cpu_s.unwrap_or(0.0) + f.kernel_s.unwrap_or(0.0)
}

/// The group of the table by share of the CPU time: functions with next to no time never come before those with much.
fn importance(share: f64) -> u8 {
    match share {
        0.05.. => 0,
        0.01.. => 1,
        _ => 2,
    }
}

/// How functions without names get some.
fn names_missing(profile: &Profile) -> Option<String> {
    let module = summary::nameless_module(profile)?;
    let remedy = match module.starts_with('[') {
        true => {
            "let the compiler that made it at run time write a perf map or a jitdump, where it has a switch for that"
        }
        false => "install its debug package (-dbgsym, -debuginfo), or build it without stripping",
    };
    let module = name::shorten(module, 30);
    Some(format!("→ {module}: it has no symbols, so its functions have no names: {remedy}."))
}

/// How code that takes half of the time or more, and that no window counted, may get counts.
fn counts_missing(profile: &Profile) -> Option<String> {
    profile.run.passes.iter().find(|pass| pass.kind == "windows")?;
    let without = profile.functions.iter().filter(|f| f.instructions.is_none() && f.share.is_some());
    let share: f64 = without.clone().filter_map(|f| f.share).sum();
    let hottest = without.max_by(|a, b| a.share.unwrap_or(0.0).total_cmp(&b.share.unwrap_or(0.0)))?;
    let reason = hottest.source.get("instructions").and_then(|source| source.reason.as_deref());
    (share >= summary::MOSTLY).then(|| {
        let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
        let name = name::of(hottest, 30);
        let remedy = match profile.run.ranks.is_empty() {
            true => "`--passes both` counts more, in a second run, but no code that stays writable",
            false => "a second launch with `--passes counted` counts more, but no code that stays writable",
        };
        format!("→ {name}: it has no counts{reason}: {remedy}.")
    })
}

/// `→ triad: Write what is not read again past the caches …`: what the diagnosis advises, one line for each place.
fn advice(found: &Diagnosis) -> Vec<String> {
    let first = found.place.clone().zip(found.advice.clone());
    let worthwhile = |candidate: &&Candidate| candidate.saves_s.is_some_and(|s| s.most >= WORTHWHILE * found.of_s);
    let others = found.others.iter().filter(worthwhile).filter_map(|c| c.place.clone().zip(c.advice.clone()));
    let mut told: Vec<(Place, String)> = Vec::new();
    for (place, advice) in first.into_iter().chain(others) {
        if told.iter().all(|(known, _)| known.function != place.function) {
            told.push((place, advice));
        }
    }
    told.into_iter().map(|(place, advice)| format!("→ {}: {advice}", name::shorten(&place.function, 30))).collect()
}

/// One row for each function: its name, what the program would save, by what, and its place.
fn rows(shown: &[Gain<'_>], busy: f64, view: &View, width: usize) -> String {
    let titles = ["function", "saves", "by", "share", "held by", "at"];
    let cells: Vec<[String; 6]> = shown.iter().map(|gain| row(gain, busy)).collect();
    let widest =
        |i: usize| cells.iter().map(|row| row[i].chars().count()).chain([titles[i].chars().count()]).max().unwrap_or(0);
    let used: usize = (1..titles.len()).map(|i| widest(i) + 2).sum();
    let name_width = view.name_width(width.saturating_sub(used + 2).max(12));
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let cell = |i: usize, text: &str| match i {
        1 | 3 | 5 => Cell::new(text).set_alignment(CellAlignment::Right),
        _ => Cell::new(text),
    };
    table.set_header(titles.iter().enumerate().map(|(i, title)| cell(i, title)));
    for (gain, row) in shown.iter().zip(&cells) {
        let name = name::of(gain.function, name_width);
        table.add_row(row.iter().enumerate().map(|(i, text)| if i == 0 { Cell::new(&name) } else { cell(i, text) }));
    }
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn row(gain: &Gain<'_>, busy: f64) -> [String; 6] {
    let f = gain.function;
    let absent = || "–".to_owned();
    let most = if gain.is_limit() || !table::at_least(f).is_empty() { "≤ " } else { "" };
    let saves = match gain.saving {
        Some(_) => format!("{most}{}", seconds(gain.seconds())),
        None => absent(),
    };
    let by = gain.saving.map_or_else(absent, |saving| saving.remove.join("+"));
    let at = f.analysis.roof_fraction.map_or_else(absent, |at| format!("{}{}", table::at_least(f), percent(at)));
    let share = Some(busy_s(f) / busy).filter(|share| *share > 0.0);
    [f.name.clone(), saves, by, share.map_or_else(absent, percent), table::class(f), at]
}

/// The savings of `f` as short phrases, in their order: `755 ms by predictable branches`.
pub fn phrases(f: &Function) -> Vec<String> {
    let savings = table::savings(f).iter();
    savings.map(|s| format!("{} by {}", seconds(ranking::of_program(s)), words::removals(&s.remove))).collect()
}
