//! The first sentence and the advice of the short text.

use serde_json::{Value, json};

use super::sample;
use crate::{Format, View, render};
use rprof_profile::Profile;

fn text(profile: &Profile) -> String {
    render(profile, Format::Text, &View::default()).unwrap()
}

#[test]
fn waiting_for_a_cpu_is_not_said_of_the_program() {
    let mut profile = sample::profile();
    let wait = |reason: &str, seconds: f64| json!({"reason": reason, "call": null, "file": null, "seconds": seconds});
    let system = |waits: Value| Some(serde_json::from_value(json!({ "waits": waits })).unwrap());
    profile.run.passes[0].cpu_s = 0.1 * profile.run.passes[0].wall_s;
    profile.run.system = system(json!([wait("read", 2.0)]));
    assert!(text(&profile).contains("its threads wait:"), "{}", text(&profile));
    profile.run.system = system(json!([wait("run-queue", 2.5), wait("read", 0.3)]));
    assert!(text(&profile).contains("of the CPU time is in triad"), "{}", text(&profile));
}

#[test]
fn code_without_names_gets_advice() {
    let mut profile = sample::profile();
    assert!(!text(&profile).contains("no symbols"));
    for (i, f) in profile.functions.iter_mut().enumerate() {
        f.module = "libz.so.1".into();
        f.name = format!("libz.so.1+{:#x}", 4096 * i);
    }
    assert!(text(&profile).contains("→ libz.so.1: it has no symbols"), "{}", text(&profile));
}

#[test]
fn code_that_no_window_counted_gets_advice() {
    let mut profile = sample::profile();
    let hint = "it has no counts (made at run time): `--passes both`";
    let flat = |profile: &Profile| text(profile).split_whitespace().collect::<Vec<_>>().join(" ");
    for f in &mut profile.functions {
        f.instructions = None;
        let source = json!({"how": "not measured", "error": null, "reason": "made at run time"});
        f.source.insert("instructions".into(), serde_json::from_value(source).unwrap());
    }
    assert!(!flat(&profile).contains(hint), "two runs were made");
    profile.run.passes[1].kind = "windows".into();
    assert!(flat(&profile).contains(hint), "{}", text(&profile));
    profile.functions.iter_mut().for_each(|f| f.instructions = Some(1));
    assert!(!flat(&profile).contains(hint));
}

#[test]
fn more_than_all_of_a_bound_is_explained_where_it_is_shown() {
    let mut profile = sample::profile();
    let hottest = profile.functions.iter().position(|f| f.name == "triad").unwrap();
    let remark = "at above 100 %: faster than the measured ceiling";
    assert!(!text(&profile).contains(remark));
    profile.functions[hottest].analysis.roof_fraction = Some(1.18);
    let told = text(&profile);
    assert!(told.contains("118 %") && told.contains(remark), "{told}");
    assert!(told.find("118 %") < told.find(remark) && told.lines().count() <= 24, "{told}");
}

#[test]
fn what_is_cut_says_which_option_shows_it_whole() {
    use rprof_profile::run::Warning;
    let mut profile = sample::profile();
    let effect = "elapsed times include these waits, and threads that wait for the delayed ones look unbalanced";
    profile.run.warnings = vec![Warning::new("load", "threads waited 2 s", effect, "words ".repeat(40))];
    // With fewer functions there is room for warnings.
    profile.functions.truncate(2);
    let told = text(&profile);
    assert!(told.contains("unbalanced. … (--all)\n"), "{told}");
    let told = render(&profile, Format::Text, &View { width: 60, ..View::default() }).unwrap();
    assert!(told.contains(" … (--function)\n") && !told.contains(" …\n"), "{told}");
    let whole = render(&profile, Format::Text, &View { extent: crate::Extent::All, ..View::default() }).unwrap();
    assert!(!whole.contains("… (--all)") && whole.contains("words words."), "{whole}");
}

#[test]
fn spinning_is_a_part_of_the_cpu_time_that_the_first_sentence_divides() {
    let mut profile = sample::profile();
    let work: f64 = profile.functions.iter().filter_map(|f| f.cpu_s).sum();
    assert!(text(&profile).contains("31 % of the CPU time is in triad") && !text(&profile).contains("spinning"));
    let branchy = profile.functions.iter_mut().find(|f| f.name == "branchy").unwrap();
    branchy.waiting_s = Some(work);
    let flat = text(&profile).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("15 % of the CPU time is in triad"), "{flat}");
    assert!(flat.contains("50 % of it is spent spinning, in branchy."), "{flat}");
}
