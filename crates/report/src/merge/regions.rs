//! Marked regions of several ranks or runs: those of one name and marker are added up.

use super::functions::add_bytes;
use super::sums::{both, sum};
use rprof_profile::Region;
use rprof_profile::region::{RegionPart, Work};

/// Adds `more` to `into`. For parts that ran side by side, the elapsed time is that of the longest.
pub fn add_all(into: &mut Vec<Region>, more: Vec<Region>, side_by_side: bool) {
    for region in more {
        match into.iter_mut().find(|r| r.name == region.name && r.marker == region.marker) {
            Some(known) => add(known, region, side_by_side),
            None => into.push(region),
        }
    }
}

fn add(into: &mut Region, more: Region, side_by_side: bool) {
    into.time_s = both(into.time_s, more.time_s, |a, b| if side_by_side { a.max(b) } else { a + b });
    into.entries = sum(into.entries, more.entries);
    into.cpu_s = sum(into.cpu_s, more.cpu_s);
    into.samples = sum(into.samples, more.samples);
    into.instructions = sum(into.instructions, more.instructions);
    into.flops = sum(into.flops, more.flops);
    into.bytes = both(into.bytes, more.bytes, add_bytes);
    for (field, source) in more.source {
        let known = into.source.entry(field).or_insert_with(|| source.clone());
        if source.reason.is_some() {
            *known = source;
        }
    }
    for part in more.functions {
        match into.functions.iter_mut().find(|p| p.name == part.name) {
            Some(known) => add_part(known, &part),
            None => into.functions.push(part),
        }
    }
    for Work { unit, amount } in more.work {
        match into.work.iter_mut().find(|w| w.unit == unit) {
            Some(known) => known.amount += amount,
            None => into.work.push(Work { unit, amount }),
        }
    }
}

fn add_part(into: &mut RegionPart, more: &RegionPart) {
    into.cpu_s = sum(into.cpu_s, more.cpu_s);
    into.instructions = sum(into.instructions, more.instructions);
    into.flops = sum(into.flops, more.flops);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::region::Marker;

    fn region(name: &str, time_s: f64, flops: Option<u64>) -> Region {
        Region {
            name: name.into(),
            marker: Marker::Rprof,
            source: Default::default(),
            entries: Some(1),
            time_s: Some(time_s),
            cpu_s: Some(time_s),
            samples: Some(9),
            instructions: flops,
            flops,
            bytes: None,
            functions: Vec::new(),
            work: vec![Work { unit: "x".into(), amount: 2.0 }],
        }
    }

    #[test]
    fn work_adds_up_and_what_one_does_not_know_stays_unknown() {
        for (side_by_side, time_s) in [(true, 2.0), (false, 3.0)] {
            let mut all = vec![region("a", 1.0, Some(5))];
            add_all(&mut all, vec![region("a", 2.0, Some(6)), region("b", 1.0, None)], side_by_side);
            add_all(&mut all, vec![region("b", 1.0, Some(1))], side_by_side);
            assert_eq!((all[0].time_s, all[0].flops, all[0].work[0].amount), (Some(time_s), Some(11), 4.0));
            assert_eq!((all[1].entries, all[1].flops), (Some(2), None));
        }
    }
}
