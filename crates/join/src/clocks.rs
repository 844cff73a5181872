//! The core clock while a function ran: from readings on its CPUs, and the samples between them.

use std::collections::BTreeMap;

use super::attributed::AttributedSample;
use rprof_profile::clock::{self, ClockSource};
use rprof_profile::evidence::timed::{ClockSeen, TimedEvidence};
use rprof_profile::machine::{Ceiling, Machine};
use rprof_profile::run::Warning;

/// Smaller differences between clocks are not mentioned: ceilings follow the clock anyway.
const TOLD: f64 = 0.05;

/// The clock of a CPU with fewer probes is unknown: one probe may have been delayed, and of two it is unclear which.
const LOOKS: usize = 3;

/// A probe is not used for a sample further from it than this, in seconds.
const NEAR_S: f64 = 0.5;

/// The clocks of one run.
#[derive(Debug, Default)]
pub struct Clocks {
    /// By CPU: seconds since the start of the pass, ascending, and cycles a second.
    seen: BTreeMap<u32, Vec<(f64, f64)>>,
    source: Option<ClockSource>,
}

impl Clocks {
    /// The clocks that the timed pass saw. Of three probes in a row the middle one counts: a single delayed probe is no clock.
    pub fn of(timed: &TimedEvidence) -> Self {
        let mut raw: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
        for ClockSeen { time_ns, cpu, hz } in &timed.clocks {
            let t_s = (*time_ns as f64 - timed.start_ns as f64) * 1e-9;
            raw.entry(*cpu).or_default().push((t_s, *hz));
        }
        raw.retain(|_, looks| looks.len() >= LOOKS);
        let seen = raw.into_iter().map(|(cpu, looks)| (cpu, middles(&looks))).collect();
        Clocks { seen, source: timed.clock_source }
    }

    /// The clock of `cpu` at a time; the mean of all CPUs if the CPU is unknown.
    fn at(&self, t_s: f64, cpu: Option<u32>) -> Option<f64> {
        match cpu {
            Some(cpu) => nearest(self.seen.get(&cpu)?, t_s),
            None => {
                let all: Vec<f64> = self.seen.values().filter_map(|looks| nearest(looks, t_s)).collect();
                (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
            }
        }
    }

    /// The mean over `samples`, by their weight; `None` if it is unknown for more than half of them.
    pub fn mean<'s>(&self, samples: impl Iterator<Item = &'s AttributedSample>) -> Option<f64> {
        let (mut cycles, mut known, mut all) = (0.0, 0.0, 0.0);
        for sample in samples {
            all += sample.weight_s;
            if let Some(hz) = self.at(sample.t_s, sample.cpu) {
                cycles += sample.weight_s * hz;
                known += sample.weight_s;
            }
        }
        (known > 0.0 && known >= all / 2.0).then(|| cycles / known)
    }

    /// A warning if the cores ran at another clock than while the ceilings were measured.
    pub fn warning(&self, samples: &[AttributedSample], machine: &Machine) -> Option<Warning> {
        let run = self.mean(samples.iter())?;
        let comparable = |c: &Ceiling| match self.source {
            Some(ClockSource::SampledCycles) => c.clock_hz,
            _ => c.reference_clock_hz(),
        };
        let of_cores = machine.ceilings.iter().filter(|c| clock::follows(&c.id)).filter_map(comparable);
        let (least, most) = of_cores.fold((f64::INFINITY, 0.0_f64), |(a, b), hz| (a.min(hz), b.max(hz)));
        let outside = most > 0.0 && (run < least * (1.0 - TOLD) || run > most * (1.0 + TOLD));
        let ghz = |hz: f64| format!("{:.2}", hz * 1e-9);
        let measured = if ghz(least) == ghz(most) { ghz(most) } else { format!("{} to {}", ghz(least), ghz(most)) };
        outside.then(|| {
            Warning::new(
                "clock-moved",
                format!("the cores ran at {} GHz, the ceilings were measured at {measured} GHz", ghz(run)),
                "ceilings of registers, L1 and L2 are scaled to each function's clock; those of L3 and DRAM may have changed, too",
                "measure them again with rprof machine --refresh, or fix the host's clock",
            )
        })
    }
}

fn middles(looks: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let around = |i: usize| &looks[i.saturating_sub(1)..(i + 2).min(looks.len())];
    let middle = |i: usize| {
        let mut hz: Vec<f64> = around(i).iter().map(|look| look.1).collect();
        hz.sort_unstable_by(f64::total_cmp);
        // At either end the faster of two: an interruption only lengthens a chain.
        (looks[i].0, hz[hz.len() / 2])
    };
    (0..looks.len()).map(middle).collect()
}

/// The probe nearest to a time; `looks` are (seconds since the start of the pass, value), ascending.
fn nearest<T: Copy>(looks: &[(f64, T)], t_s: f64) -> Option<T> {
    let behind = looks.partition_point(|(t, _)| *t < t_s);
    let near = looks[behind.saturating_sub(1)..].iter().take(2);
    let (t, seen) = near.min_by(|a, b| (a.0 - t_s).abs().total_cmp(&(b.0 - t_s).abs()))?;
    ((t - t_s).abs() <= NEAR_S).then_some(*seen)
}

#[cfg(test)]
mod tests {
    use super::super::attributed::{Activity, NONE, Peers};
    use super::*;
    use rprof_profile::machine::Ceiling;

    fn clocks(looks: &[(u64, u32, f64)]) -> Clocks {
        let look = |(ms, cpu, ghz): &(u64, u32, f64)| ClockSeen {
            time_ns: 1_000_000_000 + ms * 1_000_000,
            cpu: *cpu,
            hz: ghz * 1e9,
        };
        let clocks = looks.iter().map(look).collect();
        Clocks::of(&TimedEvidence { start_ns: 1_000_000_000, clocks, ..TimedEvidence::default() })
    }

    fn sample(t_s: f64, weight_s: f64, cpu: Option<u32>) -> AttributedSample {
        AttributedSample {
            t_s,
            weight_s,
            thread: 0,
            cpu,
            path: 0,
            stack: 0,
            function: 0,
            place: None,
            innermost: NONE,
            activity: Activity::Work,
            peers: Peers::ALONE,
        }
    }

    #[test]
    fn the_clock_is_that_of_the_cpu_at_that_time() {
        let of = |cpu, ghz| [(100, cpu, ghz), (150, cpu, ghz), (900, cpu, ghz)];
        let seen = clocks(&[&of(0, 3.0)[..], &of(1, 4.0), &[(100, 2, 1.0), (150, 2, 1.0)]].concat());
        let mean = |samples: &[AttributedSample]| seen.mean(samples.iter()).map(|hz| (hz * 1e-7).round());
        assert_eq!(mean(&[sample(0.1, 1.0, Some(2))]), None, "looked at too rarely");
        assert_eq!(mean(&[sample(0.1, 1.0, Some(0))]), Some(300.0));
        assert_eq!(mean(&[sample(0.1, 1.0, Some(1)), sample(0.9, 3.0, Some(0))]), Some(325.0));
        assert_eq!(mean(&[sample(0.1, 1.0, None)]), Some(350.0), "on whichever");
        assert_eq!(mean(&[sample(0.1, 1.0, Some(7))]), None, "never looked at");
        assert_eq!(
            mean(&[sample(0.1, 1.0, Some(0)), sample(5.0, 2.0, Some(0))]),
            None,
            "of most of it nothing is known"
        );
    }

    #[test]
    fn one_delayed_look_is_no_clock() {
        let seen = clocks(&[(0, 0, 3.0), (50, 0, 1.1), (100, 0, 3.0), (150, 0, 2.5), (200, 0, 2.5)]);
        let at = |t_s| seen.mean([sample(t_s, 1.0, Some(0))].iter()).map(|hz| (hz * 1e-8).round());
        assert_eq!([0.0, 0.05, 0.1, 0.15, 0.2].map(at), [30.0, 30.0, 25.0, 25.0, 25.0].map(Some));
    }

    #[test]
    fn another_clock_than_that_of_the_ceilings_is_told() {
        let ceiling =
            |id: &str, ghz: f64| Ceiling { clock_hz: Some(ghz * 1e9), ..Ceiling::reproduced(id, 1.0, "flop/s", 1) };
        let machine = Machine {
            ceilings: vec![ceiling("dp.fma", 3.0), ceiling("dp.tlp", 3.3), ceiling("dram.read", 1.0)],
            ..Machine::default()
        };
        let told = |ghz| {
            clocks(&[(0, 0, ghz), (50, 0, ghz), (100, 0, ghz)])
                .warning(&[sample(0.0, 1.0, Some(0))], &machine)
                .map(|w| w.text)
        };
        assert_eq!([2.9, 3.1, 3.4].map(told), [None, None, None]);
        let slow = "the cores ran at 2.50 GHz, the ceilings were measured at 3.00 to 3.30 GHz";
        assert_eq!(told(2.5).as_deref(), Some(slow));
        assert!(told(3.6).is_some());
        // Wide vectors lower the clock at which a core works, and not the one that a probe sees.
        let mut machine = machine;
        machine.ceilings[0].idle_clock_hz = Some(3.2e9);
        let told = |source| {
            let of = |ms: u64| ClockSeen { time_ns: ms * 1_000_000, cpu: 0, hz: 3.0e9 };
            let clocks = vec![of(0), of(50), of(100)];
            let timed = TimedEvidence { clocks, clock_source: Some(source), ..TimedEvidence::default() };
            Clocks::of(&timed).warning(&[sample(0.0, 1.0, Some(0))], &machine).is_some()
        };
        assert_eq!([ClockSource::Probes, ClockSource::SampledCycles].map(told), [true, false]);
    }
}
