//! The change in one sentence of at most 200 characters.

use rprof_profile::function::{Function, Saving};
use rprof_profile::vocabulary::Class;

use super::place::Place;

/// Characters of a sentence.
const LONGEST: usize = 200;

/// `words`, where it is, and a full stop, cut at [`LONGEST`] characters.
pub fn sentence(words: &str, place: Option<&Place>) -> String {
    let at = place.map(|place| match place.at() {
        at if at.is_empty() => format!(" ({})", shortened(&place.function)),
        at => format!(" ({at})"),
    });
    let with_place = format!("{words}{}.", at.unwrap_or_default());
    if with_place.chars().count() <= LONGEST {
        return with_place;
    }
    let mut cut: String = words.chars().take(LONGEST - 2).collect();
    cut.truncate(cut.rfind(' ').unwrap_or(cut.len()));
    format!("{}.", cut.trim_end_matches([',', ':', ';']))
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= 40 { name.to_owned() } else { name.chars().take(39).chain(['…']).collect() }
}

/// The words for removing what `saving` removes from `f`.
pub fn of_saving(f: &Function, saving: &Saving) -> &'static str {
    let chained = f.work.as_ref().is_some_and(|work| !work.chains.is_empty());
    let random = f.work.as_ref().and_then(|work| work.traffic).is_some_and(|t| t.random_lines > 0.5 * t.l1_misses);
    let chased = f.prefetch.is_some_and(|p| p.chased > 0.5 * p.lines);
    match saving.remove.first().map(String::as_str).unwrap_or_default() {
        "threads" => "Use all CPUs: share its work out among more threads",
        "imbalance" => "Share its work out evenly: smaller chunks, or a dynamic schedule",
        "ilp" => {
            "Break its dependency chain: several independent partial results, which are put together behind the loop"
        }
        "mix" if chained => {
            "Spare instructions: hoist address arithmetic and tests out of the loop, and do more per instruction (vectorise, unroll)"
        }
        "mix" => "Do less: its time is the number of its instructions",
        "simd" => "Vectorise its loop: values in locals, restrict where pointers do not alias, -O3",
        "fma" => "Fuse its multiplies and adds (-mfma -ffp-contract=fast)",
        "divsqrt" => "Multiply by reciprocals that are computed once, instead of dividing",
        "access" => "Load and store whole vectors, and keep values in registers instead of memory",
        "latency" | "strides" | "cache-misses" | "no-prefetch" if chased => {
            "Store what follows one another in the order of its use (an array instead of a list), or keep it smaller: each address comes from the load before"
        }
        "latency" | "strides" | "cache-misses" if random => {
            "Its accesses are random: prefetch the addresses that are known ahead, sort them, or put its data on huge pages"
        }
        "latency" => "Hide the latency of its misses: prefetch ahead, sort the accesses, or keep the data smaller",
        "write-allocate" => "Write what is not read again past the caches: non-temporal stores",
        "capacity-misses" | "l2-misses" => "Work on blocks that stay in the caches while they are used (tiling)",
        "conflict-misses" | "private-conflicts" => {
            "Pad its rows so that their length is no power of two, or exchange the loops for another order of the accesses"
        }
        "strides" => {
            "Make its accesses contiguous: exchange the loops, copy the slice once, or pack the data that are used together (layout of arrays, padding)"
        }
        "cache-misses" => "Keep the data that are used together in the same lines, make them smaller, or prefetch them",
        "separate-passes" => "Fuse the passes over the same data, so that each part is used while it is in the caches",
        "memory-imbalance" => "Spread its memory over the controllers: let each thread touch its own part first",
        "small-pages" => "Put its data on huge pages (madvise, transparent huge pages)",
        "page-faults" => {
            "Keep and reuse buffers instead of new memory each time, or use huge pages: most of it is first touch"
        }
        "mispredict" => {
            "Make its branches predictable or avoid them: sort by the condition, or choose without a branch (conditional moves, masks)"
        }
        "branchless" => "Choose without a branch: conditional moves, masks, min and max",
        "store-forwarding" => {
            "Keep the value in a register, use several copies (tables) in turn, or loads of the same size as the stores"
        }
        "front-end" => "Make its hot code smaller and straighter: fewer calls and jumps, less unrolling",
        "no-prefetch" => "Prefetch the lines some iterations ahead (__builtin_prefetch): their addresses are known",
        "waiting-for-ranks" => "Give the ranks the same work",
        "network-latency" => "Send fewer, longer messages",
        "network-bandwidth" => "Send fewer bytes, or work while they are on their way",
        _ => "Remove what holds it",
    }
}

/// The words where a class has no saving of its own.
pub fn of_class(f: &Function, class: Class) -> Option<&'static str> {
    let is_recurrence =
        |work: &rprof_profile::function::Work| work.chains.iter().any(crate::terms::chain::is_recurrence);
    Some(match class {
        Class::Ilp if f.work.as_ref().is_some_and(is_recurrence) => {
            "Each value depends on the one before: shorten that dependency, or run several independent chains at once (partial results, two generators)"
        }
        Class::Ilp => "Break its dependency chain: several independent partial results",
        Class::DramBandwidth => "Move fewer bytes: smaller types, blocking, fused passes",
        Class::DramLatency | Class::CacheLatency => "Prefetch ahead, sort the accesses, or keep the data smaller",
        Class::L2Bandwidth | Class::L3Bandwidth => "Work on blocks that stay in the caches, and use each line whole",
        Class::PrivateCacheConflict => "Pad its rows so that their length is no power of two, or exchange the loops",
        Class::Tlb => "Put its data on huge pages (madvise, transparent huge pages)",
        Class::L1Bandwidth => "Load and store whole vectors, and keep values in registers",
        Class::StoreForwarding => {
            "Use several copies in turn (tables, partial results), or keep the value in a register; loads and stores of the same size"
        }
        Class::Mispredict => {
            "Make its branches predictable or avoid them: sort by the condition, or choose without a branch"
        }
        Class::FrontEnd => "Make its hot code smaller and straighter: fewer calls and jumps",
        Class::InstructionMix => "Do less: its time is the number of its instructions",
        Class::DivSqrt => "Multiply by reciprocals that are computed once, instead of dividing",
        Class::Simd => "Vectorise its loop",
        Class::FmaBalance => "Fuse its multiplies and adds (-mfma -ffp-contract=fast)",
        _ => return None,
    })
}
