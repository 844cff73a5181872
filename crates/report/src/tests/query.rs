//! Answers of `rprof query`: bounded, honest about what was cut, `null` for what was not measured.

use serde_json::Value;

use super::sample;
use crate::View;
use crate::query::{By, Query, json, text};
use rprof_profile::Profile;
use rprof_profile::vocabulary::Class;

const TOP: Query<'static> = Query::Top { by: By::Saving, limit: 3 };

fn answer(profile: &Profile, query: &Query<'_>) -> Value {
    json(profile, query).unwrap()
}

#[test]
fn the_first_functions_come_in_the_order_asked_for_and_the_cut_is_said() {
    let profile = sample::profile();
    let names = |by| -> Vec<String> {
        let answer = answer(&profile, &Query::Top { by, limit: 3 });
        let functions = &answer["functions"];
        assert_eq!((functions["total"].as_u64(), functions["cut"].as_u64()), (Some(11), Some(8)));
        functions["items"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(By::Saving)[1], "triad");
    assert_eq!(names(By::Time)[0], "triad");
    assert_eq!(names(By::Lost)[0], "branchy");
    let told = text(&profile, &TOP, &View::default()).unwrap();
    assert!(told.contains("… and 8 more of 11 (--limit N)"), "{told}");
    assert!(answer(&profile, &TOP)["run"]["trust"].is_string());
}

#[test]
fn the_verdict_is_one_object_and_the_text_says_the_same() {
    let mut profile = sample::profile();
    let verdict = Query::Verdict { source: "rprof.out" };
    let schema: Value = serde_json::from_str(crate::query::verdict::SCHEMA).unwrap();
    let value = answer(&profile, &verdict);
    jsonschema::validate(&schema, &value).unwrap();
    let saves: Vec<f64> = value["saves_s"].as_array().unwrap().iter().map(|end| end.as_f64().unwrap()).collect();
    assert!(saves[0] <= saves[1] && saves[1] <= value["of_s"].as_f64().unwrap(), "{value}");
    assert!(value["next"].as_str().unwrap().starts_with("rprof report rprof.out --function '"));
    let told = text(&profile, &verdict, &View { width: 1000, ..View::default() }).unwrap();
    assert!(told.contains(value["advice"].as_str().unwrap()), "{told}");
    let known: Vec<&str> =
        schema["$defs"]["cause"]["enum"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    for class in Class::ALL.iter().filter(|class| !class.name().starts_with("gpu-")) {
        assert!(known.contains(&class.name()), "{class}");
    }
    profile.run.passes.retain(|pass| pass.kind != "timed");
    let value = answer(&profile, &verdict);
    jsonschema::validate(&schema, &value).unwrap();
    assert_eq!((value["cause"].as_str(), value["saves_s"].is_null()), (Some("unknown"), true));
}

#[test]
fn an_explanation_has_figures_sources_and_bounded_lists() {
    let mut profile = sample::profile();
    let triad = profile.functions.iter_mut().find(|f| f.name == "triad").unwrap();
    triad.lines = vec![triad.lines[0].clone(); 5000];
    let value = answer(&profile, &Query::Explain { name: "triad" });
    assert_eq!(value["function"]["class"], "dram-bandwidth");
    assert!(value["argument"].as_array().unwrap().len() >= 4 && value["sources"]["bytes.dram"]["how"] == "simulated");
    assert_eq!((value["lines"]["cut"].as_u64(), value["lines"]["items"].as_array().unwrap().len()), (Some(4990), 10));
    assert!(value.to_string().len() < 20_000, "{} bytes", value.to_string().len());
    let part = answer(&profile, &Query::Explain { name: "GEMM" });
    assert_eq!(
        (&part["function"]["name"], &part["also_matches"]["items"][0]),
        (&"gemm_block".into(), &"gemm_scalar".into())
    );
    let refused = json(&profile, &Query::Explain { name: "nothing\u{1b}" }).unwrap_err();
    assert!(refused.to_string().contains("none of the 11 functions"), "{refused}");
    let told = text(&profile, &Query::Explain { name: "triad" }, &View::default()).unwrap();
    assert!(told.contains("simulated ± 3.0 %") && told.contains("memory bandwidth"), "{told}");
}

#[test]
fn what_was_not_measured_is_null() {
    let value = answer(&sample::profile(), &Query::Explain { name: "jit_code" });
    assert!(value["figures"]["flops"].is_null() && value["function"]["roof_fraction"].is_null(), "{value}");
    assert!(value["account"].is_null() && value["function"]["best_saving"].is_null());
}

#[test]
fn call_sites_of_mpi_are_bounded_and_those_with_most_time_come_first() {
    use rprof_profile::mpi::{CallSite, Mpi};
    let mut profile = sample::profile();
    assert!(answer(&profile, &Query::Mpi { limit: 3 })["mpi"].is_null());
    let none = text(&profile, &Query::Mpi { limit: 3 }, &View::default()).unwrap();
    assert!(none.starts_with("No call of MPI"), "{none}");
    let site = |i: u64| CallSite {
        call: "MPI_Send".into(),
        caller: format!("f{i}"),
        calls: Some(i),
        bytes: Some(8 * i),
        time_s: Some(i as f64),
        waiting_s: (i != 2).then_some(0.5),
        ..CallSite::default()
    };
    let begin = CallSite { call: "MPI_Init".into(), time_s: Some(99.0), ..site(0) };
    profile.mpi = Some(Mpi { sites: (1..=5).map(site).chain([begin]).collect(), ..Mpi::default() });
    let mpi = &answer(&profile, &Query::Mpi { limit: 3 })["mpi"];
    let sites = mpi["sites"]["items"].as_array().unwrap();
    assert_eq!((sites.len(), mpi["sites"]["total"].as_u64(), mpi["sites"]["cut"].as_u64()), (3, Some(5), Some(2)));
    assert_eq!((sites[0]["caller"].as_str(), sites[0]["waiting_s"].as_f64()), (Some("f5"), Some(0.5)));
    assert_eq!((mpi["calls"].as_u64(), mpi["bytes"].as_u64()), (Some(15), Some(120)));
    assert!(mpi["waiting_s"].is_null(), "that of one site is not known");
    let told = text(&profile, &Query::Mpi { limit: 3 }, &View::default()).unwrap();
    assert!(told.starts_with("MPI: ") && told.contains("… and 2 more call sites"), "{told}");
}

#[test]
fn ceilings_are_found_by_how_they_begin() {
    let profile = sample::profile();
    let value = answer(&profile, &Query::Ceilings { prefix: "dp.", limit: 2 });
    let items = value["ceilings"]["items"].as_array().unwrap();
    assert!(items.len() == 2 && items.iter().all(|c| c["id"].as_str().unwrap().starts_with("dp.")));
    assert!(value["ceilings"]["cut"].as_u64().unwrap() > 0);
    let ids: Vec<_> = items.iter().map(|c| &c["id"]).collect();
    assert_ne!(ids[0], ids[1], "one of each id");
}

#[test]
fn a_comparison_counts_what_is_within_noise() {
    let old = sample::profile();
    let mut new = old.clone();
    new.functions[0].time_s = Some(5.0);
    let value = answer(&old, &Query::Compare { new: &new, limit: 10 });
    let changed = value["changed"]["items"].as_array().unwrap();
    assert_eq!((changed.len(), value["unchanged"].as_u64()), (1, Some(10)));
    assert_eq!(changed[0]["time_s"][1], 5.0);
    assert_eq!(answer(&old, &Query::Compare { new: &new, limit: 0 })["changed"]["cut"], 1);
}
