//! The events of all tables: the work that they count, and the work that they leave out.

use super::table::{Event, Role};
use super::tables::{all, for_cpu};

#[test]
fn what_a_flop_event_counts_otherwise_is_said() {
    let tables = all().unwrap();
    let caveat = |vendor: &str, family, model, name: &str| {
        let table = for_cpu(&tables, vendor, family, model).unwrap();
        let event = table.events.iter().find(|e| e.name == name).unwrap();
        table.caveat(event)
    };
    let intel = |model, name| caveat("GenuineIntel", 6, model, name);
    assert_eq!(
        intel(0x6a, "fp_arith.512_dp").unwrap(),
        "lanes that a mask switches off are counted, minima and maxima are counted"
    );
    assert_eq!(intel(0x55, "fp_arith.scalar_dp").unwrap(), "minima and maxima are counted");
    assert_eq!(intel(0x6a, "l1d.replacement"), None);
    assert!(caveat("AuthenticAMD", 0x1a, 0x02, "fp_ops_retired.all").unwrap().contains("minima and maxima may"));
    for model in [0x8f, 0xcf, 0xad] {
        let caveat = intel(model, "fp_arith.scalar_dp").unwrap();
        assert!(caveat.ends_with("dot products of BF16 are left out"), "{model:#x}: {caveat}");
    }
    assert!(!intel(0x55, "fp_arith.scalar_dp").unwrap().contains("BF16"), "Cooper Lake has events for it");
    let mut alone = for_cpu(&tables, "GenuineIntel", 6, 0x55).unwrap();
    alone.missing.clear();
    let scalar = alone.events.iter().find(|e| e.name == "fp_arith.scalar_dp").unwrap();
    assert!(alone.caveat(scalar).unwrap().ends_with("x87 is left out"), "no event tells of it");
}

#[test]
fn micro_operations_and_instructions_are_not_called_flops() {
    let tables = all().unwrap();
    let unit = |vendor: &str, family, model, name: &str| {
        let table = for_cpu(&tables, vendor, family, model).unwrap();
        table.events.iter().find(|e| e.name == name).unwrap().unit()
    };
    assert_eq!(unit("GenuineIntel", 6, 0x55, "uops_executed.x87"), "uop");
    assert_eq!(unit("GenuineIntel", 6, 0x4f, "inst_retired.x87"), "instruction");
    let zen5 = |name| unit("AuthenticAMD", 0x1a, 0x02, name);
    assert_eq!((zen5("x87_flops"), zen5("fp_instructions.x87")), ("flop", "instruction"));
    assert_eq!((zen5("fp_ops_by_width.512"), zen5("fp_instructions.sse_avx")), ("uop", "instruction"));
    assert_eq!(zen5("stalls.backend"), "slot");
    for (unit, denied) in [("flop", "not FLOPs"), ("cycle", "not cycles")] {
        let contradicts = |e: &&Event| e.unit() == unit && e.notes.as_deref().is_some_and(|n| n.contains(denied));
        assert_eq!(tables.iter().flat_map(|t| &t.events).find(contradicts), None);
    }
}

#[test]
fn merged_events_count_every_kind_once() {
    let mut merging = 0;
    for table in all().unwrap() {
        let Some(merged) = table.merged() else { continue };
        merging += 1;
        let flops = |events: &[&Event]| -> Vec<Event> {
            events.iter().filter(|e| e.role == Role::Flops).map(|e| (*e).clone()).collect()
        };
        let (few, full) = (flops(&merged), flops(&table.asked_for().collect::<Vec<_>>()));
        assert!(few.len() < full.len(), "{}", table.cpu.name);
        for single in &full {
            let counting: Vec<&Event> =
                few.iter().filter(|e| e.name == single.name || e.counts_kind_of(single)).collect();
            assert_eq!(counting.len(), 1, "{}: {} is counted once", table.cpu.name, single.name);
            let masks = (counting[0].event, counting[0].umask & single.umask, counting[0].weight);
            assert_eq!(masks, (single.event, single.umask, single.weight), "{}: {}", table.cpu.name, single.name);
        }
        let umasks = few.iter().fold((0, 0), |(all, sum), e| (all | e.umask, sum + e.umask));
        assert_eq!(umasks.0, umasks.1, "{}: no mask twice", table.cpu.name);
        let others = |events: &[&Event]| events.iter().filter(|e| e.role != Role::Flops).count();
        assert_eq!(others(&merged), others(&table.asked_for().collect::<Vec<_>>()), "{}", table.cpu.name);
        assert!(few.iter().all(|e| table.may_be_asked_for().any(|m| m.name == e.name)), "{}", table.cpu.name);
    }
    assert_eq!(merging, 13, "every P-core but Haswell's");
}

#[test]
fn what_the_flop_events_leave_out_has_an_event_that_tells_of_it() {
    for table in all().unwrap().iter().filter(|t| t.events.iter().any(|e| e.role == Role::Flops && e.headline)) {
        let x87 = table.events.iter().any(|e| e.role == Role::X87 && table.betrays(e).is_some());
        assert!(x87 || table.cpu.vendor == "ARM", "{}: x87 programs would read 0 FLOP", table.cpu.name);
    }
    let spr = for_cpu(&all().unwrap(), "GenuineIntel", 6, 0x8f).unwrap();
    assert_eq!(spr.no_flops().count(), 0, "AMX is told of, so that programs without it have their FLOPs");
    assert!(spr.asked_for().any(|e| e.name == "exe.amx_busy"));
}
