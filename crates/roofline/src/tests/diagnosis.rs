//! The program's diagnosis on made profiles.

use rprof_profile::confidence::{Confidence, Level};
use rprof_profile::core_to_core::CoreToCore;
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::{Analysis, Saving, Work};
use rprof_profile::run::{Pass, Run, Thread};
use rprof_profile::system::{Caller, Reason, System, SystemCall, Wait};
use rprof_profile::trial::{Change, Ratio, Trial, Trials};
use rprof_profile::vocabulary::Class;
use rprof_profile::{Frame, Function, Profile, ProfileSample, Stack};

use crate::diagnosis::{self, Diagnosis};

/// A run of two seconds.
pub(super) const WALL_S: f64 = 2.0;

pub(super) fn profile(functions: Vec<Function>) -> Profile {
    let pass = Pass { kind: "timed".into(), wall_s: WALL_S, cpu_s: WALL_S, ..Pass::default() };
    let frames = ["main", "parse"].map(|name| frame(name, "app")).into();
    Profile { run: Run { passes: vec![pass], ..Run::default() }, frames, functions, ..Profile::default() }
}

pub(super) fn frame(name: &str, module: &str) -> Frame {
    Frame { name: name.into(), module: module.into(), file: Some("app.c".into()), line: Some(12), inlined: false }
}

pub(super) fn function(name: &str, module: &str, cpu_s: f64, class: Class) -> Function {
    let confidence = Some(Confidence { level: Level::High, reasons: Vec::new() });
    let analysis = Analysis { class: Some(class), confidence, roof_fraction: Some(0.9), ..Analysis::default() };
    let file = (module == "app").then(|| "app.c".to_owned());
    let (cpu_s, time_s) = (Some(cpu_s), Some(cpu_s));
    Function {
        name: name.into(),
        module: module.into(),
        file,
        line: Some(3),
        cpu_s,
        time_s,
        analysis,
        ..Function::default()
    }
}

pub(super) fn saving(remove: &str, seconds: f64) -> Saving {
    let program_seconds = Some(seconds);
    Saving { remove: vec![remove.into()], seconds, seconds_max: seconds, program_seconds, advice: String::new() }
}

pub(super) fn found(profile: &Profile) -> Diagnosis {
    diagnosis::of(profile).expect("a diagnosis")
}

pub(super) fn place(found: &Diagnosis) -> &str {
    found.place.as_ref().map_or("", |place| place.function.as_str())
}

#[test]
fn the_change_that_saves_most_names_the_cause() {
    let mut hot = function("hot", "app", 1.9, Class::L1Bandwidth);
    hot.analysis.savings = vec![saving("simd", 1.5), saving("access", 0.3)];
    let found = found(&profile(vec![hot, function("cold", "app", 0.05, Class::Ilp)]));
    assert_eq!((found.cause, place(&found)), (Class::Simd, "hot"));
    let saves = found.saves_s.expect("an interval");
    assert!(saves.least < 1.5 && 1.5 < saves.most && saves.most - saves.least <= 0.3 * WALL_S, "{saves:?}");
    assert!(found.advice.is_some_and(|advice| advice.contains("app.c:3") && advice.chars().count() <= 200));
}

#[test]
fn a_chain_that_holds_a_function_and_balance_are_named_before_vectors() {
    let cause = |class, savings: &[(&str, f64)]| {
        let mut hot = function("hot", "app", 1.9, class);
        hot.analysis.savings = savings.iter().map(|(remove, seconds)| saving(remove, *seconds)).collect();
        found(&profile(vec![hot, function("cold", "app", 0.05, Class::Ilp)])).cause
    };
    assert_eq!(cause(Class::Ilp, &[("ilp", 1.0), ("simd", 1.6)]), Class::Ilp);
    assert_eq!(cause(Class::Simd, &[("ilp", 1.0), ("simd", 1.6)]), Class::Simd);
    assert_eq!(cause(Class::Ilp, &[("ilp", 0.2), ("simd", 1.6)]), Class::Simd, "it gains next to nothing");
    assert_eq!(cause(Class::Ilp, &[("imbalance", 0.7), ("ilp", 1.0), ("simd", 1.6)]), Class::LoadImbalance);
    assert_eq!(cause(Class::Mispredict, &[("imbalance", 0.7), ("mispredict", 1.6)]), Class::Mispredict);
}

#[test]
fn time_in_a_library_is_its_callers() {
    let mut all = profile(vec![
        function("strlen", "libc.so.6", 1.8, Class::InstructionMix),
        function("main", "app", 0.1, Class::Ilp),
    ]);
    all.frames.push(frame("strlen", "libc.so.6"));
    all.stacks = vec![
        Stack { parent: None, frame: 0 },
        Stack { parent: Some(0), frame: 1 },
        Stack { parent: Some(1), frame: 2 },
    ];
    all.samples = vec![ProfileSample { t_s: 0.5, weight_s: 1.8, thread: 0, stack: Some(2), waiting: false }];
    let found = found(&all);
    assert_eq!(place(&found), "parse");
    assert!(found.advice.is_some_and(|advice| advice.contains("lengths")));
}

#[test]
fn time_in_the_kernel_has_a_saving_and_a_caller() {
    let close = SystemCall {
        name: Some("close".into()),
        count: Some(1 << 20),
        kernel_s: Some(1.7),
        divided: false,
        estimated: false,
    };
    let callers = vec![Caller { name: "close_all".into(), seconds: 1.7 }];
    let mut wrapper = function("close", "libc.so.6", 0.1, Class::SystemCalls);
    wrapper.kernel_s = Some(1.7);
    wrapper.system = Some(System { calls: vec![close], callers, ..System::default() });
    let found = found(&profile(vec![wrapper, function("close_all", "app", 0.1, Class::FrontEnd)]));
    assert_eq!((found.cause, place(&found)), (Class::SystemCalls, "close_all"));
    assert!(found.saves_s.is_some_and(|saves| saves.most > 1.7 && saves.most <= WALL_S));
}

#[test]
fn waiting_weighs_against_work() {
    let wait = Wait { reason: Reason::Write, call: Some("fdatasync".into()), file: None, seconds: 1.6 };
    let mut all = profile(vec![function("main", "app", 0.3, Class::Ilp)]);
    let thread = Thread { id: 0, pid: 1, tid: 1, rank: None, host: String::new(), cpu_s: 0.3 };
    all.run.threads = vec![thread];
    all.run.system = Some(System { waits: Some(vec![wait]), ..System::default() });
    let found = found(&all);
    assert_eq!(found.cause, Class::Waiting);
    assert!(found.advice.is_some_and(|advice| advice.contains("transaction")));
}

#[test]
fn helpers_that_sleep_are_no_cause() {
    let wait = Wait { reason: Reason::Poll, call: Some("pselect6".into()), file: None, seconds: 3.9 };
    let mut hot = function("hot", "app", 1.9, Class::Mispredict);
    hot.analysis.savings = vec![saving("mispredict", 0.5)];
    let mut all = profile(vec![hot]);
    all.run.threads =
        [1.9, 0.03].map(|cpu_s| Thread { id: 0, pid: 1, tid: 1, rank: None, host: String::new(), cpu_s }).into();
    all.run.system = Some(System { waits: Some(vec![wait]), ..System::default() });
    all.functions[0].allowed_cpus = Some(2);
    let found = found(&all);
    assert_eq!((found.cause, place(&found)), (Class::Mispredict, "hot"));
    assert!(found.others.iter().all(|other| other.class != Class::Waiting), "{:?}", found.others);
}

#[test]
fn below_a_program_without_symbols_the_first_name_is_the_place() {
    let mut kernel = function("x264_trellis", "libx264.so.164", 1.8, Class::Mispredict);
    kernel.analysis.savings = vec![saving("mispredict", 0.5)];
    let mut all = profile(vec![kernel, function("ffmpeg+0x2ace0", "ffmpeg", 0.1, Class::Ilp)]);
    all.run.command = vec!["/usr/bin/ffmpeg".into()];
    let nameless = frame("ffmpeg+0x2ace0", "ffmpeg");
    all.frames =
        vec![nameless, frame("libx264.so.164+0x10", "libx264.so.164"), frame("x264_trellis", "libx264.so.164")];
    all.stacks = vec![
        Stack { parent: None, frame: 0 },
        Stack { parent: Some(0), frame: 1 },
        Stack { parent: Some(1), frame: 2 },
    ];
    all.samples = vec![ProfileSample { t_s: 0.5, weight_s: 1.8, thread: 0, stack: Some(2), waiting: false }];
    assert_eq!(place(&found(&all)), "x264_trellis");
}

#[test]
fn functions_of_an_interpreter_are_its_scripts() {
    let of = |command: &[&str]| {
        let mut all = profile(vec![
            function("_PyEval_EvalFrameDefault", "python3.11", 0.8, Class::Mispredict),
            function("PyNumber_Add", "python3.11", 0.6, Class::InstructionMix),
            function("dict_traverse", "python3.11", 0.3, Class::DramLatency),
        ]);
        all.functions.iter_mut().for_each(|f| f.file = Some("ceval.c".into()));
        all.frames = vec![frame("main", "python3.11")];
        all.run.command = command.iter().map(|word| (*word).to_owned()).collect();
        found(&all)
    };
    let by_name = of(&["python3", "-X", "dev", "sum.py"]);
    assert_eq!(by_name.cause, Class::InstructionMix);
    assert!(
        by_name.advice.is_some_and(|advice| advice.contains("out of the interpreter") && advice.contains("sum.py"))
    );
    assert!(by_name.others.iter().any(|other| other.advice.as_ref().is_some_and(|a| a.contains("Collect less often"))));
    let inline = of(&["/usr/bin/python3.11", "-c", "print(1)"]);
    assert!(inline.place.is_some_and(|place| place.function == "main" && place.file.is_none()));
    let by_itself = of(&["./tool"]);
    assert!(by_itself.place.is_some_and(|place| place.file.as_deref() == Some("./tool")));
}

#[test]
fn lines_that_move_between_cores_are_the_cause_and_not_what_their_instructions_are() {
    let traffic = Traffic { l1_misses: 1e7, coherence: 1e7, ..Traffic::default() };
    let mut count = function("count", "app", 2.8, Class::Ilp);
    (count.team, count.time_s) = (Some(2), Some(1.4));
    count.work = Some(Work { traffic: Some(traffic), ..Work::default() });
    count.analysis.savings = vec![saving("ilp", 1.2), saving("imbalance", 0.4)];
    let mut all = profile(vec![count]);
    all.machine.core_to_core = Some(CoreToCore::of(vec![2e-7]));
    let found = found(&all);
    assert_eq!((found.cause, place(&found)), (Class::Sharing, "count"));
    assert!(found.others.iter().all(|other| other.class != Class::LoadImbalance), "{:?}", found.others);
}

#[test]
fn a_program_that_nothing_explains_is_unknown() {
    let mut odd = function("odd", "app", 1.9, Class::Ilp);
    odd.analysis.roof_fraction = Some(0.05);
    let found = found(&profile(vec![odd]));
    assert_eq!((found.cause, found.saves_s), (Class::Unknown, None));
}

#[test]
fn a_change_that_was_tried_stands_against_the_model() {
    let trial = |change: Change, value: f64| Trial {
        function: "hot".into(),
        module: "app".into(),
        file: None,
        line: None,
        change: Some(change),
        share: 1.0,
        ratio: Some(Ratio { value, least: value - 0.01, most: value + 0.01 }),
        unchanged: None,
        pairs: vec![(1.0, value); 5],
        saves_s: Some((1.9 * (1.0 - value - 0.01), 1.9 * (1.0 - value + 0.01))),
        reason: None,
    };
    let with = |made: Vec<Trial>| {
        let mut hot = function("hot", "app", 1.9, Class::Tlb);
        hot.analysis.savings = vec![saving("small-pages", 1.2)];
        Profile { trials: Some(Trials { made, ..Trials::default() }), ..profile(vec![hot]) }
    };
    let assists = found(&with(vec![trial(Change::FlushDenormals, 0.1), trial(Change::HugePages, 1.0)]));
    assert_eq!((assists.cause, place(&assists), assists.confidence), (Class::Assists, "hot", Level::High));
    assert!(assists.because[0].contains("tried in 5 pairs of copies") && assists.because[0].contains("0.10"));
    assert!(assists.ruled_out.iter().any(|(class, why)| *class == Class::Tlb && why.contains("tried in copies")));
    assert!(assists.others.iter().all(|other| other.class != Class::Tlb), "{:?}", assists.others);
    let none = found(&with(vec![trial(Change::HugePages, 1.0)]));
    assert_ne!(none.cause, Class::Tlb, "the model is overruled");
    assert_eq!(found(&with(Vec::new())).cause, Class::Tlb);
    let half = found(&with(vec![trial(Change::HugePages, 0.5)]));
    let saves = half.saves_s.expect("an interval");
    assert!(half.cause == Class::Tlb && (0.9..1.0).contains(&saves.middle()), "{saves:?}");
}
