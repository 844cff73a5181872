//! An event of a table as the kernel takes it: config words, and the string that `perf` takes.

use super::pmu::Pmu;
use super::table::{Event, UncoreEvent};

/// `perf_event_attr`'s type and config words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// PMU type.
    pub kind: u32,
    /// `config`.
    pub config: u64,
    /// `config1`.
    pub config1: u64,
    /// `config2`.
    pub config2: u64,
}

/// A field that is missing in the PMU's `format` folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's PMU {pmu} has no field `{field}`, or it is too narrow for {value:#x}")]
pub struct NoSuchField {
    /// PMU name.
    pub pmu: String,
    /// Field name.
    pub field: &'static str,
    /// The value of the field.
    pub value: u64,
}

/// Encodes `event` by the bit fields that the kernel states for `pmu`.
///
/// # Errors
/// A field that has no place, or not enough bits.
pub fn encode(event: &Event, pmu: &Pmu) -> Result<Encoding, NoSuchField> {
    let mut words = [0u64; 2];
    let mut place = |field: &'static str, value: u64| {
        let format = pmu.format.get(field).map(String::as_str);
        let placed = format.and_then(|f| spread(f, value));
        let (word, bits) = placed.ok_or_else(|| NoSuchField { pmu: pmu.name.clone(), field, value })?;
        words[word] |= bits;
        Ok(())
    };
    place("event", u64::from(event.event))?;
    if event.umask != 0 {
        place("umask", u64::from(event.umask))?;
    }
    if event.cmask != 0 {
        place("cmask", u64::from(event.cmask))?;
    }
    if event.config1 != 0 {
        place("offcore_rsp", event.config1)?;
    }
    Ok(Encoding { kind: pmu.kind, config: words[0], config1: words[1], config2: 0 })
}

/// The event as `perf stat -e` takes it.
pub fn perf_string(event: &Event, pmu: &str) -> String {
    let mut text = format!("{pmu}/event={:#x}", event.event);
    if event.umask != 0 {
        text += &format!(",umask={:#x}", event.umask);
    }
    if event.cmask != 0 {
        text += &format!(",cmask={:#x}", event.cmask);
    }
    if event.config1 != 0 {
        text += &format!(",offcore_rsp={:#x}", event.config1);
    }
    text + "/"
}

/// The raw `rNNN` form by the layout of `vendor`'s core PMUs. `None` if the event needs a second config word, which the form
/// has no place for.
///
/// ```text
/// AMD   config = event[7:0] | umask << 8 | cmask << 24 | event[11:8] << 32
/// Intel config = event[7:0] | umask[7:0] << 8 | cmask << 24 | umask[15:8] << 40
/// Arm   config = event[15:0]
/// ```
pub fn raw_string(event: &Event, vendor: &str) -> Option<String> {
    let config = match vendor {
        "ARM" => u64::from(event.event),
        _ => {
            let (low, high) = (u64::from(event.event & 0xff), u64::from(event.event >> 8));
            let (mask, further) = (u64::from(event.umask & 0xff), u64::from(event.umask >> 8));
            low | (mask << 8) | (u64::from(event.cmask) << 24) | (high << 32) | (further << 40)
        }
    };
    (event.config1 == 0).then(|| format!("r{config:x}"))
}

/// An event of memory controllers as `perf stat -e` takes it: all channels; the user adds their counts.
pub fn uncore_perf_string(event: &UncoreEvent) -> String {
    let further = [("config1", event.config1), ("config2", event.config2)];
    let further: String =
        further.iter().filter(|(_, value)| *value != 0).map(|(word, value)| format!(",{word}={value:#x}")).collect();
    let one = |(_, config): (String, u64)| format!("{}/config={config:#x}{further}/", event.pmu);
    event.configs().into_iter().map(one).collect::<Vec<_>>().join(",")
}

/// Spreads the bits of `value` over a format such as `config:0-7,32-35`: (word, bits). `None` if they do not fit.
fn spread(format: &str, value: u64) -> Option<(usize, u64)> {
    let (word, ranges) = format.split_once(':')?;
    let word = match word {
        "config" => 0,
        "config1" => 1,
        _ => return None,
    };
    let (mut rest, mut bits) = (value, 0);
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last > 63 {
            return None;
        }
        let width = last - first + 1;
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        bits |= (rest & mask) << first;
        rest = if width == 64 { 0 } else { rest >> width };
    }
    (rest == 0).then_some((word, bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::EventTable;
    use crate::tables::{all, for_cpu};

    #[test]
    fn fields_are_spread_over_their_ranges() {
        assert_eq!(spread("config:0-7,32-35", 0x1a0), Some((0, 0x1_0000_00a0)));
        assert_eq!(spread("config1:0-63", u64::MAX), Some((1, u64::MAX)));
        assert_eq!(spread("config:0-7", 0x100), None, "does not fit");
        assert_eq!(spread("config:9-1", 1), None);
        assert_eq!(spread("nonsense", 1), None);
    }

    #[test]
    fn a_wide_unit_mask_needs_a_kernel_that_takes_it() {
        let table = for_cpu(&all().unwrap(), "GenuineIntel", 6, 0xdd).unwrap();
        let x87 = table.events.iter().find(|e| e.name == "uops_retired.x87").unwrap();
        let encoded = |umask: &str| {
            let pmu = Pmu::of_all_cores(&[("event", "config:0-7"), ("umask", umask)]);
            encode(x87, &pmu).map(|e| e.config)
        };
        assert_eq!(encoded("config:8-15,40-47"), Ok(0x100_0000_00c2));
        assert_eq!(encoded("config:8-15").unwrap_err().field, "umask", "its lower half alone is another event");
    }

    #[test]
    fn strings_for_perf_are_complete() {
        let tables = all().unwrap();
        let table = |vendor, family, model| for_cpu(&tables, vendor, family, model).unwrap();
        let raw = |table: &EventTable, name: &str| {
            raw_string(table.events.iter().find(|e| e.name == name).unwrap(), &table.cpu.vendor)
        };
        let spr = table("GenuineIntel", 6, 0x8f);
        assert_eq!(raw(&spr, "fp_arith.512_dp").as_deref(), Some("r40c7"));
        assert_eq!(raw(&spr, "ocr.reads_to_core.dram"), None, "rNNN has no place for the mask of responses");
        assert_eq!(raw(&table("ARM", 0x41, 0xd40), "fp_scale_ops_spec").as_deref(), Some("r80c0"));
        assert_eq!(raw(&table("GenuineIntel", 6, 0xdd), "uops_retired.x87").as_deref(), Some("r100000000c2"));
        let zen2 = table("AuthenticAMD", 0x17, 0x31);
        let df = uncore_perf_string(zen2.uncore.iter().find(|u| u.pmu == "amd_df").unwrap());
        assert!(df.starts_with("amd_df/config=0x3807/,amd_df/config=0x3847/,"), "{df}");
        assert_eq!(df.matches("amd_df/").count(), 8, "{df}");
        let n1 = table("ARM", 0x41, 0xd0c);
        let uncore = |name: &str| uncore_perf_string(n1.uncore.iter().find(|u| u.name == name).unwrap());
        assert_eq!(uncore("dmc620.rdwr"), "arm_dmc620/config=0x0,config2=0x290/");
        assert_eq!(uncore("cmn.hnf_mc_reqs"), "arm_cmn/config=0xd0005/");
    }
}
