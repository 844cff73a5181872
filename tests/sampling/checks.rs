//! Properties that the evidence must have, whichever sampler took it.

use rprof::join::Resolver;
use rprof::profile::code::{CodeRef, ModuleKind};
use rprof::profile::evidence::timed::{Sample, TimedEvidence};
use rprof::sample::{SampleOptions, run};
use rprof::symbols::Symbols;

use crate::programs::{Fixture, gated};

/// A leaf without a frame, called from two functions without frame pointers, has its callers over it.
pub fn callers_over_a_frameless_leaf(options: &SampleOptions) {
    let fixture = Fixture::compile("callers", &["-O2", "-fomit-frame-pointer"]);
    let timed = run(fixture.gated(&["1"]), options).unwrap();
    assert_eq!(timed.status.code(), Some(7));
    let e = &timed.evidence;
    consistent(e);
    let function = |code| fixture.function(e, code);
    let in_leaf = e.samples.iter().filter(|s| s.stack.first().and_then(function) == Some("leaf"));
    let callers: Vec<_> = in_leaf.map(|s| s.stack.get(1).and_then(function)).collect();
    let of = |name| callers.iter().filter(|c| **c == Some(name)).count() as f64 / callers.len() as f64;
    assert!(callers.len() > 30, "only {} samples in the leaf", callers.len());
    assert!(of("even") + of("odd") > 0.95, "callers of the leaf: {callers:?}");
    assert!(of("even") > 0.25 && of("odd") > 0.25, "even {} odd {}", of("even"), of("odd"));
    let roots = e.samples.iter().filter(|s| s.stack.iter().any(|c| function(c) == Some("main")));
    assert!(roots.count() as f64 > 0.95 * callers.len() as f64, "main is on the stack");
}

/// Code around a page with changed rights keeps its unwind tables.
pub fn callers_beside_a_patched_page(options: &SampleOptions) {
    let fixture = Fixture::compile("patched", &["-O2", "-fomit-frame-pointer"]);
    let timed = run(fixture.gated(&["0.5"]), options).unwrap();
    assert!(timed.status.success());
    let e = &timed.evidence;
    consistent(e);
    let names = |s: &Sample| s.stack.iter().map(|c| fixture.function(e, c).map(str::to_owned)).collect::<Vec<_>>();
    let stacks: Vec<_> = e.samples.iter().map(names).filter(|n| n.first() == Some(&Some("leaf".into()))).collect();
    let whole = ["leaf", "caller", "main"].map(|name| Some(name.to_owned()));
    assert!(stacks.len() > 30, "only {} samples in the leaf", stacks.len());
    assert!(stacks.iter().all(|stack| stack.starts_with(&whole)), "{stacks:?}");
}

/// Threads have their own samples, with weights that add up to the thread's CPU time.
pub fn threads_apart(options: &SampleOptions) {
    let fixture = Fixture::compile("threads", &["-O2", "-pthread"]);
    let timed = run(fixture.gated(&["2", "0.4"]), options).unwrap();
    assert!(timed.status.success());
    let e = &timed.evidence;
    consistent(e);
    assert_eq!(e.threads.len(), 3);
    for thread in &e.threads[1..] {
        assert!((0.39..0.5).contains(&thread.cpu_s), "{thread:?} was to use 0.4 s");
        let own = e.samples.iter().filter(|s| s.thread == thread.ordinal && !s.off_cpu);
        let weight: f64 = own.map(|s| s.weight_s).sum();
        assert!((weight / thread.cpu_s - 1.0).abs() < 1e-6, "weights {weight} of {thread:?}");
    }
    assert!(e.threads[0].cpu_s < 0.1, "the first thread waited: {:?}", e.threads[0]);
    let work = fixture.cpu_by_function(e)["work"];
    // On a busy host the kernel takes the CPU away as a system call ends: up to every seventh sample is in the call for the clock then, and
    // tests/run tries again.
    assert!(work > 0.7 && work < 0.95, "{work} s in work");
}

/// Processes are followed through fork and exec, each with its own mappings.
pub fn children_are_followed(options: &SampleOptions) {
    let fixture = Fixture::compile("callers", &["-O2"]);
    let program = fixture.path.to_str().unwrap();
    let timed = run(gated("sh", &["-c", &format!("{program} 0.3 & {program} 0.3; wait; exit 3")]), options).unwrap();
    assert_eq!(timed.status.code(), Some(3));
    let e = &timed.evidence;
    consistent(e);
    let found = |s: &Sample| s.stack.first().and_then(|leaf| fixture.function(e, leaf)) == Some("leaf");
    let mut pids: Vec<u32> = e.samples.iter().filter(|s| found(s)).map(|s| e.threads[s.thread as usize].pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 2, "two processes ran the fixture");
    let modules = e.modules.iter().filter(|m| m.path == program);
    assert_eq!(modules.count(), 1, "and both map the same module");
}

/// Code made at run time is anonymous code of its process.
pub fn code_made_at_run_time(options: &SampleOptions) {
    let fixture = Fixture::compile("generated", &["-O2"]);
    let e = run(fixture.gated(&["0.5"]), options).unwrap().evidence;
    consistent(&e);
    let made =
        |s: &&Sample| s.stack.first().is_some_and(|c| e.modules[c.module as usize].kind == ModuleKind::Anonymous);
    let samples: Vec<_> = e.samples.iter().filter(|s| !s.off_cpu).filter(made).collect();
    let weight: f64 = samples.iter().map(|s| s.weight_s).sum();
    assert!(weight > 0.8 * e.cpu_s, "{weight} s of {} s in code made at run time", e.cpu_s);
    let module = &e.modules[samples[0].stack[0].module as usize];
    assert_eq!((module.pid, module.path.as_str()), (e.threads[0].pid, "[anon]"));
}

/// Code made at run time has the names of the images that its process registered for debuggers, which end with it.
pub fn images_for_debuggers_are_read_in_time(options: &SampleOptions) {
    let fixture = Fixture::compile_of("names", "made_code", &["-O2"]);
    let e = run(fixture.gated(&["gdb"]), options).unwrap().evidence;
    let leaves = e.samples.iter().filter_map(|s| s.stack.first());
    let made = |c: &&CodeRef| e.modules[c.module as usize].kind == ModuleKind::Anonymous;
    let leaf = leaves.into_iter().find(made).expect("a sample in the code made at run time");
    let function = Symbols::default().function(&e.modules[leaf.module as usize], leaf.offset);
    assert_eq!(&*function.name, "registered_function");
    assert_eq!((function.part_start..function.part_end).count(), 6, "bytes of its code");
}

/// Killing the sampling process leaves the program running.
pub fn the_program_outlives_a_killed_sampler(test: &str) {
    const MARK: &str = "SAMPLING_TEST_MARK";
    if let Some(mark) = std::env::var_os(MARK) {
        let script = format!("echo started > {0}; sleep 1; echo done > {0}", mark.display());
        run(gated("sh", &["-c", &script]), &SampleOptions::default()).unwrap();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let says = |word: &str| {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::fs::read_to_string(&mark).is_ok_and(|text| text.trim() == word)
        })
    };
    let mut sampler = std::process::Command::new(std::env::current_exe().unwrap());
    let mut sampler = sampler.args(["--exact", test, "--nocapture"]).env(MARK, &mark).spawn().unwrap();
    assert!(says("started"));
    sampler.kill().unwrap();
    sampler.wait().unwrap();
    assert!(says("done"), "the program ended with its sampler");
}

/// A descendant that outlives the program does not hold the pass up, runs on, and causes a warning.
pub fn descendants_are_left_running(options: &SampleOptions) {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let script = format!("(sleep 1; echo done > {}) & exit 0", mark.display());
    let timed = run(gated("sh", &["-c", &script]), options).unwrap();
    assert!(timed.status.success());
    assert!(!mark.exists(), "the pass waited for the descendant");
    assert!(timed.evidence.warnings.iter().any(|w| w.code == "descendants-left-running"));
    for _ in 0..100 {
        if mark.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the descendant did not run on");
}

/// The program's signal is passed on in its wait status.
pub fn a_fatal_signal_is_reported(options: &SampleOptions) {
    use std::os::unix::process::ExitStatusExt;
    let timed = run(gated("sh", &["-c", "kill -SEGV $$"]), options).unwrap();
    assert_eq!(timed.status.signal(), Some(libc::SIGSEGV));
    consistent(&timed.evidence);
}

/// A program that cannot be executed is reported as such.
pub fn an_impossible_program_fails(options: &SampleOptions) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    std::fs::write(&path, "no program").unwrap();
    let error = run(gated(path.to_str().unwrap(), &[]), options).unwrap_err();
    assert!(matches!(error, rprof::sample::SampleError::Launch(_)), "{error}");
}

/// Times, indices and order agree with one another.
pub fn consistent(e: &TimedEvidence) {
    assert!(e.samples.windows(2).all(|w| w[0].t_s <= w[1].t_s));
    for s in &e.samples {
        assert!(s.t_s >= 0.0 && s.t_s <= e.wall_s + 1e-6, "sample at {} of {}", s.t_s, e.wall_s);
        assert!(s.weight_s.is_finite() && s.weight_s >= 0.0);
        assert!((s.thread as usize) < e.threads.len());
        assert!(s.stack.iter().all(|c| (c.module as usize) < e.modules.len()));
    }
    for (i, t) in e.threads.iter().enumerate() {
        assert_eq!(t.ordinal as usize, i);
        assert!(t.start_s <= t.end_s && t.end_s <= e.wall_s + 1e-6, "{t:?} in {} s", e.wall_s);
    }
    for i in &e.on_cpu {
        assert!(i.start_s < i.end_s && i.end_s <= e.wall_s + 1e-6, "{i:?} in {} s", e.wall_s);
    }
}
