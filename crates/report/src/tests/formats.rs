//! The other formats: golden text, well-formed pictures, no number for a missing value, nothing from the network.

use serde_json::Value;

use super::sample;
use crate::{Extent, Format, View, machine, render};
use rprof_profile::Profile;
use rprof_profile::function::Source;

fn made(format: Format) -> String {
    render(&sample::profile(), format, &whole(100)).unwrap()
}

/// A view of everything.
fn whole(width: usize) -> View {
    View { width, extent: Extent::All, ..View::default() }
}

/// Compares with `fixtures/golden/NAME`; `RPROF_BLESS=1` writes it. A missing file is a failure.
pub fn golden(name: &str, text: &str) {
    let path = format!("{}/../../fixtures/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("RPROF_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}; RPROF_BLESS=1 writes it"));
    assert!(wanted == text, "{name} differs from the golden file; RPROF_BLESS=1 blesses this:\n{text}");
}

#[test]
fn no_format_holds_control_characters_of_the_command() {
    let mut profile = sample::profile();
    profile.run.command.push("\u{1b}[31m\u{7}".into());
    for format in [Format::Text, Format::Html, Format::Svg, Format::Md, Format::Flamegraph] {
        let text = render(&profile, format, &View::default()).unwrap();
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{format:?}");
    }
}

#[test]
fn text_is_as_blessed_at_both_widths() {
    for width in [80, 140] {
        let text = render(&sample::profile(), Format::Text, &whole(width)).unwrap();
        golden(&format!("report-{width}.txt"), &text);
    }
}

#[test]
fn text_fits_every_width() {
    for width in [80, 93, 100, 120, 160, 200] {
        let text = render(&sample::profile(), Format::Text, &whole(width)).unwrap();
        let widest = text.lines().max_by_key(|l| l.chars().count()).unwrap();
        assert!(widest.chars().count() <= width, "{width}: {widest}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("dram-bandwidth") && words.contains("use non-temporal stores"));
    }
}

#[test]
fn the_brief_report_is_as_blessed_and_fits_a_terminal() {
    let made = |profile: &Profile, width| render(profile, Format::Text, &View { width, ..View::default() }).unwrap();
    for width in [80, 120] {
        golden(&format!("brief-{width}.txt"), &made(&sample::profile(), width));
    }
    let mut profile = sample::profile();
    profile.run.exit_status = Some(3);
    for f in &mut profile.functions {
        f.name = format!("ns::{}<{}>", f.name, "std::vector<double>, ".repeat(20));
    }
    for width in [80, 93, 120, 200] {
        let text = made(&profile, width);
        assert!(text.lines().all(|l| l.chars().count() <= width), "{width}: {text}");
        assert!(text.lines().count() <= 24, "{} lines: {text}", text.lines().count());
        assert!(text.split_once("More: ").unwrap().1.split_whitespace().any(|word| word == "--format"), "{text}");
    }
}

#[test]
fn functions_are_ranked_by_what_the_program_gains() {
    let mut profile = sample::profile();
    let last = profile.functions.len() - 1;
    let saving = profile.functions.iter().flat_map(|f| &f.analysis.savings).next().unwrap().clone();
    (profile.functions[last].time_s, profile.functions[last].cpu_s) = (Some(0.09), Some(1.0));
    profile.functions[last].analysis.savings =
        vec![rprof_profile::function::Saving { program_seconds: Some(3.0), ..saving }];
    let name = profile.functions[last].name.clone();
    let text = render(&profile, Format::Text, &View { width: 100, ..View::default() }).unwrap();
    let first = text.lines().skip_while(|l| !l.contains("held by  ")).nth(1).unwrap();
    assert!(first.contains(&name) && first.contains("3.00 s"), "{text}");
    let markdown = render(&profile, Format::Md, &View::default()).unwrap();
    assert!(markdown.lines().find(|l| l.starts_with("| `")).unwrap().contains(&name), "{markdown}");
    let page = render(&profile, Format::Html, &View::default()).unwrap();
    assert!(page.find("<td class=\"named\"").unwrap() < page.find("triad").unwrap() || page.contains(&name));
}

#[test]
fn one_function_is_told_whole_and_many_are_bounded() {
    let profile = sample::profile();
    let of = |keep: fn(&str) -> bool, width| {
        let view = View { width, extent: Extent::Function, keep: Some(Box::new(keep)), ..View::default() };
        render(&profile, Format::Text, &view).unwrap()
    };
    golden("function-80.txt", &of(|name| name == "triad", 80));
    for width in [80, 100, 160] {
        let text = of(|name| name == "triad", width);
        assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
    }
    let none = of(|_| false, 100);
    assert!(none.contains("None of the 11 functions has a name that matches") && none.contains("triad"), "{none}");
    let all = of(|_| true, 100);
    assert_eq!(all.matches("What holds it").count(), 3);
    assert!(all.contains("… and 8 more that match: "), "{all}");
    let uncounted = of(|name| name == "jit_code", 100);
    for figure in [" instructions ", " FLOPs ", " bytes DRAM ", " clock "] {
        let row = uncounted.lines().find(|l| l.starts_with(figure)).unwrap();
        assert!(row.contains("not measured"), "{row}");
    }
}

#[test]
fn markdown_and_csv_are_as_blessed() {
    golden("report.md", &made(Format::Md));
    golden("report.csv", &made(Format::Csv));
}

#[test]
fn a_bound_without_one_of_its_ceilings_is_called_a_lower_one() {
    let mut profile = sample::profile();
    assert!(!made(Format::Text).contains('≥') && !made(Format::Md).contains('≤'));
    let bound = profile.functions.iter_mut().find(|f| f.analysis.roof_fraction.is_some()).unwrap();
    bound.source.insert("terms.dram".into(), Source::not_measured("dram.read at 2 threads not measured"));
    let text = render(&profile, Format::Text, &whole(200)).unwrap();
    let bound = profile.functions.iter().find(|f| f.source.contains_key("terms.dram")).unwrap();
    let row = text.lines().filter(|l| l.starts_with(' ')).find(|l| l.contains(&bound.name)).unwrap();
    assert!(row.contains("≥ ") && row.contains("≤ "), "{row}");
    assert!(text.contains("not in the bound: DRAM") && text.contains("≥, ≤: the bound lacks a term."));
}

#[test]
fn what_was_not_measured_is_never_a_zero() {
    let markdown = made(Format::Md);
    let row = markdown.lines().find(|l| l.contains("jit_code")).unwrap();
    assert!(row.contains("not measured") && !row.contains("| 0"), "{row}");
    let csv = made(Format::Csv);
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let cells: Vec<&str> = csv.lines().find(|l| l.starts_with("jit_code")).unwrap().split(',').collect();
    let at = |name: &str| cells[header.iter().position(|h| *h == name).unwrap()];
    assert_eq!((at("flops"), at("oi_dram"), at("roof_fraction")), ("", "", ""));
    assert_eq!(at("time_s"), "0.09");
    assert!(made(Format::Html).contains("not measured"));
}

#[test]
fn csv_quotes_names_with_commas() {
    let csv = made(Format::Csv);
    let columns = csv.lines().next().unwrap().split(',').count();
    for line in csv.lines() {
        let mut quoted = false;
        let cells = 1 + line
            .chars()
            .filter(|c| {
                quoted ^= *c == '"';
                *c == ',' && !quoted
            })
            .count();
        assert_eq!(cells, columns, "{line}");
    }
}

#[test]
fn folded_stacks_add_up_to_the_work() {
    let profile = sample::profile();
    let total: u64 = made(Format::Folded).lines().map(|l| l.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    let work: f64 = profile.samples.iter().filter(|s| !s.waiting).map(|s| s.weight_s).sum();
    assert!((total as f64 / 1e6 - work).abs() < 1e-3);
}

#[test]
fn firefox_tables_have_the_lengths_they_claim() {
    let value: Value = serde_json::from_str(&made(Format::Firefox)).unwrap();
    let threads = value["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    for thread in threads {
        let strings = thread["stringArray"].as_array().unwrap().len() as u64;
        for table in ["frameTable", "funcTable", "stackTable", "samples", "resourceTable", "markers", "nativeSymbols"] {
            let table = thread[table].as_object().unwrap();
            let length = table["length"].as_u64().unwrap() as usize;
            for (name, column) in table.iter().filter(|(_, c)| c.is_array()) {
                assert_eq!(column.as_array().unwrap().len(), length, "{name}");
            }
        }
        let names = thread["funcTable"]["name"].as_array().unwrap();
        assert!(names.iter().all(|n| n.as_u64().unwrap() < strings));
    }
    let samples: u64 = threads.iter().map(|t| t["samples"]["length"].as_u64().unwrap()).sum();
    assert_eq!(samples, sample::profile().samples.len() as u64);
}

/// Every opened element is closed, in order.
pub fn well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        let skip = |end: &str| rest.find(end).map(|i| i + end.len());
        if rest.starts_with("<![CDATA[") {
            rest = &rest[skip("]]>").unwrap()..];
            continue;
        }
        let end = skip(">").unwrap();
        let tag = &rest[1..end - 1];
        rest = &rest[end..];
        if tag.starts_with(['?', '!']) {
            continue;
        }
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn pictures_are_well_formed_and_name_what_they_leave_out() {
    let roofline = made(Format::Svg);
    well_formed(&roofline);
    for name in [
        "triad",
        "gemm_block",
        "list_walk",
        "DRAM read 51.0 GB/s",
        "the roof",
        "hash_bytes (next to no FLOPs)",
        "jit_code (not counted)",
    ] {
        assert!(roofline.contains(name), "{name}");
    }
    assert!(!roofline.contains("NaN") && !roofline.contains("inf"));
    let flames = made(Format::Flamegraph);
    well_formed(&flames);
    assert!(flames.contains("triad"));
}

/// The sample as a program that executes no FLOPs.
fn of_integers() -> Profile {
    let mut profile = sample::profile();
    for f in &mut profile.functions {
        f.flops = None;
        f.fp_instructions = f.fp_instructions.map(|_| 0);
    }
    rprof_model::analyse(&mut profile);
    profile
}

/// Attribute `name` of a tag as a number.
fn attribute(tag: &str, name: &str) -> f64 {
    tag.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
}

/// A value's position on the axis `name` of a roofline.
fn scale(svg: &str, name: &str) -> impl Fn(f64) -> f64 {
    let ends = svg.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
    let ends: Vec<f64> = ends.split(' ').map(|end| end.parse().unwrap()).collect();
    move |value| ends[2] + (value / ends[0]).ln() / (ends[1] / ends[0]).ln() * (ends[3] - ends[2])
}

#[test]
fn a_program_without_flops_is_drawn_in_instructions() {
    let profile = of_integers();
    let svg = render(&profile, Format::Svg, &View::default()).unwrap();
    well_formed(&svg);
    let axis_texts: Vec<&str> =
        svg.split('<').filter(|tag| tag.contains("rf-axis") || tag.contains("rf-tick")).collect();
    assert!(axis_texts.iter().any(|text| text.contains("[instructions/byte]")), "{axis_texts:?}");
    assert!(axis_texts.iter().any(|text| text.contains("Ginstr/s")), "{axis_texts:?}");
    assert!(axis_texts.iter().all(|text| !text.contains("FLOP")), "one unit: {axis_texts:?}");
    let issue = profile.machine.ceilings.iter().filter(|c| c.id == "issue").filter_map(|c| c.value).fold(0.0, f64::max);
    let (x, y) = (scale(&svg, "data-x"), scale(&svg, "data-y"));
    let roof = svg.split('<').find(|tag| tag.contains("class=\"rf-roof\"")).unwrap();
    assert!((attribute(roof, "y1") - y(issue)).abs() < 0.1, "{roof}");
    let mut dots = 0;
    for point in svg.split("data-f=\"").skip(1) {
        let f = &profile.functions[point.split('"').next().unwrap().parse::<usize>().unwrap()];
        let Some(circle) = point.split('<').find(|tag| tag.contains("class=\"rf-dot\"") && tag.contains("circle"))
        else {
            continue;
        };
        let instructions = f.work.as_ref().unwrap().issue_slots as f64;
        let rate = instructions / f.time_s.unwrap();
        assert!((attribute(circle, "cy") - y(rate)).abs() < 0.1, "{}: {circle}", f.name);
        let bytes = f.bytes.unwrap();
        let outermost = [bytes.dram, bytes.l3, bytes.l2, bytes.l1].into_iter().flatten().find(|b| *b > 0).unwrap();
        assert!((attribute(circle, "cx") - x(instructions / outermost as f64)).abs() < 0.1, "{}: {circle}", f.name);
        let bound = f.analysis.roof_fraction.map_or(rate, |at| rate / at);
        assert!(bound <= 1.001 * issue, "{}: its bound {bound:e} is above the roof {issue:e}", f.name);
        dots += 1;
    }
    assert!(dots >= 8, "{dots} dots");
    // The parts of a dot beyond the axis stay in the picture, too.
    let mut far = profile.clone();
    far.functions.iter_mut().find(|f| f.name == "gemm_block").unwrap().bytes.as_mut().unwrap().dram = Some(1000);
    let svg = render(&far, Format::Svg, &View::default()).unwrap();
    let ends = svg.split("data-x=\"").nth(1).unwrap().split('"').next().unwrap();
    let right: f64 = ends.rsplit(' ').next().unwrap().parse().unwrap();
    let threads: Vec<&str> = svg.split('<').filter(|tag| tag.contains("class=\"rf-thread\"")).collect();
    assert!(svg.contains("<polygon") && threads.iter().all(|tag| attribute(tag, "x2") <= right), "{threads:?}");
    let own = own_roofline(&profile, "branchy");
    assert!(own.contains("[instructions/byte]") && !own.contains("FLOP") && !own.contains(" Gop/s"), "{own}");
}

/// `--format svg --function NAME`.
fn own_roofline(profile: &Profile, name: &str) -> String {
    let name = name.to_owned();
    let view = View { keep: Some(Box::new(move |other| other == name)), ..View::default() };
    render(profile, Format::Svg, &view).unwrap()
}

#[test]
fn one_function_is_drawn_with_its_own_ceilings() {
    let mut profile = sample::profile();
    let names: Vec<String> = profile.functions.iter().map(|f| f.name.clone()).collect();
    for name in &names {
        let svg = own_roofline(&profile, name);
        well_formed(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.contains("its own roofline"), "{name}");
    }
    let triad = own_roofline(&profile, "triad");
    for words in [
        "DRAM 48.0 GB/s ◀ binds",
        "its roof: 269 GFLOP/s",
        "non-temporal stores: 296 ms less",
        "2.94 GFLOP/s, measured",
    ] {
        assert!(triad.contains(words), "{words}");
    }
    assert!(own_roofline(&profile, "jit_code").contains("No picture: its work was not counted."));
    // The measured dot follows the figures.
    let y = |svg: &str| {
        let dot = svg.split('<').find(|tag| tag.contains("class=\"rf-dot\"")).unwrap();
        dot.split("cy=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let before = y(&triad);
    profile.functions.iter_mut().find(|f| f.name == "triad").unwrap().analysis.flop_rate = Some(2.94e8);
    assert_ne!(before, y(&own_roofline(&profile, "triad")));
}

#[test]
fn every_function_has_the_colour_of_its_class() {
    let flames = made(Format::Flamegraph);
    // dram-bandwidth, lightened for black text.
    let at = flames.find("<title>triad").unwrap();
    assert!(flames[at..at + 400].contains("rgb(129,169,225)"), "{}", &flames[at..at + 400]);
}

#[test]
fn the_page_loads_nothing() {
    let page = made(Format::Html);
    for outside in ["src=\"http", "href=\"http", "url(http", "@import", "<link", "import(", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'") && page.contains("srcdoc=") && page.contains("class=\"rf\""));
}

#[test]
fn hostile_names_stay_text() {
    let mut profile = sample::profile();
    profile.functions[0].name = "<script>alert('x')</script>&\"; | `".into();
    profile.frames[1].name = "a;b\n<c>&\"".into();
    profile.run.command = vec!["./a<b>&\"'".into()];
    let page = render(&profile, Format::Html, &View::default()).unwrap();
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    assert!(page.contains("\\u003cscript\\u003ealert"), "the data has it, too");
    well_formed(&render(&profile, Format::Svg, &View::default()).unwrap());
    well_formed(&render(&profile, Format::Flamegraph, &View::default()).unwrap());
    assert!(render(&profile, Format::Folded, &View::default()).unwrap().lines().all(|l| l.rsplit_once(' ').is_some()));
}

#[test]
fn an_empty_profile_says_that_there_was_too_little() {
    let mut profile: Profile = sample::profile();
    profile.functions.clear();
    profile.samples.clear();
    profile.machine = Default::default();
    // There is no picture of work if none is named, nor of communication without ranks.
    let optional = [Format::Work, Format::Communication];
    for format in Format::ALL.into_iter().filter(|f| !optional.contains(f)) {
        let made = crate::bytes(&profile, format, &View::default()).unwrap();
        let Ok(text) = String::from_utf8(made) else { continue };
        if matches!(format, Format::Text | Format::Html) {
            assert!(text.contains("too little to measure"), "{}", format.name());
        }
        if matches!(format, Format::Svg | Format::Flamegraph) {
            well_formed(&text);
        }
    }
}

#[test]
fn machine_table_and_pictures() {
    let host = sample::profile().machine;
    golden("machine.txt", &machine::text(&host, 100));
    let pictures = machine::pictures(&host);
    let names: Vec<&str> = pictures.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["machine-roofline.svg", "machine-ladder.svg", "machine-workingset.svg"]);
    pictures.iter().for_each(|(_, svg)| well_formed(svg));
    let empty = machine::pictures(&Default::default());
    empty.iter().for_each(|(_, svg)| well_formed(svg));
}
