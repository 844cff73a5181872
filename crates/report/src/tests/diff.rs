//! Two profiles compared, in every format: golden files, the schema, hostile names, thousands of functions.

use serde_json::Value;

use super::{formats, sample};
use crate::diff::{self, Condition, Diff, Figure, Judgement, Presence};
use rprof_model as roofline;
use rprof_model::device::example;
use rprof_profile::device::Devices;
use rprof_profile::function::Source;
use rprof_profile::mpi::{CallSite, Mpi};
use rprof_profile::{Function, Profile};

/// The recorded profile, counted whole, with sources of all its bytes.
fn before() -> Profile {
    let mut profile = sample::profile();
    profile.run.passes[1].uncounted_share = Some(0.0);
    for f in profile.functions.iter_mut().filter(|f| f.bytes.is_some()) {
        let of = |how: &str, error| Source { how: how.into(), error, reason: None };
        f.source.insert("bytes.l1".into(), of("counted", None));
        f.source.insert("bytes.l2".into(), of("simulated", Some(0.02)));
        f.source.insert("bytes.l3".into(), of("simulated", Some(0.02)));
    }
    roofline::analyse(&mut profile);
    profile
}

fn named<'p>(profile: &'p mut Profile, name: &str) -> &'p mut Function {
    profile.functions.iter_mut().find(|f| f.name == name).unwrap()
}

/// A later build of it: one function slower, one vectorised, one with a little more work, one new, one gone.
fn after() -> Profile {
    let mut profile = before();
    profile.run.command[0] = "./kernels-2".into();
    profile.functions.iter_mut().filter(|f| f.module == "kernels").for_each(|f| f.module = "kernels-2".into());
    profile.functions.retain(|f| f.name != "normalise");
    let list = named(&mut profile, "list_walk");
    list.time_s = list.time_s.map(|s| 1.5 * s);
    list.cpu_s = list.cpu_s.map(|s| 1.5 * s);
    let hash = named(&mut profile, "hash_bytes");
    hash.instructions = hash.instructions.map(|n| n + 1000);
    named(&mut profile, "gemm_scalar").time_s = Some(0.05);
    named(&mut profile, "dot_reduce").time_s = Some(0.344);
    let mut new = named(&mut profile, "triad").clone();
    new.name = "triad_tail".into();
    new.time_s = Some(0.1);
    profile.functions.push(new);
    roofline::analyse(&mut profile);
    profile
}

fn change<'d, 'p>(diff: &'d Diff<'p>, name: &str) -> &'d diff::Change<'p> {
    diff.changes.iter().find(|change| change.name() == name).unwrap()
}

#[test]
fn text_and_markdown_are_as_blessed() {
    let (old, new) = (before(), after());
    let diff = diff::compare(&old, &new);
    for width in [80, 140] {
        let text = diff::text(&diff, width);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        formats::golden(&format!("diff-{width}.txt"), &text);
    }
    let markdown = diff::markdown(&diff);
    assert!(markdown.len() < 6000, "{} bytes for a comment", markdown.len());
    formats::golden("diff.md", &markdown);
}

#[test]
fn only_what_exceeds_its_error_is_a_change() {
    let (old, new) = (before(), after());
    let diff = diff::compare(&old, &new);
    let names: Vec<&str> = diff.changed().map(|change| change.name()).collect();
    for name in ["list_walk", "gemm_scalar", "hash_bytes", "triad_tail", "normalise"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!names.contains(&"dot_reduce"), "4 ms of 340 ± 6.8 ms: {names:?}");
    let hash = change(&diff, "hash_bytes");
    assert_eq!(hash.changed().map(|d| d.figure).collect::<Vec<_>>(), [Figure::Instructions], "1,000 of 2.6 billion");
    assert_eq!(hash.old_module(), Some("kernels"));
    assert_eq!(
        (change(&diff, "triad_tail").presence(), change(&diff, "normalise").presence()),
        (Presence::New, Presence::Gone)
    );
    let same = diff::compare(&old, &old);
    assert_eq!(same.changed().count(), 0, "{:?}", same.changed().map(|c| c.name()).collect::<Vec<_>>());
    assert!(diff::text(&same, 80).contains("No change: 11 functions"));
}

#[test]
fn what_was_not_measured_is_said_and_never_zero() {
    let (old, new) = (before(), after());
    let diff = diff::compare(&old, &new);
    let text = diff::text(&diff, 200);
    assert!(
        text.contains(
            "Not measured in both profiles: instructions, L1 bytes, L2 bytes, L3 bytes, DRAM bytes of jit_code"
        ),
        "{text}"
    );
    let json = diff::json(&diff, &[]);
    assert!(!json["changed"]["items"].as_array().unwrap().iter().any(|f| f["name"] == "jit_code"));
    let mut counted = before();
    named(&mut counted, "jit_code").instructions = Some(7);
    named(&mut counted, "jit_code").time_s = Some(1.0);
    let json = diff::json(&diff::compare(&old, &counted), &[]);
    let jit = json["changed"]["items"].as_array().unwrap().iter().find(|f| f["name"] == "jit_code").unwrap();
    let instructions = &jit["figures"]["instructions"];
    assert!(instructions["old"]["value"].is_null() && instructions["difference"].is_null(), "{instructions}");
    assert_eq!((&instructions["outcome"], &instructions["old"]["known"]), (&"unknown".into(), &"not-measured".into()));
    let page = diff::page(&diff).unwrap();
    assert!(page.contains("<span class=\"absent\">not measured</span>"));
}

#[test]
fn programs_that_are_others_are_compared_all_the_same_and_it_is_said() {
    let old = before();
    let mut new = before();
    new.run.command = vec!["/usr/bin/other".into()];
    for f in &mut new.functions {
        f.module = "other".into();
        f.name = format!("other_{}", f.name);
    }
    let text = diff::text(&diff::compare(&old, &new), 100);
    assert!(
        text.contains("! These are profiles of different programs, kernels and other: 0.0 % of their work"),
        "{text}"
    );
    assert!(text.contains("(new)") && text.contains("(gone)"));
    let renamed = diff::text(&diff::compare(&old, &after()), 100);
    assert!(
        !renamed.contains("different programs") && renamed.contains("kernels-2 is compared with kernels"),
        "{renamed}"
    );
    let mut rank = before();
    rank.run.threads.iter_mut().for_each(|thread| thread.rank = Some(3));
    let mut other_rank = before();
    other_rank.run.threads.iter_mut().for_each(|thread| thread.rank = Some(0));
    let text = diff::text(&diff::compare(&rank, &other_rank), 100);
    assert!(text.contains("! The profiles are of different MPI ranks (3, 0)"), "{text}");
    other_rank.run.exit_status = Some(3);
    assert!(
        diff::text(&diff::compare(&old, &other_rank), 100)
            .contains("! The run of the new profile failed with exit status 3")
    );
}

#[test]
fn programs_that_work_in_main_alone_are_compared_by_it() {
    // All work of each is in one function, or in a second one, too.
    let of = |program: &str, names: &[&str]| {
        let mut profile = before();
        profile.run.command = vec![format!("./{program}")];
        profile.functions.truncate(names.len());
        for (f, name) in profile.functions.iter_mut().zip(names) {
            (f.module, f.name) = (program.into(), (*name).into());
        }
        profile
    };
    let told = |old: &Profile, new: &Profile| diff::text(&diff::compare(old, new), 100);
    let naive = of("naive", &["main"]);
    for names in [&["main"][..], &["main", "kernel"]] {
        for text in [told(&naive, &of("tiled", names)), told(&of("tiled", names), &naive)] {
            assert!(!text.contains("different programs") && text.contains("is compared with"), "{names:?}: {text}");
        }
    }
    let text = told(&naive, &of("other", &["other+0x10"]));
    let why = "! These are profiles of different programs, naive and other: they have other names, and no function of";
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(why), "{text}");
    // A main without other functions in common is no likeness if both have other work.
    let text = told(&of("naive", &["main", "sort"]), &of("other", &["main", "draw"]));
    assert!(text.contains("different programs"), "{text}");
}

/// Answers for the two builds.
fn judged(text: &str) -> Judgement {
    let (old, new) = (before(), after());
    let condition: Condition = text.parse().unwrap_or_else(|e| panic!("{e}"));
    diff::judge(&diff::compare(&old, &new), &condition).unwrap()
}

#[test]
fn conditions_hold_for_changes_beyond_both_the_limit_and_the_error() {
    for text in [
        "time>40%",
        "time_s(list_walk)>49%",
        "time(gemm_scalar)<70%",
        "instructions(hash_bytes)>0%",
        "instructions(hash_bytes)>2.6e9",
        "bytes.dram(triad_tail)>0%",
        "flops(normalise)<99%",
        "program.flops>1%",
        "program.bytes.l1>0%",
        "roof_fraction(list_walk)<20%",
        "roof_fraction(list_walk)<0.8",
        "class(triad)=dram-bandwidth",
        "class(triad)!=ilp",
        "time(void ns::Solver)>1e-3",
    ] {
        assert!(matches!(judged(text), Judgement::Holds(_)), "{text}: {:?}", judged(text));
    }
    for text in [
        "time(dot_reduce)>0%",
        "time(list_walk)>51%",
        "instructions(hash_bytes)>1%",
        "bytes.dram(triad)>0%",
        "program.instructions<50%",
        "roof_fraction(triad)<20%",
        "class(triad)",
        "class(triad)=ilp",
        "class(triad)!=dram-bandwidth",
    ] {
        assert!(matches!(judged(text), Judgement::Not), "{text}: {:?}", judged(text));
    }
    // A figure that is not known is not fine.
    for (text, why) in [
        ("flops(jit_code)>0%", "not measured in the old profile"),
        ("class(jit_code)", "it has no class in the old profile"),
        ("flops(jit_code)>1", "not measured in the new profile"),
        ("time(dot_reduce)>0.1%", "only, so a change of 0.1 % cannot be told"),
        ("roof_fraction(triad)<1%", "only, so a change of 1.0 % cannot be told"),
    ] {
        assert!(matches!(judged(text), Judgement::Unknown(told) if told.contains(why)), "{text}: {:?}", judged(text));
    }
}

#[test]
fn names_that_no_function_has_are_refused_and_loops_have_names_too() {
    let (old, new) = (before(), after());
    let diff = diff::compare(&old, &new);
    let refused = diff::judge(&diff, &"time(TRIA)>5%".parse().unwrap()).unwrap_err();
    assert!(refused.to_string().contains("functions has a name that matches; like it: triad"), "{refused}");
    assert!(diff::judge(&diff, &"instructions(triad:14)>5%".parse().unwrap()).is_ok(), "a loop");
    let mut twice = before();
    let copy = named(&mut twice, "noisy").clone();
    twice.functions.push(Function { instructions: Some(1), ..copy.clone() });
    twice
        .functions
        .iter_mut()
        .filter(|f| f.name == "noisy")
        .for_each(|f| f.instructions = f.instructions.map(|n| n + 1));
    let mut third = before();
    third.functions.push(Function { instructions: Some(3), ..copy });
    let diff = diff::compare(&twice, &third);
    let answer = diff::judge(&diff, &"time(noisy)>5%".parse().unwrap()).unwrap();
    assert!(matches!(answer, Judgement::Unknown(why) if why.contains("cannot be told apart")));
    assert!(diff::text(&diff, 100).contains("Not told apart and not compared: 2 and 2 functions called noisy"));
}

fn calls_of(caller: &str, calls: u64) -> Mpi {
    let site = CallSite {
        caller: caller.into(),
        call: "MPI_Send".into(),
        calls: Some(calls),
        bytes: Some(8 * calls),
        time_s: Some(0.5),
        waiting_s: Some(0.25),
        ..CallSite::default()
    };
    Mpi { sites: vec![site], ..Mpi::default() }
}

#[test]
fn calls_of_mpi_are_compared_in_every_format() {
    let with = |calls| Profile { mpi: Some(calls_of("halo", calls)), ..before() };
    let (old, new) = (with(10), with(20));
    let diff = diff::compare(&old, &new);
    let text = diff::text(&diff, 80);
    let row = text.lines().find(|line| line.contains("MPI_Send in halo")).expect("a row");
    assert!(row.contains("10 → 20") && row.contains("80.0 B → 160 B"), "{row}");
    assert!(diff::markdown(&diff).contains("| MPI\\_Send in halo | 10 → 20 |"), "{}", diff::markdown(&diff));
    assert!(diff::page(&diff).unwrap().contains("<td>MPI_Send in halo</td><td>10 → 20</td>"));
    let hostile = |calls| Profile { mpi: Some(calls_of(HOSTILE, calls)), ..before() };
    let (bad_old, bad_new) = (hostile(1), hostile(2));
    let bad = diff::compare(&bad_old, &bad_new);
    let (page, markdown, text) = (diff::page(&bad).unwrap(), diff::markdown(&bad), diff::text(&bad, 80));
    for out in [&page, &markdown, &text] {
        assert!(!out.contains(['\u{202e}', '\u{1b}']), "{out}");
    }
    assert!(!page.contains("<img") && !markdown.contains("<img") && !markdown.contains("@all"), "{markdown}");
    let row = markdown.lines().find(|line| line.starts_with("| MPI")).unwrap();
    assert_eq!(row.replace("\\|", "").matches('|').count(), 5, "{row}");
    let none = diff::text(&diff::compare(&old, &before()), 80);
    assert!(!none.contains("MPI"), "one profile has no calls: {none}");
}

#[test]
fn json_is_as_its_schema_says() {
    let schema: Value = serde_json::from_str(include_str!("../diff/diff.schema.json")).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    let (old, mut new) = (before(), after());
    new.devices = Some(Devices { kernels: vec![example::triad(), example::small()], ..Devices::default() });
    new.mpi = Some(calls_of("halo", 20));
    let old = Profile { mpi: Some(calls_of("halo", 10)), ..old };
    let diff = diff::compare(&old, &new);
    let judged: Vec<(Condition, Judgement)> = ["time>5%", "class", "flops(jit_code)>1%", "program.flops>50%"]
        .map(|text| text.parse().unwrap())
        .into_iter()
        .map(|condition| {
            let judgement = diff::judge(&diff, &condition).unwrap();
            (condition, judgement)
        })
        .collect();
    let value = diff::json(&diff, &judged);
    jsonschema::validate(&schema, &value).unwrap();
    assert_eq!(value["schema"], diff::SCHEMA);
    let results: Vec<&str> =
        value["conditions"].as_array().unwrap().iter().map(|c| c["result"].as_str().unwrap()).collect();
    assert_eq!((results[0], results[2], results[3]), ("holds", "unknown", "does-not-hold"));
    assert_eq!(value["kernels"]["total"], 2);
    let calls = &value["mpi"]["items"][0];
    assert_eq!((&calls["calls"]["old"]["value"], &calls["calls"]["new"]["value"]), (&10.into(), &20.into()));
    assert_eq!((&calls["changed"], &calls["waiting"]["old"]["known"]), (&true.into(), &"without-error".into()));
    // The schema refuses what it should.
    let mut wrong = value.clone();
    wrong["changed"]["items"][0]["figures"]["time"]["outcome"] = "slower".into();
    assert!(jsonschema::validate(&schema, &wrong).is_err());
    let empty = diff::json(&diff::compare(&old, &old), &[]);
    jsonschema::validate(&schema, &empty).unwrap();
}

const HOSTILE: &str = "</script><img src=x onerror=\"alert(1)\">\u{202e}\u{fffd}`|@all [x](http://y) &amp;\n\u{1b}[31m";

#[test]
fn hostile_names_stay_text() {
    let make = |mut profile: Profile| {
        profile.run.command = vec![HOSTILE.into(), HOSTILE.into()];
        profile.functions[0].name = HOSTILE.into();
        profile.functions[0].loops[0].name = HOSTILE.into();
        profile.functions[1].name = "n".repeat(2000);
        profile.functions[2].module = HOSTILE.into();
        profile.frames.iter_mut().filter(|f| f.name == "triad").for_each(|f| f.name = HOSTILE.into());
        profile
            .functions
            .iter_mut()
            .take(3)
            .for_each(|f| f.source.values_mut().for_each(|s| s.reason = Some(HOSTILE.into())));
        profile.machine.cpu = HOSTILE.into();
        profile
    };
    let (old, mut new) = (make(before()), make(before()));
    new.functions.iter_mut().take(3).for_each(|f| f.time_s = f.time_s.map(|s| 2.0 * s));
    new.machine.cpu = format!("{HOSTILE}!");
    let diff = diff::compare(&old, &new);
    assert_eq!(diff.changed().count(), 3);
    let page = diff::page(&diff).unwrap();
    assert!(!page.contains("<img") && page.contains("&lt;img") && !page.contains(['\u{202e}', '\u{1b}']));
    for outside in ["src=\"http", "href=\"http", "url(http", "@import", "<link", "import(", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'") && page.len() < 400_000, "{} bytes", page.len());
    let picture = &page[page.find("<svg").unwrap()..page.find("</svg>").unwrap() + 6];
    formats::well_formed(picture);
    let markdown = diff::markdown(&diff);
    let outside_of_code: String = markdown.split('`').step_by(2).collect();
    assert!(!markdown.contains("<img") && !outside_of_code.contains("@all"), "{markdown}");
    assert!(outside_of_code.contains("@\u{200b}all") && !outside_of_code.contains(" [x]("), "{markdown}");
    assert!(
        markdown.lines().filter(|l| l.starts_with('|')).all(|l| l.replace("\\|", "").matches('|').count()
            == markdown.lines().find(|l| l.starts_with("| function")).unwrap().matches('|').count()),
        "{markdown}"
    );
    let text = diff::text(&diff, 100);
    assert!(!text.contains(['\u{202e}', '\u{1b}']) && text.lines().all(|l| l.chars().count() <= 100), "{text}");
    assert!(diff::json(&diff, &[]).to_string().contains("\\u001b"), "whole and escaped");
}

/// CPU seconds of this thread.
fn cpu_s() -> f64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    now.tv_sec() as f64 + 1e-9 * now.tv_nsec() as f64
}

#[test]
fn five_thousand_functions_take_less_than_a_second_and_every_format_is_bounded() {
    let make = |slower: f64| {
        let mut profile = before();
        let models = profile.functions.clone();
        for i in 0..5000 - models.len() {
            let mut f = models[i % models.len()].clone();
            f.name = format!(
                "ns::Class{i}<std::vector<double, std::allocator<double>>>::method_{i}(int, double const*) const"
            );
            f.module = format!("lib{}.so", i % 40);
            f.time_s = f.time_s.map(|s| s * slower);
            profile.functions.push(f);
        }
        // As many of one name.
        let alike: Vec<Function> = (0..2000).map(|_| Function { name: "same".into(), ..models[0].clone() }).collect();
        profile.functions.extend(alike);
        profile
    };
    let (old, new) = (make(1.0), make(1.5));
    let start = cpu_s();
    let diff = diff::compare(&old, &new);
    let took = cpu_s() - start;
    println!("compared in {took:.3} s");
    assert!(took < 1.0, "{took} s");
    assert!(diff.changed().count() > 4900 && diff.alike.len() == 1);
    let lengths = [
        diff::text(&diff, 120).lines().count(),
        diff::markdown(&diff).len(),
        diff::page(&diff).unwrap().len(),
        diff::json(&diff, &[]).to_string().len(),
    ];
    println!("lines of text, bytes of Markdown, HTML, JSON: {lengths:?}");
    assert!(lengths[0] < 300 && lengths[1] < 12_000 && lengths[2] < 1_000_000 && lengths[3] < 1_500_000, "{lengths:?}");
    assert!(cpu_s() - start < 10.0, "all formats: {} s", cpu_s() - start);
}
