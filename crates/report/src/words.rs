//! Classes, causes and removals in words for a sentence.

use rprof_profile::account::Cause;
use rprof_profile::vocabulary::Class;

/// What stands in the place of a class where there is none.
pub const NOT_COUNTED: &str = "not counted";

/// The class in words: `memory bandwidth`.
pub fn class(class: Class) -> &'static str {
    if class.is_known() { class.words() } else { class.name() }
}

/// Its name, or that there is none.
pub fn name_of(class: Option<Class>) -> &'static str {
    class.map_or(NOT_COUNTED, Class::name)
}

/// The cause of time in words.
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Base => "the number of instructions",
        Cause::Ports => "execution ports",
        Cause::Chain => "dependency chains",
        Cause::Mispredict => "mispredicted branches",
        Cause::FrontEnd => "instruction supply",
        Cause::Forwarding => "loads that wait for stores",
        Cause::L1 => "loads and stores",
        Cause::L2 => "L2 latency",
        Cause::L3 => "L3 latency",
        Cause::DramLatency => "memory latency",
        Cause::DramBandwidth => "memory bandwidth",
        Cause::Tlb => "address translation",
    }
}

/// The removal of a deficiency in words: `vectorising it`. An unknown name is its own word.
pub fn removal(name: &str) -> &str {
    match name {
        "threads" => "using all CPUs",
        "imbalance" => "sharing the work out evenly",
        "ilp" => "breaking its dependency chains",
        "mix" => "fewer instructions beside the arithmetic",
        "simd" => "vectorising it",
        "fma" => "fusing its multiplies and adds",
        "divsqrt" => "avoiding divisions and roots",
        "access" => "wider loads and stores",
        "latency" => "hiding the latency of its misses",
        "write-allocate" => "non-temporal stores",
        "capacity-misses" => "blocking for the caches",
        "conflict-misses" | "private-conflicts" => "padding its arrays",
        "strides" => "another order of its accesses",
        "separate-passes" => "fusing its passes",
        "memory-imbalance" => "spreading its memory",
        "small-pages" => "huge pages",
        "page-faults" => "avoiding page faults",
        "mispredict" => "predictable branches",
        "cache-misses" => "keeping its data in the caches",
        "l2-misses" => "working on parts that L2 holds",
        "store-forwarding" => "keeping values in registers",
        "front-end" => "smaller, straighter code",
        "branchless" => "choosing without branches",
        "no-prefetch" => "prefetching",
        "waiting-for-ranks" => "giving ranks the same work",
        "network-latency" => "fewer, longer messages",
        "network-bandwidth" => "fewer bytes, or work meanwhile",
        other => other,
    }
}

/// The removal of several at once in words.
pub fn removals(names: &[String]) -> String {
    names.iter().map(|name| removal(name)).collect::<Vec<_>>().join(" with ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_model::deficiency::Deficiency;

    #[test]
    fn every_class_and_removal_has_words() {
        for told in Class::ALL.iter().filter(|told| ![Class::Unknown, Class::Waiting].contains(told)) {
            assert_ne!(class(*told), told.name());
        }
        for deficiency in Deficiency::ALL {
            assert_ne!(removal(deficiency.name()), deficiency.name());
        }
        assert_eq!(removals(&["simd".into(), "ilp".into()]), "vectorising it with breaking its dependency chains");
    }
}
