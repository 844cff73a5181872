//! The memory model's traffic by function, loop and instruction.

use std::collections::{BTreeMap, HashMap};

use super::code_map::{CodeMap, FunctionId};
use super::data::{self, Lines, MeasuredData};
use super::modules::Pass;
use rprof_profile::evidence::memory::{LINE_BYTES, MemoryEvidence, Traffic};
use rprof_profile::evidence::pages::{Estimate, PagesEvidence};
use rprof_profile::function::{Bytes, CacheMisses, Misses};
use rprof_profile::pages::Pages;

/// Traffic of one function.
#[derive(Debug, Default)]
pub struct FunctionTraffic {
    /// Traffic by instruction and thread: (offset, thread of the counted evidence, figures).
    pub sites: Vec<(u64, u32, Traffic)>,
    /// Pages by instruction: (offset, index into the evidence).
    pages: Vec<(u64, usize)>,
    /// Lines by instruction and the data that they belong to.
    data: Vec<(u64, Lines)>,
}

/// Divides the sites of `memory` among functions.
pub fn by_function(memory: &MemoryEvidence, code: &mut CodeMap) -> HashMap<FunctionId, FunctionTraffic> {
    let mut functions: HashMap<FunctionId, FunctionTraffic> = HashMap::new();
    for site in &memory.sites {
        let Some(place) = code.place(Pass::Counted, site.at) else { continue };
        let function = functions.entry(code.function(place)).or_default();
        function.sites.push((place.offset, site.thread, site.traffic));
    }
    for (index, site) in memory.pages.sites.iter().enumerate() {
        let Some(place) = code.place(Pass::Counted, site.at) else { continue };
        functions.entry(code.function(place)).or_default().pages.push((place.offset, index));
    }
    for (at, lines) in data::lines(&memory.data, code) {
        let Some(place) = code.place(Pass::Counted, at) else { continue };
        functions.entry(code.function(place)).or_default().data.push((place.offset, lines));
    }
    functions
}

impl FunctionTraffic {
    /// Sum over the instructions that `wanted` chooses by offset.
    pub fn sum(&self, wanted: impl Fn(u64) -> bool) -> Traffic {
        let mut sum = Traffic::default();
        self.sites.iter().filter(|(at, ..)| wanted(*at)).for_each(|(.., traffic)| sum.add(traffic));
        sum
    }

    /// Pages touched by the instructions that `wanted` chooses by offset.
    pub fn pages(&self, evidence: &PagesEvidence, wanted: impl Fn(u64) -> bool) -> Estimate {
        let chosen: Vec<usize> = self.pages.iter().filter(|(at, _)| wanted(*at)).map(|(_, index)| *index).collect();
        evidence.union(chosen.iter().filter_map(|index| evidence.sites.get(*index)))
    }

    /// Data brought from memory by the instructions that `wanted` chooses by offset.
    pub fn data(&self, wanted: impl Fn(u64) -> bool) -> MeasuredData {
        data::shares(self.data.iter().filter(|(at, _)| wanted(*at)).map(|(_, lines)| lines))
    }

    /// DRAM bytes by thread of the counted evidence, of the instructions that `wanted` chooses.
    pub fn dram_by_thread(&self, wanted: impl Fn(u64) -> bool) -> BTreeMap<u32, f64> {
        let mut threads = BTreeMap::new();
        for (_, thread, traffic) in self.sites.iter().filter(|(at, ..)| wanted(*at)) {
            *threads.entry(*thread).or_default() += traffic.dram_read + traffic.dram_write;
        }
        threads
    }

    /// DRAM bytes by instruction; `None` if it was executed, but its bytes are not completely known.
    pub fn dram_by_offset(&self) -> HashMap<u64, Option<f64>> {
        let mut offsets: HashMap<u64, Option<f64>> = HashMap::new();
        for (at, _, traffic) in &self.sites {
            let bytes = (traffic.unseen == 0.0).then_some(traffic.dram_read + traffic.dram_write);
            let sum = offsets.entry(*at).or_insert(Some(0.0));
            *sum = sum.zip(bytes).map(|(a, b)| a + b);
        }
        offsets
    }
}

/// The error of a function's traffic with L2, in a model that looked at a part of the program: unknown for instructions that the model
/// never saw. No traffic has no relative error.
pub fn error_of_windows(traffic: &Traffic, one_in: u32, overall: Option<f64>) -> Result<Option<f64>, String> {
    let unseen = traffic.unseen / (traffic.l1_read + traffic.l1_write).max(1.0);
    if unseen > 0.5 {
        return Err(match one_in {
            _ if traffic.untracked > 0.5 * traffic.unseen => {
                "the program has more memory instructions than the memory model follows; profile a part of it"
            }
            0 | 1 => "the addresses of its accesses are unknown (they are relative to GS or EIP)",
            _ => "it was executed where no window of sampling was; run longer, or with --memory exact",
        }
        .into());
    }
    let error = if unseen > 0.0 { Some(overall.unwrap_or(0.0).hypot(unseen)) } else { overall };
    Ok(error.filter(|_| traffic.l1_misses > 0.0))
}

/// The error of a function's traffic with memory, in a sample of one line in `one_in`; `overall` is its general relative error. With n
/// lines seen, of which a share s is in doubt, it is `hypot(overall, 1/√n, s)`; there is no error if no line was seen and none is
/// expected. Or the reason why it is unknown.
pub fn error_of_sample(traffic: &Traffic, one_in: u32, overall: Option<f64>) -> Result<Option<f64>, String> {
    /// Minimum number of lines that the sample is expected to see.
    const ENOUGH: f64 = 3.0;
    if one_in <= 1 {
        return Ok(overall);
    }
    if traffic.seen_lines > 0.0 {
        let doubt = (traffic.stale_lines, traffic.cold_lines);
        return Ok(of_seen(traffic.seen_lines, doubt, traffic.l3_misses, overall));
    }
    match traffic.l1_misses / f64::from(one_in) {
        few if few > 0.0 && few < ENOUGH => {
            Err(format!("it missed L1 too rarely for a sample of one line in {one_in}; run with --memory exact"))
        }
        _ => Ok(None),
    }
}

/// The error of a function's bytes exchanged with memory, from such a sample: from the lines exchanged in either direction that are in
/// doubt, and from the scatter between windows of reads and writes. No traffic has no relative error.
pub fn error_of_memory_bytes(traffic: &Traffic, one_in: u32, overall: Option<f64>) -> Option<f64> {
    let lines = (traffic.dram_read + traffic.dram_write) / LINE_BYTES;
    let of_lines = match traffic.seen_lines > 0.0 && one_in > 1 {
        true => of_seen(traffic.seen_lines, (traffic.stale_lines, traffic.cold_lines), lines, overall),
        false => overall.filter(|_| lines > 0.0),
    };
    scattered(of_lines, traffic.l3_scatter + traffic.dram_write_scatter, lines)
}

/// The same for its traffic with L3, from the lines between L2 and L3. If the sample saw none, but lines that may have been misses, this
/// counts as one; lines that other cores took were seen near the core.
pub fn error_behind_l2(traffic: &Traffic, one_in: u32, overall: Option<f64>) -> Option<f64> {
    let Traffic { l3_seen_lines: seen, l3_stale_lines: stale, l2_misses, .. } = *traffic;
    if one_in <= 1 {
        return overall;
    }
    match seen > 0.0 || stale > 0.0 {
        true => of_seen(seen.max(1.0), (stale, 0.0), l2_misses, overall),
        false => overall.filter(|_| l2_misses > 0.0),
    }
}

/// The error of `misses` estimated from `seen` lines of the sample, with (more, fewer) in doubt.
fn of_seen(seen: f64, (more, fewer): (f64, f64), misses: f64, overall: Option<f64>) -> Option<f64> {
    let doubt = (more + fewer) / (misses + more).max(1.0);
    Some(overall.unwrap_or(0.0).hypot(seen.sqrt().recip()).hypot(doubt))
}

/// A relative `error` with that of `misses`; `scatter` is their standard error from differing windows.
pub fn scattered(error: Option<f64>, scatter: f64, misses: f64) -> Option<f64> {
    if scatter > 0.0 && misses > 0.0 { Some(error.unwrap_or(0.0).hypot(scatter / misses)) } else { error }
}

/// Bytes beyond L1; those of L1 are counted, not simulated.
pub fn bytes(traffic: &Traffic) -> Bytes {
    let sum = |read: f64, write: f64| Some(whole(read + write));
    Bytes {
        l1: None,
        l2: sum(traffic.l2_read, traffic.l2_write),
        l3: sum(traffic.l3_read, traffic.l3_write),
        dram: sum(traffic.dram_read, traffic.dram_write),
        dram_read: sum(traffic.dram_read, 0.0),
        dram_write: sum(0.0, traffic.dram_write),
    }
}

/// Misses in lines.
pub fn cache_misses(traffic: &Traffic) -> CacheMisses {
    let lines = |n: f64| Some(whole(n));
    CacheMisses { l1: lines(traffic.l1_misses), l2: lines(traffic.l2_misses), l3: lines(traffic.l3_misses) }
}

/// The 3C classes of last-level misses.
pub fn misses(traffic: &Traffic) -> Misses {
    let lines = |n: f64| Some(whole(n));
    Misses {
        compulsory: lines(traffic.compulsory),
        capacity: lines(traffic.capacity),
        conflict: lines(traffic.conflict),
        coherence: lines(traffic.coherence),
        l1_conflict: lines(traffic.l1_conflict),
        l2_conflict: lines(traffic.l2_conflict),
    }
}

/// Pages that instructions with this `traffic` touched. Or the reason why that is unknown: they accessed memory, but not in the model's
/// sample.
pub fn pages(estimate: &Estimate, traffic: &Traffic) -> Result<Pages, String> {
    let touched = whole(estimate.pages);
    if touched == 0 && traffic.l1_read + traffic.l1_write > 0.0 {
        return Err("no access of it was in the sample; run longer, or with --memory exact".into());
    }
    Ok(Pages { touched, at_least: estimate.sampled })
}

/// Why a sample of one line in `one_in` shows no such bytes, although the program may have had some.
pub fn none_seen(bytes: Option<u64>, one_in: u32) -> Option<String> {
    (bytes == Some(0) && one_in > 1)
        .then(|| format!("none of its lines in the sample, which is one in {one_in}, went there"))
}

/// How well the compulsory misses of a sample of one line in `one_in` are known.
pub fn compulsory_known(one_in: u32) -> Option<String> {
    let why = "in a sampled run a line counts as new where its page came while it was looked at: of pages that came before they were \
               touched, or in a pause, that is not told, and the figure may be off by factors";
    (one_in > 1).then(|| why.into())
}

/// Rounds a sampled sum to whole bytes or lines.
pub fn whole(sum: f64) -> u64 {
    sum.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_function_is_that_of_the_lines_seen_of_it() {
        let seen = |seen_lines, l1_misses| Traffic { seen_lines, l1_misses, ..Traffic::default() };
        assert_eq!(error_of_sample(&seen(0.0, 5.0), 1, None), Ok(None));
        let error = error_of_sample(&seen(16.0, 512.0), 32, Some(0.01)).unwrap().unwrap();
        assert!((error - 0.2502).abs() < 1e-3, "{error}");
        let resident = Traffic { stale_lines: 100.0, l3_misses: 100.0, ..seen(1e8, 1e9) };
        assert!((error_of_sample(&resident, 32, None).unwrap().unwrap() - 0.5).abs() < 1e-3);
        let cold = Traffic { cold_lines: 75.0, l3_misses: 100.0, ..seen(1e8, 1e9) };
        assert!((error_of_sample(&cold, 32, None).unwrap().unwrap() - 0.75).abs() < 1e-3);
        // A doubt about memory is no doubt about L3.
        let l3 = Traffic { l3_seen_lines: 1e8, l3_stale_lines: 100.0, l2_misses: 300.0, ..resident };
        assert!((error_behind_l2(&l3, 32, None).unwrap() - 0.25).abs() < 1e-3);
        assert_eq!(error_behind_l2(&l3, 1, Some(0.01)), Some(0.01));
        let near = Traffic { l2_misses: 300.0, ..resident };
        assert_eq!(error_behind_l2(&near, 32, Some(0.01)), Some(0.01), "other cores took lines, as bursts saw");
        assert_eq!(error_behind_l2(&resident, 32, Some(0.01)), None, "there is no part of nothing");
        let hits = Traffic { l3_stale_lines: 100.0, ..resident };
        assert!(error_behind_l2(&hits, 32, Some(0.01)).unwrap() > 1.0, "L2 had lines that it may not have had");
        // No misses, and many misses that hit the next level, are certain; a few are not.
        assert_eq!(error_of_sample(&seen(0.0, 0.0), 32, Some(0.01)), Ok(None));
        assert_eq!(error_of_sample(&seen(0.0, 1000.0), 32, Some(0.01)), Ok(None));
        assert!(error_of_sample(&seen(0.0, 50.0), 32, Some(0.01)).is_err());
    }

    #[test]
    fn pages_of_accesses_that_no_sample_has_are_not_known() {
        let found = |pages, l1_read, sampled| {
            let traffic = Traffic { l1_read, ..Traffic::default() };
            super::pages(&Estimate { pages, error: None, sampled }, &traffic)
        };
        assert_eq!(found(12.4, 96.0, true), Ok(Pages { touched: 12, at_least: true }));
        assert_eq!(found(12.0, 96.0, false), Ok(Pages { touched: 12, at_least: false }));
        assert_eq!(found(0.0, 0.0, true).map(|p| p.touched), Ok(0));
        assert!(found(0.0, 96.0, true).is_err());
    }

    #[test]
    fn instructions_that_no_window_saw_have_no_bytes() {
        let site = |at, unseen| (at, 0, Traffic { dram_read: 64.0, unseen, ..Traffic::default() });
        let sites = vec![site(1, 0.0), site(1, 0.0), site(2, 0.0), site(2, 8.0)];
        let offsets = FunctionTraffic { sites, ..FunctionTraffic::default() }.dram_by_offset();
        assert_eq!((offsets[&1], offsets[&2]), (Some(128.0), None));
    }

    #[test]
    fn what_no_window_saw_is_not_known() {
        let with = |unseen| Traffic { l1_read: 60.0, l1_write: 40.0, l1_misses: 1.0, unseen, ..Traffic::default() };
        assert_eq!(error_of_windows(&with(0.0), 32, None), Ok(None));
        assert_eq!(error_of_windows(&with(0.0), 32, Some(0.01)), Ok(Some(0.01)));
        let resident = Traffic { l1_misses: 0.0, ..with(0.0) };
        assert_eq!(error_of_windows(&resident, 32, Some(0.01)), Ok(None), "there is no part of nothing");
        assert_eq!(error_of_windows(&with(10.0), 32, None), Ok(Some(0.1)));
        for (one_in, word) in [(32, "window"), (1, "GS")] {
            assert!(error_of_windows(&with(70.0), one_in, Some(0.01)).is_err_and(|reason| reason.contains(word)));
        }
    }
}
