//! Which ceilings are measured, in the order of their importance: what does not fit the time comes last.
//! What is left out is null with that reason, and measured by a later run.

mod access;
mod arrays;
mod balance;
pub mod bandwidth;
mod costs;
mod irregular;
mod ladder;
mod latency;
mod mix;
mod pipes;
mod plateau;
mod reach;
mod special;
mod subset;

use std::time::{Duration, Instant};

use super::core;
use super::doubt;
use super::error::MachineError;
use super::lab::{Doubtful, Effort, Lab, moments};
use super::progress::Progress;
use super::states;
use crate::profile::placement;

/// Some ceilings that are measured together.
struct Group {
    name: &'static str,
    measure: fn(&mut Lab) -> Result<(), MachineError>,
    /// Without it the model is blind: it is measured even where that takes longer than it should.
    essential: bool,
}

const fn group(name: &'static str, essential: bool, measure: fn(&mut Lab) -> Result<(), MachineError>) -> Group {
    Group { name, measure, essential }
}

/// The groups. Later ones may look up what earlier ones recorded.
const GROUPS: [Group; 17] = [
    group("arithmetic by operation and width", true, pipes::throughput),
    group("ladder of in-core ceilings", true, ladder::measure),
    group("bandwidth of each level", true, bandwidth::levels),
    group("latencies of each level", true, irregular::latencies),
    group("instruction mixes", true, mix::measure),
    group("accesses to L1", true, access::measure),
    group("latencies of arithmetic", true, latency::measure),
    group("pairs of operations", true, pipes::co_issue),
    group("integer and low-precision arithmetic", true, special::measure),
    group("page faults and mispredicted branches", false, costs::measure),
    group("irregular memory accesses", true, irregular::measure),
    group("parameters of the core", true, core::measure),
    group("streams on small pages", false, bandwidth::on_small_pages),
    group("restarted chains", false, latency::restarted),
    group("chains side by side", false, latency::saturation),
    group("reach of the TLB", false, reach::measure),
    group("hardware threads of one core, slow cores", false, subset::measure),
];

/// Measures all groups.
///
/// # Errors
/// Whatever stops a measurement: a refused mapping, a thread that died. What is merely absent on this host is
/// recorded as null with a reason.
pub fn measure_all(lab: &mut Lab, progress: &mut dyn Progress) -> Result<(), MachineError> {
    for (done, group) in GROUPS.iter().enumerate() {
        progress.group(group.name, done, GROUPS.len());
        lab.set_essential(group.essential);
        (group.measure)(lab)?;
    }
    plateau::doubts_of(lab).into_iter().for_each(|w| progress.warn(w));
    derive(lab);
    if lab.is_patient() {
        measure_another_placement(lab, progress)?;
    }
    repeat_doubtful(lab, progress, lab.repeat_budget())
}

/// Time that is waited for another placement of the CPUs, busy and idle each, and for what depends on it.
const ANOTHER: Duration = Duration::from_millis(1500);

/// Waits a while for the hypervisor to place the CPUs otherwise, and measures what depends on it there.
///
/// # Errors
/// As [`measure_all`].
pub fn measure_another_placement(lab: &mut Lab, progress: &mut dyn Progress) -> Result<(), MachineError> {
    progress.group("with the CPUs placed otherwise", GROUPS.len(), GROUPS.len());
    if !lab.meet_another_placement(ANOTHER)? {
        return Ok(());
    }
    let wanted = doubt::measured(lab.ceilings(), placement::depends);
    measure_again(lab, wanted, ANOTHER)
}

/// Measures only what is `wanted`, within `budget`.
fn measure_again(lab: &mut Lab, wanted: Doubtful, budget: Duration) -> Result<(), MachineError> {
    lab.repeat(wanted, budget);
    GROUPS.iter().try_for_each(|group| (group.measure)(lab))
}

/// What follows from what was measured.
fn derive(lab: &mut Lab) {
    balance::derive(lab);
    mix::fractions(lab);
}

/// Passes over what is in doubt; each next one meets the neighbours in another mood.
const PASSES: u32 = 24;

/// Further moments at which a full measurement looks at all that neighbours are part of, as far as there is time: at once, and
/// whenever what is in doubt alone takes no longer than a moment.
const MOMENTS: u32 = 5;

/// Further moments at which it looks, before that, at what a core does by itself and has come out but once.
const CONFIRMATIONS: u32 = 4;

/// Measures again what is in doubt, in at most `budget` altogether. What then still contradicts itself is marked as unsettled.
///
/// # Errors
/// As [`measure_all`].
pub fn repeat_doubtful(lab: &mut Lab, progress: &mut dyn Progress, budget: Duration) -> Result<(), MachineError> {
    // A later run has time for what is in doubt alone.
    let thorough = lab.measures_all() && !lab.is_resumed() && lab.effort == Effort::Full;
    let end = Instant::now() + budget;
    for _ in 0..if thorough { CONFIRMATIONS } else { 0 } {
        let unconfirmed = lab.unconfirmed();
        if unconfirmed.is_empty() {
            break;
        }
        progress.group("results that came out once", GROUPS.len(), GROUPS.len());
        measure_again(lab, unconfirmed, end.saturating_duration_since(Instant::now()))?;
    }
    let (mut took, mut looks) = (Duration::ZERO, if thorough { MOMENTS } else { 0 });
    for _ in 0..PASSES {
        let mut doubtful = doubt::doubtful(lab.ceilings());
        if thorough {
            doubtful.extend(lab.unconfirmed());
        }
        if looks > 0 && (took < moments::APART || doubtful.is_empty()) {
            doubtful.extend(doubt::measured(lab.ceilings(), states::is_shared));
            looks -= 1;
        }
        let began = Instant::now();
        let left = end.saturating_duration_since(began);
        if doubtful.is_empty() || left.is_zero() {
            break;
        }
        progress.group("doubtful results, once more", GROUPS.len(), GROUPS.len());
        measure_again(lab, doubtful, left)?;
        took = began.elapsed();
        derive(lab);
        if thorough && looks == 0 {
            // What follows at once is of the same moment.
            std::thread::sleep(moments::APART.saturating_sub(took).min(left));
        }
    }
    lab.conclude();
    lab.take_doubts().into_iter().for_each(|w| progress.warn(w));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::features::Features;
    use crate::machine::progress::Quiet;
    use crate::machine::topology::{Identity, Topology};
    use crate::profile::machine::Ceiling;

    #[test]
    fn a_later_run_has_its_time_for_what_is_in_doubt_alone() {
        let (topology, _) = Topology::detect_of(Identity::ask(), "/sys".as_ref(), &[0]);
        let lab = Lab::new(Features::detect(), topology, 1, 64 << 20, Effort::Full).expect("one thread");
        let mut lab = lab.patient(4);
        let known = |id: &str, settled: bool| Ceiling {
            spread: Some(0.01),
            settled,
            reason: (!settled).then(|| format!("{} by 5 %", doubt::DIFFER)),
            ..Ceiling::settled(id, 1.0, "flop/s", 1)
        };
        lab.resume(vec![known("dp.add.scalar", true), known("dp.mul.scalar", false)], Vec::new(), None);
        repeat_doubtful(&mut lab, &mut Quiet::default(), Duration::from_secs(2)).expect("measures");
        let value = |id| lab.found(id, 1).and_then(|c| c.value).expect("known");
        assert_eq!(value("dp.add.scalar"), 1.0);
        assert!(value("dp.mul.scalar") > 1e6, "measured again");
    }
}
