//! Recorded outputs as logs of the collector, and the logs that it wrote itself.

use std::collections::HashMap;
use std::fs;

use rprof::device::groups::FLOATING_POINT;
use rprof::device::log::Record;
use rprof::device::log::record::{Clocks, Launched, Span};
use rprof::device::{self, Log};
use rprof::profile::device::Devices;

/// A text file in `fixtures/gpu/`.
pub fn fixture(name: &str) -> String {
    let path = format!("{}/fixtures/gpu/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub fn recorded(name: &str) -> String {
    fixture(&format!("recorded/{name}.txt"))
}

pub fn three(text: &str) -> [u32; 3] {
    let mut numbers = text.split('x').map(|n| n.parse().unwrap());
    std::array::from_fn(|_| numbers.next().unwrap())
}

/// A log of the collector that counts: the `R` lines.
pub fn counted(name: &str) -> Log {
    let mut records = Vec::new();
    let mut names: HashMap<String, u32> = HashMap::new();
    for line in recorded(name).lines().filter_map(|line| line.strip_prefix("R\t")) {
        let cells: Vec<&str> = line.split('\t').collect();
        if cells[0] == "us" {
            records.extend(cells[2..].iter().map(|name| Record::Metric { group: 0, name: (*name).into() }));
            continue;
        }
        let parts: Vec<&str> = cells[1].split(' ').collect();
        let next = names.len() as u32 + 1;
        let id = *names.entry(parts[2].into()).or_insert_with(|| {
            records.push(Record::Name { id: next, text: parts[2].into() });
            next
        });
        let launched = Launched { grid: three(parts[0]), block: three(parts[1]) };
        let values = cells[2..].iter().map(|n| n.parse().unwrap()).collect();
        records.push(Record::Range { group: 0, name: id, launched, values });
    }
    Log { records, damage: None }
}

/// A log of the collector that traces: the `K` and `C` lines, one record for each launch of the mean duration, one after the other.
pub fn traced(name: &str) -> Log {
    let mut records = Vec::new();
    let mut now = 1_000;
    for (id, line) in recorded(name).lines().filter(|line| line.starts_with("K ")).enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (launches, mean_us): (u64, f64) = (words[1].parse().unwrap(), words[3].parse().unwrap());
        let graph: u64 = words[words.iter().position(|w| *w == "graph").unwrap() + 1].parse().unwrap();
        let registers = words[words.iter().position(|w| *w == "regs").unwrap() + 1].parse().unwrap();
        let shared = words[words.iter().position(|w| *w == "smem").unwrap() + 1];
        let shared = shared.split('+').map(|n| n.parse::<u32>().unwrap()).sum();
        let at = words.len() - 3;
        let launched = Launched { grid: three(words[at]), block: three(words[at + 1]) };
        records.push(Record::Name { id: id as u32, text: words[at + 2].into() });
        for n in 0..launches {
            let span = Span { start: now, end: now + (mean_us * 1e3) as u64 };
            now = span.end + 2_000;
            let node = u64::from(n < graph);
            records.push(Record::Kernel {
                span,
                node,
                name: id as u32,
                device: 0,
                launched,
                registers,
                shared,
                local: 0,
            });
        }
    }
    records.push(Record::End { clocks: Clocks::default(), buffers: [2, 2], records: [1, 0], callback_ns: 0 });
    Log { records, damage: None }
}

pub fn devices(trace: &str, counts: &[&str]) -> Devices {
    let counts: Vec<Log> = counts.iter().map(|name| counted(name)).collect();
    device::devices(&[traced(trace)], &counts, &|name| name.to_owned()).expect("a log")
}

/// A log that the collector wrote on a host with an H200.
pub fn collected(name: &str) -> Log {
    let path = format!("{}/fixtures/gpu/recorded/{name}.log", env!("CARGO_MANIFEST_DIR"));
    let log = Log::parse(&fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}")));
    assert!(log.is_complete(), "{name}: {:?}", log.damage);
    assert!(log.records.contains(&Record::Chip("GH100".into())), "{name} is of another chip");
    log
}

/// A count of each launch of a log: name, shape, metric, value.
pub fn shaped_values(log: &Log) -> Vec<(&str, Launched, &str, f64)> {
    let (mut names, mut metrics): (HashMap<u32, &str>, HashMap<u32, Vec<&str>>) = Default::default();
    let mut values = Vec::new();
    for record in &log.records {
        match record {
            Record::Name { id, text } => _ = names.insert(*id, text),
            Record::Metric { group, name } => metrics.entry(*group).or_default().push(name),
            Record::Range { group, name, launched, values: counts } => {
                assert_eq!(metrics[group].len(), counts.len());
                let named = metrics[group].iter().zip(counts);
                values.extend(named.map(|(metric, value)| (names[name], *launched, *metric, *value)));
            }
            _ => {}
        }
    }
    assert!(values.iter().all(|(_, _, _, value)| value.is_finite() && *value >= 0.0), "counts that are none");
    values
}

/// The same without the shape.
pub fn values(log: &Log) -> Vec<(&str, &str, f64)> {
    shaped_values(log).into_iter().map(|(name, _, metric, value)| (name, metric, value)).collect()
}

/// The one value of a metric of a kernel with `kernel` in its name.
pub fn value(values: &[(&str, &str, f64)], kernel: &str, metric: &str) -> f64 {
    let found: Vec<f64> = values
        .iter()
        .filter(|(name, m, _)| name.contains(kernel) && *m == metric)
        .map(|(_, _, value)| *value)
        .collect();
    assert_eq!(found.len(), 1, "{kernel} {metric}: {found:?}");
    found[0]
}

/// FLOPs of a kernel by precision: fp64, fp32, half.
pub fn flops(values: &[(&str, &str, f64)], kernel: &str) -> [f64; 3] {
    let of = |three: &[(&str, f64)]| three.iter().map(|(metric, factor)| factor * value(values, kernel, metric)).sum();
    std::array::from_fn(|n| of(&FLOATING_POINT[3 * n..3 * n + 3]))
}
