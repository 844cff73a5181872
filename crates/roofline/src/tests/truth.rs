//! The truth kernels of the reference table as facts: class and roof fraction on the recorded Zen 5 guest. Cycles are
//! those that were measured there (bandwidth kernels: bytes over the likwid figures).

use super::kernel::{HZ, Kernel, profile, zen5};
use rprof_isa::facts::AccessKind::{Load, NtStore, Store};
use rprof_isa::facts::InstructionClass::{Alu, Branch, Mov};
use rprof_isa::operation::FpOp::{Add, Div, Fma, Mul, Sqrt};
use rprof_isa::operation::Precision::{Dp, Sp};
use rprof_isa::operation::Width::{Scalar, W256, W512};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::Machine;
use rprof_profile::function::{ChainStep, Function};
use rprof_profile::vocabulary::Class;

fn step(op: FpOp, precision: Precision, width: Width) -> ChainStep {
    ChainStep::arithmetic(op, precision, width)
}

#[track_caller]
fn expect(kernel: Kernel, class: Class, low: f64, high: f64) -> Function {
    let f = kernel.analysed();
    let a = &f.analysis;
    let told = format!("{:#?}\n{:#?}", a.terms, f.source);
    assert_eq!(a.class, Some(class), "{told}");
    let fraction = a.roof_fraction.unwrap();
    assert!((low..=high).contains(&fraction), "roof fraction {fraction}\n{told}");
    f
}

fn cycles_for(bytes: f64, bandwidth: f64) -> f64 {
    bytes / bandwidth * HZ
}

#[test]
fn k01_dram_read() {
    let k = Kernel::new("dram_read").fp(8, Add, Dp, W512).access(8, Load, 64, true).chain(8, &[step(Add, Dp, W512)]);
    let k = k.traffic(|t| (t.l2_read, t.l3_read, t.dram_read, t.unit_lines) = (512.0, 512.0, 512.0, 8.0));
    expect(k.threads(2, 2).took(cycles_for(512.0, 50e9)), Class::DramBandwidth, 0.95, 1.02);
}

#[test]
fn k02_dram_triad_says_non_temporal() {
    let k = Kernel::new("dram_triad").fp(1, Fma, Dp, W512).access(2, Load, 64, true).access(1, Store, 64, true);
    let k = k.traffic(|t| {
        (t.l2_read, t.l2_write, t.l3_read, t.l3_write) = (192.0, 64.0, 192.0, 64.0);
        (t.dram_read, t.dram_write, t.unit_lines) = (192.0, 64.0, 3.0);
        (t.dram_fill, t.dram_overwritten) = (64.0, 64.0);
    });
    let f = expect(k.threads(2, 2).took(cycles_for(256.0, 47e9)), Class::DramBandwidth, 0.93, 1.03);
    let nt = f.analysis.savings.iter().find(|s| s.remove == ["write-allocate"]).expect("no advice to stream");
    // 32 B at 48 GB/s against 24 B at 57 GB/s.
    let expected = f.analysis.terms.dram.unwrap() * (1.0 - (192.0 / 57e9) / (256.0 / 48e9));
    assert!((nt.seconds / expected - 1.0).abs() < 0.01, "{} {expected}", nt.seconds);
    assert!(nt.advice.contains("non-temporal"), "{}", nt.advice);
    let bytes = |per_iteration: f64, rate: &str| {
        let gb = f.work.as_ref().unwrap().traffic.unwrap().dram_fill / 64.0 * per_iteration / 1e9;
        format!("{gb:.2} GB at {rate} GB/s")
    };
    let figures = format!("memory then moves {} instead of {}", bytes(192.0, "57.0"), bytes(256.0, "48.0"));
    assert!(nt.advice.contains(&figures), "{}: {figures}", nt.advice);
}

#[test]
fn k03_dram_triad_nt() {
    let k = Kernel::new("dram_triad_nt").fp(1, Fma, Sp, W512).access(2, Load, 64, true).access(1, NtStore, 64, true);
    let k = k.traffic(|t| {
        (t.l2_read, t.l3_read, t.l3_write) = (128.0, 128.0, 64.0);
        (t.dram_read, t.dram_write, t.dram_nt, t.unit_lines) = (128.0, 64.0, 64.0, 3.0);
    });
    let f = expect(k.threads(2, 2).took(cycles_for(192.0, 56e9)), Class::DramBandwidth, 0.93, 1.03);
    assert!(f.analysis.savings.iter().all(|s| s.remove != ["write-allocate"]));
}

#[test]
fn k05_one_pointer_chase() {
    let k = Kernel::new("dram_chase").fp(1, Add, Dp, Scalar).filler(Alu, 1).access(1, Load, 8, false);
    let k = k.chain(1, &[ChainStep::Load]).traffic(|t| {
        (t.l2_read, t.l3_read, t.dram_read) = (64.0, 64.0, 64.0);
        (t.l1_misses, t.l2_misses, t.l3_misses, t.random_lines) = (1.0, 1.0, 0.97, 1.0);
    });
    expect(k.took(460.0), Class::DramLatency, 0.93, 1.03);
}

#[test]
fn k06_eight_pointer_chases() {
    let k = Kernel::new("dram_chase8").fp(8, Add, Dp, Scalar).filler(Alu, 1).access(8, Load, 8, false);
    let k = k.chain(8, &[ChainStep::Load]).traffic(|t| {
        (t.l2_read, t.l3_read, t.dram_read) = (512.0, 512.0, 512.0);
        (t.l1_misses, t.l2_misses, t.l3_misses, t.random_lines) = (8.0, 8.0, 8.0, 8.0);
    });
    expect(k.took(8.0 * 460.0 / 7.5), Class::DramLatency, 0.92, 1.03);
}

#[test]
fn k07_random_lines() {
    let k = Kernel::new("dram_random").fp(1, Add, Dp, Scalar).filler(Alu, 3).access(1, Load, 8, true);
    let k = k.traffic(|t| {
        (t.l2_read, t.l3_read, t.dram_read) = (64.0, 64.0, 64.0);
        (t.l1_misses, t.l2_misses, t.l3_misses, t.random_lines) = (1.0, 1.0, 1.0, 1.0);
    });
    expect(k.took(HZ / 180e6), Class::DramLatency, 0.90, 1.05);
}

#[test]
fn k08_chase_in_l2() {
    let k = Kernel::new("l2_chase").fp(1, Add, Dp, Scalar).filler(Alu, 1).access(1, Load, 8, false);
    let k = k.chain(1, &[ChainStep::Load]).traffic(|t| (t.l2_read, t.l1_misses, t.random_lines) = (64.0, 1.0, 1.0));
    expect(k.took(14.2), Class::CacheLatency, 0.95, 1.02);
}

#[test]
fn k09_l3_read_and_k11_l2_read() {
    let k = Kernel::new("read").fp(8, Add, Dp, W512).access(8, Load, 64, true).chain(8, &[step(Add, Dp, W512)]);
    let l3 = k.clone().traffic(|t| (t.l2_read, t.l3_read) = (512.0, 512.0)).took(cycles_for(512.0, 122e9));
    expect(l3, Class::L3Bandwidth, 0.92, 1.03);
    expect(k.traffic(|t| t.l2_read = 512.0).took(cycles_for(512.0, 230e9)), Class::L2Bandwidth, 0.95, 1.02);
}

#[test]
fn k13_k14_l1_by_bytes() {
    let loads = Kernel::new("l1_loads").fp(1, Add, Dp, W512).access(2, Load, 64, true).filler(Mov, 1);
    expect(loads.took(1.012), Class::L1Bandwidth, 0.97, 1.01);
    let store = Kernel::new("l1_store").fp(1, Add, Dp, W512).access(1, Store, 64, true);
    expect(store.took(1.015), Class::L1Bandwidth, 0.97, 1.01);
}

#[test]
fn k15_l1_by_accesses_is_not_simd() {
    let k = Kernel::new("l1_access").fp(1, Add, Dp, Scalar).filler(Mov, 1).access(2, Load, 8, true);
    expect(k.took(1.005), Class::L1Bandwidth, 0.97, 1.01);
}

#[test]
fn k16_one_chain_of_adds() {
    let k = Kernel::new("ilp_add").fp(1, Add, Dp, Scalar).chain(1, &[step(Add, Dp, Scalar)]);
    let f = expect(k.took(2.008), Class::Ilp, 0.98, 1.01);
    assert_eq!(f.analysis.binding.as_deref(), Some("ilp"));
    assert!((f.analysis.ilp.unwrap() - 0.25).abs() < 1e-9);
    let advice = &f.analysis.savings.iter().find(|s| s.remove == ["ilp"]).expect("partial results").advice;
    assert!(advice.contains("dp add") && advice.contains("2.0 cycles"), "{advice}");
}

#[test]
fn k17_two_chains_of_fma_on_two_threads() {
    let k = Kernel::new("ilp_fma").fp(2, Fma, Sp, W512).chain(2, &[step(Fma, Sp, W512)]).threads(2, 2);
    expect(k.took(2.008), Class::Ilp, 0.97, 1.01);
}

#[test]
fn k18_chain_through_memory() {
    let k = Kernel::new("ilp_memory").fp(1, Add, Dp, Scalar).access(1, Load, 8, true).access(1, Store, 8, true);
    let k = k.chain(1, &[ChainStep::Forward, step(Add, Dp, Scalar)]).took(12.0);
    let f = expect(k, Class::Ilp, 0.95, 1.02);
    assert!(f.analysis.savings[0].advice.contains("same address"), "{}", f.analysis.savings[0].advice);
}

#[test]
fn k19_restarted_chain() {
    let adds = vec![step(Add, Dp, Scalar); 256];
    let k = Kernel::new("ilp_restarted").fp(256, Add, Dp, Scalar).restarted(1, &adds, Some(1.0));
    expect(k.took(256.0 * 1.474), Class::Ilp, 0.95, 1.05);
}

#[test]
fn k20_k21_k22_simd() {
    let chains = |w| Kernel::new("simd").chain(12, &[step(Fma, Dp, w)]);
    let scalar = expect(chains(Scalar).fp(12, Fma, Dp, Scalar).took(6.03), Class::Simd, 0.98, 1.01);
    assert!((scalar.analysis.simd_use.unwrap() - 0.125).abs() < 1e-9);
    let masked = expect(chains(W512).lanes(12, Fma, Dp, W512, 4).took(6.04), Class::Simd, 0.98, 1.01);
    assert!((masked.analysis.simd_use.unwrap() - 0.5).abs() < 1e-9);
    expect(chains(W256).fp(12, Fma, Sp, W256).took(6.02), Class::Simd, 0.98, 1.01);
}

#[test]
fn k23_k24_fma_balance_and_k25_peak_where_pipes_are_separate() {
    let adds = Kernel::new("adds").fp(12, Add, Dp, W512).chain(12, &[step(Add, Dp, W512)]).took(6.02);
    let f = expect(adds, Class::FmaBalance, 0.98, 1.01);
    assert!((f.analysis.fma_balance.unwrap() - 0.5).abs() < 1e-9);
    let muls = Kernel::new("muls").fp(12, Mul, Sp, W512).chain(12, &[step(Mul, Sp, W512)]).threads(2, 2).took(3.02);
    expect(muls, Class::FmaBalance, 0.97, 1.01);
    let both = Kernel::new("both").fp(12, Add, Dp, W512).fp(12, Mul, Dp, W512).took(6.05);
    expect(both, Class::Peak, 0.97, 1.01);
}

#[test]
fn k26_k27_k28_instruction_mix() {
    let mov = Kernel::new("mov").fp(1, Fma, Dp, W512).filler(Mov, 7).took(8.0 / 6.7 * 1.01);
    expect(mov, Class::InstructionMix, 0.95, 1.02);
    let alu = Kernel::new("alu").fp(1, Fma, Dp, W512).filler(Alu, 15).took(16.0 / 5.55);
    expect(alu, Class::InstructionMix, 0.95, 1.02);
    let mut large = Kernel::new("large").fp(1, Fma, Dp, W512).filler(Alu, 3).took(4.0 / 3.5 * 1.02);
    large.function.work.as_mut().unwrap().code_bytes = 200 << 10;
    let f = expect(large, Class::InstructionMix, 0.90, 1.05);
    assert!(f.analysis.savings[0].advice.contains("200 KiB"), "{}", f.analysis.savings[0].advice);
}

#[test]
fn k29_k30_divider() {
    expect(Kernel::new("div").fp(8, Div, Dp, W512).took(72.3), Class::DivSqrt, 0.98, 1.01);
    let both = Kernel::new("div_sqrt").fp(1, Div, Dp, Scalar).fp(1, Sqrt, Dp, Scalar).took(12.2);
    expect(both, Class::DivSqrt, 0.94, 1.01);
}

#[test]
fn k31_k33_peak_and_threads_of_a_team() {
    let fma =
        || Kernel::new("fma").fp(12, Fma, Dp, W512).chain(12, &[step(Fma, Dp, W512)]).filler(Alu, 1).filler(Branch, 0);
    expect(fma().threads(2, 2).took(3.02), Class::Peak, 0.97, 1.01);
    let alone = expect(fma().threads(1, 2).took(6.03), Class::Peak, 0.98, 1.01);
    assert!(
        alone.analysis.savings.is_empty(),
        "that it had one thread is the program's affair: {:?}",
        alone.analysis.savings
    );
    let machine = Machine { cores: 4, ..zen5() };
    let mut p = profile(vec![fma().threads(2, 4).took(3.02).function], machine);
    crate::analyse(&mut p);
    let f = p.functions.remove(0);
    assert_eq!(f.analysis.class, Some(Class::Threads));
    let saving = &f.analysis.savings[0];
    assert_eq!(saving.remove, ["threads"]);
    assert!((saving.seconds / f.analysis.terms.pipe.unwrap() - 0.5).abs() < 1e-9);
}

#[test]
fn k34_load_imbalance() {
    let mut k = Kernel::new("imbalance").fp(12, Fma, Dp, W512).threads(2, 2).took(6.0 * 0.75 * 1.01);
    k.function.concurrency = vec![2.0 / 3.0, 1.0 / 3.0];
    k.function.lambda = Some(2.0 / 3.0);
    let f = expect(k, Class::LoadImbalance, 0.95, 1.02);
    assert!(f.analysis.savings[0].advice.contains("67 %"), "{}", f.analysis.savings[0].advice);
}

#[test]
fn k36_integer_axis() {
    let k = Kernel::new("integer").filler(Alu, 24).took(6.05);
    let f = expect(k, Class::Peak, 0.90, 1.05);
    assert_eq!(f.analysis.axis.as_deref(), Some("int"));
}

#[test]
fn k37_mispredicts_stay_unknown() {
    let k = Kernel::new("mispredict").fp(1, Add, Dp, Scalar).filler(Alu, 4).filler(Branch, 1).took(12.0);
    let f = k.analysed();
    assert_eq!(f.analysis.class, Some(Class::Unknown));
    assert!(f.analysis.nearest.is_some());
    assert!(f.analysis.roof_fraction.unwrap() < 0.4);
}
