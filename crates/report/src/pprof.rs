//! pprof's format: gzip'd `profile.proto`, for `go tool pprof`, speedscope and services that keep profiles.
//!
//! Each sample is a call stack in one thread with its CPU time, the part of it above the bound, the time it waited, and its instructions,
//! FLOPs and DRAM bytes; labels name the thread and what holds the function. pprof has no way to say that a figure was not measured: it
//! is 0 there, and a comment of the profile says how much CPU time that concerns.

mod amounts;
mod messages;
mod tables;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use rprof_profile::{Frame, Profile};

use super::error::ReportError;
use super::number::seconds;
use super::stacks;
use crate::words;
use amounts::{Figure, Place, Row};
use messages::{Label, PprofProfile, Sample, ValueType};
use tables::{Named, Tables};

/// The profile as the bytes of a `.pb.gz` file.
///
/// # Errors
/// [`ReportError::Render`] if it cannot be packed.
pub fn bytes(profile: &Profile) -> Result<Vec<u8>, ReportError> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let written = packed.write_all(&message(profile).encode_to_vec()).and_then(|()| packed.finish());
    written.map_err(|error| ReportError::Render { what: "pprof profile", problem: error.to_string() })
}

fn message(profile: &Profile) -> PprofProfile {
    let mut tables = Tables::new(profile);
    let rows = amounts::rows(profile);
    let sample = rows.iter().map(|row| sample(profile, row, &mut tables)).collect();
    let sample_type = Figure::ALL.map(|figure| value_type(figure, &mut tables)).to_vec();
    let timed = profile.run.timed_pass();
    let period = timed.and_then(|pass| pass.frequency_hz).filter(|hz| *hz > 0.0).map_or(0.0, |hz| 1e9 / hz);
    let cpu = sample_type[Figure::Cpu as usize];
    let comment = comments(profile).iter().map(|text| tables.strings.add(text)).collect();
    PprofProfile {
        sample,
        period_type: (period > 0.0).then_some(cpu),
        period: period.round() as i64,
        duration_nanos: timed.map_or(0, |pass| (pass.wall_s * 1e9).round() as i64),
        comment,
        default_sample_type: cpu.kind,
        sample_type,
        mapping: tables.mappings,
        location: tables.locations,
        function: tables.functions,
        string_table: tables.strings.all,
    }
}

fn value_type(figure: Figure, tables: &mut Tables) -> ValueType {
    let (name, unit) = figure.name_and_unit();
    ValueType { kind: tables.strings.add(name), unit: tables.strings.add(unit) }
}

fn sample(profile: &Profile, row: &Row, tables: &mut Tables) -> Sample {
    let location_id = match row.place {
        Place::Stack(leaf) => locations(profile, leaf, tables),
        Place::Function(function) => vec![tables.location(&[Named::from(&profile.functions[function])])],
        Place::Unknown => vec![tables.location(&[NO_STACK])],
    };
    let thread = row.thread.and_then(|thread| profile.run.threads.get(thread as usize));
    let class = words::name_of(row.function.and_then(|f| profile.functions[f].analysis.class));
    let mut label = vec![text_label("class", class, tables)];
    if let Some(thread) = thread {
        label.push(text_label("thread", &thread.tid.to_string(), tables));
        label.push(Label { key: tables.strings.add("pid"), text: 0, number: i64::from(thread.pid) });
        label.extend(thread.rank.map(|rank| text_label("rank", &rank.to_string(), tables)));
    }
    Sample { location_id, value: row.values.to_vec(), label }
}

/// The frame of samples without a stack.
const NO_STACK: Named<'_> = Named { name: "[no stack]", module: "", file: None, line: None };

fn text_label(key: &str, text: &str, tables: &mut Tables) -> Label {
    Label { key: tables.strings.add(key), text: tables.strings.add(text), number: 0 }
}

/// The places of the stack `leaf`, leaf first. Functions that were inlined are part of the place of the one that holds them.
fn locations(profile: &Profile, leaf: u32, tables: &mut Tables) -> Vec<u64> {
    let frames = stacks::frames(profile, leaf);
    let frames: Vec<&Frame> = frames.iter().filter_map(|frame| profile.frames.get(*frame as usize)).collect();
    let places = frames.chunk_by(|_, above| above.inlined);
    let ids = places.map(|place| {
        let named: Vec<Named<'_>> = place.iter().rev().map(|frame| Named::from(*frame)).collect();
        tables.location(&named)
    });
    let mut ids: Vec<u64> = ids.collect();
    ids.reverse();
    ids
}

/// What the values do not say themselves.
fn comments(profile: &Profile) -> Vec<String> {
    let mut all = vec![
        format!("rprof: {}", profile.run.command.join(" ")),
        "instructions, flops and dram are sums of each function, divided among its stacks by CPU time".to_owned(),
    ];
    for figure in [Figure::Lost].into_iter().chain(Figure::counts()) {
        let missing_s = amounts::missing_seconds(profile, figure);
        if missing_s > 0.0 {
            let (name, _) = figure.name_and_unit();
            all.push(format!("{name} is 0 where it is not known: functions with {} of CPU time", seconds(missing_s)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::tests::sample;
    use rprof_profile::run::Module;
    use rprof_profile::{ProfileSample, Stack};

    fn decoded(profile: &Profile) -> PprofProfile {
        let mut raw = Vec::new();
        flate2::read::GzDecoder::new(&bytes(profile).unwrap()[..]).read_to_end(&mut raw).unwrap();
        PprofProfile::decode(&raw[..]).unwrap()
    }

    /// The sum of a figure over the samples that `keep`.
    fn sum(made: &PprofProfile, figure: Figure, keep: impl Fn(&Sample) -> bool) -> i64 {
        made.sample.iter().filter(|s| keep(s)).map(|s| s.value[figure as usize]).sum()
    }

    /// Names of a sample's frames, leaf first.
    fn names<'m>(made: &'m PprofProfile, sample: &Sample) -> Vec<&'m str> {
        let lines = sample.location_id.iter().flat_map(|id| &made.location[*id as usize - 1].line);
        let functions = lines.map(|line| &made.function[line.function_id as usize - 1]);
        functions.map(|f| &*made.string_table[f.name as usize]).collect()
    }

    #[test]
    fn each_function_has_its_time_and_its_counts() {
        let profile = sample::profile();
        let made = decoded(&profile);
        let work: f64 = profile.samples.iter().filter(|s| !s.waiting).map(|s| s.weight_s).sum();
        assert!((sum(&made, Figure::Cpu, |_| true) as f64 / 1e9 - work).abs() < 1e-6);
        for f in &profile.functions {
            let own = |figure| sum(&made, figure, |s| names(&made, s)[0] == f.name);
            for figure in Figure::counts() {
                assert_eq!(own(figure), figure.count(f).unwrap_or(0) as i64, "{figure:?} of {}", f.name);
            }
            let lost = f.analysis.roof_fraction.map_or(0.0, |at| own(Figure::Cpu) as f64 * (1.0 - at).max(0.0));
            assert!((own(Figure::Lost) as f64 - lost).abs() < 100.0, "{} of {}", own(Figure::Lost), f.name);
        }
        let text = |index: i64| &*made.string_table[index as usize];
        let comments: Vec<&str> = made.comment.iter().map(|c| text(*c)).collect();
        assert!(
            comments.iter().any(|c| c.starts_with("flops is 0 where it is not known: functions with ")),
            "{comments:?}"
        );
        let of_triad = made.sample.iter().find(|s| names(&made, s)[0] == "triad").unwrap();
        let labels: Vec<(&str, &str)> = of_triad.label.iter().map(|l| (text(l.key), text(l.text))).collect();
        assert!(
            labels.contains(&("class", "dram-bandwidth")) && labels.iter().any(|(key, _)| *key == "thread"),
            "{labels:?}"
        );
    }

    #[test]
    fn inlined_functions_are_lines_of_the_place_that_holds_them() {
        let mut profile = sample::profile();
        let frame = |name: &str| Frame { name: name.into(), inlined: true, ..profile.frames[1].clone() };
        let inlined = [frame("outer"), frame("inner")];
        let (first, top) = (profile.frames.len() as u32, profile.stacks.len() as u32);
        profile.frames.extend(inlined);
        profile.stacks.push(Stack { parent: Some(1), frame: first });
        profile.stacks.push(Stack { parent: Some(top), frame: first + 1 });
        profile.samples = vec![ProfileSample { stack: Some(top + 1), waiting: false, ..profile.samples[0].clone() }];
        profile.run.modules =
            vec![Module { name: "kernels".into(), path: "/opt/kernels".into(), build_id: Some("c0ffee".into()) }];
        let made = decoded(&profile);
        let sampled = &made.sample[0];
        assert_eq!(names(&made, sampled), ["inner", "outer", "triad", "main"]);
        assert_eq!(sampled.location_id.len(), 2);
        let triad = profile.functions.iter().find(|f| f.name == "triad").unwrap();
        assert_eq!(
            sampled.value[Figure::Instructions as usize],
            triad.instructions.unwrap() as i64,
            "the host's counts"
        );
        let mapping = &made.mapping[made.location[sampled.location_id[0] as usize - 1].mapping_id as usize - 1];
        let text = |index: i64| &*made.string_table[index as usize];
        assert_eq!((text(mapping.filename), text(mapping.build_id)), ("/opt/kernels", "c0ffee"));
    }

    #[test]
    fn a_profile_without_samples_has_its_counts_and_one_without_anything_is_no_panic() {
        let mut profile = sample::profile();
        profile.samples.clear();
        let counted: u64 = profile.functions.iter().filter_map(|f| f.instructions).sum();
        assert_eq!(sum(&decoded(&profile), Figure::Instructions, |_| true), counted as i64);
        assert!(decoded(&Profile::default()).sample.is_empty());
    }
}
