//! `rprof events --check`: runs known work through every event of the table that this host opens.

use super::encode::encode;
use super::group::Free;
use super::kernel::{PerfKernel, Scope};
use super::open;
use super::pmu::Pmu;
use super::table::{Event, EventTable};
use super::trust::{Certificate, Comparison, KnownWork, Verdict, compare, judge};
use super::uncore;

/// This thread, any CPU.
const SELF: Scope = Scope { pid: 0, cpu: -1 };

/// Certifies every event of `table`. Nothing is left out: what cannot be checked says why.
pub fn certify<K: PerfKernel>(
    kernel: &K,
    pmus: &[Pmu],
    table: &EventTable,
    free: Free,
    works: &mut [Box<dyn KnownWork>],
) -> Vec<Certificate> {
    let core: Vec<&Pmu> = pmus.iter().filter(|p| table.cpu.pmu.contains(&p.name)).collect();
    let mut certificates = Vec::new();
    for event in &table.events {
        if core.is_empty() {
            let why = format!("the kernel lists no PMU {}", table.cpu.pmu.join(" or "));
            certificates.push(not_checked(&event.name, &table.cpu.pmu.join(" or "), why));
        }
        for pmu in &core {
            certificates.push(one(kernel, pmu, event, free, works));
        }
    }
    for event in &table.uncore {
        let opened = uncore::open(kernel, pmus, event);
        let why = match (opened.boxes.is_empty(), opened.refused.first()) {
            (true, Some((_, refusal))) => refusal.to_string(),
            _ => "no kernel of known memory traffic ran through it".into(),
        };
        certificates.push(not_checked(&event.name, &event.pmu, why));
    }
    certificates
}

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
    let mut comparisons: Vec<Comparison> = Vec::new();
    let mut operations = f64::MAX;
    for work in works.iter_mut().filter(|w| w.expected(event).is_some()) {
        let flags = open::own_thread();
        let mut opened = open::open(kernel, &[pmu], std::slice::from_ref(event), free, SELF, flags);
        opened.enable(kernel);
        work.run();
        opened.disable(kernel);
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

fn not_checked(event: &str, pmu: &str, why: String) -> Certificate {
    Certificate { event: event.into(), pmu: pmu.into(), verdict: Verdict::NotChecked { why }, comparisons: Vec::new() }
}

/// Whether any entry was refuted: what `events --check` exits with 1 for.
pub fn any_refuted(certificates: &[Certificate]) -> bool {
    certificates.iter().any(|c| matches!(c.verdict, Verdict::Refuted { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::fake::Fake;
    use crate::counters::kernel::Reading;
    use crate::counters::table::{Role, all, for_cpu};
    use std::collections::BTreeMap;

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
        let format = [("event", "config:0-7,32-35"), ("umask", "config:8-15")];
        let pmu = Pmu {
            name: "cpu".into(),
            kind: 4,
            cpus: vec![],
            per_socket: false,
            format: format.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            events: BTreeMap::new(),
        };
        (table, pmu)
    }

    fn verdict_on_flops(value: u64) -> Verdict {
        let (table, pmu) = zen2();
        let reading = Reading { value, enabled_ns: 9, running_ns: 9 };
        let fake = Fake { readings: vec![(0x0f03, Ok(reading))], ..Fake::default() };
        let mut works: Vec<Box<dyn KnownWork>> = vec![Box::new(Flops(1e6))];
        let certificates = certify(&fake, &[pmu], &table, Free { general: 6 }, &mut works);
        assert_eq!(certificates.len(), table.events.len() + table.uncore.len(), "nothing is left out");
        certificates.into_iter().find(|c| c.event == "fp_ops_retired.all").unwrap().verdict
    }

    #[test]
    fn a_right_event_is_trusted_and_a_wrong_one_refuted() {
        assert_eq!(verdict_on_flops(1_000_000), Verdict::Trusted);
        assert!(matches!(verdict_on_flops(512_345), Verdict::Refuted { .. }));
    }

    #[test]
    fn without_a_pmu_everything_is_not_checked() {
        let (table, _) = zen2();
        let certificates = certify(&Fake::default(), &[], &table, Free { general: 6 }, &mut []);
        assert!(!any_refuted(&certificates));
        assert!(certificates.iter().all(|c| matches!(c.verdict, Verdict::NotChecked { .. })));
    }
}
