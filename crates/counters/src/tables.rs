//! The tables of all microarchitectures: embedded in the binary, or read from a folder; parsed and checked.

use std::path::{Path, PathBuf};

use super::table::EventTable;

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// File name.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Not TOML, or a field is missing or mistyped.
    #[error("{file}:{line}: {problem}")]
    Syntax {
        /// File name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The problem there, in one line.
        problem: String,
    },
    /// A fact contradicts another.
    #[error("{file}: {fact}")]
    Fact {
        /// File name.
        file: String,
        /// The fact.
        fact: String,
    },
}

macro_rules! tables {
    ($($file:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] = &[$(($file, include_str!(concat!("../../../events/", $file)))),*];
    };
}

tables!(
    "intel-haswell.toml",
    "intel-haswell-client.toml",
    "intel-broadwell.toml",
    "intel-broadwell-client.toml",
    "intel-skylake-x.toml",
    "intel-skylake-client.toml",
    "intel-ice-lake-sp.toml",
    "intel-ice-lake-client.toml",
    "intel-rocket-lake.toml",
    "intel-tiger-lake.toml",
    "intel-sapphire-rapids.toml",
    "intel-granite-rapids.toml",
    "intel-golden-cove.toml",
    "intel-meteor-lake.toml",
    "intel-lion-cove.toml",
    "intel-nova-lake.toml",
    "intel-gracemont.toml",
    "intel-crestmont.toml",
    "intel-crestmont-low-power.toml",
    "intel-skymont.toml",
    "intel-darkmont.toml",
    "intel-sierra-forest.toml",
    "intel-clearwater-forest.toml",
    "amd-zen1.toml",
    "amd-zen2.toml",
    "amd-zen3.toml",
    "amd-zen4.toml",
    "amd-zen5.toml",
    "arm-neoverse-n1.toml",
    "arm-neoverse-v1.toml",
    "arm-neoverse-v2.toml",
);

/// All tables.
///
/// # Errors
/// A table that does not parse or contradicts itself; the tests make sure that none is shipped.
pub fn all() -> Result<Vec<EventTable>, TableError> {
    FILES.iter().map(|(file, text)| parse(&format!("events/{file}"), text)).collect()
}

/// The tables of a user's own folder, by name; the user vouches for them.
///
/// # Errors
/// A file that cannot be read, does not parse or contradicts itself.
pub fn from_folder(folder: &Path) -> Result<Vec<EventTable>, TableError> {
    let unreadable = |path: &Path| {
        let file = path.display().to_string();
        move |source| TableError::Read { file, source }
    };
    let entries = std::fs::read_dir(folder).map_err(unreadable(folder))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort_unstable();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(unreadable(path))?;
        parse(&path.display().to_string(), &text)
    };
    files.iter().map(read).collect()
}

/// More counters than any PMU of a core has.
const MOST_COUNTERS: u32 = 64;
/// Greatest weight of one count; beyond it sums would end in infinity.
const MOST_AMOUNT: f64 = 1e12;
/// More channels than any memory controller or fabric has.
const MOST_CHANNELS: u32 = 256;

/// Whether the weight of a count is valid: finite and above zero.
fn is_amount(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// The parser's error without its drawing of the place.
fn syntax(file: &str, text: &str, error: &toml::de::Error) -> TableError {
    let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
    let line = 1 + before.matches('\n').count();
    TableError::Syntax { file: file.to_owned(), line, problem: error.message().replace('\n', ", ") }
}

/// Parses and checks one table.
fn parse(file: &str, text: &str) -> Result<EventTable, TableError> {
    let table: EventTable = toml::from_str(text).map_err(|error| syntax(file, text, &error))?;
    let fact = |fact: String| TableError::Fact { file: file.to_owned(), fact };
    if table.cpu.general_counters > MOST_COUNTERS {
        return Err(fact(format!("no CPU has more than {MOST_COUNTERS} counters")));
    }
    for event in &table.events {
        if event.takes > table.cpu.general_counters {
            return Err(fact(format!("{} takes more counters than the CPU has", event.name)));
        }
        if event.counters.iter().any(|c| *c >= table.cpu.general_counters) {
            return Err(fact(format!("{} is bound to a counter that the CPU does not have", event.name)));
        }
        if !is_amount(event.weight) {
            return Err(fact(format!("{} has no weight", event.name)));
        }
        if event.weight > MOST_AMOUNT {
            return Err(fact(format!("a count of {} cannot represent so much", event.name)));
        }
    }
    for event in &table.uncore {
        if !is_amount(event.bytes) {
            return Err(fact(format!("a count of {} has no bytes", event.name)));
        }
        if event.bytes > MOST_AMOUNT {
            return Err(fact(format!("a count of {} cannot represent so much", event.name)));
        }
        if event.channels > MOST_CHANNELS {
            return Err(fact(format!("{} has more than {MOST_CHANNELS} channels", event.name)));
        }
    }
    for missing in &table.missing {
        if missing.unless.as_ref().is_some_and(|name| !table.events.iter().any(|e| e.name == *name)) {
            return Err(fact(format!("there is no event that shows {}", missing.reason)));
        }
    }
    let mut names: Vec<&str> = table.events.iter().map(|e| e.name.as_str()).collect();
    names.extend(table.uncore.iter().map(|e| e.name.as_str()));
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(fact(format!("{} is in it twice", pair[0])));
    }
    Ok(table)
}

/// The table of a CPU, by CPUID vendor, display family and display model.
pub fn for_cpu(tables: &[EventTable], vendor: &str, family: u32, model: u32) -> Option<EventTable> {
    let fits = |t: &&EventTable| t.cpu.vendor == vendor && t.cpu.family == family && t.cpu.models.contains(&model);
    tables.iter().find(fits).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Confidence;

    #[test]
    fn every_table_parses_and_names_its_sources() {
        for table in all().unwrap() {
            assert!(!table.cpu.models.is_empty(), "{}", table.cpu.name);
            for event in &table.events {
                assert!(!event.source.is_empty(), "{} of {}", event.name, table.cpu.name);
                let disputed = event.confidence == Confidence::Disputed;
                assert!(!disputed || event.notes.is_some(), "{}: a dispute needs its two sides", event.name);
            }
        }
    }

    /// The problem found with a table of one core and one uncore event.
    fn refusal(cpu: &str, core: &str, uncore: &str) -> String {
        let text = format!(
            "[cpu]\nname='x'\nvendor='v'\nfamily=1\nmodels=[1]\npmu=['cpu']\nfixed_counters=true\n{cpu}\n\
             [[event]]\nname='a'\nrole='flops'\nevent=3\numask=1\nconfidence='table'\nsource='s'\n{core}\n\
             [[uncore]]\nname='b'\nrole='dram_read_lines'\npmu='mc'\nconfig=1\nconfidence='table'\nsource='s'\n{uncore}\n"
        );
        parse("test.toml", &text).map_or_else(|e| e.to_string(), |_| String::new())
    }

    #[test]
    fn a_contradiction_is_refused() {
        let (cpu, core, uncore) = ("general_counters=1", "weight=1.0", "bytes=64.0");
        assert_eq!(refusal(cpu, core, uncore), "");
        assert!(refusal(cpu, "weight=1.0\ntakes=2", uncore).contains("a takes more counters"));
        for weight in ["nan", "inf", "0.0", "-1.0"] {
            assert!(refusal(cpu, &format!("weight={weight}"), uncore).contains("a has no weight"), "{weight}");
            assert!(refusal(cpu, core, &format!("bytes={weight}")).contains("b has no bytes"), "{weight}");
        }
        assert!(refusal(cpu, "weight=1e13", uncore).contains("a cannot represent so much"));
        assert!(refusal(cpu, core, "bytes=1e300").contains("b cannot represent so much"));
        assert!(refusal("general_counters=4294967295", core, uncore).contains("more than 64 counters"));
        assert!(refusal(cpu, core, "bytes=64.0\nchannels=4000000000").contains("more than 256 channels"));
        let missing = "bytes=64.0\n[[missing]]\nrole='flops'\nreason='AMX'\nunless='c'";
        assert!(refusal(cpu, core, missing).contains("no event that shows AMX"));
    }

    #[test]
    fn cpus_find_their_table() {
        let tables = all().unwrap();
        assert_eq!(for_cpu(&tables, "AuthenticAMD", 0x19, 0x11).unwrap().cpu.name, "AMD Zen 4");
        assert!(for_cpu(&tables, "AuthenticAMD", 0x15, 0x01).is_none());
    }
}
