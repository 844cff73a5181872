//! One native run is enough if certified counters measure all that the report needs. Otherwise the program is counted in windows,
//! too. Breakpoints replace hardware events, and the certificates are recorded ones.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use rprof::tracee::affinity::Kept;
use serde_json::{Value, json};

use crate::cli::{Sandbox, function, status, stderr};
use crate::stand_in::{BREAKPOINT, EXECUTED, Event, Folder, address, compile, untrapped};

/// FLOPs of one call of `flop_block`.
const FLOPS: f64 = 1000.0;
/// Floating-point instructions of one call, as the breakpoint event counts them.
const INSTRUCTIONS: f64 = 1200.0;

struct Run {
    sandbox: Sandbox,
    program: PathBuf,
    folder: Folder,
}

impl Run {
    /// A breakpoint on `flop_block` replaces the FLOP event.
    fn new() -> Run {
        let sandbox = Sandbox::new();
        let program = compile(sandbox.path(), "blocks");
        let folder = Folder::new(sandbox.path());
        let address = address(&program, "flop_block");
        let flops = Event { name: "stand_in.flops", role: "flops", config: EXECUTED, address, weight: FLOPS };
        let fp = Event { name: "stand_in.fp", role: "fp_instructions", weight: INSTRUCTIONS, ..flops };
        folder.pmu("stand_in", BREAKPOINT, None, None).table("table.toml", "stand_in", &[flops, fp]);
        Run { sandbox, program, folder }
    }

    fn certificate(&self, verdict: Value) -> &Run {
        let of = |event: &str| {
            let mut certificate = json!({"event": event, "pmu": "stand_in", "comparisons": []});
            certificate.as_object_mut().unwrap().extend(verdict.as_object().unwrap().clone());
            certificate
        };
        let text = serde_json::to_string(&[of("stand_in.flops"), of("stand_in.fp")]).unwrap();
        fs::write(self.folder.path.join("certificates.json"), text).unwrap();
        self
    }

    fn output(&self, options: &[&str]) -> Output {
        let folder = self.folder.path.to_str().unwrap();
        let program = self.program.to_str().unwrap();
        untrapped(|| {
            let _ = fs::remove_dir_all(self.sandbox.path().join("rprof.out"));
            let arguments = [&["--counters-from", folder], options, &["--", program, "2", "10000"]].concat();
            self.sandbox.rprof(arguments).env("RPROF_ONCE", "1").output().unwrap()
        })
    }

    /// The profile and standard error with its line breaks taken out; `None`, with a line that says so, if this host
    /// has no breakpoints for users.
    fn profile(&self, options: &[&str]) -> Option<(Value, String)> {
        let output = self.output(options);
        let text = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(status(&output), 0, "{text}");
        let profile = self.sandbox.profile("rprof.out");
        let text = format!("{text} {}", self.sandbox.whole_report("rprof.out"));
        fs::remove_dir_all(self.sandbox.path().join("rprof.out")).unwrap();
        let sum = profile["run"]["counters"].as_array().unwrap().iter().find(|c| c["event"] == "flops").unwrap();
        if sum["value"].is_null() && !sum["source"]["reason"].as_str().unwrap().contains("not believed") {
            println!("SKIPPED: pmu: {}", sum["source"]["reason"]);
            return None;
        }
        Some((profile, text))
    }
}

fn passes(profile: &Value) -> Vec<&str> {
    profile["run"]["passes"].as_array().unwrap().iter().filter_map(|p| p["kind"].as_str()).collect()
}

#[test]
fn certified_flops_fill_the_functions_of_one_native_run() {
    let run = Run::new();
    run.certificate(json!({"verdict": "trusted"}));
    let Some((profile, text)) = run.profile(&["--memory", "off"]) else { return };
    assert_eq!(passes(&profile), ["timed"]);
    assert!(text.contains("this host's hardware counters are certified"), "{text}");
    let block = function(&profile, "flop_block");
    let total = block["flops"]["total"].as_f64().unwrap_or_else(|| panic!("no FLOPs in {block}"));
    let source = &block["source"]["flops"];
    let error = source["error"].as_f64().unwrap_or(0.0);
    assert!((total / (20_000.0 * FLOPS) - 1.0).abs() <= error + 0.001, "{total} ± {error}");
    assert_eq!(source["how"], "pmu");
    assert_eq!((&block["flops"]["by_op"], &block["flops"]["dp"]), (&Value::Null, &Value::Null), "not told");
    let instructions = block["fp_instructions"].as_f64().unwrap_or_else(|| panic!("none in {block}"));
    let source = &block["source"]["fp_instructions"];
    let error = source["error"].as_f64().unwrap_or(0.0);
    assert!((instructions / (20_000.0 * INSTRUCTIONS) - 1.0).abs() <= error + 0.001, "{instructions} ± {error}");
    assert_eq!(
        (&source["how"], &block["simd_instructions"]),
        (&json!("pmu"), &Value::Null),
        "no event of vectors here"
    );
    assert_eq!(block["instructions"], Value::Null);
    let reason = block["source"]["instructions"]["reason"].as_str().unwrap();
    assert!(reason.contains("certified hardware counters told"), "{reason}");
    assert!(block["flop_rate"].as_f64().is_some_and(|r| r > 0.0), "it has its place in the roofline");
}

#[test]
fn the_counted_pass_runs_where_it_is_asked_for_or_needed() {
    let run = Run::new();
    run.certificate(json!({"verdict": "trusted"}));
    let Some((both, _)) = run.profile(&["--memory", "off", "--passes", "both"]) else { return };
    assert_eq!(passes(&both), ["timed", "counted"]);
    assert_eq!(function(&both, "flop_block")["source"]["flops"]["how"], "counted");
    // The report needs DRAM bytes, and nothing counts them here.
    let (needed, text) = run.profile(&[]).unwrap();
    assert_eq!(passes(&needed), ["timed", "windows"]);
    assert!(text.contains("runs the program once: natively and sampled, and counted in short windows"), "{text}");
}

/// Whether no function that had a sample has FLOPs.
fn have_no_flops(profile: &Value) -> bool {
    profile["functions"].as_array().unwrap().iter().all(|function| function["flops"].is_null())
}

#[test]
fn what_is_not_certified_is_not_used() {
    let run = Run::new();
    let Some((unchecked, text)) = run.profile(&["--memory", "off"]) else { return };
    assert_eq!(passes(&unchecked), ["timed", "windows"]);
    assert!(text.contains("counted in short windows"), "{text}");
    let (timed, _) = run.profile(&["--memory", "off", "--passes", "timed"]).unwrap();
    assert!(have_no_flops(&timed));
    run.certificate(json!({"verdict": "refuted", "found": "counted / known is 0.500 to 0.700 over 4 kernels"}));
    let (refuted, text) = run.profile(&["--memory", "off", "--passes", "timed"]).unwrap();
    assert!(have_no_flops(&refuted));
    assert!(text.contains("not measured, because it is not believed: counted / known is 0.500"), "{text}");
}

#[test]
fn a_constant_factor_is_divided_out() {
    let run = Run::new();
    run.certificate(json!({"verdict": "corrected", "ratio": 2.0}));
    let Some((profile, text)) = run.profile(&["--memory", "off"]) else { return };
    let sum = profile["run"]["counters"].as_array().unwrap().iter().find(|c| c["event"] == "flops").unwrap();
    assert_eq!(sum["value"], 20_000.0 * FLOPS / 2.0);
    assert!(text.contains("counts × 2.000, corrected"), "{text}");
}

#[test]
fn counters_that_contradict_the_counted_pass_are_told() {
    let run = Run::new();
    run.certificate(json!({"verdict": "corrected", "ratio": 1.02}));
    let Some((profile, _)) = run.profile(&["--passes", "both"]) else { return };
    let warnings = profile["run"]["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|w| w["code"] == "counters-disagree").expect("2 % are more than 0.5 %");
    assert!(told["text"].as_str().unwrap().contains("ratio 0.98"), "{told}");
    let block = function(&profile, "flop_block");
    assert_eq!((&block["source"]["flops"]["how"], &block["flops"]["total"]), (&json!("counted"), &json!(20_000_000)));
    run.certificate(json!({"verdict": "trusted"}));
    let (agreed, _) = run.profile(&["--passes", "both"]).unwrap();
    let warnings = agreed["run"]["warnings"].as_array().unwrap();
    assert!(warnings.iter().all(|w| w["code"] != "counters-disagree"), "{warnings:?}");
}

#[test]
fn a_promise_that_is_not_kept_leaves_no_counts_and_no_second_run() {
    let run = Run::new();
    run.certificate(json!({"verdict": "trusted"}));
    // The kernel has no breakpoint of this kind.
    let table = fs::read_to_string(run.folder.path.join("table.toml")).unwrap();
    fs::write(run.folder.path.join("table.toml"), table.replace("event = 4", "event = 7")).unwrap();
    let output = run.output(&["--memory", "off"]);
    let text = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(status(&output), 0, "{text}");
    let profile = run.sandbox.profile("rprof.out");
    let event = profile["run"]["counters"].as_array().unwrap().iter().find(|c| c["event"] == "stand_in.flops").unwrap();
    assert_eq!(event["value"], Value::Null, "{event}");
    assert_eq!(passes(&profile), ["timed"]);
    let reason = function(&profile, "flop_block")["source"]["instructions"]["reason"].to_string();
    assert!(reason.contains("stand_in.flops was not measured") && reason.contains("--passes both"), "{reason}");
}

#[test]
fn a_controller_that_refuses_takes_the_sum_with_it() {
    let run = Run::new();
    let block = address(&run.program, "flop_block");
    let traffic = format!(
        "[[uncore]]\nname = 'mc.all'\nrole = 'dram_read_lines'\nboth_directions = true\npmu = 'mc'\nconfig = {EXECUTED}\n\
         config1 = {block}\nbytes = 64.0\nconfidence = 'inference'\nsource = 'test'\n"
    );
    let table = run.folder.path.join("table.toml");
    fs::write(&table, fs::read_to_string(&table).unwrap() + &traffic).unwrap();
    let trusted = |event: &str, pmu: &str| json!({"event": event, "pmu": pmu, "verdict": "trusted", "comparisons": []});
    let certificates = [trusted("stand_in.flops", "stand_in"), trusted("mc.all", "mc")];
    let recorded = run.folder.path.join("certificates.json");
    fs::write(recorded, serde_json::to_string(&certificates).unwrap()).unwrap();
    run.folder.pmu("mc_0", BREAKPOINT, None, Some("0"));
    // Children of this thread run on the CPU on which the simulated memory controller counts, if they may.
    let _on_cpu_0 = Kept::on(&[0]);
    let bytes = |profile: &Value| {
        profile["run"]["counters"].as_array().unwrap().iter().find(|c| c["event"] == "mc.all").unwrap().clone()
    };
    let Some((whole, _)) = run.profile(&[]) else { return };
    assert!(bytes(&whole)["value"].is_number(), "{}", bytes(&whole));
    // No host of these tests has this CPU.
    run.folder.pmu("mc_1", BREAKPOINT, None, Some("4095"));
    let (part, text) = run.profile(&[]).unwrap();
    assert_eq!((passes(&part), &bytes(&part)["value"]), (vec!["timed"], &Value::Null));
    let reason = bytes(&part)["source"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("mc_1@4095 is missing from the sum: "), "{reason}");
    let counts = function(&part, "flop_block")["source"]["instructions"]["reason"].to_string();
    assert!(counts.contains(&format!("mc.all was not measured: {reason}")), "{counts}");
    assert!(text.contains(&format!("not measured: mc.all, because {reason}")), "{text}");
}

#[test]
fn cores_whose_pmu_is_not_listed_leave_no_certified_zero() {
    let run = Run::new();
    run.certificate(json!({"verdict": "trusted"}));
    // The other kind of core has no PMU here, and the program is on it alone.
    run.folder.pmu("stand_in", BREAKPOINT, Some("0"), None);
    let Ok(_on_cpu_1) = Kept::on(&[1]) else {
        println!("SKIPPED: cpus: there is no CPU 1 for this test");
        return;
    };
    let output = run.output(&["--memory", "off"]);
    let text = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(status(&output), 0, "{text}");
    let profile = run.sandbox.profile("rprof.out");
    let why = "no core PMU of the kernel's list is on CPU 1, where the program may run";
    assert_eq!(passes(&profile), ["timed", "windows"], "{text}");
    for name in ["flops", "stand_in.flops", "stand_in.fp"] {
        let counters = profile["run"]["counters"].as_array().unwrap();
        let counter = counters.iter().find(|c| c["event"] == name).unwrap();
        assert_eq!((&counter["value"], &counter["source"]["reason"]), (&Value::Null, &json!(why)), "{name}");
    }
}

#[test]
fn a_damaged_record_of_certificates_is_told_by_name() {
    let run = Run::new();
    fs::write(run.folder.path.join("certificates.json"), "[{]").unwrap();
    let output = run.output(&[]);
    assert_eq!(status(&output), 125);
    assert!(stderr(&output).contains("certificates.json"), "{}", stderr(&output));
}
