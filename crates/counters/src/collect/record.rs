//! The records of groups that are read at samples, as the kernel writes them.

/// `PERF_RECORD_*` of include/uapi/linux/perf_event.h.
const LOST: u32 = 2;
const READ: u32 = 8;
const SAMPLE: u32 = 9;

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A thread's group at a sample.
    Sample(Counts),
    /// A thread has ended; several records give its events, and any of them may be partial.
    End(Counts),
    /// The kernel had no room for this many records.
    Lost(u64),
}

/// A thread's counts on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// User-space instruction of a sample.
    pub ip: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Nanoseconds enabled.
    pub enabled_ns: u64,
    /// Nanoseconds on the PMU.
    pub running_ns: u64,
    /// (event id, raw count).
    pub values: Vec<(u64, u64)>,
}

/// Parses a record with its header; `None` for other kinds and for damaged ones.
pub fn parse(bytes: &[u8]) -> Option<Record> {
    let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let words: Vec<u64> =
        bytes.get(8..)?.chunks_exact(8).filter_map(|w| Some(u64::from_ne_bytes(w.try_into().ok()?))).collect();
    match kind {
        // { ip, pid:tid, time, read }
        SAMPLE => {
            let (pid, tid) = halves(*words.get(1)?);
            let counts = Counts { ip: *words.first()?, pid, tid, time_ns: *words.get(2)?, ..read(words.get(3..)?)? };
            Some(Record::Sample(counts))
        }
        // { pid:tid, read, sample id: pid:tid, time }
        READ => {
            let (pid, tid) = halves(*words.first()?);
            let time_ns = *words.last()?;
            Some(Record::End(Counts { pid, tid, time_ns, ..read(words.get(1..)?)? }))
        }
        // { id, lost }
        LOST => words.get(1).copied().map(Record::Lost),
        _ => None,
    }
}

/// `{ nr, enabled, running, { value, id }[nr] }`
fn read(words: &[u64]) -> Option<Counts> {
    let (nr, rest) = (*words.first()? as usize, words.get(3..)?);
    let pairs = rest.get(..nr.checked_mul(2)?)?;
    let values = pairs.chunks_exact(2).map(|pair| (pair[1], pair[0])).collect();
    Some(Counts { enabled_ns: *words.get(1)?, running_ns: *words.get(2)?, values, ..Counts::default() })
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Records for tests, as the kernel would write them.
#[cfg(test)]
pub mod written {
    use super::*;

    fn bytes(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = (8 + 8 * words.len()) as u16;
        let header = [&kind.to_ne_bytes()[..], &0u16.to_ne_bytes(), &size.to_ne_bytes()].concat();
        words.iter().fold(header, |mut all, word| {
            all.extend(word.to_ne_bytes());
            all
        })
    }

    fn read(c: &Counts) -> Vec<u64> {
        let head = [c.values.len() as u64, c.enabled_ns, c.running_ns];
        head.into_iter().chain(c.values.iter().flat_map(|(id, value)| [*value, *id])).collect()
    }

    /// A record's bytes.
    pub fn record(record: &Record) -> Vec<u8> {
        let ids = |c: &Counts| u64::from(c.pid) | u64::from(c.tid) << 32;
        match record {
            Record::Sample(c) => bytes(SAMPLE, &[vec![c.ip, ids(c), c.time_ns], read(c)].concat()),
            Record::End(c) => bytes(READ, &[vec![ids(c)], read(c), vec![ids(c), c.time_ns]].concat()),
            Record::Lost(n) => bytes(LOST, &[0, *n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written() {
        let counts = Counts {
            ip: 0,
            pid: 7,
            tid: 8,
            time_ns: 99,
            enabled_ns: 30,
            running_ns: 20,
            values: vec![(5, 1000), (6, u64::MAX)],
        };
        let sample = Record::Sample(Counts { ip: 0x401000, ..counts.clone() });
        for record in [sample, Record::End(counts), Record::Lost(3)] {
            assert_eq!(parse(&written::record(&record)), Some(record));
        }
    }

    #[test]
    fn damaged_records_are_left_out() {
        let counts = Counts { values: vec![(5, 1), (6, 2)], ..Counts::default() };
        let whole = written::record(&Record::Sample(counts));
        for length in 0..whole.len() - 7 {
            assert_eq!(parse(&whole[..length]), None, "{length} bytes");
        }
    }
}
