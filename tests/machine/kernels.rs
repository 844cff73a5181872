//! The constants that each microkernel declares, compared with those that the classifier reads from its bytes: ceilings
//! test the counters, and counters test the ceilings.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use rprof::isa::facts::{AccessKind, Dynamic};
use rprof::isa::operation::{FpOp, Precision, Width};
use rprof::isa::x86_64::classify;
use rprof::machine::host::features::Features;
use rprof::machine::kernels::x86_64::opcodes::{self, IntegerOp, floating};
use rprof::machine::kernels::x86_64::stream::{Stream, Variant, stream};
use rprof::machine::kernels::x86_64::{access, chase, fp, integer, irregular, mix, polynomial};
use rprof::machine::kernels::{Kernel, PerIteration};

const OPS: [FpOp; 5] = [FpOp::Add, FpOp::Mul, FpOp::Fma, FpOp::Div, FpOp::Sqrt];

/// Every instruction set, whether this CPU has it or not: nothing is executed here.
fn everything() -> Features {
    Features {
        sse41: true,
        popcnt: true,
        bmi1: true,
        sha: true,
        aes: true,
        pclmulqdq: true,
        avx: true,
        avx2: true,
        fma: true,
        avx512f: true,
        avx512dq: true,
        avx512vl: true,
        avx512bf16: true,
        avx512fp16: true,
        avx512vnni: true,
        avxvnni: true,
        clflushopt: true,
    }
}

/// The innermost loop: up to the first backward branch, from its target.
fn innermost(kernel: &Kernel) -> Vec<Instruction> {
    let all: Vec<Instruction> =
        Decoder::with_ip(64, kernel.bytes(), 0x1000, DecoderOptions::NONE).into_iter().collect();
    assert!(all.iter().all(|i| !i.is_invalid()), "{}", kernel.name);
    let backward =
        |i: &&Instruction| i.flow_control() == FlowControl::ConditionalBranch && i.near_branch_target() < i.ip();
    let end = all.iter().find(backward).unwrap_or_else(|| panic!("{} has no loop", kernel.name));
    let (from, to) = (end.near_branch_target(), end.ip());
    all.into_iter().filter(|i| (from..=to).contains(&i.ip())).collect()
}

/// Work of one iteration by the classifier. `masked`: active lanes in 1/2.
fn classified(kernel: &Kernel) -> PerIteration {
    let mut sum = PerIteration { payload: kernel.work.payload, int_ops: kernel.work.int_ops, ..Default::default() };
    for instruction in innermost(kernel) {
        let facts = classify(&instruction);
        sum.instructions += 1;
        for fact in &facts.flops {
            let half = matches!(facts.dynamic, Some(Dynamic::Mask { .. }));
            sum.flops += u64::from(fact.flops) / if half { 2 } else { 1 };
        }
        for a in &facts.accesses {
            match a.kind {
                AccessKind::Load => {
                    (sum.loads, sum.bytes_loaded) = (sum.loads + 1, sum.bytes_loaded + u64::from(a.bytes))
                }
                AccessKind::Store | AccessKind::NtStore => {
                    (sum.stores, sum.bytes_stored) = (sum.stores + 1, sum.bytes_stored + u64::from(a.bytes));
                }
                AccessKind::Gather => {
                    let lanes = u64::from(a.bytes / 8);
                    (sum.loads, sum.bytes_loaded) = (sum.loads + lanes, sum.bytes_loaded + u64::from(a.bytes));
                }
                AccessKind::Scatter | AccessKind::Prefetch => {}
            }
        }
    }
    sum
}

fn agrees(kernel: &Kernel) {
    assert_eq!(classified(kernel), kernel.work, "{}", kernel.name);
}

/// Feature sets with their widths: SSE2 alone, AVX without FMA, AVX2 with FMA, AVX-512.
fn sets() -> [Features; 4] {
    let avx = Features { avx: true, ..Default::default() };
    [Features::default(), avx, Features { avx2: true, fma: true, ..avx }, everything()]
}

#[test]
fn arithmetic() {
    let mut seen = 0;
    for features in sets() {
        for (precision, width) in
            [Precision::Dp, Precision::Sp].iter().flat_map(|p| features.widths().into_iter().map(|w| (*p, w)))
        {
            let known: Vec<_> = OPS.iter().filter_map(|op| floating(*op, precision, width, features)).collect();
            for a in &known {
                agrees(&fp::throughput("one", &[*a], precision, width, features).expect("encodes"));
                agrees(&fp::chains("chain", &[*a], 1, precision, width, features).expect("encodes"));
                for b in &known {
                    agrees(&fp::throughput("pair", &[*a, *b], precision, width, features).expect("encodes"));
                    agrees(&fp::chains("alternating", &[*a, *b], 2, precision, width, features).expect("encodes"));
                    seen += 1;
                }
                if width == Width::Scalar && precision == Precision::Dp {
                    agrees(&fp::restarted("restarted", *a, 24, features).expect("encodes"));
                }
                if width == Width::W512 {
                    agrees(&fp::masked("masked", *a, precision, width, features).expect("encodes"));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} pairs");
}

#[test]
fn streams() {
    for features in sets() {
        for width in features.widths() {
            for kind in Stream::ALL {
                for non_temporal in [false, true] {
                    if non_temporal && width == Width::Scalar {
                        continue;
                    }
                    for prefetch in [None, Some(512)] {
                        let variant = Variant { non_temporal, prefetch, ..Variant::plain(width) };
                        let kernel = stream(kind, variant, features).expect("encodes");
                        let mut found = classified(&kernel);
                        // Prefetches are overhead here: they are in `instructions` of both.
                        found.instructions = kernel.work.instructions;
                        assert_eq!(found, kernel.work, "{}", kernel.name);
                        assert_eq!(innermost(&kernel).len() as u64, kernel.work.instructions, "{}", kernel.name);
                    }
                }
            }
        }
    }
}

#[test]
fn everything_else() {
    for features in sets() {
        if let Some(kernel) = irregular::flush(features).expect("encodes") {
            agrees(&kernel);
        }
        for chains in [1, 2, 4, 8, 12, 13, 16] {
            agrees(&chase::chase(chains, features).expect("encodes"));
        }
        agrees(&chase::forward(features).expect("encodes"));
        agrees(&chase::through_memory(None, features).expect("encodes"));
        agrees(
            &chase::through_memory(floating(FpOp::Add, Precision::Dp, Width::Scalar, features), features)
                .expect("encodes"),
        );
        let mut data = vec![access::Data::General];
        data.extend(features.widths().into_iter().map(access::Data::Vector));
        for data in data {
            for (loads, stores) in [(1, 0), (0, 1), (2, 1)] {
                agrees(&access::access(data, loads, stores, 64, features).expect("encodes"));
            }
        }
        let add = floating(FpOp::Add, Precision::Dp, Width::W128, features).expect("an addition");
        for filler in mix::Filler::ALL {
            for k in [2, 4, 8, 16] {
                agrees(&mix::mix(&[(add, Width::W128)], filler, k, 4096, features).expect("encodes"));
            }
        }
        for slots in [mix::Slots::Nop, mix::Slots::Mov, mix::Slots::Mixed] {
            agrees(&mix::issue(slots, features).expect("encodes"));
        }
        for flops in [1, 2, 16, 256] {
            for width in features.widths() {
                agrees(&polynomial::polynomial(flops, width, features).expect("encodes").expect("exists"));
            }
        }
        agrees(&irregular::stride(4096, features).expect("encodes"));
        agrees(&irregular::random(20, features).expect("encodes"));
        agrees(&irregular::random_held(20, features).expect("encodes"));
        if let Some(kernel) = irregular::gather(20, features).expect("encodes") {
            agrees(&kernel);
        }
        for width in features.widths() {
            if let Some(dot) = opcodes::bf16_dot(width, features) {
                agrees(&fp::throughput("bf16", &[dot], Precision::Bf16, width, features).expect("encodes"));
            }
        }
        agrees(&integer::additions(features).expect("encodes"));
        agrees(&integer::multiplications(features).expect("encodes"));
        agrees(&fp::shuffle_chain(features).expect("encodes"));
    }
}

#[test]
fn integer_operations_are_what_the_classifier_counts() {
    let features = everything();
    let counted = |kernel: &Kernel| -> u64 {
        let loop_overhead = 1; // `dec`
        innermost(kernel).iter().map(|i| u64::from(classify(i).int_ops)).sum::<u64>() - loop_overhead
    };
    use integer::Scalar;
    let mixed = [Scalar::Rotate, Scalar::Logic, Scalar::Add, Scalar::AddImmediate, Scalar::LogicImmediate];
    for ops in [&[Scalar::Add][..], &[Scalar::Mul], &mixed] {
        let kernel = integer::throughput(ops, features).expect("encodes");
        assert_eq!(counted(&kernel), kernel.work.int_ops, "{}", kernel.name);
    }
    for (op, width) in [IntegerOp::Add, IntegerOp::Mul, IntegerOp::Logic]
        .iter()
        .flat_map(|o| features.widths().into_iter().map(|w| (*o, w)))
    {
        let Some(opcode) = opcodes::integer(op, width, features) else { continue };
        let kernel = fp::throughput("integer", &[opcode], Precision::Sp, width, features).expect("encodes");
        assert_eq!(counted(&kernel), kernel.work.int_ops, "{op:?} {width:?}");
    }
    // AVX-VNNI has the same product without AVX-512.
    let vex = Features { avx: true, avx2: true, avxvnni: true, ..Features::default() };
    for (width, features) in
        [Width::W128, Width::W256, Width::W512].iter().flat_map(|w| [features, vex].map(|f| (*w, f)))
    {
        let Some(dot) = opcodes::int8_dot(width, features) else {
            assert!(width == Width::W512 && !features.avx512f, "{width:?}");
            continue;
        };
        let kernel = fp::throughput("dot", &[dot], Precision::Sp, width, features).expect("encodes");
        assert_eq!(counted(&kernel), kernel.work.int_ops, "{width:?}");
    }
}

#[test]
fn a_wrong_constant_is_found() {
    let features = everything();
    let add = floating(FpOp::Add, Precision::Dp, Width::W512, features).expect("present");
    let lying = opcodes::Opcode { flops: 9, ..add };
    let kernel = fp::throughput("mutant", &[lying], Precision::Dp, Width::W512, features).expect("encodes");
    assert_ne!(classified(&kernel), kernel.work);
}
