//! Recorded counts of memory controllers and miss queues, and the conclusions of A.3.

use super::kernel::{HZ, ITERATIONS, Kernel, profile, zen5};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::Function;
use rprof_profile::counters::Counter;
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::PerThread;
use rprof_profile::vocabulary::Class;

/// A stream of 24 bytes an iteration from memory on one thread.
fn stream(cycles: f64) -> Kernel {
    let bytes = |t: &mut Traffic| (t.dram_read, t.dram_write, t.dram_fill) = (16.0, 8.0, 8.0);
    Kernel::new("stream").fp(1, FpOp::Fma, Precision::Dp, Width::Scalar).traffic(bytes).took(cycles)
}

fn controllers(balance: f64, background: f64, certified: bool) -> Counter {
    Counter {
        event: "imc.cas_read".into(),
        role: "dram_read_lines".into(),
        unit: "byte".into(),
        value: Some(1e9),
        background: Some(background),
        balance: Some(balance),
        certified,
        ..Counter::default()
    }
}

fn analysed(function: Function, counter: Option<Counter>) -> Function {
    let mut profile = profile(vec![function], zen5());
    profile.run.counters.extend(counter);
    crate::analyse(&mut profile);
    profile.functions.remove(0)
}

/// The least cycles an iteration of the stream with even controllers.
fn even_cycles() -> f64 {
    let seconds = analysed(stream(1e6).function, None).analysis.terms.dram.unwrap();
    seconds * HZ / ITERATIONS as f64
}

fn value(f: &Function, id: &str) -> Option<f64> {
    f.analysis.ceilings.iter().find(|c| c.id == id)?.value
}

#[test]
fn uneven_controllers_lower_the_ceiling_of_memory() {
    let kernel = stream(2.05 * even_cycles());
    let even = analysed(kernel.function.clone(), None);
    let found = analysed(kernel.function.clone(), Some(controllers(0.5, 0.0, true)));
    let (dram, uneven) = (value(&found, "dram").unwrap(), value(&found, "memory-imbalance").unwrap());
    assert_eq!(Some(dram), value(&even, "dram"), "the ceiling of even controllers stands above it");
    assert!((uneven / dram - 0.5).abs() < 1e-9, "{uneven} of {dram}");
    assert_eq!(value(&even, "memory-imbalance"), None);
    assert_eq!(found.analysis.binding.as_deref(), Some("memory-imbalance"));
    assert_eq!(found.analysis.class, Some(Class::DramBandwidth));
    let ceiling = found.analysis.ceilings.iter().find(|c| c.id == "memory-imbalance").unwrap();
    assert!(ceiling.from.iter().any(|f| f == "controller balance"), "{ceiling:?}");
    let saving = found.analysis.savings.iter().find(|s| s.remove == ["memory-imbalance"]).expect("half the time");
    assert!((saving.seconds / found.time_s.unwrap() - 0.5 / 1.025).abs() < 0.01, "{saving:?}");
    assert!(saving.advice.contains("2.00 times the mean") && saving.advice.contains("numactl"), "{}", saving.advice);
}

#[test]
fn what_the_controllers_cannot_tell_lowers_nothing() {
    let slow = stream(2.05 * even_cycles()).function;
    let none = |function: &Function, counter: Counter, why: &str| {
        assert_eq!(value(&analysed(function.clone(), Some(counter)), "memory-imbalance"), None, "{why}");
    };
    none(&slow, controllers(0.99, 0.0, true), "even enough");
    none(&slow, controllers(0.5, 2e9, true), "most of it is the background's");
    none(&slow, controllers(0.5, 0.0, false), "not certified");
    none(&stream(1.2 * even_cycles()).function, controllers(0.5, 0.0, true), "it was faster than that");
}

fn cycles(role: &str, share: f64, function: &Function) -> Counter {
    let all = function.time_s.unwrap() * HZ;
    Counter {
        event: role.into(),
        role: role.into(),
        unit: "cycle".into(),
        value: Some(share * all),
        ..Counter::default()
    }
}

/// Random accesses with a latency that takes most of the time.
fn random(stalled: f64, full: f64) -> Function {
    let lines = |t: &mut Traffic| (t.dram_read, t.random_lines, t.l3_misses) = (64.0, 1.0, 1.0);
    let mut function = Kernel::new("random").traffic(lines).took(1e3).function;
    let counters = [cycles("stall_l3", stalled, &function), cycles("queue_full", full, &function)];
    function.counters.extend(counters);
    function
}

#[test]
fn full_queues_leave_prefetching_nothing_to_gain() {
    let latency = |f: &Function| f.analysis.savings.iter().find(|s| s.remove == ["latency"]).cloned();
    let bare = analysed(Function { counters: vec![], ..random(0.9, 0.0) }, None);
    let term = bare.analysis.terms.latency.unwrap();
    let time = term / 0.9;
    let made = |stalled: f64, full: f64| {
        let mut f = random(stalled, full);
        let scale = time / f.time_s.unwrap();
        f.counters.iter_mut().for_each(|c| c.value = c.value.map(|v| v * scale));
        (f.time_s, f.cpu_s, f.exclusive_s, f.time_ci95_s) = (Some(time), Some(time), Some(time), Some(0.01 * time));
        f
    };
    let timed = |stalled: f64, full: f64| analysed(made(stalled, full), None);
    let open = latency(&timed(0.9, 0.0)).expect("latency holds it");
    assert!(open.advice.contains("In 100 % of the cycles"), "{}", open.advice);
    let half = latency(&timed(0.9, 0.6)).expect("a third of the stalls had room");
    assert!(half.seconds < open.seconds && half.advice.contains("In 33 %"), "{half:?}");
    assert!((half.seconds / time - 0.3).abs() < 0.01, "{half:?}");
    assert_eq!(latency(&timed(0.9, 0.9)), None, "more misses at once are not possible");
    assert!(half.advice.contains("(hardware counters, not certified)"), "{}", half.advice);
    let mut requests = made(0.9, 0.9);
    requests.counters.iter_mut().filter(|c| c.role == "queue_full").for_each(|c| c.unit = "count".into());
    let of_counts = latency(&analysed(requests, None)).expect("how often a request found the queue full is no time");
    assert!(!of_counts.advice.contains("queue of misses") && of_counts.seconds >= open.seconds, "{of_counts:?}");
}

/// A stream of two threads, `share` of the bytes of which are the first one's, and as much of the time.
fn of_two(share: f64) -> Function {
    let host = zen5();
    let seconds = |bytes: f64, threads| bytes / host.value("dram.copy", threads).expect("recorded");
    let mut f = stream(1.0).threads(2, 2).function;
    let bytes = f.bytes.and_then(|b| b.dram).expect("moved") as f64;
    // Together until the second thread has moved its part, then the first one alone.
    let (both, alone) = (2.0 * (1.0 - share), 2.0 * share - 1.0);
    let (both_s, alone_s) = (seconds(both * bytes, 2), seconds(alone * bytes, 1));
    let time_s = 1.02 * (both_s + alone_s);
    f.concurrency = vec![alone_s / (both_s + alone_s), both_s / (both_s + alone_s)];
    (f.time_s, f.cpu_s, f.exclusive_s) = (Some(time_s), Some(1.02 * (2.0 * both_s + alone_s)), Some(time_s));
    f.time_ci95_s = Some(0.01 * time_s);
    f.lambda = Some((2.0 * both_s + alone_s) / (2.0 * (both_s + alone_s)));
    let part = |thread: u32, share: f64| PerThread {
        thread,
        dram_bytes: Some((share * bytes) as u64),
        ..PerThread::default()
    };
    f.per_thread = vec![part(0, share), part(1, 1.0 - share)];
    f
}

#[test]
fn a_thread_that_moves_nearly_all_is_told_to_share_its_data_out() {
    let (uneven, even) = (analysed(of_two(0.97), None), analysed(of_two(0.5), None));
    let saving = |f: &Function, name: &str| f.analysis.savings.iter().find(|s| s.remove == [name]).cloned();
    let shared = saving(&uneven, "memory-imbalance").expect("a saving");
    assert!(shared.advice.contains("moved 97 % of its bytes"), "{}", shared.advice);
    assert_eq!(uneven.analysis.savings[0].remove, ["memory-imbalance"], "{:?}", uneven.analysis.savings);
    // As long as the even one takes, which does the same.
    let left = uneven.time_s.expect("timed") - shared.seconds;
    assert!((left / even.time_s.expect("timed") - 1.0).abs() < 0.04, "{left} and {:?}", even.time_s);
    assert_eq!(saving(&uneven, "imbalance"), None, "told once");
    assert_eq!(saving(&even, "memory-imbalance"), None);
    let (dram, low) = (value(&uneven, "dram").expect("even"), value(&uneven, "memory-imbalance").expect("uneven"));
    assert!(low < 0.95 * dram, "{low} and {dram}");
    assert_eq!(uneven.analysis.binding.as_deref(), Some("memory-imbalance"));
    assert_eq!((value(&even, "memory-imbalance"), even.analysis.binding.as_deref()), (None, Some("dram")));
}
