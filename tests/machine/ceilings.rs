//! The live machine: every microkernel is encoded and run, and the ceilings have the order that the model needs.
//!
//! Exact orders are checked on recorded machines. Live figures are compared only if the noise of a busy host cannot
//! break them: an order must be broken in several fresh measurements, among ceilings with repetitions that agreed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rprof::machine::estimate::order;
use rprof::machine::host::topology::Identity;
use rprof::machine::{Effort, MachineError, Quiet, Request, load_or_measure};
use rprof::profile::clock::follows;
use rprof::profile::machine::{How, Quality};
use rprof::profile::run::Warning;
use rprof::profile::{Ceiling, Machine};

fn recorded(name: &str) -> Machine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/machines").join(name);
    serde_json::from_str(&std::fs::read_to_string(&path).expect("fixture")).expect("a machine")
}

#[test]
fn a_recorded_machine_is_in_order() {
    let machine = recorded("zen4-guest.json");
    assert_eq!(order::violations(&machine.ceilings), []);
    assert!(machine.ceilings.iter().filter(|c| c.quality == Quality::Noisy).count() <= 4);
    // A mutant: the roof below the scalar rate.
    let mut wrong = machine;
    wrong.ceilings.iter_mut().filter(|c| c.id == "dp.fma").for_each(|c| c.value = Some(1.0));
    assert!(!order::violations(&wrong.ceilings).is_empty());
}

/// One measurement at a time: tests run side by side, and each of them takes all CPUs.
static CPUS: Mutex<()> = Mutex::new(());

fn measure(request: &Request) -> (Machine, Quiet) {
    let _alone = CPUS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut progress = Quiet::default();
    let machine = load_or_measure(request, &mut progress).expect("a measurement");
    (machine, progress)
}

fn request(cache: &std::path::Path) -> Request {
    let mut request = Request::new(Effort::Quick);
    request.cache = Some(cache.to_owned());
    request
}

/// Orders with neighbours far apart on every CPU: those of the core's arithmetic, and of the caches of a core.
const LIVE: [&str; 4] = ["dp.", "sp.", "l1.", "l2."];

/// Fresh measurements in which an order must be broken before it counts.
const PERSISTENT: usize = 3;

/// Whether the rounds of a ceiling agreed, whatever else speaks against it.
fn agreed(ceiling: &Ceiling) -> bool {
    ceiling.spread.is_some_and(|spread| spread <= 0.1)
}

/// Pairs in the wrong order by a quarter or more, with both ceilings measured undisturbed.
fn grossly_broken(machine: &Machine) -> BTreeSet<(u32, String, String)> {
    let sound = |id: &str, threads| machine.ceilings.iter().any(|c| c.is(id, threads) && agreed(c));
    order::violations(&machine.ceilings)
        .into_iter()
        .filter(|v| v.factor > 1.25 && LIVE.iter().any(|p| v.upper.starts_with(p)))
        .filter(|v| sound(&v.upper, v.threads) && sound(&v.lower, v.threads))
        .map(|v| (v.threads, v.upper, v.lower))
        .collect()
}

#[test]
fn what_breaks_an_order_is_noisy_and_does_not_persist() {
    let mut persistent: Option<BTreeSet<_>> = None;
    for fresh in 1..=PERSISTENT {
        let cache = tempfile::tempdir().expect("temporary directory");
        let (machine, _) = measure(&request(cache.path()));
        for ceiling in &machine.ceilings {
            match ceiling.value {
                Some(value) => assert!(value.is_finite() && value > 0.0, "{ceiling:?}"),
                None => assert!(ceiling.reason.is_some(), "{ceiling:?}"),
            }
        }
        for v in order::violations(&machine.ceilings) {
            let both =
                machine.ceilings.iter().filter(|c| c.threads == v.threads && (*c.id == v.upper || *c.id == v.lower));
            let claimed: Vec<_> = both.filter(|c| c.is_reproduced()).collect();
            assert!(claimed.is_empty(), "{v:?} but reproduced: {claimed:?}");
        }
        let broken = grossly_broken(&machine);
        let still = persistent.map_or_else(|| broken.clone(), |p| p.intersection(&broken).cloned().collect());
        if still.is_empty() {
            return;
        }
        println!("measurement {fresh}: {still:?} out of order");
        persistent = Some(still);
    }
    panic!("out of order in {PERSISTENT} fresh measurements: {persistent:?}");
}

#[test]
fn a_measured_half_of_l2_is_found() {
    // A busy host once showed this: two threads read from L2 at half of their rate from L3.
    let mut machine = recorded("zen4-guest.json");
    assert_eq!(grossly_broken(&machine), BTreeSet::new());
    let l3 = machine.value("l3.read", 2).expect("recorded");
    machine.ceilings.iter_mut().filter(|c| c.id == "l2.read" && c.threads == 2).for_each(|c| c.value = Some(l3 / 2.0));
    assert_eq!(grossly_broken(&machine), BTreeSet::from([(2, "l2.read".to_owned(), "l3.read".to_owned())]));
}

/// The ids that the design promises, by hand: `{a,b}` means each of them. The list leaves out features that a CPU may lack, and
/// sweeps and the `.4k` forms, which a quick measurement leaves out.
const PROMISED: [&str; 22] = [
    "{dp,sp}.{tlp,ilp,simd,fma,peak}",
    "{dp,sp}.{add,mul,div,sqrt}.{scalar,128}",
    "{dp,sp}.balance.{addmul,add}",
    "int.{add,mul,logic}.scalar",
    "int.alu.scalar",
    "mix.{mov,alu,load}.{2,4,8,16}",
    "mix.{mov,alu,load}.{2,4,8,16}.l1i",
    "mix.{mov,alu,load}.{2,4,8,16}.l2",
    "issue",
    "imbalance.2",
    "{l1,l2,l3,dram}.{read,copy,triad,update,write}",
    "l1.access.load.int",
    "l1.access.store.int",
    "dram.{copy,triad,write}.nt",
    "dram.{noprefetch,prefetch}",
    "dram.{noaffinity,snoop}",
    "dram.stride.{2,4,8,16,page}",
    "dram.{random,gather}",
    "dram.chase.{1,2,4,8,16}",
    "dram.cores.1",
    "lat.{l1,l2,l3,dram}",
    "{mispredict,pagefault}",
];

/// All ids that match a pattern.
fn ids(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.into()] };
    let (choices, after) = rest.split_once('}').expect("a closing brace");
    choices.split(',').flat_map(|choice| ids(&format!("{before}{choice}{after}"))).collect()
}

#[test]
fn every_promised_ceiling_has_a_value_or_a_reason_in_a_fresh_measurement() {
    let cache = tempfile::tempdir().expect("temporary directory");
    let (machine, _) = measure(&request(cache.path()));
    let mut promised: Vec<String> = PROMISED.iter().flat_map(|pattern| ids(pattern)).collect();
    assert!(promised.len() > 100, "{promised:?}");
    for (feature, there) in [("256", is_x86_feature_detected!("avx2")), ("512", is_x86_feature_detected!("avx512f"))] {
        if there {
            promised.extend(ids(&format!("{{dp,sp}}.{{add,mul,div,sqrt}}.{feature}")));
        }
    }
    if is_x86_feature_detected!("fma") {
        promised.extend(ids("{dp,sp}.fma.{scalar,128,256}"));
    }
    if machine.cores < 2 {
        promised.retain(|id| id != "imbalance.2");
    }
    let told = |id: &str| machine.ceilings.iter().any(|c| c.id == id && (c.value.is_some() || c.reason.is_some()));
    let missing: Vec<String> = promised.into_iter().filter(|id| !told(id)).collect();
    assert!(missing.is_empty(), "neither a value nor a reason: {missing:?}");
}

/// The only file in the cache directory.
fn cache_file(cache: &Path) -> PathBuf {
    std::fs::read_dir(cache).expect("directory").next().expect("a file").expect("entry").path()
}

#[test]
fn a_cached_measurement_is_used_and_its_gaps_are_filled() {
    let cache = tempfile::tempdir().expect("temporary directory");
    let (machine, _) = measure(&request(cache.path()));
    let file = cache_file(cache.path());
    let text = std::fs::read_to_string(&file).expect("cache file");
    let mut entry: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let ceilings = entry["machine"]["ceilings"].as_array_mut().expect("ceilings");
    // A ceiling that no measurement makes shows that the file was used; one that came too late must be filled in.
    let mut planted = ceilings[0].clone();
    planted["id"] = "planted".into();
    ceilings.push(planted);
    let late = ceilings.iter_mut().find(|c| c["id"] == "dp.add.scalar").expect("measured");
    late["value"] = serde_json::Value::Null;
    late["quality"] = serde_json::json!({"missing": "time"});
    std::fs::write(&file, entry.to_string()).expect("write");
    let (mut again, _) = measure(&request(cache.path()));
    assert!(again.ceilings.iter().any(|c| c.id == "planted"), "the cached measurement was not used");
    // On a busy host there may be no time for it in one run: then there is in a later one.
    for _ in 0..10 {
        if again.value("dp.add.scalar", 1).is_none() {
            again = measure(&request(cache.path())).0;
        }
    }
    let filled = serde_json::json!(again.value("dp.add.scalar", 1));
    assert!(!filled.is_null(), "what came too late was not tried again");
    let ids = |m: &Machine| m.ceilings.iter().map(|c| (c.id.clone(), c.threads)).collect::<BTreeSet<_>>();
    assert_eq!(ids(&again).len(), again.ceilings.len(), "an id twice");
    assert!(ids(&machine).is_subset(&ids(&again)), "an id lost");
    let kept = std::fs::read_to_string(cache_file(cache.path())).expect("cache file");
    let kept: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
    let kept = kept["machine"]["ceilings"].as_array().expect("ceilings");
    assert!(
        kept.iter().any(|c| c["id"] == "dp.add.scalar" && c["threads"] == 1 && c["value"] == filled),
        "what was filled in is not kept"
    );
}

#[test]
fn a_ceiling_stays_as_it_was_measured_whatever_the_clock_is_now() {
    let cache = tempfile::tempdir().expect("temporary directory");
    measure(&request(cache.path()));
    let file = cache_file(cache.path());
    let entry = || -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(&file).expect("cache file")).expect("JSON")
    };
    // All as if measured at half the clock; one of them once more, under a name that is never measured again.
    let mut slow = entry();
    let ceilings = slow["machine"]["ceilings"].as_array_mut().expect("ceilings");
    let of_core = |c: &&mut serde_json::Value| c["clock_hz"].is_f64() && c["id"].as_str().is_some_and(follows);
    for c in ceilings.iter_mut().filter(of_core) {
        let factor = if c["unit"] == "s" { 2.0 } else { 0.5 };
        c["value"] = c["value"].as_f64().map(|v| factor * v).into();
        c["clock_hz"] = c["clock_hz"].as_f64().map(|hz| 0.5 * hz).into();
    }
    let mut planted = ceilings.iter().find(|c| c["id"] == "dp.tlp").expect("measured").clone();
    planted["id"] = "dp.planted".into();
    ceilings.push(planted.clone());
    std::fs::write(&file, slow.to_string()).expect("write");
    for run in 1..=4 {
        let (now, _) = measure(&request(cache.path()));
        let told = now.ceilings.iter().find(|c| c.id == "dp.planted").expect("kept");
        let text = entry();
        let mut kept = text["machine"]["ceilings"].as_array().expect("ceilings").iter();
        let kept = kept.find(|c| c["id"] == "dp.planted").expect("kept");
        for field in ["value", "clock_hz"] {
            assert_eq!(kept[field], planted[field], "{field} after {run} runs");
        }
        assert_eq!((told.value, told.clock_hz), (planted["value"].as_f64(), planted["clock_hz"].as_f64()));
    }
}

#[test]
fn memory_that_has_become_slower_is_measured_again_or_marked() {
    const TEST: &str = "memory_that_has_become_slower_is_measured_again_or_marked";
    let cache = tempfile::tempdir().expect("temporary directory");
    let (machine, _) = measure(&request(cache.path()));
    let file = cache_file(cache.path());
    let mut planted: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("cache file")).expect("JSON");
    if machine.value("dram.read", machine.cores).is_none() {
        return println!(
            "SKIPPED: memory: {TEST}: this host has too little memory to measure DRAM, or too little time"
        );
    }
    // Every ceiling of the memory ten times as high: no neighbour explains that. One is never measured again.
    let ceilings = planted["machine"]["ceilings"].as_array_mut().expect("ceilings");
    for c in ceilings.iter_mut().filter(|c| c["id"].as_str().is_some_and(|id| id.starts_with("dram."))) {
        c["value"] = c["value"].as_f64().map(|v| 10.0 * v).into();
        (c["settled"], c["quality"], c["spread"]) = (true.into(), "reproduced".into(), 0.1.into());
    }
    let mut never = ceilings.iter().find(|c| c["id"] == "dram.read").expect("measured").clone();
    never["id"] = "dram.planted".into();
    ceilings.push(never);
    std::fs::write(&file, planted.to_string()).expect("write");
    // A probe that other work disturbs says nothing; a later run looks again.
    let noisy = |m: &Machine| m.ceilings.iter().any(|c| c.id == "dram.planted" && c.quality == Quality::Noisy);
    let moved = (0..10).find_map(|_| Some(measure(&request(cache.path())).0).filter(noisy));
    let Some(now) = moved else {
        return println!("SKIPPED: memory: {TEST}: the probe of the memory was disturbed ten times");
    };
    let planted = now.ceilings.iter().find(|c| c.id == "dram.planted").expect("kept");
    assert!(
        planted.spread.is_some_and(|spread| spread > 0.5),
        "its interval reaches to what there is now: {planted:?}"
    );
    for ceiling in now.ceilings.iter().filter(|c| c.id.starts_with("dram.") && c.id != "dram.planted") {
        let before = machine.ceilings.iter().find(|c| c.is_same(ceiling)).and_then(|c| c.value);
        let Some((value, before)) = ceiling.value.zip(before) else { continue };
        let is_kept = (value / before - 10.0).abs() < 1e-9;
        // Such a figure may also contradict the caches', which is the reason then; its interval shows that the memory changed.
        let reaches_down = ceiling.spread.is_some_and(|spread| spread > 0.5);
        let why = |r: &str| {
            r.starts_with("measured before the memory changed") || r.ends_with("which cannot be") && reaches_down
        };
        let is_marked = ceiling.quality == Quality::Noisy && ceiling.reason.as_deref().is_some_and(why);
        let is_derived = ceiling.how == How::Derived || ceiling.reason.as_deref().is_some_and(|r| r.starts_with("is "));
        assert!(!is_kept || is_marked || is_derived, "neither measured again nor marked: {ceiling:?}");
    }
}

#[test]
fn a_broken_cache_is_named_and_measured_again() {
    let cache = tempfile::tempdir().expect("temporary directory");
    measure(&request(cache.path()));
    let file = cache_file(cache.path());
    let text = std::fs::read_to_string(&file).expect("cache file");
    std::fs::write(&file, &text[..text.len() / 3]).expect("write");
    let (machine, progress) = measure(&request(cache.path()));
    assert!(progress.warnings.iter().any(|w| w.code == "machine-cache"), "{:?}", progress.warnings);
    assert!(machine.value("dp.fma", 1).is_some());
    assert!(std::fs::read_to_string(&file).expect("replaced").len() > text.len() / 2);
}

#[test]
fn a_cache_of_another_machine_is_named_and_replaced() {
    let cache = tempfile::tempdir().expect("temporary directory");
    let mut request = request(cache.path());
    request.threads = Some(1);
    measure(&request);
    let file = cache_file(cache.path());
    let text = std::fs::read_to_string(&file).expect("cache file");
    let mut entry: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    entry["key"]["cpu"] = "another".into();
    entry["machine"]["cpu"] = "another".into();
    std::fs::write(&file, entry.to_string()).expect("write");
    let (machine, progress) = measure(&request);
    assert!(progress.warnings.iter().any(|w| w.text.contains("another machine")), "{:?}", progress.warnings);
    assert_ne!(machine.cpu, "another");
}

#[test]
fn one_cpu_without_sysfs_and_without_a_place_for_the_cache() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("write");
    let mut request = request(&file.join("below"));
    request.sysfs = dir.path().to_owned();
    request.cpus = Some(rprof::machine::host::limits::Limits::read().cpus[..1].to_vec());
    let (machine, progress) = measure(&request);
    // One line says that it cannot be read, one that it cannot be written, both with a remedy.
    let told = |w: &Warning| w.code == "machine-cache" && w.hint.contains("XDG_CACHE_HOME");
    assert!(progress.warnings.iter().any(told), "{:?}", progress.warnings);
    assert!(!machine.caches.is_empty(), "CPUID or an assumption tells the caches");
    assert_eq!(machine.cores, 1);
    assert!(machine.ceilings.iter().all(|c| c.threads == 1), "more threads than CPUs");
    assert!(machine.value("dp.fma", 1).is_some() && machine.value("l1.read", 1).is_some());
}

#[test]
fn an_unknown_cpu_is_measured_under_that_name_with_assumed_caches() {
    let (cache, empty) = (tempfile::tempdir().expect("temporary directory"), tempfile::tempdir().expect("another"));
    let mut request = request(cache.path());
    request.identity = Identity::default();
    request.sysfs = empty.path().to_owned();
    request.threads = Some(1);
    let (machine, progress) = measure(&request);
    let told: Vec<_> = progress.warnings.iter().filter(|w| w.code == "cache-sizes-assumed").collect();
    assert!(matches!(&told[..], [one] if one.hint.contains("/sys")), "{:?}", progress.warnings);
    assert_eq!(machine.cpu, "unknown x86-64 CPU");
    assert_eq!(machine.caches.iter().map(|c| c.level).collect::<Vec<_>>(), [1, 2, 3]);
    for id in ["dp.fma", "sp.peak", "l1.read", "issue"] {
        assert!(machine.value(id, 1).is_some_and(|v| v > 0.0), "{id}");
    }
    // It is kept and found again.
    let (again, _) = measure(&request);
    assert_eq!(again.cpu, machine.cpu);
    assert_eq!(std::fs::read_dir(cache.path()).expect("directory").count(), 1);
}

#[test]
fn with_64_mib_the_core_is_measured_and_memory_says_why_not() {
    let cache = tempfile::tempdir().expect("temporary directory");
    let mut request = request(cache.path());
    request.memory = Some(64 << 20);
    let (machine, progress) = measure(&request);
    assert!(progress.warnings.iter().any(|w| w.code == "too-little-memory"), "{:?}", progress.warnings);
    for id in ["dram.read", "lat.dram"] {
        let ceiling = machine.ceilings.iter().find(|c| c.id == id).expect("an entry");
        assert!(
            ceiling.value.is_none() && ceiling.reason.as_deref().is_some_and(|r| r.contains("memory")),
            "{ceiling:?}"
        );
    }
    // A slow host may leave the time for one of them out, but memory is not the reason.
    let is_measured = |id: &str| {
        let ceiling = machine.ceilings.iter().find(|c| c.id == id && c.threads == 1).expect("an entry");
        ceiling.value.is_some()
            || ceiling.reason.as_deref().is_some_and(|reason| reason.contains("did not fit the time"))
    };
    assert!(is_measured("dp.fma") && is_measured("l2.read"));
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

/// A sysfs tree with this process's first two CPUs (or one) on two memory nodes and the caches of a small machine.
fn two_nodes(cpus: &[usize]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    let put = |path: String, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("create directory");
        std::fs::write(path, text).expect("write file");
    };
    for (node, cpu) in cpus.iter().enumerate() {
        let base = format!("devices/system/cpu/cpu{cpu}");
        put(format!("{base}/topology/physical_package_id"), &node.to_string());
        put(format!("{base}/topology/core_id"), "0");
        for (index, level, size) in [(0, "1", "32K"), (2, "2", "512K"), (3, "3", "4M")] {
            put(format!("{base}/cache/index{index}/level"), level);
            put(format!("{base}/cache/index{index}/type"), if level == "1" { "Data" } else { "Unified" });
            put(format!("{base}/cache/index{index}/size"), size);
            put(format!("{base}/cache/index{index}/shared_cpu_list"), &cpu.to_string());
        }
        put(format!("devices/system/node/node{node}/cpulist"), &cpu.to_string());
    }
    dir
}

#[test]
fn memory_on_one_node_is_measured_where_there_are_two() {
    let cache = tempfile::tempdir().expect("temporary directory");
    let mut request = request(cache.path());
    let cpus = rprof::machine::host::limits::Limits::read().cpus;
    if cpus.len() < 2 {
        println!("SKIPPED: cpus: this process may use one CPU");
        return;
    }
    let sysfs = two_nodes(&cpus[..2]);
    request.sysfs = sysfs.path().to_owned();
    request.cpus = Some(cpus[..2].to_vec());
    let (machine, _) = measure(&request);
    for id in ["dram.noaffinity", "dram.snoop"] {
        let ceiling = machine.ceilings.iter().find(|c| c.id == id).expect("an entry");
        let late = ceiling.reason.as_deref().is_some_and(|r| r.contains("time"));
        assert!(ceiling.value.is_some() || late, "{ceiling:?}");
    }
    assert_eq!(machine.caches.last().map(|c| c.size), Some(4 << 20));
}
