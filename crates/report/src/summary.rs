//! The few lines about the run and the host above every table.

use rprof_profile::names;
use rprof_profile::run::{TOO_FEW_SAMPLES_CODE, Warning};
use rprof_profile::{Function, Profile};

use super::number::{percent, seconds, si};
use super::traffic;

/// One line about the run, one about its passes, one about the memory it touched, one about the machine.
pub fn lines(profile: &Profile) -> Vec<String> {
    [Some(outcome(profile)), passes(profile), memory(profile), Some(machine(profile))].into_iter().flatten().collect()
}

fn outcome(profile: &Profile) -> String {
    let run = &profile.run;
    let end = match (run.exit_status, run.signal) {
        (_, Some(signal)) => format!("ended by signal {signal}"),
        (Some(0), _) => "exit status 0".into(),
        (Some(status), _) => format!("exit status {status}"),
        (None, None) => "exit status not known".into(),
    };
    let threads = match run.threads.len() {
        0 => String::new(),
        1 => "1 thread, ".into(),
        n => format!("{n} threads, "),
    };
    let too_little = run.warnings.iter().find(|w| w.code == TOO_FEW_SAMPLES_CODE);
    let used = match run.parallelism {
        _ if too_little.is_some() => "CPUs used not known (too few samples), ".into(),
        Some(p) if p.allowed > 1 => format!("used {:.1} of {} CPUs, ", p.used, p.allowed),
        _ => String::new(),
    };
    let quality = match (too_little, nameless_share(profile), run.quality) {
        (Some(doubt), ..) => format!("; {}", doubt.text),
        (None, nameless, Some(_)) if nameless >= MOSTLY => {
            format!("; {} of the CPU time is in code without symbols, named module+0xoffset", percent(nameless))
        }
        (None, _, Some(q)) => {
            format!("; {} of the CPU time is in named functions with both time and counts", percent(q))
        }
        (None, _, None) => String::new(),
    };
    format!("run: {threads}{used}{end}{quality}")
}

/// The run line mentions code without symbols if it has at least this share of the CPU time.
pub const MOSTLY: f64 = 0.5;

/// Share of the CPU time in code that has no symbol.
pub fn nameless_share(profile: &Profile) -> f64 {
    nameless(profile).filter_map(|f| f.share).sum()
}

/// The module of the hottest code that has no symbol.
pub fn nameless_module(profile: &Profile) -> Option<&str> {
    let hottest = nameless(profile).max_by(|a, b| a.share.unwrap_or(0.0).total_cmp(&b.share.unwrap_or(0.0)))?;
    Some(&hottest.module)
}

fn nameless(profile: &Profile) -> impl Iterator<Item = &Function> {
    let is_nameless = |f: &&Function| names::offset(&f.name, &f.module).is_some();
    profile.functions.iter().filter(is_nameless)
}

fn passes(profile: &Profile) -> Option<String> {
    let told: Vec<String> = profile
        .run
        .passes
        .iter()
        .map(|p| {
            let rate = p.frequency_hz.map_or(String::new(), |hz| format!(" at {hz:.0} Hz"));
            let samples = p.samples.map_or(String::new(), |n| format!(", {n} samples{rate}"));
            let lost = p.lost.filter(|n| *n > 0).map_or(String::new(), |n| format!(" ({n} lost)"));
            let memory = p.memory.as_deref().map_or(String::new(), |m| format!(", memory {m}"));
            let uncounted = p
                .uncounted_share
                .filter(|u| *u >= 0.001)
                .map_or(String::new(), |u| format!(", {} not counted", percent(u)));
            let delay = p.delay_s.map_or(String::new(), |s| format!(", delayed it by {}", seconds(s)));
            format!("{} {} ({}{samples}{lost}{memory}{uncounted}{delay})", p.kind, seconds(p.wall_s), p.source)
        })
        .collect();
    (!told.is_empty()).then(|| format!("passes: {}", told.join(" · ")))
}

/// `memory: pages touched: at least 16,384 (64 MiB); placed in the cache model: pseudo-random, runs of 2 MiB together`
fn memory(profile: &Profile) -> Option<String> {
    let touched = profile.run.pages.map(|pages| format!("pages touched: {}", traffic::touched(pages)));
    let placement = profile.run.passes.iter().find_map(|pass| pass.page_placement.as_deref());
    let placed = placement.map(|words| format!("placed in the cache model: {words}"));
    let told: Vec<String> = touched.into_iter().chain(placed).collect();
    (!told.is_empty()).then(|| format!("memory: {}", told.join("; ")))
}

/// `machine: CPU, 2 cores · dp roof 278 GFLOP/s · DRAM read 51.0 GB/s`
pub fn machine(profile: &Profile) -> String {
    let m = &profile.machine;
    let top = |id: &str| {
        let highest = m.ceilings.iter().filter(|c| c.id == id && c.value.is_some()).max_by_key(|c| c.threads)?;
        Some((highest.value?, if highest.is_reproduced() { "" } else { " (noisy)" }))
    };
    let mut out = format!("machine: {}, {} core{}", m.cpu, m.cores, if m.cores == 1 { "" } else { "s" });
    for (id, what, unit) in
        [("dp.fma", "dp roof", "FLOP/s"), ("sp.fma", "sp roof", "FLOP/s"), ("dram.read", "DRAM read", "B/s")]
    {
        if let Some((value, doubt)) = top(id) {
            out += &format!(" · {what} {}{doubt}", si(value, unit));
        }
    }
    out
}

/// A warning as sentences: the fact and its effect; the remedy.
pub fn doubt(w: &Warning) -> String {
    format!("{}: {}. {}", w.text.trim_end_matches('.'), w.effect.trim_end_matches('.'), sentence(&w.hint))
        .trim_end()
        .to_owned()
}

/// `text` with a capital letter and a full stop.
pub fn sentence(text: &str) -> String {
    let mut chars = text.trim().trim_end_matches('.').chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).chain(['.']).collect::<String>())
}
