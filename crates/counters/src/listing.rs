//! The output of `rprof doctor` and `rprof events`.

use std::fmt::Write;

use serde::Serialize;

use super::collect::plan;
use super::doctor::Diagnosis;
use super::encode::{perf_string, raw_string, uncore_perf_string};
use super::pmu::Pmu;
use super::table::{Confidence, Event, EventTable, Missing, Role, UncoreEvent};
use super::trust::Certificate;

/// The diagnosis for people: a line for each finding, with a remedy for those that fail.
pub fn doctor_text(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    let cpu = diagnosis.cpu.as_ref().map_or("unknown CPU", |c| c.name.as_str());
    let guest = if diagnosis.cpu.as_ref().is_some_and(|c| c.guest) { ", in a virtual machine" } else { "" };
    let table = diagnosis.table.as_deref().unwrap_or("no event table");
    let _ = writeln!(text, "{cpu}{guest} · {table} · this host is: {}\n", diagnosis.tier);
    for finding in &diagnosis.findings {
        let mark = if finding.works { "yes" } else { "no " };
        let _ = writeln!(text, "  {mark}  {}: {}", finding.what, finding.answer);
        if !finding.works {
            if !finding.enable.is_empty() {
                let _ = writeln!(text, "       to enable: {}", finding.enable);
            }
            let _ = writeln!(text, "       it would give: {}", finding.gain);
            let _ = writeln!(text, "       instead: {}", finding.instead);
        }
    }
    text
}

/// An event as `rprof events` lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// Name.
    pub name: String,
    /// Its use.
    pub role: Role,
    /// PMU, without the number of a box.
    pub pmu: String,
    /// For `perf stat -e`; all channels if there are several: the user adds their counts.
    pub perf: String,
    /// `rNNN` form; `null` for uncore events and those with a second config word.
    pub raw: Option<String>,
    /// Weight of one count, in `unit`.
    pub weight: f64,
    /// `flop`, `instruction`, `line`, `cycle`, `count`; of memory controllers `byte`.
    pub unit: &'static str,
    /// How sure the table is.
    pub confidence: Confidence,
    /// Whether the kernel here lists its PMU.
    pub present: bool,
    /// Document.
    pub source: String,
    /// Limits and disagreements.
    pub notes: Option<String>,
    /// `events --check`: the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
}

/// The events of this CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listing {
    /// Name of this CPU.
    pub cpu: String,
    /// Its tables; `null` if there is none.
    pub table: Option<String>,
    /// Facts that a user of the table must know.
    pub notes: Vec<String>,
    /// The work that the CPU cannot count.
    pub missing: Vec<(Role, String)>,
    /// Core events, then uncore events.
    pub events: Vec<Listed>,
}

/// Lists `tables` (hybrid CPUs have one for each kind of core) of `cpu`, and those of their PMUs that are among `pmus`.
pub fn of_tables(cpu: String, tables: &[EventTable], pmus: &[Pmu]) -> Listing {
    let present: Vec<&EventTable> = plan::present(tables, pmus).collect();
    let mut listing =
        Listing { cpu, table: names(&present), notes: Vec::new(), missing: Vec::new(), events: Vec::new() };
    for table in &present {
        let core = plan::core_pmu(&table.cpu, pmus).map(|p| p.name.as_str());
        let shown = core.or(table.cpu.pmu.first().map(String::as_str)).unwrap_or_default();
        listing.events.extend(table.events.iter().map(|e| core_event(e, shown, &table.cpu.vendor, core.is_some())));
        for note in &table.cpu.notes {
            if !listing.notes.contains(note) {
                listing.notes.push(note.clone());
            }
        }
        let several = present.len() > 1;
        let of_core = |reason: &str| if several { format!("{shown}: {reason}") } else { reason.to_owned() };
        listing.missing.extend(table.missing.iter().map(|m| (m.role, of_core(&uncountable(m)))));
    }
    for event in present.iter().flat_map(|t| &t.uncore) {
        // The kinds of cores of a CPU share its memory controllers.
        if !listing.events.iter().any(|e| e.name == event.name && e.pmu == event.pmu) {
            listing.events.push(uncore_event(event, pmus.iter().any(|p| p.is_box_of(&event.pmu))));
        }
    }
    listing
}

/// The work that cannot be counted, and the event that shows whether the program did any of it.
fn uncountable(missing: &Missing) -> String {
    match &missing.unless {
        None => missing.reason.clone(),
        Some(event) => format!("{}; {event} shows whether a program has any", missing.reason.trim_end_matches('.')),
    }
}

/// The names of the tables of a CPU; `None` without any.
pub fn names(tables: &[&EventTable]) -> Option<String> {
    let names: Vec<&str> = tables.iter().map(|t| t.cpu.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(" + "))
}

fn core_event(event: &Event, pmu: &str, vendor: &str, present: bool) -> Listed {
    Listed {
        name: event.name.clone(),
        role: event.role,
        pmu: pmu.to_owned(),
        perf: perf_string(event, pmu),
        raw: raw_string(event, vendor),
        weight: event.weight,
        unit: event.unit(),
        confidence: event.confidence,
        present,
        source: event.source.clone(),
        notes: event.notes.clone(),
        certificate: None,
    }
}

fn uncore_event(event: &UncoreEvent, present: bool) -> Listed {
    Listed {
        name: event.name.clone(),
        role: event.role,
        pmu: event.pmu.clone(),
        perf: uncore_perf_string(event),
        raw: None,
        weight: event.bytes,
        unit: if event.role == Role::QueueOccupancy { "count" } else { "byte" },
        confidence: event.confidence,
        present,
        source: event.source.clone(),
        notes: event.notes.clone(),
        certificate: None,
    }
}

/// The listing for people.
pub fn events_text(listing: &Listing) -> String {
    let mut text =
        format!("{} · {}\n", listing.cpu, listing.table.as_deref().unwrap_or("rprof has no table for this CPU"));
    for note in &listing.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for (role, reason) in &listing.missing {
        let _ = writeln!(text, "not countable: {}: {reason}", role_name(*role));
    }
    if listing.events.is_empty() {
        return text;
    }
    let _ = writeln!(text);
    let names = listing.events.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for event in &listing.events {
        let here = match &event.certificate {
            Some(certificate) => certificate.verdict.to_string(),
            None if event.present => "PMU listed".into(),
            None => "no such PMU".into(),
        };
        let sure = match event.confidence {
            Confidence::Table => "documented",
            Confidence::Inference => "inferred",
            Confidence::Disputed => "disputed",
        };
        let role = role_name(event.role);
        let count = format!("{} {}", event.weight, event.unit);
        let _ = writeln!(text, "{:names$}  {role} · one count: {count} · {sure} · {here}", event.name);
        // On lines of their own: a narrow terminal wraps them without a break in the copied text.
        let raw = event.raw.as_ref().map(|raw| format!("   {raw}")).unwrap_or_default();
        let _ = writeln!(text, "    {}{raw}", shortened(&event.perf));
        if let Some(note) = &event.notes {
            let _ = writeln!(text, "    note: {note}");
        }
    }
    text
}

/// The first channel, and how many more there are.
fn shortened(perf: &str) -> String {
    match perf.split_once("/,") {
        Some((first, others)) => format!("{first}/ + {} channels more", others.matches("/,").count() + 1),
        None => perf.to_owned(),
    }
}

fn role_name(role: Role) -> String {
    serde_json::to_value(role).ok().and_then(|v| v.as_str().map(|s| s.replace('_', " "))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cpu, doctor, tables};

    #[test]
    fn the_texts_say_what_was_found() {
        let diagnosis = doctor::examine_this_host();
        let text = doctor_text(&diagnosis);
        for finding in &diagnosis.findings {
            assert!(text.contains(&finding.what), "{}", finding.id);
        }
    }

    fn pmu(name: &str, kind: u32) -> Pmu {
        Pmu {
            name: name.into(),
            kind,
            cpus: vec![],
            per_socket: false,
            format: Default::default(),
            events: Default::default(),
        }
    }

    #[test]
    fn hybrid_cpus_list_the_events_of_all_their_cores() {
        let all = tables::all().unwrap();
        let id =
            |model| cpu::CpuId { vendor: "GenuineIntel".into(), family: 6, model, name: String::new(), guest: false };
        let models = all.iter().filter(|t| t.cpu.pmu.contains(&"cpu_atom".to_owned())).flat_map(|t| &t.cpu.models);
        let mut hybrids = 0;
        for model in models {
            let tables = plan::tables_of(&all, &id(*model));
            let pmus = [pmu("cpu_core", 4), pmu("cpu_atom", 10), pmu("cpu_lowpower", 11)];
            let listing = of_tables(String::new(), &tables, &pmus);
            for table in tables.iter().filter(|_| tables.len() > 1) {
                hybrids += 1;
                let pmu = &table.cpu.pmu[0];
                let own = listing.events.iter().filter(|e| e.pmu == *pmu);
                assert_eq!(own.clone().count(), table.events.len(), "{model:#x}: {pmu}");
                assert!(own.into_iter().all(|e| e.present && e.perf.starts_with(pmu.as_str())));
                let missing = listing.missing.iter().filter(|(_, why)| why.starts_with(&format!("{pmu}: "))).count();
                assert_eq!(missing, table.missing.len(), "{model:#x}: {pmu}");
            }
            let mut shared: Vec<&str> =
                listing.events.iter().filter(|e| pmus.iter().all(|p| p.name != e.pmu)).map(|e| &*e.name).collect();
            let listed = shared.len();
            shared.sort_unstable();
            shared.dedup();
            assert_eq!(shared.len(), listed, "{model:#x}: all cores share the memory controllers");
        }
        assert!(hybrids > 1, "there are hybrid CPUs in the tables");
    }

    #[test]
    fn names_and_strings_to_copy_are_in_one_piece_with_their_notes() {
        let tables = tables::all().unwrap();
        for table in &tables {
            let listing = of_tables("a CPU".into(), std::slice::from_ref(table), &[]);
            let text = events_text(&listing);
            let lines: Vec<&str> = text.lines().collect();
            for event in &listing.events {
                let at = lines.iter().position(|l| l.split_whitespace().next() == Some(event.name.as_str()));
                let at = at.unwrap_or_else(|| panic!("{} of {}", event.name, table.cpu.name));
                assert!(lines[at + 1].trim_start().starts_with(shortened(&event.perf).as_str()), "{}", lines[at + 1]);
                let note = event.notes.as_ref().map(|n| format!("    note: {n}"));
                assert!(note.is_none_or(|n| lines[at + 2] == n), "{}: {}", event.name, table.cpu.name);
                let disputed = event.confidence == Confidence::Disputed;
                assert_eq!(lines[at].contains("disputed"), disputed, "{}", lines[at]);
            }
        }
    }

    #[test]
    fn one_count_has_its_unit_and_several_channels_one_line() {
        let tables: Vec<EventTable> =
            tables::all().unwrap().into_iter().filter(|t| t.cpu.name == "AMD Zen 5").collect();
        let listing = of_tables("a CPU".into(), &tables, &[pmu("cpu", 4), pmu("amd_df", 9)]);
        let event = |name: &str| listing.events.iter().find(|e| e.name == name).unwrap();
        let one = |name: &str| (event(name).weight, event(name).unit);
        assert_eq!((one("dc_fills.any"), one("l3.miss")), ((1.0, "line"), (64.0, "byte")));
        assert_eq!(event("df.read").perf.matches("amd_df/").count(), 12);
        assert!(shortened(&event("df.read").perf).ends_with("/ + 11 channels more"));
        assert!(listing.missing.iter().any(|(_, why)| why.ends_with("x87_flops shows whether a program has any")));
    }
}
