//! The level in which each instruction finds its lines, from the memory model.

use std::collections::HashMap;

use rprof_profile::CodeRef;
use rprof_profile::evidence::bursts::{BurstEvidence, Found};
use rprof_profile::evidence::memory::{MemoryEvidence, Traffic};

use super::op::Program;

/// The level that a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    L1,
    L2,
    L3,
    Dram,
}

/// Shares of one instruction, in 2¹⁶ths.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// Share of misses of L1 among the lines that the burst did not use before. The other lines are still in L1 from before the burst.
    beyond_l1: u32,
    /// Share of these misses that come from beyond L2.
    beyond_l2: u32,
    /// Share of those that come from memory.
    dram: u32,
    /// Shares of the misses of L1 and of L2 that fully associative caches would not have.
    l1_conflicts: u32,
    l2_conflicts: u32,
    /// Share of small pages.
    small_pages: u32,
}

const WHOLE: u32 = 1 << 16;

/// Standard errors of the share of misses of the last level that are taken off it.
const UNSURE: f64 = 2.0;

/// Shares without a memory model: lines that the burst did not use before are assumed to lie in L3, never in memory.
const UNKNOWN: Shares =
    Shares { beyond_l1: WHOLE, beyond_l2: WHOLE, dram: 0, l1_conflicts: 0, l2_conflicts: 0, small_pages: WHOLE };

/// Shares by instruction.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    by_site: Vec<Shares>,
}

/// Accesses and L1 misses of one instruction in the bursts.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    bytes: u64,
    misses: u32,
    beyond: u32,
    again: u32,
}

impl Levels {
    /// Instructions that the memory model does not cover take the shares of the 4 KiB of code around them, or else those of all code.
    pub fn new(program: &Program, bursts: &BurstEvidence, memory: Option<&MemoryEvidence>) -> Levels {
        let Some(memory) = memory else { return Levels { by_site: vec![UNKNOWN; program.sites.len()] } };
        let mut exact: HashMap<CodeRef, Traffic> = HashMap::new();
        let mut around: HashMap<(u32, u64), Traffic> = HashMap::new();
        let mut all = Traffic::default();
        for site in &memory.sites {
            exact.entry(site.at).or_default().add(&site.traffic);
            around.entry(neighbourhood(site.at)).or_default().add(&site.traffic);
            all.add(&site.traffic);
        }
        let seen = seen(program, bursts);
        let shares = |(at, seen): (&CodeRef, &Seen)| {
            let known = |traffic: &&Traffic| traffic.l1_misses > 0.0;
            let traffic = exact.get(at).filter(known).or_else(|| around.get(&neighbourhood(*at)).filter(known));
            shares(traffic.unwrap_or(&all), seen)
        };
        Levels { by_site: program.sites.iter().zip(&seen).map(shares).collect() }
    }

    /// Whether instruction `site` finds a line in L1 that the burst found in `found` (not L1) only because it began with empty caches.
    /// `random` decides.
    pub fn is_in_l1(&self, site: u32, found: Found, random: u32) -> bool {
        let unknown = found == Found::Beyond { again: false };
        unknown && random.wrapping_mul(0x9e37_79b9) >> 16 >= self.by_site[site as usize].beyond_l1
    }

    /// The level in which the instruction finds a line that is not in L1.
    pub fn draw(&self, site: u32, found: Found, random: u32) -> Level {
        let shares = self.by_site[site as usize];
        let (first, second) = (random & (WHOLE - 1), random >> 16);
        match found {
            Found::L1 | Found::L2 => Level::L2,
            Found::L3 => Level::L3,
            Found::Memory => Level::Dram,
            Found::Beyond { again: false } if first >= shares.beyond_l2 => Level::L2,
            Found::Beyond { .. } if second < shares.dram => Level::Dram,
            Found::Beyond { .. } => Level::L3,
        }
    }

    /// The level without conflict misses; `level`: the one with them.
    pub fn without_conflicts(&self, site: u32, level: Level, random: u32) -> Level {
        let shares = self.by_site[site as usize];
        let drawn = random.wrapping_mul(0x85eb_ca6b);
        match level {
            Level::L1 => Level::L1,
            _ if drawn >> 16 < shares.l1_conflicts => Level::L1,
            Level::L2 => Level::L2,
            _ if drawn & (WHOLE - 1) < shares.l2_conflicts => Level::L2,
            level => level,
        }
    }

    /// Whether the page that instruction `site` accesses is a small one.
    pub fn small_page(&self, site: u32, random: u32) -> bool {
        (random & (WHOLE - 1)) < self.by_site[site as usize].small_pages
    }
}

fn neighbourhood(at: CodeRef) -> (u32, u64) {
    (at.module, at.offset >> 12)
}

fn seen(program: &Program, bursts: &BurstEvidence) -> Vec<Seen> {
    let mut seen = vec![Seen::default(); program.sites.len()];
    for burst in &bursts.bursts {
        for (n, step) in burst.steps.iter().enumerate() {
            let end = burst.steps.get(n + 1).map_or(burst.accesses.len(), |next| next.first_access as usize);
            let accesses = &burst.accesses[step.first_access as usize..end];
            let (_, ops) = program.block(step.block);
            for access in accesses {
                let Some(op) = ops.iter().find(|op| op.offset == access.access.offset) else { continue };
                let own = &mut seen[op.site as usize];
                own.bytes += u64::from(access.access.bytes);
                own.misses += u32::from(access.found != Found::L1);
                if let Found::Beyond { again } = access.found {
                    own.beyond += 1;
                    own.again += u32::from(again);
                }
            }
        }
    }
    seen
}

/// Chooses P(beyond L1 | not used by the burst before) and P(beyond L2 | the same) so that the sum of all misses equals that of the
/// memory model. A line that the burst used so long ago that it left L2 is beyond L2.
fn shares(traffic: &Traffic, seen: &Seen) -> Shares {
    let part = |of: f64, all: f64| if all > 0.0 { (of / all).clamp(0.0, 1.0) } else { 0.0 };
    let unknown = f64::from(seen.beyond - seen.again);
    let known = f64::from(seen.misses) - unknown;
    let misses = traffic.l1_misses / (traffic.l1_read + traffic.l1_write).max(1.0) * seen.bytes as f64;
    let misses = misses.clamp(known, f64::from(seen.misses));
    let beyond = part(traffic.l2_misses, traffic.l1_misses);
    let beyond_l1 = part(misses - known, unknown);
    let beyond_l2 = part(beyond * misses - f64::from(seen.again), misses - known);
    // A sampled run sees more misses of large last levels than there are: misses on which its windows disagree do not count. If they
    // disagree for L2 as well, it is on how often the code ran, not on the source of its lines.
    let doubt = part(traffic.l3_scatter, traffic.l3_misses);
    let of_l2 = part(traffic.l2_scatter, traffic.l2_misses);
    let own_doubt = (doubt * doubt - of_l2 * of_l2).max(0.0).sqrt();
    let dram = part(traffic.l3_misses * (1.0 - UNSURE * own_doubt), traffic.l2_misses);
    let small = traffic.small_page_share().unwrap_or(1.0);
    let whole = |share: f64| (share * f64::from(WHOLE)) as u32;
    Shares {
        beyond_l1: whole(beyond_l1),
        beyond_l2: whole(beyond_l2),
        dram: whole(dram),
        l1_conflicts: whole(part(traffic.l1_conflict, traffic.l1_misses)),
        l2_conflicts: whole(part(traffic.l2_conflict, traffic.l2_misses)),
        small_pages: whole(small),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream from memory with windows that scatter by these shares of the misses.
    fn share_from_memory(of_l2: f64, of_l3: f64) -> f64 {
        let misses = 1000.0;
        let traffic = Traffic {
            l1_read: 64.0 * misses,
            l1_misses: misses,
            l2_misses: misses,
            l3_misses: misses,
            l2_scatter: of_l2 * misses,
            l3_scatter: of_l3 * misses,
            ..Traffic::default()
        };
        let seen = Seen { bytes: 6400, misses: 100, beyond: 100, again: 0 };
        f64::from(shares(&traffic, &seen).dram) / f64::from(WHOLE)
    }

    #[test]
    fn misses_on_which_windows_disagree_do_not_count_unless_they_do_for_l2_as_well() {
        let found =
            [(0.0, 0.0), (0.0, 0.2), (0.0, 0.7), (0.7, 0.7), (0.6, 1.0)].map(|(l2, l3)| share_from_memory(l2, l3));
        for (found, expected) in found.into_iter().zip([1.0, 0.6, 0.0, 1.0, 0.0]) {
            assert!((found - expected).abs() < 0.01, "{found} for {expected}");
        }
    }
}
