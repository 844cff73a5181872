//! The live machine: every microkernel is encoded and run, and the ceilings stand in the order that the model needs.
//!
//! Times are only compared with each other, with slack: this host may be busy.

use rprof::machine::{Effort, MachineError, Quiet, Request, load_or_measure};
use rprof::profile::Machine;

fn measure(request: &Request) -> (Machine, Quiet) {
    let mut progress = Quiet::default();
    let machine = load_or_measure(request, &mut progress).expect("a measurement");
    (machine, progress)
}

fn request(cache: &std::path::Path) -> Request {
    let mut request = Request::new(Effort::Quick);
    request.cache = Some(cache.to_owned());
    request
}

#[test]
fn ladder_is_in_order_and_cached() {
    let cache = tempfile::tempdir().expect("temporary directory");
    let (machine, _) = measure(&request(cache.path()));
    let most = machine.cores;
    for threads in [1, most] {
        for p in ["dp", "sp"] {
            let rungs: Vec<f64> = ["tlp", "ilp", "simd", "fma", "peak"]
                .iter()
                .map(|rung| machine.value(&format!("{p}.{rung}"), threads).unwrap_or_else(|| panic!("{p}.{rung}")))
                .collect();
            assert!(rungs.windows(2).all(|w| w[0] <= 1.1 * w[1]), "{p} at {threads} threads: {rungs:?}");
        }
    }
    for ceiling in &machine.ceilings {
        match ceiling.value {
            Some(value) => assert!(value.is_finite() && value > 0.0, "{ceiling:?}"),
            None => assert!(ceiling.reason.is_some(), "{ceiling:?}"),
        }
    }
    let (again, _) = measure(&request(cache.path()));
    let same = machine.ceilings.iter().filter(|c| again.ceilings.contains(c)).count();
    assert!(same > 0, "nothing of the cached measurement was used");
}

#[test]
fn a_broken_cache_is_named_and_measured_again() {
    let cache = tempfile::tempdir().expect("temporary directory");
    measure(&request(cache.path()));
    let file = std::fs::read_dir(cache.path()).expect("directory").next().expect("a file").expect("entry").path();
    let text = std::fs::read_to_string(&file).expect("cache file");
    std::fs::write(&file, &text[..text.len() / 3]).expect("write");
    let (machine, progress) = measure(&request(cache.path()));
    assert!(progress.warnings.iter().any(|w| w.code == "machine-cache"), "{:?}", progress.warnings);
    assert!(machine.value("dp.fma", 1).is_some());
    assert_eq!(std::fs::read_to_string(&file).expect("replaced").len() > text.len() / 2, true);
}

#[test]
fn one_cpu_without_avx_still_has_a_ladder() {
    let cache = tempfile::tempdir().expect("temporary directory");
    let mut request = request(cache.path());
    request.features = Default::default();
    request.threads = Some(1);
    let (machine, _) = measure(&request);
    assert_eq!(machine.vector_bits, Some(128));
    let fma = machine.value("dp.fma", 1).expect("the roof without FMA");
    assert!(fma >= 0.9 * machine.value("dp.simd", 1).expect("simd"));
    assert_eq!(machine.value("dp.fma.256", 1), None);
    assert!(machine.value("dp.add.128", 1).is_some() && machine.value("l1.triad", 1).is_some());
}

#[test]
fn a_cpu_that_is_not_ours_is_refused() {
    let cache = tempfile::tempdir().expect("temporary directory");
    let mut request = request(cache.path());
    request.cpus = Some(vec![4000]);
    let mut progress = Quiet::default();
    assert!(matches!(load_or_measure(&request, &mut progress), Err(MachineError::NoCpu { .. })));
}
