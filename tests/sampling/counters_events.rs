//! The event tables against independent facts: the kernel's own event lists, and the collected reference.

use rprof::counters::table::{Confidence, Event, EventTable, UncoreEvent};
use rprof::counters::tables::{all, for_cpu};

/// Lines of a CSV without its comments and header, in fields.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().filter(|l| !l.starts_with('#')).skip(1).map(|l| l.split(',').collect()).collect()
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn table<'a>(tables: &'a [EventTable], name: &str) -> &'a EventTable {
    let mut found = tables.iter().filter(|t| t.cpu.name.starts_with(name));
    let first = found.next().unwrap_or_else(|| panic!("no table {name}"));
    assert!(found.next().is_none(), "{name} names two tables");
    first
}

/// Config of an uncore event, from the kernel's event and mask, and the word that holds the event if that is another one. A PMU
/// with all channels has one a channel.
fn uncore_config(pmu: &str, event: u64, umask: u64) -> (u64, u64) {
    let config = match pmu {
        // format: event=config:0-7,32-37 umask=config:8-15,24-27
        "amd_df" => event & 0xff | (event >> 8) << 32 | (umask & 0xff) << 8 | (umask >> 8) << 24,
        // event=config:0-31
        "nvidia_scf_pmu" => event,
        // type=config:0-15 eventid=config:16-26; the mask of the facts is the node's type
        "arm_cmn" => event << 16 | umask,
        // event=config2:3-8 clkdiv2=config2:9; the mask of the facts is clkdiv2
        "arm_dmc620" => return (0, event << 3 | umask << 9),
        _ => event | umask << 8,
    };
    (config, 0)
}

/// `rprof report` reads every unit that a run writes.
#[test]
fn units_of_all_events_are_known_to_the_schema() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../crates/report/src/profile.schema.json")).unwrap();
    let known = schema["$defs"]["counter"]["properties"]["unit"]["enum"].as_array().unwrap();
    for table in all().unwrap() {
        for event in &table.events {
            assert!(
                known.iter().any(|unit| unit == event.unit()),
                "{}: {} in {}",
                table.cpu.name,
                event.name,
                event.unit()
            );
        }
    }
}

#[test]
fn encodings_agree_with_the_kernels_lists() {
    let tables = all().unwrap();
    let rows = rows(include_str!("../../fixtures/events/kernel_facts.csv"));
    assert!(rows.len() > 500, "{} facts", rows.len());
    let mut disputed = 0;
    for row in rows {
        let [cpu, ours, file, theirs, event, umask, cmask, counters] = row[..] else { panic!("{row:?}") };
        let table = table(&tables, cpu);
        let (event, umask, cmask) = (number(event), number(umask), number(cmask));
        if let Some(uncore) = table.uncore.iter().find(|u| u.name == ours) {
            let expected = uncore_config(&uncore.pmu, event, umask);
            let known: Vec<(u64, u64)> =
                uncore.configs().into_iter().map(|(_, config)| (config, uncore.config2)).collect();
            assert!(known.contains(&expected), "{cpu}: {ours} has no {expected:x?} ({theirs} in {file}): {known:x?}");
            continue;
        }
        let found = table.events.iter().find(|e| e.name == ours).unwrap_or_else(|| panic!("{cpu} has no {ours}"));
        let restricted: Vec<u32> = counters.split_whitespace().map(|n| n.parse().unwrap()).collect();
        assert!(restricted.is_empty() || restricted == found.counters, "{cpu}: {ours} counts on {restricted:?} alone");
        let same = (u64::from(found.event), u64::from(found.umask), u64::from(found.cmask)) == (event, umask, cmask);
        if !same {
            let notes = found.notes.as_deref().unwrap_or_default();
            let told = found.confidence == Confidence::Disputed && notes.contains(&format!("{umask:#x}"));
            assert!(
                told,
                "{cpu}: {ours} is {:#x}/{:#x}, {theirs} in {file} {event:#x}/{umask:#x}",
                found.event, found.umask
            );
            disputed += 1;
        }
    }
    assert!(disputed > 0, "the known disputes are in the facts");
}

#[test]
fn what_is_said_to_stand_in_the_kernels_lists_stands_there() {
    let rows = rows(include_str!("../../fixtures/events/kernel_facts.csv"));
    for table in all().unwrap() {
        let of_table: Vec<&str> = rows.iter().filter(|r| table.cpu.name.starts_with(r[0])).map(|r| r[1]).collect();
        assert!(!of_table.is_empty() || table.events.is_empty(), "no fact of {}", table.cpu.name);
        let core = table.events.iter().map(|e| (&e.name, &e.source, e.confidence));
        let uncore = table.uncore.iter().map(|u| (&u.name, &u.source, u.confidence));
        for (name, source, confidence) in core.chain(uncore) {
            let claimed = source.starts_with("Linux tools/perf/pmu-events") && confidence == Confidence::Table;
            assert!(!claimed || of_table.contains(&name.as_str()), "{}: {name} is not in the list", table.cpu.name);
        }
    }
}

#[test]
fn clients_have_the_controllers_of_clients() {
    let tables = all().unwrap();
    let uncore = |model| {
        let table = for_cpu(&tables, "GenuineIntel", 6, model).unwrap_or_else(|| panic!("no table of {model:#x}"));
        table.uncore.iter().map(|u| (u.pmu.clone(), u.config)).collect::<Vec<_>>()
    };
    for model in [0x3c, 0x45, 0x46, 0x3d, 0x47, 0x5e, 0x9e, 0x7e, 0xa7] {
        assert_eq!(uncore(model), [("uncore_imc".to_owned(), 1), ("uncore_imc".to_owned(), 2)], "{model:#x}");
    }
    assert!(uncore(0x4f).contains(&("uncore_imc".to_owned(), 0x304)), "servers keep theirs");
    let total = ("uncore_imc".to_owned(), 0x3c);
    assert!(!uncore(0x97).contains(&total), "Alder Lake does not count bytes");
    for model in [0xaa, 0xbd, 0xc6, 0xcc] {
        let found = uncore(model);
        assert!(found.contains(&total), "{model:#x}");
        // The single directions come before their sum.
        let place = |config| found.iter().position(|(_, c)| *c == config);
        assert!(place(0x3a) < place(0x3b) && place(0x3b) < place(0x3c) && place(0x3a).is_some(), "{found:?}");
    }
}

#[test]
fn servers_of_e_cores_have_the_controllers_of_servers() {
    let tables = all().unwrap();
    for model in [0xaf, 0xb6, 0xdd] {
        let table = for_cpu(&tables, "GenuineIntel", 6, model).unwrap();
        let reads = table.uncore.iter().find(|u| u.name == "imc.cas_read").unwrap();
        assert_eq!((reads.config, &reads.sub_channels[..]), (0xcf05, &[0xcf06][..]), "{model:#x}");
    }
}

#[test]
fn generations_of_e_cores_have_their_own_events() {
    let tables = all().unwrap();
    let x87 = |name: &str| {
        let events = &table(&tables, name).events;
        events.iter().find(|e| e.name == "uops_retired.x87").map(|e| (e.event, e.umask))
    };
    // On the later ones C2/02 counts every slot that retires: each program would seem to use x87.
    assert_eq!(x87("Intel Crestmont"), Some((0xc2, 0x02)));
    assert_eq!(x87("Intel Sierra Forest"), Some((0xc2, 0x02)));
    assert_eq!(x87("Intel Skymont"), Some((0xc2, 0x20)));
    assert_eq!(x87("Intel Darkmont"), Some((0xc2, 0x100)));
    assert_eq!(x87("Intel Clearwater Forest"), Some((0xc2, 0x100)));
}

/// Properties of a table's entry that the reference may state besides the encoding, in the order of the fixture's columns.
struct Meaning {
    confidence: Confidence,
    stated: [(&'static str, String); 6],
}

fn name_of(value: impl serde::Serialize) -> String {
    let text = serde_json::to_value(value).unwrap();
    text.as_str().unwrap_or("none").to_owned()
}

fn meaning_of_core(e: &Event) -> Meaning {
    let stated = [
        ("weight", e.weight.to_string()),
        ("config1", format!("{:#x}", e.config1)),
        ("fma_counts", e.fma_counts.to_string()),
        ("role", e.role.name()),
        ("precision", name_of(e.precision)),
        ("width", name_of(e.width)),
    ];
    Meaning { confidence: e.confidence, stated }
}

fn meaning_of_uncore(u: &UncoreEvent) -> Meaning {
    let none = || "none".to_owned();
    let stated = [
        ("bytes", u.bytes.to_string()),
        ("config1", format!("{:#x}", u.config1)),
        ("fma_counts", none()),
        ("role", u.role.name()),
        ("precision", none()),
        ("width", none()),
    ];
    Meaning { confidence: u.confidence, stated }
}

#[test]
fn everything_in_the_reference_is_in_the_tables() {
    let tables = all().unwrap();
    let rows = rows(include_str!("../../fixtures/events/reference.csv"));
    assert!(rows.len() > 150, "{} entries", rows.len());
    for row in rows {
        let [cpu, kind, event, umask, cmask, sure, ref stated @ ..] = row[..] else { panic!("{row:?}") };
        let table = table(&tables, cpu);
        let (event, umask, cmask) = (number(event), number(umask), number(cmask));
        let config1 = stated[1];
        // Another counter mask counts as a dispute.
        let disputed = sure == "disputed";
        let found = match kind {
            "core" => {
                let same = |e: &&Event| {
                    (u64::from(e.event), u64::from(e.umask)) == (event, umask)
                        && (disputed || u64::from(e.cmask) == cmask)
                        && (config1.is_empty() || e.config1 == number(config1))
                };
                table.events.iter().find(same).map(meaning_of_core)
            }
            pmu => {
                let (config, _) = uncore_config(pmu, event, umask);
                let same = |u: &&UncoreEvent| u.pmu == pmu && (u.config == config || u.sub_channels.contains(&config));
                table.uncore.iter().find(same).map(meaning_of_uncore)
            }
        };
        let Meaning { confidence, stated: ours } =
            found.unwrap_or_else(|| panic!("{cpu}: no {kind} event {event:#x}/{umask:#x} cmask {cmask}"));
        match sure {
            "inference" => assert_eq!(confidence, Confidence::Inference, "{cpu}: {event:#x}/{umask:#x}"),
            "disputed" => assert_eq!(confidence, Confidence::Disputed, "{cpu}: {event:#x}/{umask:#x}"),
            other => assert_eq!(other, "", "{row:?}"),
        }
        assert_eq!(stated.len(), ours.len(), "{row:?}");
        for (theirs, (what, ours)) in stated.iter().zip(ours) {
            assert!(theirs.is_empty() || **theirs == ours, "{cpu}: {event:#x}/{umask:#x}: {what} {ours}, not {theirs}");
        }
    }
}

#[test]
fn what_an_event_means_is_in_the_reference_for_most_flops() {
    let rows = rows(include_str!("../../fixtures/events/reference.csv"));
    let stated = |column: usize| rows.iter().filter(|r| !r[column].is_empty()).count();
    // weight, config1, how often a fused one is counted, role, precision, width
    let least = [340, 3, 90, 300, 150, 150];
    let found: Vec<usize> = (6..12).map(stated).collect();
    assert!(found.iter().zip(least).all(|(found, least)| *found >= least), "{found:?}");
}

#[test]
fn every_table_tells_of_every_kind_of_event_or_why_it_has_none() {
    use rprof::counters::table::Role;
    let of_cores = [
        Role::Flops,
        Role::FpInstructions,
        Role::SimdFpInstructions,
        Role::L1Fill,
        Role::L1Writeback,
        Role::L2Fill,
        Role::L2Writeback,
        Role::LlcMiss,
        Role::StallTotal,
        Role::QueueFull,
        Role::QueueOccupancy,
    ];
    for table in all().unwrap() {
        // Cores of a hybrid CPU share the controllers, which are in the table of the others.
        let of_host = [Role::DramReadLines, Role::DramWriteLines];
        let efficient = ["cpu_atom", "cpu_lowpower"];
        let shared = table.cpu.pmu.iter().any(|p| efficient.contains(&p.as_str()));
        let of_host = if shared { &of_host[..0] } else { &of_host[..] };
        for role in of_cores.iter().chain(of_host) {
            let counted = table.events.iter().any(|e| e.role == *role) || table.uncore.iter().any(|u| u.role == *role);
            let with_reads = *role == Role::DramWriteLines && table.uncore.iter().any(|u| u.both_directions);
            let why = table.missing.iter().any(|m| m.role == *role && !m.reason.is_empty());
            assert!(counted || with_reads || why, "{} says nothing of {}", table.cpu.name, role.name());
        }
    }
}

#[test]
fn what_cannot_be_counted_says_so() {
    let tables = all().unwrap();
    for name in ["Intel Haswell", "Intel Alder Lake E-core", "Arm Neoverse N1"] {
        let flops = table(&tables, name).missing.iter().find(|m| m.role == rprof::counters::table::Role::Flops);
        assert!(flops.is_some_and(|m| !m.reason.is_empty()), "{name} has no FLOP event");
    }
}
