//! `rprof machine --mpi`: the ceilings of the network between ranks as tables.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::name;
use super::number::{seconds, si};
use rprof_profile::network::{CollectiveCurve, Curve, Distance, Network, PairCurve};

/// Most lines of collective calls, and of missing measurements.
const COLLECTIVES: usize = 10;
const MISSING: usize = 2;
/// Columns of sizes.
const SIZES: usize = 5;
/// Sizes of messages that are shown.
const OF_MESSAGES: [u64; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
const UNKNOWN: &str = "–";

/// At most 25 lines.
pub fn text(network: &Network) -> String {
    let ranks: usize = network.hosts.iter().map(|host| host.ranks.len()).sum();
    let hosts = network.hosts.len();
    let library = name::printable(&network.library);
    let mut out = format!("{library}, {ranks} ranks on {hosts} host{}\n", if hosts == 1 { "" } else { "s" });
    if !network.pairs.is_empty() {
        out += &format!("\n{}", pairs(&network.pairs));
    }
    if !network.collectives.is_empty() {
        out += &format!("\n{}", collectives(&network.collectives));
    }
    for line in network.missing.iter().take(MISSING) {
        out += &format!("not measured: {}\n", name::printable(line));
    }
    let more = network.missing.len().saturating_sub(MISSING);
    if more > 0 {
        out += &format!("not measured: {more} more (--json)\n");
    }
    out
}

fn pairs(pairs: &[PairCurve]) -> String {
    let or = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.into());
    let mut titles =
        vec!["messages".to_owned(), "latency".into(), "sustained".into(), "burst".into(), "rendezvous".into()];
    titles.extend(OF_MESSAGES.iter().skip(1).map(|bytes| size(*bytes)));
    let row = |pair: &PairCurve| {
        let distance = match pair.distance {
            Distance::SameHost => "same host",
            Distance::OtherHost => "other host",
        };
        let several = if pair.at_once == 1 { String::new() } else { format!(", {} pairs", pair.at_once) };
        let mut cells = vec![
            format!("{distance}{several}"),
            or(pair.latency_s.map(seconds)),
            or(pair.bytes_per_s.map(|rate| si(rate, "B/s"))),
            or(pair.burst_bytes.map(size)),
            or(pair.rendezvous_bytes.map(size)),
        ];
        cells.extend(OF_MESSAGES.iter().skip(1).map(|bytes| or(at(&pair.one_way, *bytes).map(seconds))));
        cells
    };
    let exchange = |pair: &PairCurve| {
        let mut cells = vec!["  both directions".to_owned()];
        cells.extend(vec![String::new(); 4]);
        cells.extend(OF_MESSAGES.iter().skip(1).map(|bytes| or(at(&pair.exchange, *bytes).map(seconds))));
        cells
    };
    table(&titles, pairs.iter().flat_map(|pair| [row(pair), exchange(pair)]))
}

fn collectives(curves: &[CollectiveCurve]) -> String {
    let mut sizes: Vec<u64> = curves.iter().flat_map(|c| c.cost.points.iter().map(|point| point.bytes)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes = thinned(&sizes);
    let mut titles = vec!["call".to_owned(), "ranks".into()];
    titles.extend(sizes.iter().map(|bytes| size(*bytes)));
    let row = |curve: &CollectiveCurve| {
        let mut cells = vec![curve.call.clone(), curve.members.to_string()];
        cells.extend(sizes.iter().map(|bytes| at(&curve.cost, *bytes).map_or(UNKNOWN.into(), seconds)));
        cells
    };
    let mut out = table(&titles, curves.iter().take(COLLECTIVES).map(row));
    let more = curves.len().saturating_sub(COLLECTIVES);
    if more > 0 {
        out += &format!(" … and {more} more (--json)\n");
    }
    out
}

/// Seconds of `bytes` within the measured sizes.
fn at(curve: &Curve, bytes: u64) -> Option<f64> {
    let (first, last) = (curve.points.first()?, curve.points.last()?);
    (first.bytes..=last.bytes).contains(&bytes).then(|| curve.seconds(bytes as f64)).flatten()
}

/// At most [`SIZES`], the smallest and the largest among them.
fn thinned(sizes: &[u64]) -> Vec<u64> {
    if sizes.len() <= SIZES {
        return sizes.to_vec();
    }
    (0..SIZES).map(|i| sizes[i * (sizes.len() - 1) / (SIZES - 1)]).collect()
}

/// `64 KiB`.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn table(titles: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |row: Vec<String>| {
        let left = |(i, text): (usize, String)| match i {
            0 => Cell::new(text),
            _ => Cell::new(text).set_alignment(CellAlignment::Right),
        };
        row.into_iter().enumerate().map(left).collect::<Vec<_>>()
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(cells(titles.to_vec()));
    table.add_rows(rows.map(cells));
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::network::{CurvePoint, NetworkHost};

    #[test]
    fn the_text_has_at_most_25_lines() {
        let curve =
            || Curve { points: (0..20).map(|i| CurvePoint { bytes: 1 << i, seconds: 1e-6, least_s: 1e-6 }).collect() };
        let pair = |at_once| PairCurve { at_once, one_way: curve(), exchange: curve(), ..PairCurve::default() };
        let collective = |i| CollectiveCurve {
            call: format!("MPI_Call{i}"),
            members: 4,
            cost: curve(),
            ..CollectiveCurve::default()
        };
        let network = Network {
            library: "/lib/libmpi.so".into(),
            hosts: vec![NetworkHost { name: "a".into(), ranks: vec![0, 1] }],
            pairs: vec![pair(1), pair(2)],
            collectives: (0..20).map(collective).collect(),
            missing: vec!["a".into(); 9],
            ..Network::default()
        };
        let text = text(&network);
        assert!(text.lines().count() <= 25, "{text}");
        assert!(text.contains("2 ranks on 1 host\n") && text.contains("10 more") && text.contains("7 more"), "{text}");
    }

    #[test]
    fn sizes_beyond_the_measured_ones_are_not_shown() {
        let curve = Curve { points: vec![CurvePoint { bytes: 8, seconds: 1.0, least_s: 1.0 }] };
        assert_eq!((at(&curve, 8), at(&curve, 16), at(&Curve::default(), 8)), (Some(1.0), None, None));
        assert_eq!(thinned(&[0, 1, 2, 3, 4, 5, 6]), [0, 1, 3, 4, 6]);
    }
}
