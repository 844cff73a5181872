//! Costs of single events: a first touch of a page, a mispredicted branch.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::error::MachineError;
use crate::harness::arena::{Buffer, Pages};
use crate::harness::preemption::Presence;
use crate::harness::timing::{Rate, Repetition, Work};
use crate::kernels::Arguments;
use crate::kernels::x86_64::irregular::branches;
use crate::suite::campaign::{Campaign, Label};

/// `pagefault` (4 KiB, first touch) and `mispredict`, in seconds, one thread.
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    mispredict(campaign)?;
    page_fault(campaign)
}

/// Copies of the branches that are timed: their addresses also decide which prediction entries they use.
const COPIES: usize = 1;
const COPIES_OF_RANDOM: usize = 3;

/// Cycles of one event.
fn cycles_of(rate: &Rate) -> f64 {
    rate.clock_hz / rate.best
}

fn mispredict(campaign: &mut Campaign) -> Result<(), MachineError> {
    // A cost, no ceiling: the median of several copies.
    let time = |campaign: &Campaign, random: bool, copies: usize| -> Result<Option<Rate>, MachineError> {
        let kernel = branches(random, campaign.features)?;
        let amount = kernel.work.payload as f64;
        // Measure as a whole: the faster ones of short pieces are those with fewer mispredictions by chance.
        let plan = campaign.core_plan().whole();
        let rates = (0..copies).map(|_| campaign.watch().rate(&Work::on_registers(kernel.copied()?, 1), amount, plan));
        let mut rates = rates.collect::<Result<Vec<Rate>, _>>()?;
        rates.sort_by(|a, b| cycles_of(a).total_cmp(&cycles_of(b)));
        Ok(rates.into_iter().nth(copies / 2))
    };
    let label = Label::new("mispredict", "s", 1);
    if campaign.leaves_out(&label) {
        return Ok(());
    }
    let (Some(predicted), Some(random)) = (time(campaign, false, COPIES)?, time(campaign, true, COPIES_OF_RANDOM)?)
    else {
        campaign.missing(label, "no copy was timed");
        return Ok(());
    };
    // A random branch is mispredicted every second time.
    let cycles = 2.0 * (cycles_of(&random) - cycles_of(&predicted));
    if cycles <= 0.0 {
        campaign.missing(label, "random branches took no longer than predictable ones");
    } else {
        let rate = Rate { best: random.clock_hz / cycles, ..random };
        campaign.record_time(label, &rate);
    }
    Ok(())
}

/// Seconds that a plan counts for page faults.
const PLANNED_TOUCHES: f64 = 20e-3;

/// First touches in total, and at a time: few enough for the kernel to reuse the pages of the last time, which are in a cache. A page from
/// elsewhere takes a quarter to a half longer, depending on neighbours and the hypervisor.
const TOUCHES: usize = 4096;
const PAGES: usize = 64;

fn page_fault(campaign: &mut Campaign) -> Result<(), MachineError> {
    let label = Label::new("pagefault", "s", 1);
    if campaign.leaves_out(&label) {
        return Ok(());
    }
    if campaign.watch().plan(PLANNED_TOUCHES) {
        campaign.record_time(label, &Rate::planned(1e6));
        return Ok(());
    }
    let result: Arc<Mutex<Vec<Result<Repetition, MachineError>>>> = Arc::default();
    let shared = result.clone();
    let clock = campaign.watch().clock();
    let touch = move |_rank: usize| {
        let mut scratch = Arguments::new();
        for _ in 0..TOUCHES / PAGES {
            let run = Buffer::new(PAGES as u64 * 4096, Pages::Small).map(|buffer| {
                let base = buffer.address() as *mut u8;
                let presence = Presence::now();
                let idle_clock_hz = clock.hz(&mut scratch);
                let start = Instant::now();
                for page in 0..PAGES {
                    // SAFETY: the buffer has PAGES pages behind its address.
                    unsafe { base.add(page * 4096).write_volatile(1) };
                }
                let seconds = start.elapsed().as_secs_f64();
                Repetition {
                    seconds,
                    clock_hz: clock.hz(&mut scratch),
                    idle_clock_hz,
                    disturbed: presence.was_disturbed(),
                    shared: false,
                }
            });
            if let Ok(mut all) = shared.lock() {
                all.push(run);
            }
        }
    };
    campaign.team().run(1, Arc::new(touch))?;
    let runs =
        std::mem::take(&mut *result.lock().map_err(|_| MachineError::Thread { cpu: 0, reason: "panicked".into() })?);
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    campaign.record_time(label, &Rate::judge(&runs, PAGES as f64, 4));
    Ok(())
}
