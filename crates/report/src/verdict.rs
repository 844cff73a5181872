//! One sentence on the program: where its time goes, the ceiling that holds it there, the saving of a change.
//!
//! ```text
//! a GPU works, or much of the time is in MPI, waiting or in the kernel ─▶ about that
//! one function has a quarter of the time                       ─▶ about it
//! otherwise                                                    ─▶ about the class with most of the time
//! then: what the diagnosis says can be saved, and by what
//! ```

use rprof_model::account;
use rprof_model::diagnosis::{self, Candidate, Diagnosis, Interval};
use rprof_profile::confidence::Level;
use rprof_profile::run::TOO_FEW_SAMPLES_CODE;
use rprof_profile::system::{Reason, Wait};
use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile};

use super::number::{percent, seconds};
use super::{devices, mpi, name, summary, table, words};

/// From this share of the CPU time the sentence is about one function.
const ONE: f64 = 0.25;
/// A part of a function's time that the sentence names.
const NAMED: f64 = 0.10;
/// A bound explains a function from this fraction.
const AT_ITS_BOUND: f64 = 0.8;
/// A saving below this share of the program is not mentioned.
const WORTHWHILE: f64 = 0.01;
/// Characters of a name.
const NAME_WIDTH: usize = 36;

/// The sentence.
pub fn sentence(profile: &Profile) -> String {
    sentence_of(profile, diagnosis::of(profile).as_ref())
}

/// [`sentence`], with the diagnosis of `profile`.
pub fn sentence_of(profile: &Profile, found: Option<&Diagnosis>) -> String {
    if let Some(doubt) = profile.run.warnings.iter().find(|w| w.code == TOO_FEW_SAMPLES_CODE) {
        return summary::sentence(&doubt.text);
    }
    if profile.functions.is_empty() && profile.devices.is_none() {
        return "No function was seen: too little to measure.".into();
    }
    if is_demo(profile) {
        return demo(profile);
    }
    let told = devices::verdict(profile)
        .or_else(|| mpi::verdict(profile))
        .or_else(|| waiting(profile))
        .or_else(|| in_kernel(profile));
    let subject = match told {
        Some(told) => told,
        None => match hottest(profile) {
            Some(f) if f.share.is_none() => return "The counted pass alone ran: times were not measured.".into(),
            Some(f) if f.share.unwrap_or(0.0) >= ONE => {
                return format!("{}{}", of_function(f, spinning(profile)), saved(found, Some(f)));
            }
            Some(f) => spread(profile, f),
            None => return "Times were not measured.".into(),
        },
    };
    format!("{subject}{}", saved(found, None))
}

fn is_demo(profile: &Profile) -> bool {
    profile.functions.iter().any(|f| f.analysis.expected.is_some())
}

/// `24 of 25 kernels are held by what they were built for.`
fn demo(profile: &Profile) -> String {
    let built = || profile.functions.iter().filter(|f| f.analysis.expected.is_some());
    let right = built().filter(|f| f.analysis.expected == f.analysis.class).count();
    format!("{right} of {} kernels are held by what they were built for.", built().count())
}

fn hottest(profile: &Profile) -> Option<&Function> {
    profile.functions.iter().max_by(|a, b| a.share.unwrap_or(-1.0).total_cmp(&b.share.unwrap_or(-1.0)))
}

/// Seconds from the start to the end of the timed pass.
pub fn wall_s(profile: &Profile) -> Option<f64> {
    profile.run.timed_pass().map(|pass| pass.wall_s).filter(|s| *s > 0.0)
}

/// `The program is on a CPU for 1.27 s of 3.40 s; its threads wait: read() of a pipe 2.10 s.` `None` if it waits longer for a CPU,
/// which other programs had: that says nothing of it.
fn waiting(profile: &Profile) -> Option<String> {
    let wall = wall_s(profile)?;
    let busy: f64 = profile.run.passes.iter().filter(|pass| pass.kind == "timed").map(|pass| pass.cpu_s).sum();
    if busy > 0.5 * wall {
        return None;
    }
    let of_program = |wait: &&Wait| wait.reason != Reason::RunQueue;
    let waits = profile.run.system.as_ref()?.waits.as_deref()?;
    let longest = waits.iter().filter(of_program).max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let queued: f64 = waits.iter().filter(|wait| !of_program(wait)).map(|wait| wait.seconds).sum();
    if longest.seconds <= queued {
        return None;
    }
    let used = format!("The program is on a CPU for {} of {}", seconds(busy), seconds(wall));
    Some(format!("{used}; its threads wait: {} {}.", longest.words(), seconds(longest.seconds)))
}

/// `62 % of the CPU time is in the kernel, 1.20 s of it in page faults.`
fn in_kernel(profile: &Profile) -> Option<String> {
    let sum = |part: fn(&Function) -> Option<f64>| profile.functions.iter().filter_map(part).sum::<f64>();
    let (user, kernel, faults) = (sum(|f| f.cpu_s), sum(|f| f.kernel_s), sum(|f| f.fault_s));
    if kernel <= user {
        return None;
    }
    let faults =
        if faults > 0.1 * kernel { format!(", {} of it in page faults", seconds(faults)) } else { String::new() };
    Some(format!(
        "{} of the CPU time is in the kernel ({}{faults}).",
        percent(kernel / (user + kernel)),
        seconds(kernel)
    ))
}

/// `spins`: the share of the CPU time that is spent spinning, and the function with most of that.
fn of_function(f: &Function, spins: Option<(f64, &Function)>) -> String {
    // Shares of functions are those of the work.
    let share = percent(f.share.unwrap_or(0.0) * (1.0 - spins.map_or(0.0, |(share, _)| share)));
    let spins = spins.map_or(String::new(), |(share, at)| {
        format!(" {} of it is spent spinning, in {}.", percent(share), name::of(at, NAME_WIDTH))
    });
    format!("{share} of the CPU time is in {}, {}.{spins}", name::of(f, NAME_WIDTH), held_by(f))
}

/// The share of the CPU time that is spent spinning, if that is a part worth naming, and the function with most of it.
fn spinning(profile: &Profile) -> Option<(f64, &Function)> {
    let sum = |part: fn(&Function) -> Option<f64>| profile.functions.iter().filter_map(part).sum::<f64>();
    let (work, spins) = (sum(|f| f.cpu_s), sum(|f| f.waiting_s));
    let share = spins / (work + spins);
    let at =
        profile.functions.iter().max_by(|a, b| a.waiting_s.unwrap_or(0.0).total_cmp(&b.waiting_s.unwrap_or(0.0)))?;
    (spins > 0.0 && share >= NAMED).then_some((share, at))
}

/// `held by mispredicted branches (54 %) and the number of instructions (26 %)`
pub fn held_by(f: &Function) -> String {
    let at = f.analysis.roof_fraction;
    let of_bound = |at: f64| format!("{}{} of its bound", table::at_least(f), percent(at));
    match f.analysis.class {
        None => "whose work was not counted".into(),
        Some(Class::Unknown) => {
            let at = at.map_or(String::new(), |at| format!(": it runs at {}", of_bound(at)));
            format!("and no ceiling explains its time{at}")
        }
        Some(class) => {
            let explained = at
                .filter(|at| *at >= AT_ITS_BOUND && account::of_kernel(f).is_none())
                .map(|at| format!("{} (at {})", words::class(class), of_bound(at)));
            let by = explained.or_else(|| causes(f)).unwrap_or_else(|| words::class(class).to_owned());
            let doubt = if table::is_doubtful(f) { "probably " } else { "" };
            format!("{doubt}held by {by}")
        }
    }
}

/// The largest causes of a trusted account, as far as they are the class's account of time and not the kernel's.
fn causes(f: &Function) -> Option<String> {
    let account = account::trusted(f).filter(|_| account::of_kernel(f).is_none())?;
    let mut parts: Vec<(&str, f64)> =
        account.parts.iter().map(|(cause, s)| (words::cause(*cause), s / account.model_s)).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = parts.iter().take(2).filter(|(_, share)| *share >= NAMED);
    let shown: Vec<String> = shown.map(|(cause, share)| format!("{cause} ({})", percent(*share))).collect();
    (!shown.is_empty()).then(|| shown.join(" and "))
}

/// For programs without a dominant function.
fn spread(profile: &Profile, hottest: &Function) -> String {
    let mut classes: Vec<(Option<Class>, f64, usize)> = Vec::new();
    for f in profile.functions.iter().filter(|f| f.share.unwrap_or(0.0) > 0.0) {
        let class = f.analysis.class;
        match classes.iter_mut().find(|(known, ..)| *known == class) {
            Some((_, share, n)) => (*share, *n) = (*share + f.share.unwrap_or(0.0), *n + 1),
            None => classes.push((class, f.share.unwrap_or(0.0), 1)),
        }
    }
    let most = format!("No function has more than {} of the CPU time", percent(hottest.share.unwrap_or(0.0)));
    match classes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((Some(Class::Unknown), share, _)) => format!("{most}; no ceiling explains {} of it.", percent(share)),
        Some((None, share, _)) => format!("{most}; {} of it was not counted.", percent(share)),
        Some((Some(class), share, n)) => {
            let functions = if n == 1 { "1 function".into() } else { format!("{n} functions") };
            format!("{most}; {} ({functions}) is held by {}.", percent(share), words::class(class))
        }
        None => format!("{most}."),
    }
}

/// ` Most to save: 0.6 to 0.8 s of 1.99 s, in NAME: mispredicted branches.`; `To save first`: another change may save more, but is not as
/// likely or cheap.
fn saved(found: Option<&Diagnosis>, subject: Option<&Function>) -> String {
    let Some(found) = found else { return String::new() };
    let Some(saves) = found.saves_s.filter(|saves| saves.most >= WORTHWHILE * found.of_s) else {
        return String::new();
    };
    let place = match (&found.place, subject) {
        (Some(place), Some(f)) if place.symbol.as_ref() == Some(&f.name) => " there".to_owned(),
        (Some(place), _) => format!(", in {}", name::shorten(&place.function, NAME_WIDTH)),
        (None, _) => String::new(),
    };
    let doubt = if found.confidence == Level::Low { "perhaps " } else { "" };
    let (range, of) = (range(saves), seconds(found.of_s));
    let saves_more = |other: &Candidate| other.saves_s.is_some_and(|other| other.most > saves.most);
    let lead = if found.others.iter().any(saves_more) { "To save first" } else { "Most to save" };
    format!(" {lead}: {doubt}{range} of {of}{place}: {}.", found.cause.words())
}

/// `0.72 to 1.10 s`, `1.5 s` if both ends are printed alike.
pub fn range(interval: Interval) -> String {
    let (least, most) = (seconds(interval.least), seconds(interval.most));
    let (number, unit) = least.split_once(' ').unwrap_or((&least, ""));
    match most.split_once(' ') {
        _ if least == most => most,
        Some((_, other)) if other == unit => format!("{number} to {most}"),
        _ => format!("{least} to {most}"),
    }
}
