//! Candidates of the time on a CPU in user mode: each hot function's best changes.

use rprof_profile::account::{Account, Cause};
use rprof_profile::confidence::Level;
use rprof_profile::function::{ChainStep, Function, Saving};
use rprof_profile::vocabulary::Class;

use crate::account;
use crate::ranking::of_program;
use crate::removal;
use crate::terms::chain;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::place::Place;
use super::program::Program;
use super::unexplained::{HALF, MAIN_PART, assists, beyond_the_model, explained, microcode};

/// Functions with a smaller share of the CPU time have no candidates of their own.
pub const HOT: f64 = 0.05;
/// Of a saving that the model gives, the part that a change gains at least, in most cases.
const GAINED: f64 = 0.8;
/// The part that it gains at most: such a change brings others with it.
const GAINED_MOST: f64 = 1.12;

/// All candidates.
pub fn candidates(program: &Program<'_>) -> Vec<Candidate> {
    let hot = |f: &&Function| f.cpu_s.unwrap_or(0.0) >= HOT * program.cpu_s;
    let mut all: Vec<Candidate> = Vec::new();
    for f in program.profile.functions.iter().filter(hot) {
        if !program.is_own(f) && program.family(f).is_some() {
            continue;
        }
        all.extend(of_function(program, f));
    }
    all
}

/// What holds one function, by each change that would help it.
fn of_function(program: &Program<'_>, f: &Function) -> Vec<Candidate> {
    let time = program.of_function(f.time_s.or(f.cpu_s).unwrap_or(0.0));
    let place = if program.is_own(f) { Place::of(f) } else { program.home(f) };
    let own = match f.analysis.class {
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
        let class = saving.remove.first().map_or(own, |removal| removal::class_of(removal, own));
        let because = vec![share.clone(), why(f, class)];
        let saves = program_saving(program, saving);
        all.push(blank(class, Some(saves), Some(advice::of_saving(f, saving)), level, because));
    }
    if let Some(beyond) = beyond_the_model(f) {
        let seconds = beyond.seconds(time);
        let because = vec![share.clone(), why(f, beyond.class)];
        let is_its =
            |saving: &&Saving| saving.remove.iter().any(|r| removal::class_of(r, beyond.class) == beyond.class);
        let words = f.analysis.savings.iter().find(is_its).map(|saving| advice::of_saving(f, saving));
        let words = words.or_else(|| advice::of_class(f, beyond.class));
        all.push(blank(beyond.class, Some(seconds), words, Level::Low, because));
    }
    if let Some(saves) = divisions(f, time) {
        let words = "Divide less: by constants or powers of two (shifts, masks), or multiply by a reciprocal that is computed once";
        let because = "each integer division waits for the one before".into();
        all.push(blank(
            Class::DivSqrt,
            Some(saves),
            Some(words),
            level.max(Level::Medium),
            vec![share.clone(), because],
        ));
    }
    if let Some(saves) = recurrence(f, time) {
        let because = vec![share.clone(), why(f, Class::Ilp)];
        all.push(blank(Class::Ilp, Some(saves), advice::of_class(f, Class::Ilp), level, because));
    }
    let is_named = all.iter().any(|candidate| candidate.class == own);
    if !is_named {
        let because = vec![share.clone(), why(f, own)];
        all.push(blank(own, None, advice::of_class(f, own), level, because));
    }
    if let Some(saves) = through_memory(f, time) {
        // Where a value goes through memory in each iteration, lanes and partial results come after it stays in a register.
        all.retain(|candidate| !matches!(candidate.class, Class::Simd | Class::Ilp | Class::StoreForwarding));
        let because = vec![share, why(f, Class::StoreForwarding)];
        let words = "Keep the value in a register (a local variable, restrict), or use several copies in turn: each iteration stores it and loads it again";
        all.push(blank(Class::StoreForwarding, Some(saves), Some(words), level, because));
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
    Interval::narrow(program.of_function(GAINED * seconds), most, program.wall_s)
}

/// Whether the chain of most iterations has a step of this kind.
fn is_chained_by(f: &Function, step: ChainStep) -> bool {
    let longest = f.work.as_ref().and_then(|work| work.chains.iter().max_by_key(|chain| chain.iterations));
    longest.is_some_and(|chain| chain.cycles.iter().any(|cycle| cycle.steps.contains(&step)))
}

/// What a chain gains that stores its value and loads it again in each iteration, at an address that is always the same.
fn through_memory(f: &Function, time: f64) -> Option<Interval> {
    /// The least share of the modelled time.
    const MATTERS: f64 = 0.6;
    /// Parts of the chain's time that are saved at least and at most: an operation on a register takes one of about five cycles.
    const GAINS: (f64, f64) = (0.5, 0.8);
    let (account, _) = account::usable(f)?;
    let chained = (account.part(Cause::Chain) + account.part(Cause::Forwarding)) / account.model_s;
    let is_its = account.part(Cause::Forwarding) >= 0.25 * account.model_s;
    (is_chained_by(f, ChainStep::Forward) && is_its && chained >= MATTERS)
        .then(|| Interval::new(GAINS.0 * chained * time, GAINS.1 * chained * time))
}

/// What cheaper operations gain in the place of integer divisions that wait for one another. Branches that test their results wait as
/// long, so that the time may look like that of mispredictions.
fn divisions(f: &Function, time: f64) -> Option<Interval> {
    /// The least share of the time.
    const MATTERS: f64 = 0.4;
    /// Parts of a division's latency that are saved at least and at most.
    const GAINS: (f64, f64) = (0.5, 0.9);
    let chained = (f.analysis.terms.chain? / f.time_s?).min(1.0);
    (is_chained_by(f, ChainStep::IntegerDivide) && chained >= MATTERS)
        .then(|| Interval::new(GAINS.0 * chained * time, GAINS.1 * chained * time))
}

/// What a recurrence gains by running two of them at once: at most half of what its chain takes.
fn recurrence(f: &Function, time: f64) -> Option<Interval> {
    let (account, _) = account::usable(f)?;
    let chain = account.part(Cause::Chain) / account.model_s;
    let is_recurrence = f.work.as_ref()?.chains.iter().any(chain::is_recurrence);
    (is_recurrence && chain >= MAIN_PART).then(|| Interval::new(0.3 * chain * time, 0.55 * chain * time))
}

/// `31 % of the time is in NAME`
pub fn figure(words: &str, share: f64, what: &str) -> String {
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
