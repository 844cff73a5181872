//! Cycles by instruction and cause: each belongs to the instruction that retires next, as a sampling profiler sees it. Its cause is that
//! of the path of last-arriving edges at that time.
//!
//! ```text
//!  time          ├───────────────┬──┬──┬─────────┤
//!  retirements           a         b  c     d            a's stretch: from the retirement before it
//!  path          ├─ l3 ──┬─ chain ─────┬─ base ──┤       a: l3 and a part of chain …
//! ```

use super::Cycles;
use super::graph::Stretch;

/// An instruction retires.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retirement {
    /// Cycle.
    pub time: u32,
    /// Number of the instruction.
    pub site: u32,
}

/// Adds to `cycles[site]` the stretches of `path` (latest first, up to the last of `retirements`) that each instruction waited for its
/// retirement, from the cycle `start` on. Instructions that retire in one cycle share that cycle.
pub(super) fn share_out(retirements: &[Retirement], path: &[Stretch], start: u32, cycles: &mut [Cycles]) {
    let mut stretches = path.iter().map(|stretch| (stretch.cause, stretch.cycles as f32));
    let mut now = stretches.next();
    let mut take = |mut amount: f32, own: &mut Cycles| {
        while amount > 0.0 {
            let Some((cause, left)) = &mut now else { return };
            let part = amount.min(*left);
            own[*cause as usize] += part;
            amount -= part;
            *left -= part;
            if *left <= 0.0 {
                now = stretches.next();
            }
        }
    };
    let groups: Vec<&[Retirement]> = retirements.chunk_by(|a, b| a.time == b.time).collect();
    for (n, group) in groups.iter().enumerate().rev() {
        let before = n.checked_sub(1).map_or(start, |n| groups[n][0].time);
        let waited = group[0].time.saturating_sub(before);
        if waited == 0 {
            continue;
        }
        let share = 1.0 / group.len() as f32;
        for retirement in group.iter().rev() {
            take(share, &mut cycles[retirement.site as usize]);
        }
        take((waited - 1) as f32, &mut cycles[group[0].site as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::index;
    use super::*;
    use rprof_profile::account::Cause;

    #[test]
    fn who_retires_next_has_the_cycles_and_the_path_their_causes() {
        let at = |time, site| Retirement { time, site };
        let retirements = [at(40, 0), at(41, 1), at(41, 2), at(60, 1)];
        let stretch = |cycles, cause| Stretch { cycles, cause: index(cause) };
        // From cycle 10: 20 of L3, 15 of a chain, 15 of dispatch.
        let path = [stretch(15, Cause::Base), stretch(15, Cause::Chain), stretch(20, Cause::L3)];
        let mut cycles = [[0.0; Cause::ALL.len()]; 3];
        share_out(&retirements, &path, 10, &mut cycles);
        let of = |site: usize| -> f32 { cycles[site].iter().sum() };
        assert_eq!([of(0), of(1), of(2)], [30.0, 19.5, 0.5]);
        assert_eq!([cycles[0][Cause::L3 as usize], cycles[0][Cause::Chain as usize]], [20.0, 10.0]);
        assert_eq!([cycles[1][Cause::Base as usize], cycles[1][Cause::Chain as usize]], [15.0, 4.5]);
    }
}
