//! What a saving removes, as a class.

use rprof_profile::vocabulary::Class;

/// The class that a removal of a [`Saving`](rprof_profile::function::Saving) belongs to, for a function of class `own`.
pub fn class_of(removal: &str, own: Class) -> Class {
    let of_memory = if is_of_memory(own) { own } else { Class::DramLatency };
    match removal {
        "threads" => Class::Threads,
        "imbalance" => Class::LoadImbalance,
        "ilp" => Class::Ilp,
        "mix" => Class::InstructionMix,
        "simd" => Class::Simd,
        "fma" => Class::FmaBalance,
        "divsqrt" => Class::DivSqrt,
        "access" => Class::L1Bandwidth,
        "private-conflicts" => Class::PrivateCacheConflict,
        "small-pages" => Class::Tlb,
        "page-faults" => Class::PageFaults,
        "mispredict" | "branchless" => Class::Mispredict,
        "store-forwarding" => Class::StoreForwarding,
        "front-end" => Class::FrontEnd,
        "write-allocate" | "separate-passes" | "memory-imbalance" => Class::DramBandwidth,
        "waiting-for-ranks" => Class::WaitingForRanks,
        "network-latency" => Class::NetworkLatency,
        "network-bandwidth" => Class::NetworkBandwidth,
        _ => of_memory,
    }
}

/// Whether `class` is one of data that come from a cache or from memory.
pub fn is_of_memory(class: Class) -> bool {
    matches!(
        class,
        Class::DramBandwidth
            | Class::DramLatency
            | Class::L3Bandwidth
            | Class::L2Bandwidth
            | Class::CacheLatency
            | Class::PrivateCacheConflict
            | Class::Tlb
    )
}
