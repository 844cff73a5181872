//! Instruction mixes (A.1.4), the upper limit of issue, and the FLOPs-per-element curve of the Roofline Toolkit.

use super::arrays::{self, Shape};
use crate::error::MachineError;
use crate::estimate::rounds::at_one_clock;
use crate::harness::arena::{Arena, PADDING, Pages};
use crate::harness::timing::{Rate, Work};
use crate::kernels::Kernel;
use crate::kernels::x86_64::mix::{Filler, Slots, issue, mix};
use crate::kernels::x86_64::opcodes::{Opcode, floating};
use crate::kernels::x86_64::polynomial::{SIDE_BY_SIDE, polynomial};
use crate::suite::campaign::{Campaign, Effort, Label};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::machine::{Ceiling, Sweep};

/// `mix.{mov,alu,load}.{2,4,8,16}` (and `.l1i`, `.l2` for larger code) `issue` and `issue.nop`, in instr/s.
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    let opcodes = fastest(campaign);
    for threads in campaign.ends() {
        let slots = [Slots::Mov, Slots::Mixed];
        let label = Label::new("issue", "instr/s", threads);
        campaign.best_of(label, &slots, |slots, features| issue(*slots, features), |k| k.work.instructions as f64)?;
        let nops = |f| issue(Slots::Nop, f);
        campaign.registers(Label::new("issue.nop", "instr/s", threads), nops, |k| k.work.instructions as f64)?;
        if threads > 1 && campaign.effort == Effort::Quick {
            continue;
        }
        for (suffix, bytes) in footprints(campaign) {
            for (filler, k) in Filler::ALL.into_iter().flat_map(|filler| [2, 4, 8, 16].map(|k| (filler, k))) {
                let label = Label::new(format!("mix.{}.{k}{suffix}", filler.name()), "instr/s", threads);
                let amount = |m: &Kernel| m.work.payload as f64;
                // The rates of the same code at different places differ by some percent.
                let lengths: &[usize] =
                    if suffix.is_empty() && campaign.effort == Effort::Full { &LENGTHS } else { &[16] };
                let kernel = |n: &usize, features| mix(&opcodes, filler, k, bytes * n / 16, features);
                campaign.best_of(label, lengths, kernel, amount)?;
            }
        }
    }
    Ok(())
}

/// `dp.fraction.{2,4,8,16}`: the peak that remains with one FP instruction in k (A.1.4), with the best filler: `min(peak, mix / k × FLOPs
/// of an instruction)` per cycle, FMA and addition in turn at the widest width.
pub fn fractions(campaign: &mut Campaign) {
    let width = campaign.features.widest();
    let turns =
        [FpOp::Fma, FpOp::Add].into_iter().filter_map(|op| floating(op, Precision::Dp, width, campaign.features));
    let flops: Vec<f64> = turns.map(|opcode| opcode.flops as f64).collect();
    let flops = flops.iter().sum::<f64>() / flops.len().max(1) as f64;
    for (threads, k) in campaign.ends().into_iter().flat_map(|n| [2, 4, 8, 16].map(|k| (n, k))) {
        let mixes = Filler::ALL.map(|filler| format!("mix.{}.{k}", filler.name()));
        let (Some(mix), Some(peak)) = (campaign.highest(&mixes, threads), campaign.found("dp.peak", threads).cloned())
        else {
            continue;
        };
        let (Some(issued), Some(most)) = (mix.value, peak.value) else { continue };
        let of_mix = issued / f64::from(k) * flops;
        let reason = format!("{} and dp.peak", mix.id);
        // Compare them per cycle, since their clocks differed.
        let cycles = |c: &Ceiling| c.clock_hz.unwrap_or(1.0);
        let (value, source) = if most / cycles(&peak) < of_mix / cycles(&mix) { (most, &peak) } else { (of_mix, &mix) };
        campaign.derive(Label::new(format!("dp.fraction.{k}"), "flop/s", threads), value, source, reason);
    }
}

/// Sixteenths of the bytes of code in the op cache that are tried. The remainder of a loop's length, divided by the width of fetch and
/// issue, decides how well it uses its units, less so in longer loops (Zen 5, three loads in four: 5.2 a cycle in 1 KiB, 5.3 in 8 KiB).
const LENGTHS: [usize; 4] = [32, 48, 80, 128];

/// Bytes of code in the op cache (approximately), in L1I, in L2. An L1I with ways longer than a page selects its sets by unpredictable
/// address bits: of its 64 KiB, Zen 1 misses some from 40 KiB of code on, of another part in each run.
fn footprints(campaign: &Campaign) -> [(&'static str, usize); 3] {
    let l1i = campaign.topology.l1i_bytes as usize;
    let l2 = campaign.topology.cache(2).map_or(1 << 20, |c| c.size) as usize;
    let in_l1i = if campaign.topology.l1i_way_bytes > 4096 { l1i / 2 } else { l1i * 7 / 8 };
    [("", 1024), (".l1i", in_l1i), (".l2", (200 << 10).min(l2 / 2).max(2 * l1i))]
}

/// Share of the highest rate of any width from which on a width counts as executed whole. It is far from both a half and one, since another
/// width has instructions of another length, and each choice is another ceiling of code beyond the op cache.
const WHOLE: f64 = 0.75;

/// Floating-point instructions that fill the pipes, so that these are the last to limit a mix: FMA and addition in turn, at the widest
/// width that reaches the highest rate per cycle, or nearly.
fn fastest(campaign: &Campaign) -> Vec<(Opcode, Width)> {
    let precision = Precision::Dp;
    let rate = |width: &Width| {
        let id = format!("dp.add.{}", width.name());
        let of = |c: &Ceiling| Some(c.value? / c.clock_hz.filter(|hz| *hz > 0.0)?);
        campaign.found(&id, 1).and_then(of).unwrap_or(0.0) / f64::from(width.lanes(precision))
    };
    let mut widths = campaign.features.widths();
    // The widest of those that the pipes execute whole; a width that they execute in two passes has half the rate.
    widths.reverse();
    let best = widths.iter().map(rate).fold(0.0, f64::max);
    let width = widths.iter().copied().find(|w| rate(w) > WHOLE * best).unwrap_or(Width::Scalar);
    [FpOp::Fma, FpOp::Add]
        .iter()
        .filter_map(|op| Some((floating(*op, precision, width, campaign.features)?, width)))
        .collect()
}

/// Sweep `flops-per-element.dp`: 1 … 256 FLOPs on each element of an array in L1.
pub fn curve(campaign: &mut Campaign) -> Result<(), MachineError> {
    if campaign.effort == Effort::Quick || !campaign.measures_all() {
        return Ok(());
    }
    let width = campaign.features.widest();
    let bytes = campaign.topology.cache(1).map_or(32 << 10, |c| c.size) / 2;
    for threads in campaign.ends() {
        let arena = Arena::new(campaign.team(), threads, bytes * threads as u64, Pages::Huge, false)?;
        let mut points = Vec::new();
        for flops in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            let Some(kernel) = polynomial(flops, width, campaign.features)? else { continue };
            let body = kernel.work.bytes_loaded;
            debug_assert_eq!(kernel.work.loads, SIDE_BY_SIDE as u64);
            let shape = Shape { arrays: 1, body_bytes: body, array_bytes: bytes, skip: 0, padding: PADDING };
            let Some((arguments, inner)) = arrays::arguments(&arena, shape) else { continue };
            let amount = (kernel.work.flops * inner * threads as u64) as f64;
            let rate: Rate = campaign.watch().rate(&Work::new(kernel, arguments), amount, campaign.core_plan())?;
            points.push((flops as f64, rate));
        }
        let (x_unit, y_unit) = ("flop/element".into(), "flop/s".into());
        let points = at_one_clock(points);
        campaign.sweep(Sweep { id: "flops-per-element.dp".into(), x_unit, y_unit, threads: threads as u32, points });
    }
    Ok(())
}
