//! Time that the model and the bounds do not explain, and what it likely is.

use rprof_profile::account::Cause;
use rprof_profile::function::Function;
use rprof_profile::vocabulary::Class;

use crate::account;

use super::candidate::Interval;
use super::program::Program;

/// A model that explains less of the time names no cause.
pub const HALF: f64 = 0.5;
/// With less, even what the model lacks says nothing.
const LEAST_EXPLAINED: f64 = 0.25;
/// The part of a cause in the model from which the time beyond the model may be its as well.
pub const MAIN_PART: f64 = 0.3;
/// Time beyond the model, as a share, from which it has to be explained.
const BEYOND: f64 = 0.35;

/// A cause that takes the time which the model does not explain.
pub struct Beyond {
    pub class: Class,
    /// Shares of the time: without the cause as the model has it, and without all that the model does not explain.
    share: (f64, f64),
}

impl Beyond {
    /// Of `time`, the seconds without it.
    pub fn seconds(&self, time: f64) -> Interval {
        let most = self.share.1 * time;
        Interval::new((self.share.0 * time).max(most - 0.28 * time), most)
    }
}

/// Where the model lacks time, its largest latency is likely longer than assumed.
pub fn beyond_the_model(f: &Function) -> Option<Beyond> {
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
    (explained > LEAST_EXPLAINED).then_some(Beyond { class, share: (main * explained, 1.0 - (1.0 - main) * explained) })
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
pub fn explained(f: &Function) -> f64 {
    let by_model = account::error(f).map_or(0.0, |error| 1.0 + error);
    by_model.max(f.analysis.roof_fraction.unwrap_or(0.0)).clamp(0.0, 1.0)
}

/// The microcoded instruction in which a hot loop spends time that nothing else explains.
pub fn microcode(f: &Function) -> Option<String> {
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
pub fn assists(program: &Program<'_>, f: &Function) -> Option<String> {
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
    const WORDS: [&str; 11] =
        ["rep", "repe", "repne", "cpuid", "rdtsc", "rdtscp", "fsin", "fcos", "fptan", "fpatan", "fyl2x"];
    text.split_whitespace().next().is_some_and(|first| WORDS.contains(&first))
}
