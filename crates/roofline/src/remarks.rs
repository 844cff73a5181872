//! Remarks on a function beside savings: limits that no listed change removes, and alternatives to try.

use rprof_isa::facts::InstructionClass;
use rprof_profile::system::Reason;
use rprof_profile::vocabulary::Class;

use super::account;
use super::advice;
use super::bound::Bound;
use super::class::{EXPLAINED, Verdict};
use super::host::Trace;
use super::prefetch;
use super::reuse::Reuse;
use super::terms::{Subject, TermId, chain};

/// Least part of the time that a remark mentions.
const WORTH: f64 = 0.1;
/// As many branches among its instructions are many, if they are no loop's.
const MANY_BRANCHES: f64 = 0.1;
/// Part of the lines that come with a stride, from which on they do for the most part.
const STRIDED: f64 = 0.5;

/// The remarks on `subject`, most important first.
pub fn of(subject: &Subject<'_>, bound: &Bound, verdict: &Verdict) -> Vec<String> {
    let all = [
        waiting(subject),
        kernel(subject),
        recurrence(subject, bound),
        passes(subject, bound),
        strides(subject, verdict),
        prefetch::remark(subject),
        unexplained(subject, verdict),
    ];
    all.into_iter().flatten().collect()
}

/// Time off the CPU: its reason, and the event that ends it.
fn waiting(subject: &Subject<'_>) -> Option<String> {
    let f = subject.function;
    let waited_s = account::waited_s(f);
    let all_s = waited_s + f.cpu_s.unwrap_or(0.0) + f.kernel_s.unwrap_or(0.0);
    let waits = f.system.as_ref()?.waits.as_ref()?;
    let longest =
        waits.iter().filter(|w| w.reason != Reason::RunQueue).max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    (waited_s >= WORTH * all_s && waited_s > 0.0).then(|| {
        let share = 100.0 * longest.seconds / all_s;
        format!("{share:.0} % of its time it is off the CPU: {}: {}.", longest.words(), longest.advice())
    })
}

/// Time in the kernel on its behalf.
fn kernel(subject: &Subject<'_>) -> Option<String> {
    let f = subject.function;
    let (kernel_s, own_s) = (f.kernel_s?, f.cpu_s.unwrap_or(0.0));
    if kernel_s < WORTH * (kernel_s + own_s) || own_s <= 0.0 {
        return None;
    }
    if account::are_page_faults(f) {
        return Some(format!(
            "The kernel worked {kernel_s:.3} s for it, beside {own_s:.3} s of its own: page faults, for the most part, of memory that \
             it touches first."
        ));
    }
    let calls = f.system.as_ref().map_or(&[][..], |system| &system.calls);
    let in_calls: f64 = calls.iter().filter_map(|call| call.kernel_s).sum();
    if f.fault_s.is_none() && in_calls < kernel_s / 2.0 {
        return Some(format!(
            "The kernel worked {kernel_s:.3} s for it, beside {own_s:.3} s of its own, for the most part with signals or traps: it has \
             too few page faults and system calls for that."
        ));
    }
    let dearest = calls.iter().max_by(|a, b| a.kernel_s.unwrap_or(0.0).total_cmp(&b.kernel_s.unwrap_or(0.0)));
    let named = dearest.and_then(|call| Some((call.name.as_deref()?, call.kernel_s?, call.count)));
    let made = match named {
        Some((name, seconds, Some(count))) if count > 0 => {
            let each_us = 1e6 * seconds / count as f64;
            format!(": {name} {seconds:.3} s, {count} calls of {each_us:.1} µs")
        }
        Some((name, seconds, _)) => format!(": {name} {seconds:.3} s"),
        None => String::new(),
    };
    Some(format!(
        "The kernel worked {kernel_s:.3} s for it, beside {own_s:.3} s of its own, for the most part in system calls{made}: make fewer \
         and larger ones."
    ))
}

/// A chain that no partial results shorten.
fn recurrence(subject: &Subject<'_>, bound: &Bound) -> Option<String> {
    let (term, _) = bound.binding.filter(|(term, _)| *term == TermId::Chain)?;
    let chains = &subject.function.work.as_ref()?.chains;
    let seconds = |c: &_| chain::chain_seconds(c, subject.host, &mut Trace::default());
    let slowest = chains.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)))?;
    let place = advice::chain_place(subject.function, slowest);
    let why = if slowest.stored { "and each of them is stored" } else { "and is no sum" };
    (term == TermId::Chain && chain::is_recurrence(slowest)).then(|| {
        format!(
            "In {place} each value needs the one before, {why}: partial results do not shorten that. Work on several independent \
             sequences at once, or write it as a scan over blocks."
        )
    })
}

/// Passes over more than the caches hold.
fn passes(subject: &Subject<'_>, bound: &Bound) -> Option<String> {
    let Reuse::EarlierCall { bytes } = subject.reuse else { return None };
    bound.is_near(TermId::Dram).then(|| {
        format!(
            "Each call goes over about {:.0} MB once: there is nothing to block in it. Smaller elements, or fewer passes (several steps or \
             right-hand sides at once), move less.",
            bytes / 1e6
        )
    })
}

/// Latency of accesses with a stride.
fn strides(subject: &Subject<'_>, verdict: &Verdict) -> Option<String> {
    let t = subject.function.work.as_ref()?.traffic?;
    let known = t.lines_of_known_order();
    let latency = [Class::CacheLatency, Class::DramLatency].contains(&verdict.class?);
    (latency && t.strided_lines > STRIDED * known).then(|| {
        format!(
            "{:.0} % of the lines that it brings to L1 come with a stride{}: in another order of the loops, or in blocks that L2 holds, \
             they come one after the other, which prefetchers foresee.",
            100.0 * t.strided_lines / known,
            advice::at_loop(subject.function)
        )
    })
}

/// A function far from its bound without an account.
fn unexplained(subject: &Subject<'_>, verdict: &Verdict) -> Option<String> {
    let f = subject.function;
    let fraction = verdict.roof_fraction.filter(|fraction| *fraction < EXPLAINED)?;
    if verdict.class != Some(Class::Unknown) {
        return None;
    }
    let branches = f.work.as_ref().map_or(0, |work| {
        work.classes.iter().filter(|(class, _)| *class == InstructionClass::Branch).map(|(_, n)| *n).sum::<u64>()
    });
    let of_loops: u64 = f.work.iter().flat_map(|work| &work.chains).map(|c| c.iterations).sum();
    let share = branches.saturating_sub(of_loops) as f64 / f.instructions.unwrap_or(0).max(1) as f64;
    let hint = if share > MANY_BRANCHES {
        format!(
            "; {:.0} % of its instructions are branches that end no loop, and may be predicted wrongly (not measured)",
            100.0 * share
        )
    } else {
        String::new()
    };
    Some(format!("Its ceilings explain {:.0} % of its time{hint}.", 100.0 * fraction))
}
