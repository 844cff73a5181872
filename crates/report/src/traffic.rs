//! Memory traffic of a function as text: the two rooflines by name, and the kinds of its misses.

use rprof_profile::data::{Data, DataKind};
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::Function;
use rprof_profile::pages::Pages;

use super::number::{percent, si, significant};
use super::{name, table};

/// Bytes of a cache line.
const LINE_BYTES: f64 = 64.0;
/// Smallest part that the text mentions.
const LEAST_PART: f64 = 0.05;
/// Number of data structures that the text mentions.
const MOST_DATA: usize = 4;
/// Characters of their names.
const DATA_NAME: usize = 40;

/// Lines on one function: its intensity at every level, its traffic with memory. Empty if neither is known.
pub fn of_function(f: &Function) -> Vec<String> {
    [rooflines(f), memory(f), crowded(f), fought_for(f), data(f), pages(f)].into_iter().flatten().collect()
}

/// `hierarchical roofline: 0.0625 FLOP/B from DRAM, 0.0833 from L3; cache-aware roofline: 0.125 FLOP/B`
///
/// The hierarchical roofline puts a function at one intensity for each level, against that level's bandwidth. The
/// cache-aware one puts it at the bytes that its instructions ask for (the L1 figure), against all bandwidths.
fn rooflines(f: &Function) -> Option<String> {
    let oi = f.analysis.oi;
    let unit = format!("{}/B", table::operations(f.analysis.axis.as_deref()));
    let levels = [("DRAM", oi.dram), ("L3", oi.l3), ("L2", oi.l2)];
    let known = levels.into_iter().filter_map(|(level, oi)| oi.map(|oi| (level, significant(oi))));
    let levels: Vec<String> = known
        .enumerate()
        .map(|(i, (level, oi))| if i == 0 { format!("{oi} {unit} from {level}") } else { format!("{oi} from {level}") })
        .collect();
    let l1 = oi.l1.map(|oi| format!("cache-aware roofline: {} {unit}", significant(oi)));
    if f.analysis.axis.as_deref() == Some("byte") || levels.is_empty() {
        return None;
    }
    let parts = std::iter::once(format!("hierarchical roofline: {}", levels.join(", "))).chain(l1);
    Some(parts.collect::<Vec<_>>().join("; "))
}

/// `memory traffic: 9.63 GB ± 3 %; misses: 97 % capacity; lines: 96 % unit stride`
fn memory(f: &Function) -> Option<String> {
    let bytes = f.bytes?.dram?;
    let traffic = f.work.as_ref()?.traffic?;
    if bytes == 0 && conflicts(&traffic).is_empty() {
        return None;
    }
    let error = match f.source.get("bytes.dram").and_then(|s| s.error) {
        Some(error) if error > 1.0 => format!(" or more, up to {}", si(bytes as f64 * (1.0 + error), "B")),
        Some(error) => format!(" ± {}", percent(error)),
        None => String::new(),
    };
    let mut line = format!("memory traffic: {}{error}", si(bytes as f64, "B"));
    for (what, parts) in [("misses", kinds(&traffic)), ("conflicts", conflicts(&traffic)), ("lines", orders(&traffic))]
    {
        if !parts.is_empty() {
            line += &format!("; {what}: {}", parts.join(", "));
        }
    }
    Some(line)
}

/// `written by other threads meanwhile: the lines of 97 % of its L1 misses; give each thread lines of its own`
///
/// Such lines need not come from memory: another core's cache has them.
fn fought_for(f: &Function) -> Option<String> {
    let t = f.work.as_ref()?.traffic?;
    let matters = t.coherence > LEAST_PART * t.l1_misses && t.coherence > least_misses(&t);
    matters.then(|| {
        format!(
            "written by other threads meanwhile: the lines of {} of its L1 misses; give each thread lines of its own",
            percent((t.coherence / t.l1_misses.max(1.0)).min(1.0))
        )
    })
}

/// `its lines push each other out of a few sets of L1 and L2: pad the leading dimension or the arrays`
fn crowded(f: &Function) -> Option<String> {
    let t = f.work.as_ref()?.traffic?;
    let names: Vec<&str> = with_conflicts(&t, 0.5).map(|(level, _)| level).collect();
    (!names.is_empty()).then(|| {
        let sets = names.join(" and ");
        format!("its lines push each other out of a few sets of {sets}: pad the leading dimension or the arrays")
    })
}

/// Least number of misses that the text mentions, relative to the accesses.
fn least_misses(t: &Traffic) -> f64 {
    LEAST_PART * (t.l1_read + t.l1_write) / LINE_BYTES
}

/// `data: x 67 % (static, 256 MiB), main:12 31 % (allocated, 128 MiB)`
fn data(f: &Function) -> Option<String> {
    let told = f.data.iter().filter(|d| d.share > LEAST_PART).take(MOST_DATA);
    let told: Vec<String> = told.map(datum).collect();
    (!told.is_empty()).then(|| format!("data: {}", told.join(", ")))
}

fn datum(data: &Data) -> String {
    let size = data.bytes.map(size);
    let words = match data.kind {
        DataKind::Heap | DataKind::Anonymous | DataKind::Unknown => size,
        DataKind::Allocated if data.pieces > 1 => {
            let size = size.map_or(String::new(), |size| format!(", up to {size} each"));
            Some(format!("allocated {} times{size}", data.pieces))
        }
        kind => Some(size.map_or(kind.word().to_owned(), |size| format!("{}, {size}", kind.word()))),
    };
    let words = words.map_or(String::new(), |words| format!(" ({words})"));
    format!("{} {}{words}", name::shorten(&data.name, DATA_NAME), percent(data.share))
}

/// `256 MiB`
fn size(bytes: u64) -> String {
    let kib = bytes as f64 / 1024.0;
    match kib {
        ..1.0 => format!("{bytes} B"),
        ..1024.0 => format!("{kib:.0} KiB"),
        ..1_048_576.0 => format!("{} MiB", significant(kib / 1024.0)),
        _ => format!("{} GiB", significant(kib / 1_048_576.0)),
    }
}

/// `pages touched: 16,384 (64 MiB); lines from memory: 98 % on pages of 4 KiB`
fn pages(f: &Function) -> Option<String> {
    let pages = f.pages.filter(|p| p.touched > 0)?;
    let error = f.source.get("pages").and_then(|s| s.error).map_or(String::new(), |e| format!(" ± {}", percent(e)));
    let small = f.work.as_ref().and_then(|work| work.traffic?.small_page_share());
    let kinds = small.map_or(String::new(), |share| match share {
        0.0 => "; lines from memory: on huge ones".into(),
        share => format!("; lines from memory: {} on pages of 4 KiB", percent(share)),
    });
    Some(format!("pages touched: {}{error}{kinds}", touched(pages)))
}

/// `at least 16,384 (64 MiB)`
pub fn touched(pages: Pages) -> String {
    let digits = pages.touched.to_string();
    let mut count = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            count.push(',');
        }
        count.push(digit);
    }
    let size = size(pages.touched.saturating_mul(Pages::BYTES));
    format!("{}{count} ({size})", if pages.at_least { "at least " } else { "" })
}

fn kinds(t: &Traffic) -> Vec<String> {
    shares([("compulsory", t.compulsory), ("capacity", t.capacity), ("conflict", t.conflict)])
}

/// Conflicts in the private caches: parts of the lines that missed there.
fn conflicts(t: &Traffic) -> Vec<String> {
    with_conflicts(t, LEAST_PART).map(|(level, share)| format!("{} of {level} misses", percent(share))).collect()
}

/// The private caches with a share of conflicts above `least` among their misses, and not only a few; with that share.
fn with_conflicts(t: &Traffic, least: f64) -> impl Iterator<Item = (&'static str, f64)> {
    let few = least_misses(t);
    let levels = [("L1", t.l1_conflict, t.l1_misses), ("L2", t.l2_conflict, t.l2_misses)];
    let told = levels.into_iter().filter(move |(_, part, all)| *part > least * all && *part > few);
    told.map(|(level, part, all)| (level, part / all))
}

fn orders(t: &Traffic) -> Vec<String> {
    shares([
        ("unit stride", t.unit_lines),
        ("strided", t.strided_lines),
        ("random", t.random_lines),
        ("gathered", t.gathered_lines),
    ])
}

/// `97 % capacity` for each part that counts.
fn shares<const N: usize>(parts: [(&str, f64); N]) -> Vec<String> {
    let all: f64 = parts.iter().map(|p| p.1).sum();
    let told = parts.iter().filter(|p| all > 0.0 && p.1 > LEAST_PART * all);
    told.map(|(name, part)| format!("{} {name}", percent(part / all))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::function::{Bytes, Oi, Source, Work};

    #[test]
    fn conflicts_in_private_caches_are_told_where_they_matter() {
        let traffic = Traffic { l1_read: 8000.0, l1_misses: 1000.0, l1_conflict: 970.0, ..Traffic::default() };
        let line = |traffic| {
            let bytes = Some(Bytes { dram: Some(0), ..Bytes::default() });
            let work = Some(Work { traffic: Some(traffic), ..Work::default() });
            of_function(&Function { bytes, work, ..Default::default() })
        };
        let advice = "its lines push each other out of a few sets of L1: pad the leading dimension or the arrays";
        assert_eq!(line(traffic), ["memory traffic: 0 B; conflicts: 97 % of L1 misses", advice]);
        assert_eq!(line(Traffic { l1_conflict: 400.0, ..traffic }).len(), 1, "most are none");
        assert!(line(Traffic { l1_read: 8e6, ..traffic }).is_empty(), "one miss in a thousand accesses");
    }

    #[test]
    fn lines_that_threads_fight_for_are_told_without_traffic_of_memory() {
        let line = |coherence| {
            let traffic = Traffic { l1_read: 640e3, l1_misses: 1000.0, coherence, ..Traffic::default() };
            let bytes = Some(Bytes { dram: Some(0), ..Bytes::default() });
            of_function(&Function {
                bytes,
                work: Some(Work { traffic: Some(traffic), ..Work::default() }),
                ..Default::default()
            })
        };
        let told =
            "written by other threads meanwhile: the lines of 97 % of its L1 misses; give each thread lines of its own";
        assert_eq!(line(970.0), [told]);
        assert!(line(400.0).is_empty(), "one miss in twenty-five accesses of a line");
    }

    #[test]
    fn pages_are_told_with_their_size() {
        let told = |touched, at_least| super::touched(Pages { touched, at_least });
        assert_eq!(told(16_384, false), "16,384 (64.0 MiB)");
        assert_eq!(
            (told(3, true), told(1_234_567, false)),
            ("at least 3 (12 KiB)".into(), "1,234,567 (4.71 GiB)".into())
        );
        let f = Function { pages: Some(Pages { touched: 100, at_least: false }), ..Default::default() };
        assert_eq!(of_function(&f), ["pages touched: 100 (400 KiB)"]);
        assert!(of_function(&Function { pages: Some(Pages::default()), ..f.clone() }).is_empty());
        let on = |small_page_lines, huge_page_lines| {
            let traffic = Some(Traffic { small_page_lines, huge_page_lines, ..Traffic::default() });
            super::pages(&Function { work: Some(Work { traffic, ..Work::default() }), ..f.clone() })
        };
        let with = |kinds: &str| Some(format!("pages touched: 100 (400 KiB){kinds}"));
        assert_eq!(on(75.0, 25.0), with("; lines from memory: 75 % on pages of 4 KiB"));
        assert_eq!((on(0.0, 5.0), on(0.0, 0.0)), (with("; lines from memory: on huge ones"), with("")));
    }

    #[test]
    fn data_are_told_by_name_and_size() {
        let datum = |name: &str, kind, share, bytes| Data { name: name.into(), kind, share, bytes, pieces: 1 };
        let data = vec![
            datum("x", DataKind::Static, 0.55, Some(256 << 20)),
            datum("main:12", DataKind::Allocated, 0.30, Some(128 << 20)),
            datum("anonymous memory", DataKind::Anonymous, 0.11, Some(4 << 20)),
            datum("y", DataKind::Static, 0.04, Some(8)),
        ];
        let several = Data { pieces: 3, ..datum("main:12", DataKind::Allocated, 0.30, Some(16 << 20)) };
        assert_eq!(super::datum(&several), "main:12 30 % (allocated 3 times, up to 16.0 MiB each)");
        let told = of_function(&Function { data, ..Default::default() });
        let line =
            "data: x 55 % (static, 256 MiB), main:12 30 % (allocated, 128 MiB), anonymous memory 11 % (4.00 MiB)";
        assert_eq!(told, [line]);
    }

    #[test]
    fn both_rooflines_are_named_and_misses_told() {
        let mut f =
            Function { bytes: Some(Bytes { dram: Some(9_630_000_000), ..Bytes::default() }), ..Default::default() };
        f.analysis.axis = Some("flop".into());
        f.analysis.oi = Oi { dram: Some(0.0625), l3: Some(0.083), l2: None, l1: Some(0.125) };
        f.source.insert("bytes.dram".into(), Source { how: "simulated".into(), error: Some(0.03), reason: None });
        let traffic =
            Traffic { capacity: 97.0, compulsory: 3.0, unit_lines: 90.0, random_lines: 10.0, ..Traffic::default() };
        f.work = Some(Work { traffic: Some(traffic), ..Work::default() });
        assert_eq!(
            of_function(&f),
            [
                "hierarchical roofline: 0.0625 FLOP/B from DRAM, 0.0830 from L3; cache-aware roofline: 0.125 FLOP/B",
                "memory traffic: 9.63 GB ± 3.0 %; misses: 97 % capacity; lines: 90 % unit stride, 10 % random",
            ]
        );
        assert!(of_function(&Function::default()).is_empty());
    }
}
