//! Reads a recording of `perf record` (perf.data) as the evidence of a timed pass.
//!
//! The samples of one event are taken: those of a clock, else of cycles, else of the first event. A sample weighs its period where the event
//! counts nanoseconds, else the time between two samples at the recording's frequency. Processes of a recording are over, so that nothing
//! is asked of the kernel about them; files are read from their paths if their build ids are still those of the recording.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use linux_perf_data::linux_perf_event_reader::{
    CommOrExecRecord, CpuMode, EventRecord, HardwareEventId, Mmap2FileId, Mmap2Record, MmapRecord, PerfEventType,
    RawData, SampleRecord, SamplingPolicy, SoftwareCounterType,
};
use linux_perf_data::{AttributeDescription, PerfFileReader, PerfFileRecord};

use rprof_profile::evidence::timed::TimedEvidence;

use super::modules::MappedFile;
use super::recorder::{Ending, Observation, Recorder};
use super::unwind::StackTop;
use super::weights::Scale;
use super::x86_64::registers;

/// Addresses from here on are no addresses: they say whose frames follow (`PERF_CONTEXT_MAX`).
const LEAST_CONTEXT: u64 = (-4095_i64) as u64;
/// `PERF_CONTEXT_USER`
const USER_CONTEXT: u64 = (-512_i64) as u64;
/// `PROT_EXEC`
const EXECUTABLE: u32 = 4;
/// Cycles a second, where the recording says no frequency.
const USUAL_HZ: f64 = 3e9;

/// Why a recording is not read.
#[derive(Debug, thiserror::Error)]
pub enum PerfDataError {
    /// It cannot be read, or is none.
    #[error("{0}")]
    Read(#[from] linux_perf_data::Error),
    /// The file cannot be opened.
    #[error("{0}")]
    Open(#[from] io::Error),
    /// It has no samples that say when and where they were taken.
    #[error("it has no samples with thread, time and address; record with perf record -g -- ./app")]
    NoSamples,
}

/// A recording.
#[derive(Debug)]
pub struct Recording {
    /// Its samples.
    pub evidence: TimedEvidence,
    /// The program and its arguments, else perf's own command.
    pub command: Vec<String>,
}

/// Reads `path`.
///
/// # Errors
/// It is no recording, or has no usable samples.
pub fn read(path: &Path) -> Result<Recording, PerfDataError> {
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(BufReader::new(File::open(path)?))?;
    let words: Vec<String> = perf_file.cmdline()?.unwrap_or_default().into_iter().map(str::to_owned).collect();
    let Some((chosen, event)) = chosen_event(perf_file.event_attributes()) else {
        return Err(PerfDataError::NoSamples);
    };
    let mut reader = Reader { recorder: Recorder::of_the_past(), event, samples: 0, lost: 0, last_ns: 0 };
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        let time_ns = record.timestamp().unwrap_or(reader.last_ns);
        if let Ok(parsed) = record.parse() {
            reader.take(time_ns, parsed, attr_index == chosen);
        }
    }
    if reader.samples == 0 {
        return Err(PerfDataError::NoSamples);
    }
    Ok(Recording { evidence: reader.finish(), command: program_of(words) })
}

/// The words behind `--`, or all of them.
fn program_of(words: Vec<String>) -> Vec<String> {
    match words.iter().position(|word| word == "--") {
        Some(at) if at + 1 < words.len() => words[at + 1..].to_vec(),
        _ => words,
    }
}

/// The event by which time is told.
#[derive(Debug, Clone, Copy)]
struct Event {
    /// `perf:cycles`, `perf:cpu-clock`.
    source: &'static str,
    /// Its periods are nanoseconds.
    is_clock: bool,
    /// Seconds for which one sample stands; `None`: its period says that.
    seconds: Option<f64>,
    frequency_hz: f64,
    registers: u64,
}

fn chosen_event(all: &[AttributeDescription]) -> Option<(usize, Event)> {
    let rank = |description: &AttributeDescription| match description.attr.type_ {
        PerfEventType::Software(SoftwareCounterType::CpuClock | SoftwareCounterType::TaskClock) => 0,
        PerfEventType::Hardware(HardwareEventId::CpuCycles, _) => 1,
        _ => 2,
    };
    let (at, description) = all.iter().enumerate().min_by_key(|(_, description)| rank(description))?;
    let is_clock = rank(description) == 0;
    let (frequency_hz, seconds) = match description.attr.sampling_policy {
        SamplingPolicy::Frequency(hz) if hz > 0 => (hz as f64, Some(1.0 / hz as f64)),
        SamplingPolicy::Period(period) if is_clock => (1e9 / period.get() as f64, None),
        SamplingPolicy::Period(period) => (USUAL_HZ / period.get() as f64, Some(period.get() as f64 / USUAL_HZ)),
        _ => (0.0, None),
    };
    let source = if is_clock { "perf:cpu-clock" } else { "perf:cycles" };
    let seconds = seconds.filter(|_| !is_clock);
    Some((at, Event { source, is_clock, seconds, frequency_hz, registers: description.attr.sample_regs_user }))
}

struct Reader {
    recorder: Recorder,
    event: Event,
    samples: u64,
    lost: u64,
    /// Time of the last record.
    last_ns: u64,
}

impl Reader {
    fn take(&mut self, time_ns: u64, record: EventRecord<'_>, is_chosen: bool) {
        self.last_ns = self.last_ns.max(time_ns);
        match record {
            EventRecord::Comm(comm) => self.name(time_ns, &comm),
            EventRecord::Fork(fork) => {
                let [parent, parent_tid, pid, tid] = [fork.ppid, fork.ptid, fork.pid, fork.tid].map(|n| n as u32);
                self.recorder.fork(time_ns, parent, parent_tid, pid, tid);
            }
            EventRecord::Exit(exit) => self.recorder.exit(time_ns, exit.tid as u32),
            EventRecord::Mmap(map) => self.map(time_ns, &map),
            EventRecord::Mmap2(map) => self.map2(time_ns, map),
            EventRecord::Lost(lost) => self.lost += lost.count,
            EventRecord::Sample(sample) if is_chosen => self.sample(time_ns, &sample),
            _ => {}
        }
    }

    fn name(&mut self, time_ns: u64, comm: &CommOrExecRecord<'_>) {
        let (pid, tid) = (comm.pid as u32, comm.tid as u32);
        if comm.is_execve && time_ns > 0 {
            self.recorder.exec(time_ns, pid, tid);
        }
        self.recorder.name(time_ns, pid, tid, text(&comm.name));
    }

    fn map(&mut self, time_ns: u64, map: &MmapRecord<'_>) {
        if map.is_executable && map.cpu_mode == CpuMode::User {
            let path = text(&map.path);
            let mapped = MappedFile {
                pid: map.pid as u32,
                start: map.address,
                file_offset: map.page_offset,
                path: &path,
                inode: None,
                build_id: None,
            };
            self.recorder.map(time_ns, mapped, map.length);
        }
    }

    fn map2(&mut self, time_ns: u64, map: Mmap2Record<'_>) {
        if map.protection & EXECUTABLE == 0 || map.cpu_mode != CpuMode::User {
            return;
        }
        let path = text(&map.path);
        let build_id = match &map.file_id {
            Mmap2FileId::BuildId(bytes) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            Mmap2FileId::InodeAndVersion(_) => None,
        };
        let mapped = MappedFile {
            pid: map.pid as u32,
            start: map.address,
            file_offset: map.page_offset,
            path: &path,
            inode: None,
            build_id,
        };
        self.recorder.map(time_ns, mapped, map.length);
    }

    fn sample(&mut self, time_ns: u64, sample: &SampleRecord<'_>) {
        let (Some(pid), Some(tid), Some(ip)) = (sample.pid, sample.tid, sample.ip) else { return };
        if sample.timestamp.is_none() || pid <= 0 {
            return;
        }
        self.recorder.begin(time_ns);
        self.samples += 1;
        let chain = user_chain(sample);
        let kernel = sample.cpu_mode != CpuMode::User;
        // The first address is the instruction itself.
        let leaf = if kernel { chain.first().copied() } else { Some(ip) };
        let values: Vec<u64> = match &sample.user_regs {
            Some(of_user) => {
                (0..64).filter(|bit| self.event.registers & 1 << bit != 0).filter_map(|bit| of_user.get(bit)).collect()
            }
            None => Vec::new(),
        };
        let registers = registers::from_perf(self.event.registers, &values);
        let copied = sample.user_stack.map(|(bytes, size)| {
            let length = bytes.len().min(size as usize);
            bytes.as_slice()[..length].to_vec()
        });
        // perf's bit 7 is the stack pointer.
        let start = sample.user_regs.as_ref().and_then(|of_user| of_user.get(7)).unwrap_or(0);
        let seconds = match (self.event.seconds, sample.period) {
            (Some(seconds), _) => seconds,
            (None, Some(period)) if self.event.is_clock => period as f64 * 1e-9,
            _ => 1.0 / self.event.frequency_hz.max(1.0),
        };
        self.recorder.sample(Observation {
            time_ns,
            pid: pid as u32,
            tid: tid as u32,
            period: seconds,
            kernel,
            off_cpu: false,
            blocked: None,
            cpu: sample.cpu,
            ip: leaf,
            registers,
            stack: StackTop { start, bytes: copied.as_deref().unwrap_or_default() },
            chain: chain.get(1..).unwrap_or_default(),
        });
    }

    fn finish(self) -> TimedEvidence {
        let mut evidence = self.recorder.finish(Ending {
            source: self.event.source,
            end_ns: Some(self.last_ns),
            cpu_s: None,
            scale: Scale::AsSampled,
            frequency_hz: self.event.frequency_hz,
            lost: self.lost,
            page_faults: None,
            blocked_missing: Some("perf record saw no blocked threads".into()),
            warnings: Vec::new(),
        });
        // Without records of context switches the samples are all that is known.
        evidence.cpu_s = evidence.samples.iter().map(|sample| sample.weight_s).sum();
        for sample in &evidence.samples {
            evidence.threads[sample.thread as usize].cpu_s += sample.weight_s;
        }
        evidence
    }
}

/// The addresses of user code in a sample's call chain, leaf first.
fn user_chain(sample: &SampleRecord<'_>) -> Vec<u64> {
    let Some(chain) = &sample.callchain else { return Vec::new() };
    let mut is_user = sample.cpu_mode == CpuMode::User;
    let mut addresses = Vec::new();
    for address in (0..chain.len()).filter_map(|i| chain.get(i)) {
        if address >= LEAST_CONTEXT {
            is_user = address == USER_CONTEXT;
        } else if is_user {
            addresses.push(address);
        }
    }
    addresses
}

fn text(bytes: &RawData<'_>) -> String {
    String::from_utf8_lossy(&bytes.as_slice()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_behind_the_dashes() {
        let of = |words: &[&str]| program_of(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(of(&["perf", "record", "-g", "--", "./app", "7"]), ["./app", "7"]);
        assert_eq!(of(&["perf", "record", "./app"]), ["perf", "record", "./app"]);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "PERFILE").unwrap();
        assert!(matches!(read(file.path()), Err(PerfDataError::Read(_))));
        assert!(matches!(read(Path::new("/nowhere")), Err(PerfDataError::Open(_))));
    }
}
