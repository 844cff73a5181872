//! GPUs in every format: golden text, the schema, hostile names.

use serde_json::{Value, json};

use super::{formats, sample};
use crate::{Extent, Format, View, json as reader, render, schema};
use rprof_model as roofline;
use rprof_model::device::example;
use rprof_profile::Profile;

/// The recorded profile with kernels of known work on an H200, analysed.
fn profile() -> Profile {
    let mut profile = sample::profile();
    profile.machine.gpus = vec![example::h200()];
    profile.devices = Some(example::devices());
    roofline::analyse(&mut profile);
    profile
}

/// The part of the text report about GPUs.
fn section(profile: &Profile, width: usize) -> String {
    crate::devices::text(profile, &View { width, ..View::default() }, width)
}

#[test]
fn text_is_as_blessed_at_both_widths() {
    for width in [80, 140] {
        formats::golden(&format!("gpu-{width}.txt"), &section(&profile(), width));
    }
}

#[test]
fn the_section_follows_the_table_and_fits_every_width() {
    for width in [60, 80, 93, 120, 200] {
        let text = render(&profile(), Format::Text, &View { width, extent: Extent::All, ..View::default() }).unwrap();
        let widest = text.lines().max_by_key(|l| l.chars().count()).unwrap();
        assert!(width == 60 || widest.chars().count() <= width, "{width}: {widest}");
        assert!(section(&profile(), width).lines().all(|l| l.chars().count() <= width), "{width}");
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(at("at: least time") < at("\nGPU\n") && at("\nGPU\n") < at("\ntriad (kernels.cpp"));
    }
    let mut none = sample::profile();
    assert!(!render(&none, Format::Text, &View::default()).unwrap().contains("GPU"));
    none.devices = Some(Default::default());
    assert_eq!(section(&none, 80), "");
}

#[test]
fn every_format_has_the_kernels() {
    for format in [Format::Text, Format::Md, Format::Html, Format::Csv, Format::Json] {
        let text = render(&profile(), format, &View::default()).unwrap();
        for words in ["shared_stride32", "gpu-dram-bandwidth", "gpu-launch"] {
            assert!(text.contains(words), "{format:?}: {words}");
        }
    }
    let page = render(&profile(), Format::Html, &View::default()).unwrap();
    assert!(page.contains("Roofline of GPU 0, NVIDIA H200") && page.contains("tensor bf16 967 TFLOP/s"));
    crate::plot::gpu::pictures(&profile(), &View::default()).iter().for_each(|svg| formats::well_formed(svg));
    let csv = render(&profile(), Format::Csv, &View::default()).unwrap();
    assert!(csv.contains("triad,gpu0,") && csv.contains("gpu.dram.triad,gpu-dram-bandwidth"));
}

#[test]
fn what_was_not_counted_is_never_a_zero() {
    let mut profile = profile();
    profile.devices.as_mut().unwrap().kernels.iter_mut().for_each(|k| k.counts = None);
    roofline::analyse(&mut profile);
    let text = section(&profile, 140);
    let row = text.lines().find(|l| l.trim_start().starts_with("triad")).unwrap();
    assert!(row.contains('–') && !row.contains(" 0 "), "{row}");
    assert!(text.contains("not measured: FLOPs and bytes of 7 kernels"), "{text}");
    assert!(crate::plot::gpu::pictures(&profile, &View::default()).is_empty());
}

#[test]
fn what_multiprocessors_received_from_l2_is_shown_where_it_was_counted() {
    let mut profile = profile();
    let shows = |profile: &Profile| {
        let words: Vec<String> = section(profile, 140).split_whitespace().map(str::to_owned).collect();
        words.join(" ").contains("GB/s between L2 and multiprocessors")
    };
    assert!(!shows(&profile));
    for counts in profile.devices.as_mut().unwrap().kernels.iter_mut().filter_map(|kernel| kernel.counts.as_mut()) {
        counts.l2_received = Some(25e9 * counts.seconds);
    }
    assert!(shows(&profile));
    assert!(render(&profile, Format::Json, &View::default()).unwrap().contains("\"l2_received\""));
}

#[test]
fn hostile_and_endless_names_stay_text() {
    let mut profile = profile();
    let devices = profile.devices.as_mut().unwrap();
    devices.kernels[0].name = format!("</script><b>\"x\u{202e}\u{1b}[31m|`{}", "k<int, ".repeat(600));
    devices.kernels[0].symbol = "s".repeat(4000);
    devices.kernels[0].launches = 9000;
    devices.kernels[0].seconds *= 0.001;
    profile.machine.gpus[0].name = "<i>GPU\u{202e}".into();
    roofline::analyse(&mut profile);
    for format in [Format::Text, Format::Md, Format::Html] {
        let text = render(&profile, format, &View::default()).unwrap();
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{format:?}");
        assert!(!text.contains(&"k<int, ".repeat(100)), "{format:?} has the whole name");
        assert!(
            format == Format::Text
                || !text.contains("<b>\"") && !text.contains("<i>") && !text.contains("</script><b>")
        );
    }
    crate::plot::gpu::pictures(&profile, &View::default()).iter().for_each(|svg| formats::well_formed(svg));
    assert!(section(&profile, 80).lines().all(|l| l.chars().count() <= 80));
}

/// Every place in `value` with an object's field, one item of a list for all.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items.iter().take(1).map(|v| ("0".into(), v)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        out.push(format!("{at}/{key}"));
        places(child, &format!("{at}/{key}"), out);
    }
}

#[test]
fn the_schema_holds_every_field_of_devices() {
    let mut rich = profile();
    let devices = rich.devices.as_mut().unwrap();
    let (wgmma, _) = devices.kernels.iter().enumerate().find(|(_, k)| k.name.starts_with("wgmma")).unwrap();
    devices.kernels.swap(0, wgmma);
    devices.warnings.push(rprof_profile::run::Warning::new("lost", "a", "b", "c"));
    let value = serde_json::to_value(&rich).unwrap();
    let full = jsonschema::validator_for(&serde_json::from_str(schema::TEXT).unwrap()).unwrap();
    schema::check(&value).unwrap();
    assert!(full.is_valid(&value));
    let mut all = Vec::new();
    places(&value["devices"], "/devices", &mut all);
    assert!(all.len() > 80, "{}", all.len());
    for pointer in &all {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let mut removed = value.clone();
        if let Some(Value::Object(fields)) = removed.pointer_mut(parent) {
            fields.remove(key);
            let is_optional = ["analysis", "findings", "stretches", "graphs"].contains(&key);
            assert_eq!(schema::check(&removed).is_ok(), is_optional, "{pointer} removed");
            assert_eq!(full.is_valid(&removed), is_optional, "{pointer} removed");
        }
        let mut mistyped = value.clone();
        let slot = mistyped.pointer_mut(pointer).unwrap();
        *slot = if slot.is_boolean() { json!("yes") } else { json!(true) };
        assert!(schema::check(&mistyped).is_err() && !full.is_valid(&mistyped), "{pointer} mistyped");
        assert!(reader::parse(&mistyped).is_err(), "{pointer} mistyped is read");
    }
}

#[test]
fn writing_and_reading_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gpu.json");
    std::fs::write(&path, reader::text(&profile()).unwrap()).unwrap();
    assert_eq!(reader::read(&path).unwrap().devices, profile().devices);
}
