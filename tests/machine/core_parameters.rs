//! The parameters of the core: each id has a value or a reason, with any instruction sets, and the values are possible.

use std::collections::BTreeSet;

use rprof::machine::Effort;
use rprof::machine::host::features::Features;
use rprof::machine::host::topology::{Identity, Topology};
use rprof::machine::suite::{campaign::Campaign, core};
use rprof::profile::Ceiling;

/// The ids that the design promises, by hand: `{a,b}` means each of them.
const PROMISED: [&str; 17] = [
    "width.{dispatch,taken}",
    "window.{rob,int,vector,loads,stores,registers,vector.registers}",
    "misses.l1",
    "banks.{l2,l3,l2.line,l3.line}",
    "mispredict.indirect",
    "predictor.outcomes",
    "btb.{first.entries,second}",
    "forward.{wide,narrow,indexed,base,computed,vector.128,vector.256,vector.512}",
    "tlb.{second,walk,walks,first.entries,second.entries}",
    "form.{add,imul,div64,div32,shift,shiftcl,lea3,bmi,popcnt,cmov,setcc,adc,bsf,branch}.{lat,rate}",
    "form.{vadd,vmul,vshift,vlogic,shuffle,blend,gather}.{128,256,512}.{lat,rate}",
    "form.permute.{256,512}.{lat,rate}",
    "form.{fadd,fmul,ffma,fdiv,fsqrt,fdivs,fsqrts,fcmp,fminmax,fround,cvt,cvtint,load,store}.{s,128,256,512}.{lat,rate}",
    "form.{movgprvec,movvecgpr,fcomi,kop,push,call}.{lat,rate}",
    "form.{add,imul,shift,lea3,cmov}.ports",
    "form.{fadd,fmul,fcmp,cvt,fdiv}.{s,128}.ports",
    "form.{vadd,vlogic,shuffle}.128.ports",
];

fn ids(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.into()] };
    let (choices, after) = rest.split_once('}').expect("a closing brace");
    choices.split(',').flat_map(|choice| ids(&format!("{before}{choice}{after}"))).collect()
}

fn measured(features: Features) -> Vec<Ceiling> {
    let (topology, _) = Topology::detect_of(Identity::ask(), "/sys".as_ref(), &[0]);
    let mut campaign = Campaign::new(features, topology, 1, 64 << 20, Effort::Quick).expect("one thread");
    core::measure(&mut campaign).expect("measures");
    campaign.finish().0
}

/// SSE2 alone, AVX, AVX2 with FMA, and all that this CPU has: as far as it has them.
fn feature_sets() -> Vec<Features> {
    let all = Features::detect();
    let sse = Features { clflushopt: all.clflushopt, ..Features::default() };
    let avx = Features { sse41: true, popcnt: true, avx: true, ..sse };
    let avx2 = Features { avx2: true, fma: true, bmi1: true, ..avx };
    let mut sets = vec![sse];
    sets.extend(Some(avx).filter(|_| all.avx));
    sets.extend(Some(avx2).filter(|_| all.avx2 && all.fma && all.bmi1));
    sets.push(all);
    sets
}

#[test]
fn every_parameter_has_a_value_or_a_reason_with_any_instruction_sets() {
    let promised: Vec<String> = PROMISED.iter().flat_map(|pattern| ids(pattern)).collect();
    assert!(promised.len() > 200, "{}", promised.len());
    for features in feature_sets() {
        let ceilings = measured(features);
        let told: BTreeSet<String> = ceilings.iter().map(|c| c.id.to_string()).collect();
        assert_eq!(told.len(), ceilings.len(), "an id twice");
        let missing: Vec<&String> = promised.iter().filter(|id| !told.contains(*id)).collect();
        assert!(missing.is_empty(), "{features:?}: {missing:?}");
        for c in &ceilings {
            assert!(rprof::profile::clock::is_parameter(&c.id) && c.threads == 1, "{c:?}");
            match c.value {
                Some(value) => assert!(value > 0.0 && value.is_finite() && c.clock_hz.is_some(), "{c:?}"),
                None => assert!(c.reason.is_some(), "{c:?}"),
            }
        }
    }
}

/// Relations that hold on every core, to a fifth, as far as they were measured: a busy host may disturb one.
#[test]
fn values_are_possible() {
    let attempt = || {
        let ceilings = measured(Features::detect());
        // In cycles, instructions a cycle, or counts.
        let value = |id: &str| {
            let c = ceilings.iter().find(|c| c.id == id)?;
            let (value, hz) = (c.value?, c.clock_hz?);
            Some(match c.unit.as_str() {
                "s" => value * hz,
                "instr/s" => value / hz,
                _ => value,
            })
        };
        let ranges = [
            ("form.add.lat", 0.9, 1.2),
            ("form.imul.lat", 2.5, 5.5),
            ("form.fadd.s.lat", 1.8, 8.0),
            ("form.add.rate", 1.5, 9.0),
            ("width.dispatch", 1.8, 13.0),
            ("width.taken", 0.3, 2.5),
            ("window.rob", 90.0, 1200.0),
            ("window.loads", 20.0, 1200.0),
            ("mispredict.indirect", 5.0, 60.0),
            ("tlb.second", 2.0, 30.0),
        ];
        let is_odd = |(id, least, most): &(&str, f64, f64)| value(id).is_some_and(|v| !(*least..=*most).contains(&v));
        let mut odd: Vec<String> =
            ranges.iter().filter(|r| is_odd(r)).map(|(id, ..)| format!("{id} {:?}", value(id))).collect();
        let rob = value("window.rob").unwrap_or(f64::INFINITY);
        let parts = ["int", "loads", "stores", "registers"].map(|part| format!("window.{part}"));
        odd.extend(parts.into_iter().filter(|id| value(id).is_some_and(|v| v > 1.05 * rob)));
        odd
    };
    let mut odd = attempt();
    for _ in 0..4 {
        if odd.is_empty() {
            return;
        }
        odd = attempt();
    }
    assert_eq!(odd, Vec::<String>::new());
}
