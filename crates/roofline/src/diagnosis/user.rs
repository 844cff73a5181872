//! Candidates of the time on a CPU in user mode: each hot function's best changes, and the families of library functions below the user's own.

use std::collections::BTreeMap;

use rprof_profile::account::{Account, Cause};
use rprof_profile::confidence::Level;
use rprof_profile::function::{Function, Saving};
use rprof_profile::vocabulary::Class;

use crate::account;
use crate::ranking::of_program;
use crate::terms::chain;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::family::Family;
use super::place::Place;
use super::program::Program;

/// Functions with a smaller share of the CPU time have no candidates of their own.
const HOT: f64 = 0.05;
/// Of a saving that the model gives, the part that a change gains at least, in most cases.
const GAINED: f64 = 0.8;
/// The part that it gains at most: such a change brings others with it.
const GAINED_MOST: f64 = 1.12;
/// A model that explains less of the time names no cause.
const HALF: f64 = 0.5;
/// With less, even what the model lacks says nothing.
const LEAST_EXPLAINED: f64 = 0.25;
/// Of what is spared by not calling a function: its caller still works.
const SPARED: f64 = 0.7;
/// The part of a cause in the model from which the time beyond the model may be its as well.
const MAIN_PART: f64 = 0.3;
/// The widest interval, as a share of the elapsed time; where the truth may lie further below, confidence falls.
const WIDEST: f64 = 0.29;
/// Time beyond the model, as a share, from which it has to be explained.
const BEYOND: f64 = 0.35;

/// All candidates.
pub fn candidates(program: &Program<'_>) -> Vec<Candidate> {
    let hot = |f: &&Function| f.cpu_s.unwrap_or(0.0) >= HOT * program.cpu_s;
    let mut all: Vec<Candidate> = Vec::new();
    for f in program.profile.functions.iter().filter(hot) {
        if !program.is_own(f) && Family::of(&f.name, &f.module).is_some() {
            continue;
        }
        all.extend(of_function(program, f));
    }
    all.extend(of_families(program));
    all
}

/// What holds one function, by each change that would help it.
fn of_function(program: &Program<'_>, f: &Function) -> Vec<Candidate> {
    let time = program.of_function(f.time_s.or(f.cpu_s).unwrap_or(0.0));
    let place = if program.is_own(f) { Place::of(f) } else { program.home(f) };
    let own = match f.analysis.class.as_deref().and_then(Class::of_name) {
        Some(own) if explained(f) >= HALF || own.is_of_system() => own,
        _ => Class::Unknown,
    };
    let level = f.analysis.confidence.as_ref().map_or(Level::Low, |confidence| confidence.level);
    let blank = |class, saves_s: Option<Interval>, words: Option<&str>, confidence, because| Candidate {
        class,
        place: Some(place.clone()),
        held_s: time,
        saves_s,
        advice: words.map(|words| advice::sentence(words, Some(&place))),
        confidence,
        because,
    };
    let share = figure("of the time is in", time / program.wall_s, &f.name);
    if let Some(because) = microcode(f) {
        let beyond = time * (1.0 - explained(f));
        let saves = Some(Interval::new(GAINED * beyond, beyond));
        let words = "Replace the string instruction (rep, repne) by a loop or a library function (strlen, memchr): it is microcode";
        return vec![blank(Class::Microcode, saves, Some(words), Level::Medium, vec![share, because])];
    }
    if let Some(because) = assists(program, f) {
        let beyond = time * (1.0 - explained(f));
        let saves = Some(Interval::new(GAINED * beyond, beyond));
        let words = "Flush denormal numbers to zero (-ffast-math at linking, _MM_SET_FLUSH_ZERO_MODE and _MM_SET_DENORMALS_ZERO_MODE)";
        return vec![blank(Class::Assists, saves, Some(words), Level::Medium, vec![share, because])];
    }
    let mut all: Vec<Candidate> = Vec::new();
    for saving in f.analysis.savings.iter().filter(|saving| is_of_time(saving)) {
        let class = saving.remove.first().map_or(own, |removal| advice::class_of(removal, own));
        let because = vec![share.clone(), why(f, class)];
        let saves = program_saving(program, saving);
        all.push(blank(class, Some(saves), Some(advice::of_saving(f, saving)), level, because));
    }
    if let Some(beyond) = beyond_the_model(f) {
        let seconds = beyond.seconds(time);
        let because = vec![share.clone(), why(f, beyond.class)];
        all.push(blank(beyond.class, Some(seconds), advice::of_class(f, beyond.class), Level::Low, because));
    }
    if let Some(saves) = recurrence(f, time) {
        let because = vec![share.clone(), why(f, Class::Ilp)];
        all.push(blank(Class::Ilp, Some(saves), advice::of_class(f, Class::Ilp), level, because));
    }
    let is_named = all.iter().any(|candidate| candidate.class == own);
    if !is_named {
        let because = vec![share, why(f, own)];
        all.push(blank(own, None, advice::of_class(f, own), level, because));
    }
    all
}

/// Page faults and waiting have candidates of their own.
fn is_of_time(saving: &Saving) -> bool {
    let is = |name: &str| saving.remove.iter().any(|removal| removal == name);
    !is("page-faults") && of_program(saving) > 0.0
}

/// A saving as an interval of the program's elapsed time.
fn program_saving(program: &Program<'_>, saving: &Saving) -> Interval {
    let seconds = of_program(saving);
    let wider = if saving.seconds > 0.0 { (saving.seconds_max / saving.seconds).max(1.0) } else { 1.0 };
    let most = program.of_function(GAINED_MOST * wider * seconds);
    let least = program.of_function(GAINED * seconds).max(most - WIDEST * program.wall_s);
    Interval::new(least, most)
}

/// What a recurrence gains by running two of them at once: at most half of what its chain takes.
fn recurrence(f: &Function, time: f64) -> Option<Interval> {
    let (account, _) = account::usable(f)?;
    let chain = account.part(Cause::Chain) / account.model_s;
    let is_recurrence = f.work.as_ref()?.chains.iter().any(chain::is_recurrence);
    (is_recurrence && chain >= MAIN_PART).then(|| Interval::new(0.3 * chain * time, 0.55 * chain * time))
}

/// A cause that takes the time which the model does not explain.
struct Beyond {
    class: Class,
    /// Shares of the time: without the cause as the model has it, and without all that the model does not explain.
    share: (f64, f64),
}

impl Beyond {
    fn seconds(&self, time: f64) -> Interval {
        let most = self.share.1 * time;
        Interval::new((self.share.0 * time).max(most - 0.28 * time), most)
    }
}

/// Where the model lacks time, its largest latency is likely longer than assumed.
fn beyond_the_model(f: &Function) -> Option<Beyond> {
    let error = account::error(f).filter(|error| *error < -BEYOND)?;
    let account = f.account.as_ref()?;
    let part = |cause| account.part(cause) / account.model_s;
    let through_memory = crosses_memory(f);
    let latency = [
        (Class::StoreForwarding, part(Cause::Forwarding) + if through_memory { part(Cause::Chain) } else { 0.0 }),
        (Class::Mispredict, part(Cause::Mispredict)),
        (
            Class::PrivateCacheConflict,
            if conflicts(f) { part(Cause::L2) + part(Cause::L3) + part(Cause::Tlb) } else { 0.0 },
        ),
        (
            if is_random_on_small_pages(f) { Class::Tlb } else { Class::DramLatency },
            part(Cause::DramLatency) + part(Cause::Tlb),
        ),
        (Class::CacheLatency, part(Cause::L2) + part(Cause::L3)),
    ];
    let (class, main) =
        latency.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, main)| *main >= MAIN_PART)?;
    let explained = 1.0 + error;
    if class == Class::Tlb {
        // Larger pages do not bring the lines sooner: what the model has stays.
        return Some(Beyond { class, share: (0.5 * (1.0 - explained), 1.0 - explained) });
    }
    (explained > LEAST_EXPLAINED).then(|| Beyond { class, share: (main * explained, 1.0 - (1.0 - main) * explained) })
}

/// Whether it goes to lines without any order, on pages of 4 KiB, in more memory than these pages' translations are kept for.
fn is_random_on_small_pages(f: &Function) -> bool {
    /// Bytes whose translations the second-level TLBs of today's cores hold: 4,096 pages of 4 KiB.
    const COVERED: u64 = 16 << 20;
    let Some(traffic) = f.work.as_ref().and_then(|work| work.traffic) else { return false };
    let large = f.data.iter().any(|data| data.bytes.is_some_and(|bytes| bytes > 4 * COVERED) && data.share > 0.5);
    let on_small = traffic.small_page_lines > 0.9 * (traffic.small_page_lines + traffic.huge_page_lines);
    large && on_small && traffic.random_lines > 0.5 * traffic.l1_misses
}

/// Whether lines of L1 or L2 misses were mostly pushed out by others of their sets.
fn conflicts(f: &Function) -> bool {
    let traffic = f.work.as_ref().and_then(|work| work.traffic);
    traffic.is_some_and(|t| t.l1_conflict > 0.5 * t.l1_misses || t.l2_misses > 0.0 && t.l2_conflict > 0.5 * t.l2_misses)
}

/// Whether iterations hand values on through memory at addresses that the data decide, which the model sees as forwarding.
fn crosses_memory(f: &Function) -> bool {
    let account = f.account.as_ref();
    account.is_some_and(|account| account.part(Cause::Forwarding) >= MAIN_PART * account.model_s)
}

/// The share of its time that the model or its bound explains.
fn explained(f: &Function) -> f64 {
    let by_model = account::error(f).map_or(0.0, |error| 1.0 + error);
    by_model.max(f.analysis.roof_fraction.unwrap_or(0.0)).clamp(0.0, 1.0)
}

/// The microcoded instruction in which a hot loop spends time that nothing else explains.
fn microcode(f: &Function) -> Option<String> {
    if explained(f) >= HALF {
        return None;
    }
    let loops = f.loops.iter().flat_map(|l| std::iter::once(l).chain(&l.loops));
    let hot = loops.filter_map(|l| l.disassembly.as_ref()).flat_map(|code| &code.instructions);
    let slow = hot.filter(|i| is_microcoded(&i.text)).max_by_key(|i| i.executions.unwrap_or(0))?;
    Some(format!(
        "`{}` is executed {} times, and the instructions beside it explain {:.0} % of the time",
        slow.text,
        slow.executions.unwrap_or(0),
        100.0 * explained(f)
    ))
}

/// Why denormal numbers are likely its cause: floating-point code that takes longer than anything explains, in a program that worked with
/// such numbers.
fn assists(program: &Program<'_>, f: &Function) -> Option<String> {
    /// The least share of floating-point instructions.
    const FLOATING: f64 = 0.1;
    /// Nothing else explains more.
    const UNEXPLAINED: f64 = 0.65;
    let floating = f.fp_instructions? as f64 / f.instructions.filter(|n| *n > 0)? as f64;
    let seen = program.profile.run.denormals == Some(true);
    (seen && floating >= FLOATING && explained(f) < UNEXPLAINED).then(|| {
        format!(
            "the program works with denormal numbers, {:.0} % of the instructions of {} are floating-point arithmetic, and its work explains {:.0} % of its time",
            100.0 * floating, f.name, 100.0 * explained(f)
        )
    })
}

fn is_microcoded(text: &str) -> bool {
    const WORDS: [&str; 12] =
        ["rep", "repe", "repne", "cpuid", "rdtsc", "rdtscp", "fsin", "fcos", "fptan", "fpatan", "fyl2x", "loop"];
    text.split_whitespace().next().is_some_and(|first| WORDS.contains(&first))
}

/// The time in families of library functions, below each of the user's functions.
fn of_families(program: &Program<'_>) -> Vec<Candidate> {
    let mut sums: BTreeMap<Family, (f64, f64, Vec<(Place, f64)>, BTreeMap<Class, f64>, Level)> = BTreeMap::new();
    let mut add = |family: Family, f: &Function, seconds: f64, homes: Vec<(Place, f64)>| {
        let (cpu_s, saves, places, classes, level) =
            sums.entry(family).or_insert((0.0, 0.0, Vec::new(), BTreeMap::new(), Level::High));
        *cpu_s += seconds;
        *saves += SPARED * seconds;
        for (home, share) in homes {
            match places.iter_mut().find(|(known, _)| known.function == home.function) {
                Some((_, sum)) => *sum += share * seconds,
                None => places.push((home, share * seconds)),
            }
        }
        let class = f.analysis.class.as_deref().and_then(Class::of_name).filter(|class| *class != Class::Unknown);
        if let Some(class) = class {
            *classes.entry(class).or_default() += seconds;
        }
        *level = (*level).min(f.analysis.confidence.as_ref().map_or(Level::Low, |c| c.level));
    };
    for f in &program.profile.functions {
        let Some(seconds) = f.cpu_s.filter(|s| *s > 0.0) else { continue };
        if !program.is_own(f) {
            if let Some(family) = Family::of(&f.name, &f.module) {
                add(family, f, seconds, program.homes(f));
            }
            continue;
        }
        // The frames of one family that are inlined into it nest: the longest holds the others.
        let mut inlined: BTreeMap<Family, f64> = BTreeMap::new();
        for frame in &f.inlined {
            if let Some(family) = Family::of(&frame.name, &f.module) {
                let most = inlined.entry(family).or_default();
                *most = most.max(frame.cpu_s.unwrap_or(0.0));
            }
        }
        for (family, seconds) in inlined {
            add(family, f, seconds, vec![(Place::of(f), 1.0)]);
        }
    }
    let mut all = Vec::new();
    for (family, (cpu_s, saves, mut places, classes, level)) in sums {
        if cpu_s < HOT * program.cpu_s {
            continue;
        }
        places.sort_by(|a, b| b.1.total_cmp(&a.1));
        let place = places.into_iter().next().map(|(place, _)| place);
        let class =
            classes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(Class::InstructionMix, |(class, _)| class);
        // Whatever holds the single function, it is called too often.
        let class = match class {
            Class::Peak | Class::Unknown => Class::InstructionMix,
            _ if family == Family::Interpreter => Class::InstructionMix,
            class => class,
        };
        let held_s = program.elapsed(cpu_s);
        all.push(Candidate {
            class,
            advice: Some(advice::sentence(family.advice(), place.as_ref())),
            place,
            held_s,
            saves_s: Some(Interval::new(program.elapsed(saves), held_s)),
            confidence: level.max(Level::Medium),
            because: vec![figure("of the time is", held_s / program.wall_s, family.words())],
        });
    }
    all
}

fn figure(words: &str, share: f64, what: &str) -> String {
    format!("{:.0} % {words} {what}", 100.0 * share)
}

/// The figure behind a class.
fn why(f: &Function, class: Class) -> String {
    let of_account = |account: &Account| {
        let share = |cause: Cause| account.part(cause) / account.model_s;
        let causes: &[Cause] = match class {
            Class::Ilp => &[Cause::Chain],
            Class::Mispredict => &[Cause::Mispredict],
            Class::FrontEnd => &[Cause::FrontEnd],
            Class::StoreForwarding => &[Cause::Forwarding],
            Class::L1Bandwidth => &[Cause::L1],
            Class::DramLatency | Class::DramBandwidth => &[Cause::DramLatency, Cause::DramBandwidth],
            Class::CacheLatency | Class::L2Bandwidth | Class::L3Bandwidth | Class::PrivateCacheConflict => {
                &[Cause::L2, Cause::L3]
            }
            Class::Tlb => &[Cause::Tlb],
            Class::InstructionMix => &[Cause::Base],
            _ => &[Cause::Ports],
        };
        let sum: f64 = causes.iter().map(|cause| share(*cause)).sum();
        (sum >= 0.1).then(|| format!("{:.0} % of its modelled time is {}", 100.0 * sum, class.words()))
    };
    let modelled = f.account.as_ref().filter(|account| account.model_s > 0.0).and_then(of_account);
    modelled.unwrap_or_else(|| match f.analysis.roof_fraction {
        Some(at) => format!("it runs at {:.0} % of its bound", 100.0 * at),
        None => "its work was not counted".into(),
    })
}
