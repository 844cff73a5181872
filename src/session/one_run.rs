//! Whether one native run is enough: certified counters that give FLOPs by function and bytes at the controllers.

use crate::profile::evidence::counters::{CounterEvent, CounterEvidence, UncoreCount};

use super::options::Memory;

/// Scaled counts of events that took turns on the PMU must be known at least this well, relatively.
const SCALING: f64 = 0.02;
/// Bytes at the controllers must be known at least this well beside the host's own traffic, relatively.
const TRAFFIC: f64 = 0.1;

/// Whether the certificates promise all that the report needs, before anything was counted.
///
/// # Errors
/// The missing counter.
pub fn promised(outlook: &CounterEvidence, memory: Memory) -> Result<(), String> {
    flops(outlook, &|_| Ok(()))?;
    match memory {
        Memory::Off => Ok(()),
        Memory::Sampled | Memory::Exact => traffic(&outlook.uncore, &|_| Ok(())),
    }
}

/// Whether a run's counters have kept the promise.
///
/// # Errors
/// The missing counter, with the reason.
pub fn kept(evidence: &CounterEvidence, memory: Memory) -> Result<(), String> {
    flops(evidence, &|event| {
        let total = event.total.as_ref().map_err(|why| format!("{} was not measured: {why}", event.name))?;
        match total.error <= SCALING {
            true => Ok(()),
            false => {
                Err(format!("{} took turns on the PMU and is known to ± {:.0} % only", event.name, 100.0 * total.error))
            }
        }
    })?;
    if let Some(left_out) = evidence.flops_left_out() {
        return Err(left_out);
    }
    if evidence.groups.is_empty() {
        return Err("this kernel gives the FLOPs of the program only, not of its functions (Linux 6.12 does)".into());
    }
    if memory == Memory::Off {
        return Ok(());
    }
    traffic(&evidence.uncore, &|count| {
        let bytes = count.bytes.as_ref().map_err(|why| format!("{} was not measured: {why}", count.name))?;
        match bytes.net > 0.0 && bytes.error <= TRAFFIC * bytes.net {
            true => Ok(()),
            false => Err(format!("{} drowns in the traffic of the rest of the host", count.name)),
        }
    })
}

type Check<'c, T> = &'c dyn Fn(&T) -> Result<(), String>;

fn flops(evidence: &CounterEvidence, check: Check<CounterEvent>) -> Result<(), String> {
    let mut events = evidence.events.iter().filter(|e| e.role == "flops").peekable();
    if events.peek().is_none() {
        return Err("there is no event for FLOPs".into());
    }
    events.try_for_each(|event| match (&event.total, event.certified) {
        (Err(why), false) if event.trust == NO_EVENT => Err(why.clone()),
        (_, false) => Err(format!("{} is not certified: {}", event.name, event.trust)),
        (_, true) => check(event),
    })
}

/// The plan's text on FLOPs that a kind of core cannot count.
const NO_EVENT: &str = "no such event";

fn traffic(uncore: &[UncoreCount], check: Check<UncoreCount>) -> Result<(), String> {
    let of = |role: &str| uncore.iter().filter(|u| u.role == role).collect::<Vec<_>>();
    let (reads, writes) = (of("dram_read_lines"), of("dram_write_lines"));
    let usable = |count: &&UncoreCount| match count.certified {
        false => Err(format!("{} is not certified: {}", count.name, count.trust)),
        true => check(count),
    };
    let pair = |read: &&&UncoreCount| {
        usable(read)?;
        if read.both_directions {
            return Ok(());
        }
        let write = writes.iter().find(|w| w.pmu == read.pmu);
        usable(write.ok_or_else(|| format!("{} has no event for writes beside it", read.name))?)
    };
    let mut why = Err("there is no event for DRAM traffic".to_owned());
    for read in reads.iter().filter(|r| !r.further) {
        match pair(&read) {
            // Another memory's traffic is a part of the whole.
            Ok(()) => return reads.iter().filter(|r| r.further).try_for_each(|r| pair(&r)),
            refused => why = why.or(refused),
        }
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::evidence::counters::{CounterTotal, LeftOut, UncoreBytes};

    fn event(certified: bool, total: Result<CounterTotal, String>) -> CounterEvent {
        CounterEvent {
            name: "fp_arith".into(),
            role: "flops".into(),
            pmu: "cpu".into(),
            unit: "flop".into(),
            weight: 1.0,
            trust: if certified { "trusted".into() } else { "refuted: x".into() },
            certified,
            precision: None,
            width: None,
            caveat: None,
            betrays: None,
            total,
        }
    }

    fn count(role: &str, certified: bool, net: f64) -> UncoreCount {
        UncoreCount {
            name: format!("imc.{role}"),
            role: role.into(),
            pmu: "imc".into(),
            trust: if certified { "trusted".into() } else { "not checked: y".into() },
            certified,
            both_directions: false,
            further: false,
            bytes: Ok(UncoreBytes { net, error: 5.0, ..UncoreBytes::default() }),
        }
    }

    fn total(error: f64) -> Result<CounterTotal, String> {
        Ok(CounterTotal { value: 9.0, raw: 9, running_share: 1.0, error })
    }

    fn evidence() -> CounterEvidence {
        CounterEvidence {
            events: vec![event(true, total(0.0))],
            groups: vec![vec![0]],
            uncore: vec![count("dram_read_lines", true, 100.0), count("dram_write_lines", true, 100.0)],
            ..CounterEvidence::default()
        }
    }

    fn missing(change: impl FnOnce(&mut CounterEvidence)) -> String {
        let mut evidence = evidence();
        change(&mut evidence);
        kept(&evidence, Memory::Sampled).expect_err("something is missing")
    }

    #[test]
    fn certified_flops_and_bytes_are_enough() {
        assert_eq!(kept(&evidence(), Memory::Sampled), Ok(()));
        assert_eq!(promised(&evidence(), Memory::Sampled), Ok(()));
        let without_bytes = CounterEvidence { uncore: Vec::new(), ..evidence() };
        assert!(promised(&without_bytes, Memory::Sampled).unwrap_err().contains("DRAM"));
        assert_eq!(kept(&without_bytes, Memory::Off), Ok(()), "bytes are not asked for");
    }

    #[test]
    fn each_lack_is_named() {
        assert!(missing(|e| e.events.clear()).contains("no event for FLOPs"));
        assert!(missing(|e| e.events[0].certified = false).contains("fp_arith is not certified"));
        assert!(missing(|e| e.events[0].total = Err("no counter is free".into())).contains("no counter is free"));
        assert!(missing(|e| e.events[0].total = total(0.07)).contains("± 7 %"));
        assert!(missing(|e| e.groups.clear()).contains("of the program only"));
        assert!(missing(|e| e.uncore[1] = count("dram_write_lines", false, 100.0)).contains("not checked: y"));
        assert!(missing(|e| e.uncore.truncate(1)).contains("no event for writes"));
        assert!(missing(|e| e.uncore[0] = count("dram_read_lines", true, 10.0)).contains("drowns"));
        let hbm = |certified| {
            let of = |role: &str| UncoreCount { pmu: "hbm".into(), further: true, ..count(role, certified, 100.0) };
            [of("dram_read_lines"), of("dram_write_lines")]
        };
        assert!(missing(|e| e.uncore.extend(hbm(false))).contains("not certified"), "a memory beside the other");
        let mut with_hbm = evidence();
        with_hbm.uncore.extend(hbm(true));
        assert_eq!(kept(&with_hbm, Memory::Sampled), Ok(()));
        assert!(missing(|e| e.uncore = hbm(true).into()).contains("no event for DRAM"), "the part alone");
        let silent = UncoreBytes::default();
        assert!(missing(|e| e.uncore[0].bytes = Ok(silent)).contains("drowns"), "0 ± 0 is no promise kept");
        let betraying = |total| CounterEvent {
            role: "amx_busy".into(),
            name: "amx".into(),
            betrays: Some(LeftOut { reason: "AMX has no FLOP event".into(), at_most: 0.0 }),
            ..event(false, total)
        };
        let amx = |value| Ok(CounterTotal { value, raw: value as u64, running_share: 1.0, error: 0.0 });
        assert_eq!(missing(|e| e.events.push(betraying(amx(7.0)))), "AMX has no FLOP event, and amx counted 7");
        assert!(missing(|e| e.events.push(betraying(Err("EIO".into())))).contains("amx was not measured: EIO"));
        let mut without_amx = evidence();
        without_amx.events.push(betraying(amx(0.0)));
        assert_eq!(kept(&without_amx, Memory::Sampled), Ok(()));
        let mut gone = event(false, Err("no FLOP event on E-cores".into()));
        gone.trust = NO_EVENT.into();
        assert_eq!(missing(|e| e.events.push(gone)), "no FLOP event on E-cores");
    }
}
