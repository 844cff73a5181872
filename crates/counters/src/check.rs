//! Runs known work through every event of a table that this host opens.

use std::time::{Duration, Instant};

use super::encode::encode;
use super::group::Free;
use super::kernel::{PerfKernel, Scope};
use super::open;
use super::pmu::Pmu;
use super::refusal::Refusal;
use super::table::{Event, EventTable, UncoreEvent};
use super::trust::{Certificate, Comparison, KnownWork, Verdict, compare, judge};
use super::uncore;
use rprof_tracee::affinity::Kept;

/// This thread, any CPU.
const SELF: Scope = Scope { pid: 0, cpu: -1 };
/// Time for which rprof watches the host's own traffic before and after a kernel of known traffic.
const BACKGROUND: Duration = Duration::from_millis(50);

/// Certifies every event of `table`. Every event gets an entry: one that cannot be checked has the reason. Events with a
/// certificate in `known` are not run again.
pub fn certify<K: PerfKernel>(
    kernel: &K,
    pmus: &[Pmu],
    table: &EventTable,
    free: Free,
    works: &mut [Box<dyn KnownWork>],
    known: &[Certificate],
) -> Vec<Certificate> {
    let core: Vec<&Pmu> = pmus.iter().filter(|p| table.cpu.pmu.contains(&p.name)).collect();
    let kept = |event: &str, pmu: &str| known.iter().find(|c| c.event == event && c.pmu == pmu).cloned();
    let mut certificates = Vec::new();
    for event in &table.events {
        if core.is_empty() {
            let why = Refusal::not_listed(table.cpu.pmu.join(" or "), pmus).to_string();
            certificates.push(not_checked(&event.name, &table.cpu.pmu.join(" or "), why));
        }
        for pmu in &core {
            let found = kept(&event.name, &pmu.name);
            certificates.push(found.unwrap_or_else(|| one(kernel, pmu, event, free, works)));
        }
    }
    for event in &table.uncore {
        let found = kept(&event.name, &event.pmu);
        certificates.push(found.unwrap_or_else(|| controllers(kernel, pmus, event, works)));
    }
    certificates
}

/// A core event on one PMU; on hybrid CPUs the work runs on the cores that have it.
fn one<K: PerfKernel>(
    kernel: &K,
    pmu: &Pmu,
    event: &Event,
    free: Free,
    works: &mut [Box<dyn KnownWork>],
) -> Certificate {
    if let Err(e) = encode(event, pmu) {
        return not_checked(&event.name, &pmu.name, e.to_string());
    }
    let of_some_cores = !pmu.per_socket && !pmu.cpus.is_empty();
    let kept = of_some_cores.then(|| Kept::on(&pmu.cpus)).transpose();
    if let Err(e) = kept {
        return not_checked(&event.name, &pmu.name, format!("rprof may not run on its cores: {e}"));
    }
    let mut comparisons: Vec<Comparison> = Vec::new();
    let mut operations = f64::MAX;
    for work in works.iter_mut().filter(|w| w.expected(event).is_some()) {
        let flags = open::own_thread();
        let mut opened = open::open(kernel, &[pmu], std::slice::from_ref(event), free, SELF, flags);
        if opened.any() {
            work.prepare();
            opened.enable(kernel);
            work.run();
            opened.disable(kernel);
        }
        match opened.read(kernel).into_iter().next().map(|m| m.count) {
            Some(Ok(count)) => comparisons.extend(compare(work.as_ref(), event, count)),
            Some(Err(refusal)) => return not_checked(&event.name, &pmu.name, refusal.to_string()),
            None => {}
        }
        operations = operations.min(work.operations());
    }
    let verdict = judge(&comparisons, operations);
    Certificate { event: event.name.clone(), pmu: pmu.name.clone(), verdict, comparisons }
}

/// An event of memory controllers: kernels of known traffic, less the host's traffic at the same time.
fn controllers<K: PerfKernel>(
    kernel: &K,
    pmus: &[Pmu],
    event: &UncoreEvent,
    works: &mut [Box<dyn KnownWork>],
) -> Certificate {
    if let Some(refusal) = uncore::open(kernel, pmus, event).lacks() {
        return not_checked(&event.name, &event.pmu, refusal.to_string());
    }
    let mut comparisons: Vec<Comparison> = Vec::new();
    let mut bytes = f64::MAX;
    for work in works.iter_mut() {
        let Some(expected) = work.expected_bytes(event) else { continue };
        let counted = match traffic_of(kernel, pmus, event, work.as_mut()) {
            Ok(net) => net,
            Err(refusal) => return not_checked(&event.name, &event.pmu, refusal.to_string()),
        };
        bytes = bytes.min(work.operations());
        comparisons.push(Comparison {
            kernel: work.name().to_owned(),
            expected,
            counted: counted.bytes,
            error: (counted.error_bytes / work.operations()).hypot(work.tolerance()),
        });
    }
    let verdict = match comparisons.is_empty() {
        true => Verdict::NotChecked { why: "no kernel of known memory traffic ran through it".into() },
        false => judge(&comparisons, bytes),
    };
    Certificate { event: event.name.clone(), pmu: event.pmu.clone(), verdict, comparisons }
}

fn traffic_of<K: PerfKernel>(
    kernel: &K,
    pmus: &[Pmu],
    event: &UncoreEvent,
    work: &mut dyn KnownWork,
) -> Result<uncore::Net, Refusal> {
    work.prepare();
    let before = uncore::background(kernel, pmus, event, BACKGROUND)?;
    let mut boxes = uncore::open(kernel, pmus, event);
    boxes.enable(kernel);
    let start = Instant::now();
    work.run();
    // known traffic that is not counted refutes the event
    let during = boxes.read_idle(kernel, event.bytes)?;
    let seconds = start.elapsed().as_secs_f64();
    let after = uncore::background(kernel, pmus, event, BACKGROUND)?;
    Ok(uncore::subtract_background(&during, seconds, before, after))
}

fn not_checked(event: &str, pmu: &str, why: String) -> Certificate {
    Certificate { event: event.into(), pmu: pmu.into(), verdict: Verdict::NotChecked { why }, comparisons: Vec::new() }
}

/// Whether any entry was refuted; then `events --check` exits with 1.
pub fn any_refuted(certificates: &[Certificate]) -> bool {
    certificates.iter().any(|c| matches!(c.verdict, Verdict::Refuted { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Encoding;
    use crate::fake::Fake;
    use crate::kernel::{Flags, Reading};
    use crate::table::Role;
    use crate::tables::{all, for_cpu};
    use std::cell::Cell;
    use std::io;
    use std::rc::Rc;

    struct Flops(f64);

    impl KnownWork for Flops {
        fn name(&self) -> &str {
            "flops"
        }
        fn expected(&self, event: &Event) -> Option<f64> {
            (event.role == Role::Flops).then_some(self.0)
        }
        fn operations(&self) -> f64 {
            self.0
        }
        fn run(&mut self) {}
    }

    fn zen2() -> (EventTable, Pmu) {
        let table = for_cpu(&all().unwrap(), "AuthenticAMD", 0x17, 0x31).unwrap();
        (table, Pmu::of_all_cores(&[("event", "config:0-7,32-35"), ("umask", "config:8-15")]))
    }

    fn verdict_on_flops(value: u64) -> Verdict {
        let (table, pmu) = zen2();
        let reading = Reading { value, enabled_ns: 9, running_ns: 9 };
        let fake = Fake { readings: vec![(0x0f03, Ok(reading))], ..Fake::default() };
        let mut works: Vec<Box<dyn KnownWork>> = vec![Box::new(Flops(1e6))];
        let certificates = certify(&fake, &[pmu], &table, Free { general: 6 }, &mut works, &[]);
        assert_eq!(certificates.len(), table.events.len() + table.uncore.len(), "nothing is left out");
        certificates.into_iter().find(|c| c.event == "fp_ops_retired.all").unwrap().verdict
    }

    #[test]
    fn a_right_event_is_trusted_and_a_wrong_one_refuted() {
        assert_eq!(verdict_on_flops(1_000_000), Verdict::Trusted);
        assert!(matches!(verdict_on_flops(512_345), Verdict::Refuted { .. }));
    }

    #[test]
    fn one_refuted_event_is_told() {
        let of = |verdict| Certificate { event: "e".into(), pmu: "cpu".into(), verdict, comparisons: Vec::new() };
        let why = || "no known work ran through it".to_owned();
        let mut certificates = vec![of(Verdict::Trusted), of(Verdict::NotChecked { why: why() })];
        certificates.push(of(Verdict::Corrected { ratio: 2.0 }));
        assert!(!any_refuted(&certificates));
        certificates.insert(1, of(Verdict::Refuted { found: why() }));
        assert!(any_refuted(&certificates));
    }

    #[test]
    fn without_a_pmu_everything_is_not_checked() {
        let (table, _) = zen2();
        let certificates = certify(&Fake::default(), &[], &table, Free { general: 6 }, &mut [], &[]);
        assert!(!any_refuted(&certificates));
        assert!(certificates.iter().all(|c| matches!(c.verdict, Verdict::NotChecked { .. })));
    }

    #[test]
    fn what_is_certified_already_is_not_run_again() {
        let (table, pmu) = zen2();
        let known = Certificate {
            event: "fp_ops_retired.all".into(),
            pmu: "cpu".into(),
            verdict: Verdict::Corrected { ratio: 2.0 },
            comparisons: Vec::new(),
        };
        let fake = Fake::default();
        let mut works: Vec<Box<dyn KnownWork>> = vec![Box::new(Flops(1e6))];
        let known = [known];
        let certificates = certify(&fake, &[pmu], &table, Free { general: 6 }, &mut works, &known);
        assert!(certificates.contains(&known[0]));
        assert!(fake.opened.borrow().iter().all(|(e, ..)| e.config != 0x0f03), "it was not opened");
    }

    #[test]
    fn cores_that_we_may_not_run_on_are_not_checked() {
        let (table, pmu) = zen2();
        let pmu = Pmu { cpus: vec![100_000], ..pmu };
        let mut works: Vec<Box<dyn KnownWork>> = vec![Box::new(Flops(1e6))];
        let certificates = certify(&Fake::default(), &[pmu], &table, Free { general: 6 }, &mut works, &[]);
        let why = |c: &Certificate| matches!(&c.verdict, Verdict::NotChecked { why } if why.contains("its cores"));
        assert!(certificates.iter().filter(|c| c.pmu == "cpu").all(why), "{certificates:?}");
    }

    /// A memory controller: counts the lines that kernels move, times a factor.
    struct Controller {
        lines: Rc<Cell<f64>>,
        factor: f64,
    }

    impl PerfKernel for Controller {
        type Handle = f64;
        fn open(&self, _: Encoding, _: Scope, _: Option<&f64>, _: Flags) -> io::Result<f64> {
            Ok(self.lines.get())
        }
        fn read(&self, start: &f64) -> io::Result<Reading> {
            let value = ((self.lines.get() - start) * self.factor) as u64;
            Ok(Reading { value, enabled_ns: 9, running_ns: 9 })
        }
        fn enable(&self, _: &f64) -> io::Result<()> {
            Ok(())
        }
        fn disable(&self, _: &f64) -> io::Result<()> {
            Ok(())
        }
    }

    /// Moves a million lines, of which the controller sees `seen` as reads.
    struct Moves {
        lines: Rc<Cell<f64>>,
        seen: f64,
        expected: f64,
    }

    impl KnownWork for Moves {
        fn name(&self) -> &str {
            "moves"
        }
        fn expected(&self, _: &Event) -> Option<f64> {
            None
        }
        fn expected_bytes(&self, event: &UncoreEvent) -> Option<f64> {
            (event.role == Role::DramReadLines).then_some(64.0 * self.expected)
        }
        fn tolerance(&self) -> f64 {
            0.05
        }
        fn operations(&self) -> f64 {
            64e6
        }
        fn run(&mut self) {
            self.lines.set(self.lines.get() + self.seen);
        }
    }

    fn verdict_on_controllers(factor: f64, reads: [(f64, f64); 2]) -> Verdict {
        let mut table = for_cpu(&all().unwrap(), "GenuineIntel", 6, 0x6a).unwrap();
        table.events.clear();
        table.uncore.retain(|u| u.name == "imc.cas_read");
        let (_, pmu) = zen2();
        let imc = Pmu { name: "uncore_imc_0".into(), per_socket: true, cpus: vec![0], ..pmu };
        let lines = Rc::new(Cell::new(0.0));
        let work =
            |(expected, seen)| -> Box<dyn KnownWork> { Box::new(Moves { lines: Rc::clone(&lines), seen, expected }) };
        let mut works = reads.map(work);
        let controller = Controller { lines: Rc::clone(&lines), factor };
        let certificates = certify(&controller, &[imc], &table, Free { general: 4 }, &mut works, &[]);
        assert_eq!(certificates.len(), 1);
        certificates[0].verdict.clone()
    }

    #[test]
    fn controllers_are_held_against_known_bytes() {
        const READS: (f64, f64) = (1e6, 1.01e6);
        assert_eq!(verdict_on_controllers(1.0, [READS, READS]), Verdict::Trusted);
        let twice = verdict_on_controllers(2.0, [READS, READS]);
        assert!(matches!(twice, Verdict::Corrected { ratio } if (ratio - 2.02).abs() < 0.01), "{twice:?}");
        assert_eq!(verdict_on_controllers(1.0, [READS, (0.0, 2e4)]), Verdict::Trusted, "no reads where it writes");
        assert!(
            matches!(verdict_on_controllers(1.0, [READS, (0.0, 9e5)]), Verdict::Refuted { .. }),
            "it counts writes"
        );
        assert!(matches!(verdict_on_controllers(0.0, [READS, READS]), Verdict::Refuted { .. }), "a dead box");
    }
}
