//! Memory controllers and fabrics: every box once per socket, phantom boxes left out, background traffic subtracted.
//!
//! ```text
//!  before (idle) ─▶ background rate ┐
//!  during the run ─────────────────▶┼─▶ bytes = during − background × time, error from how much the background moved
//!  after (idle)  ─▶ background rate ┘
//! ```

use std::time::{Duration, Instant};

use serde::Serialize;

use super::count::{Count, MUX_WINDOW_NS};
use super::encode::Encoding;
use super::kernel::{Flags, PerfKernel, Scope};
use super::pmu::Pmu;
use super::refusal::Refusal;
use super::table::UncoreEvent;

/// A count this close to 2^64 is a phantom box's −1 or an uninitialised register.
const IMPOSSIBLE: u64 = 1 << 62;

/// One box of an uncore PMU on one socket, opened.
#[derive(Debug)]
pub struct OpenBox<H> {
    /// PMU name.
    pub pmu: String,
    /// CPU that represents the socket.
    pub cpu: u32,
    /// Channel of the box, with a dot before it; empty if the event counts all channels at once.
    pub channel: String,
    handle: H,
}

impl<H> OpenBox<H> {
    /// `uncore_imc_0.1@28`: PMU, channel, CPU.
    fn name(&self) -> String {
        name(&self.pmu, &self.channel, self.cpu)
    }
}

fn name(pmu: &str, channel: &str, cpu: u32) -> String {
    format!("{pmu}{channel}@{cpu}")
}

/// Opened boxes of one event, and those that refused. Only all of them together hold the host's traffic.
#[derive(Debug)]
pub struct OpenUncore<H> {
    /// Opened.
    pub boxes: Vec<OpenBox<H>>,
    /// Box name and reason.
    pub refused: Vec<(String, Refusal)>,
}

/// Opens `event` on every box in `pmus`, once on each CPU of its cpumask (one a socket).
pub fn open<K: PerfKernel>(kernel: &K, pmus: &[Pmu], event: &UncoreEvent) -> OpenUncore<K::Handle> {
    let mut found = OpenUncore { boxes: Vec::new(), refused: Vec::new() };
    for pmu in pmus.iter().filter(|p| p.is_box_of(&event.pmu)) {
        let cpus = if pmu.cpus.is_empty() { &[0][..] } else { &pmu.cpus[..] };
        for cpu in cpus {
            for (channel, config) in event.configs() {
                let encoding = Encoding { kind: pmu.kind, config, config1: event.config1, config2: event.config2 };
                // uncore PMUs count every task on a CPU and refuse all exclude bits
                let scope = Scope { pid: -1, cpu: *cpu as i32 };
                match kernel.open(encoding, scope, None, Flags { disabled: true, ..Flags::default() }) {
                    Ok(handle) => {
                        found.boxes.push(OpenBox { pmu: pmu.name.clone(), cpu: *cpu, channel, handle });
                    }
                    Err(e) => found.refused.push((name(&pmu.name, &channel, *cpu), Refusal::of_open(&e))),
                }
            }
        }
    }
    if found.boxes.is_empty() && found.refused.is_empty() {
        found.refused.push((event.pmu.clone(), Refusal::not_listed(&event.pmu, pmus)));
    }
    found
}

/// The traffic that the boxes of one event counted over an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traffic {
    /// Bytes, summed over the boxes that count.
    pub bytes: f64,
    /// Relative error of the scaling.
    pub error: f64,
    /// Bytes by box: `uncore_imc_0@0`; for the balance of controllers.
    pub by_box: Vec<(String, f64)>,
    /// Boxes that exist but count nothing or nonsense.
    pub phantom: Vec<String>,
}

impl<H> OpenUncore<H> {
    /// Starts all boxes.
    pub fn enable<K: PerfKernel<Handle = H>>(&mut self, kernel: &K) {
        let mut failed = Vec::new();
        self.boxes.retain(|b| match kernel.enable(&b.handle) {
            Ok(()) => true,
            Err(e) => {
                failed.push((b.name(), Refusal::of_read(&e)));
                false
            }
        });
        self.refused.extend(failed);
    }

    /// Why the sum over the boxes is not known: one of them refused. `None` if all of them count.
    pub fn lacks(&self) -> Option<Refusal> {
        missing(&self.refused, self.boxes.len())
    }

    /// Reads all boxes. A phantom is a box that reads nonsense, or 0 or 1 while another box of the same event counts.
    ///
    /// # Errors
    /// As [`read_idle`](Self::read_idle); and all boxes, or all of a socket, counted nothing: no run is without traffic, so
    /// that they do not count.
    pub fn read<K: PerfKernel<Handle = H>>(&self, kernel: &K, bytes_per_count: f64) -> Result<Traffic, Refusal> {
        let traffic = self.read_idle(kernel, bytes_per_count)?;
        match self.silent(&traffic) {
            Some(refusal) => Err(refusal),
            None => Ok(traffic),
        }
    }

    /// Distinguishes the sockets if each box is open on several.
    fn silent(&self, traffic: &Traffic) -> Option<Refusal> {
        let counts = |b: &OpenBox<H>| traffic.by_box.iter().any(|(name, bytes)| *name == b.name() && *bytes > 0.0);
        let counting: Vec<&OpenBox<H>> = self.boxes.iter().filter(|b| counts(b)).collect();
        if counting.is_empty() {
            return Some(Refusal::CountedNothing { cpu: None });
        }
        let several = |b: &&OpenBox<H>| self.boxes.iter().any(|o| o.pmu == b.pmu && o.cpu != b.cpu);
        let silent = self.boxes.iter().filter(several).find(|b| counting.iter().all(|c| c.cpu != b.cpu));
        silent.map(|b| Refusal::CountedNothing { cpu: Some(b.cpu) })
    }

    /// The same over an interval in which the host may have no traffic.
    ///
    /// # Errors
    /// A box refused to be opened, started or read, so that the sum is not whole; or none gave a count.
    pub fn read_idle<K: PerfKernel<Handle = H>>(&self, kernel: &K, bytes_per_count: f64) -> Result<Traffic, Refusal> {
        let mut counts: Vec<(String, Count)> = Vec::new();
        let mut phantom = Vec::new();
        let mut refused = self.refused.clone();
        for b in &self.boxes {
            let counted = match kernel.read(&b.handle) {
                Ok(reading) if reading.value >= IMPOSSIBLE => {
                    phantom.push(b.name());
                    continue;
                }
                Ok(reading) => Count::from_reading(reading, MUX_WINDOW_NS),
                Err(e) => Err(Refusal::of_read(&e)),
            };
            match counted {
                Ok(count) => counts.push((b.name(), count)),
                Err(refusal) => refused.push((b.name(), refusal)),
            }
        }
        if let Some(refusal) = missing(&refused, counts.len() + phantom.len()) {
            return Err(refusal);
        }
        let any_real = counts.iter().any(|(_, c)| c.raw > 1);
        let (real, empty): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(_, c)| !any_real || c.raw > 1);
        phantom.extend(empty.into_iter().map(|(name, _)| name));
        let total = real.iter().map(|(_, c)| *c).reduce(Count::plus).ok_or(Refusal::NeverRan)?;
        Ok(Traffic {
            bytes: total.value * bytes_per_count,
            error: total.error,
            by_box: real.into_iter().map(|(name, c)| (name, c.value * bytes_per_count)).collect(),
            phantom,
        })
    }
}

/// The reason that all boxes share, or that of the first one beside `others` that have none.
fn missing(refused: &[(String, Refusal)], others: usize) -> Option<Refusal> {
    let (name, why) = refused.first()?;
    let shared = others == 0 && refused.iter().all(|(_, r)| r == why);
    Some(if shared { why.clone() } else { Refusal::OfBox { name: name.clone(), why: Box::new(why.clone()) } })
}

/// The traffic of the whole host over a moment of `pause`, in bytes per second; for the background.
///
/// # Errors
/// No box gave a count.
pub fn background<K: PerfKernel>(
    kernel: &K,
    pmus: &[Pmu],
    event: &UncoreEvent,
    pause: Duration,
) -> Result<f64, Refusal> {
    let mut boxes = open(kernel, pmus, event);
    boxes.enable(kernel);
    let start = Instant::now();
    if !boxes.boxes.is_empty() {
        std::thread::sleep(pause);
    }
    let traffic = boxes.read_idle(kernel, event.bytes)?;
    Ok(traffic.bytes / start.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
}

/// Traffic of the program alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Net {
    /// Bytes of the run less the background.
    pub bytes: f64,
    /// Bytes that the background is estimated at.
    pub background: f64,
    /// Absolute error in bytes: scaling, and half the distance of the two background rates over the run's time.
    pub error_bytes: f64,
}

/// bytes = during − (before + after)/2 · seconds, never clamped: a negative result is an error of at least its size.
///
/// `before` and `after` are background rates in bytes per second.
pub fn subtract_background(during: &Traffic, seconds: f64, before: f64, after: f64) -> Net {
    let background = (before + after) / 2.0 * seconds;
    let bytes = during.bytes - background;
    let moved = (before - after).abs() / 2.0 * seconds;
    let error_bytes = (during.error * during.bytes).hypot(moved).max(-bytes);
    Net { bytes, background, error_bytes }
}

/// Imbalance of the controllers (A.3): mean / maximum of the bytes by box; 1 is even. `None` with fewer than two boxes.
pub fn controller_balance(traffic: &Traffic) -> Option<f64> {
    let most = traffic.by_box.iter().map(|b| b.1).fold(0.0, f64::max);
    (traffic.by_box.len() > 1 && most > 0.0).then(|| traffic.bytes / traffic.by_box.len() as f64 / most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, SHORT};
    use crate::kernel::Reading;
    use crate::table::Role;
    use crate::tables::{all, for_cpu};
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::io;

    fn imc(n: u32, cpus: &[u32]) -> Pmu {
        Pmu {
            name: format!("uncore_imc_{n}"),
            kind: 20 + n,
            cpus: cpus.to_vec(),
            per_socket: true,
            format: BTreeMap::new(),
            events: BTreeMap::new(),
        }
    }

    fn cas_read() -> UncoreEvent {
        let table = for_cpu(&all().unwrap(), "GenuineIntel", 6, 0x55).unwrap();
        table.uncore.into_iter().find(|u| u.role == Role::DramReadLines).unwrap()
    }

    #[test]
    fn every_box_once_per_socket() {
        let (fake, pmus) = (Fake::default(), [imc(0, &[0, 28]), imc(1, &[0, 28])]);
        let mut opened = open(&fake, &pmus, &cas_read());
        opened.enable(&fake);
        let scopes: Vec<(i32, i32)> = fake.opened.borrow().iter().map(|o| (o.1.pid, o.1.cpu)).collect();
        assert_eq!(scopes, [(-1, 0), (-1, 28), (-1, 0), (-1, 28)]);
        let traffic = opened.read(&fake, 64.0).unwrap();
        assert_eq!(traffic.by_box.len(), 4);
        assert_eq!(traffic.bytes, 4.0 * 64.0 * f64::from(0x304));
        assert_eq!(controller_balance(&traffic), Some(1.0));
    }

    #[test]
    fn phantom_boxes_are_left_out() {
        let nonsense = Reading { value: u64::MAX - 3, enabled_ns: 10, running_ns: 10 };
        let fake = Fake { readings: vec![(0x304, Ok(nonsense))], ..Fake::default() };
        let opened = open(&fake, &[imc(0, &[0])], &cas_read());
        assert!(opened.read(&fake, 64.0).is_err(), "a phantom alone is no measurement");
    }

    #[test]
    fn phantom_boxes_beside_real_ones_add_nothing() {
        let pmus = [imc(0, &[0]), imc(1, &[0]), imc(2, &[0]), imc(3, &[0])];
        // 1.8e19, an uninitialised register, and the reading of a box with nothing behind it.
        for phantom in [u64::MAX - 3, u64::MAX, 1 << 62, 0, 1] {
            let fake = Fake { counts_of_kind: vec![(20, 1000), (21, phantom), (23, 3000)], ..Fake::default() };
            let traffic = open(&fake, &pmus, &cas_read()).read(&fake, 64.0).unwrap();
            assert_eq!(traffic.phantom, ["uncore_imc_1@0"], "{phantom}");
            assert_eq!(traffic.bytes, 64.0 * (1000.0 + f64::from(0x304) + 3000.0), "{phantom}");
            assert_eq!(traffic.by_box.len(), 3, "{phantom}");
            assert_eq!(
                controller_balance(&traffic),
                Some(traffic.bytes / 3.0 / (64.0 * 3000.0)),
                "of those that count"
            );
        }
        let few = Fake { counts_of_kind: vec![(20, 1000), (21, 2)], ..Fake::default() };
        assert!(open(&few, &pmus, &cas_read()).read(&few, 64.0).unwrap().phantom.is_empty(), "2 is a count");
    }

    /// A host with traffic of its own, which may have another rate at each look.
    struct Host {
        /// Counts a second, and how often it was opened.
        rates: Vec<f64>,
        looks: Cell<usize>,
    }

    impl PerfKernel for Host {
        type Handle = (Instant, f64);
        fn open(&self, _: Encoding, _: Scope, _: Option<&Self::Handle>, _: Flags) -> io::Result<Self::Handle> {
            let rate = self.rates[self.looks.replace(self.looks.get() + 1)];
            Ok((Instant::now(), rate))
        }
        fn read(&self, (start, rate): &Self::Handle) -> io::Result<Reading> {
            let value = (start.elapsed().as_secs_f64() * rate) as u64;
            Ok(Reading { value, enabled_ns: 1000, running_ns: 1000 })
        }
        fn enable(&self, _: &Self::Handle) -> io::Result<()> {
            Ok(())
        }
        fn disable(&self, _: &Self::Handle) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_host_that_changes_meanwhile_is_in_the_error() {
        let pause = Duration::from_millis(20);
        let look = |rates: [f64; 2]| {
            let host = Host { rates: rates.to_vec(), looks: Cell::new(0) };
            rates.map(|_| background(&host, &[imc(0, &[0])], &cas_read(), pause).unwrap())
        };
        let during = Traffic { bytes: 10e9, error: 0.0, by_box: vec![], phantom: vec![] };
        let [before, after] = look([1e7, 3e7]);
        // Time passes between the opening and the read and its own look at the clock: a busy machine is not exact.
        assert!((before / 64e7 - 1.0).abs() < 0.2 && (after / 192e7 - 1.0).abs() < 0.2, "{before} {after}");
        let net = subtract_background(&during, 2.0, before, after);
        assert!((net.background - (before + after)).abs() < 1.0, "the mean rate over two seconds");
        assert!((net.error_bytes - (after - before)).abs() < 1.0, "half the distance of the rates over two seconds");
        let [before, after] = look([1e7, 1e7]);
        let steady = subtract_background(&during, 2.0, before, after);
        assert!(steady.error_bytes < 0.5 * net.error_bytes, "{steady:?}");
        let [before, after] = look([0.0, 0.0]);
        assert_eq!((before, after), (0.0, 0.0), "an idle host is none that cannot be read");
    }

    #[test]
    fn boxes_that_all_count_nothing_are_no_measurement() {
        let zero = Reading { value: 0, enabled_ns: 1000, running_ns: 1000 };
        let pmus = [imc(0, &[0, 28]), imc(1, &[0, 28])];
        let fake = Fake { readings: vec![(0x304, Ok(zero))], ..Fake::default() };
        let refusal = open(&fake, &pmus, &cas_read()).read(&fake, 64.0).unwrap_err();
        assert_eq!(refusal.to_string(), "the memory controllers counted nothing");
        assert_eq!(background(&fake, &pmus, &cas_read(), Duration::ZERO), Ok(0.0), "the host may have been idle");
        let socket = Fake { silent_on: vec![28], ..Fake::default() };
        let refusal = open(&socket, &pmus, &cas_read()).read(&socket, 64.0).unwrap_err();
        assert_eq!(refusal.to_string(), "the memory controllers of the socket of CPU 28 counted nothing");
        let one_of_two = open(&socket, &[imc(0, &[0]), imc(1, &[28])], &cas_read()).read(&socket, 64.0).unwrap();
        assert_eq!(one_of_two.phantom, ["uncore_imc_1@28"], "an empty channel, for all that is known");
    }

    #[test]
    fn no_box_and_no_right_are_told_apart() {
        let fake = Fake { refuse: vec![(0x304, libc::EACCES)], ..Fake::default() };
        assert_eq!(open(&fake, &[imc(0, &[0])], &cas_read()).read(&fake, 64.0), Err(Refusal::Forbidden));
        let core = Pmu { name: "cpu".into(), ..imc(0, &[]) };
        let none = open(&fake, &[core], &cas_read()).read(&fake, 64.0);
        assert_eq!(none, Err(Refusal::NoPmu { pmu: "uncore_imc".into() }));
        let unreadable = open(&fake, &[], &cas_read()).read(&fake, 64.0).unwrap_err().to_string();
        assert!(unreadable.ends_with("(/sys/bus/event_source/devices) is empty or cannot be read"), "{unreadable}");
    }

    #[test]
    fn a_sum_that_lacks_a_box_is_no_sum() {
        let pmus = [imc(0, &[0, 28]), imc(1, &[0, 28])];
        let read = |fake: &Fake| {
            let mut opened = open(fake, &pmus, &cas_read());
            opened.enable(fake);
            opened.read(fake, 64.0)
        };
        let lacks = |name: &str, why| Refusal::OfBox { name: name.into(), why: Box::new(why) };
        let offline = Fake { offline: vec![28], ..Fake::default() };
        assert_eq!(read(&offline), Err(lacks("uncore_imc_0@28", Refusal::CpuOffline)));
        let short_of_descriptors = Fake { descriptors: Some(Cell::new(3)), ..Fake::default() };
        let refusal = read(&short_of_descriptors).unwrap_err();
        assert_eq!(refusal, lacks("uncore_imc_1@28", Refusal::OutOfDescriptors));
        assert_eq!(refusal.to_string(), "uncore_imc_1@28 is missing from the sum: the limit of open files is reached");
        assert!(refusal.hint().contains("ulimit"));
        let stops = Fake { refuse_enable: vec![(28, libc::EIO)], ..Fake::default() };
        assert_eq!(read(&stops), Err(lacks("uncore_imc_0@28", Refusal::StoppedCounting)));
        let unread = Fake { refuse_read: vec![(0, SHORT)], ..Fake::default() };
        assert_eq!(read(&unread), Err(lacks("uncore_imc_0@0", Refusal::ShortRead)));
        let forbidden = Fake { refuse: vec![(0x304, libc::EACCES)], ..Fake::default() };
        assert_eq!(read(&forbidden), Err(Refusal::Forbidden), "one reason for all of them");
    }

    #[test]
    fn boxes_named_by_address_are_opened_with_all_words() {
        let table = for_cpu(&all().unwrap(), "ARM", 0x41, 0xd0c).unwrap();
        let event = table.uncore.iter().find(|u| u.pmu == "arm_dmc620").unwrap();
        let boxes =
            ["arm_dmc620_10008c000", "arm_dmc620_1000cc000"].map(|name| Pmu { name: name.into(), ..imc(0, &[]) });
        let fake = Fake::default();
        assert_eq!(open(&fake, &boxes, event).boxes.len(), 2);
        let words: Vec<_> = fake.opened.borrow().iter().map(|o| (o.0.config, o.0.config1, o.0.config2)).collect();
        assert_eq!(words, [(0, 0, 0x290); 2], "reads and writes, unfiltered");
    }

    #[test]
    fn sub_channels_of_a_box_are_added() {
        let event = UncoreEvent { sub_channels: vec![0x305], ..cas_read() };
        let fake = Fake::default();
        let traffic = open(&fake, &[imc(0, &[0])], &event).read(&fake, 64.0).unwrap();
        assert_eq!(traffic.bytes, 64.0 * f64::from(0x304 + 0x305));
        let names: Vec<&str> = traffic.by_box.iter().map(|b| b.0.as_str()).collect();
        assert_eq!(names, ["uncore_imc_0.0@0", "uncore_imc_0.1@0"]);
    }

    #[test]
    fn background_is_subtracted_with_its_error() {
        let during = Traffic { bytes: 10e9, error: 0.0, by_box: vec![], phantom: vec![] };
        let net = subtract_background(&during, 2.0, 0.4e9, 0.6e9);
        assert_eq!((net.bytes, net.background), (9e9, 1e9));
        assert!((net.error_bytes - 0.2e9).abs() < 1.0);
        let idle = subtract_background(&Traffic { bytes: 0.5e9, ..during }, 2.0, 0.4e9, 0.4e9);
        assert!(idle.bytes < 0.0 && idle.error_bytes >= -idle.bytes, "never clamped, never believed");
    }
}
