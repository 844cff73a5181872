//! Walks every floating-point opcode that `iced-x86` knows and compares the classifier with hand-written tables
//! (`tests/library/isa_opcodes/*.table`). A code that no row covers fails, and so does a row that covers none.
//!
//! The tables name opcodes by text and state figures for each width; the classifier has neither.

use std::collections::BTreeMap;

use iced_x86::{Code, EncodingKind};
use rprof::isa::facts::{Dynamic, InstructionFacts};
use rprof::isa::x86_64::classify;

mod build;
mod table;

use build::Form;
use table::{Expected, Table};

/// The extensions with floating-point or vector instructions, by the start of their names.
const EXTENSIONS: &[&str] = &[
    "FPU",
    "D3NOW",
    "CYRIX_D3NOW",
    "CYRIX_FPU",
    "SSE",
    "AVX",
    "FMA",
    "XOP",
    "F16C",
    "AMX",
    "KNC",
    "MMX",
    "SSSE3",
    "AES",
    "PCLMUL",
    "GFNI",
];

fn floating_point_codes() -> Vec<Code> {
    let of_extension = |code: &Code| {
        code.cpuid_features()
            .iter()
            .any(|feature| EXTENSIONS.iter().any(|name| format!("{feature:?}").starts_with(name)))
    };
    let with_float_data = |code: &Code| format!("{:?}", code.op_code().memory_size()).contains("Float");
    Code::values()
        .filter(|code| code.op_code().is_instruction() && (of_extension(code) || with_float_data(code)))
        .collect()
}

/// The width that the opcode's name states.
fn width_in_name(code: Code) -> &'static str {
    let name = format!("{code:?}");
    let operands = name.split('_').skip(1).collect::<Vec<_>>();
    let any = |start: &str| operands.iter().any(|operand| operand.starts_with(start));
    let widths = [("tmm", "tile"), ("zmm", "512"), ("ymm", "256"), ("xmm", "128"), ("mm", "64")];
    widths.into_iter().find(|(start, _)| any(start)).map_or("scalar", |(_, width)| width)
}

fn tables() -> Table {
    Table::read(&[include_str!("isa_opcodes/flops.table"), include_str!("isa_opcodes/none.table")])
}

#[test]
fn every_floating_point_opcode_does_what_the_tables_say() {
    let table = tables();
    let codes = floating_point_codes();
    assert!(codes.len() > 3000, "only {} codes look like floating point", codes.len());
    let mut failures = Vec::new();
    let mut covered = BTreeMap::new();
    for &code in &codes {
        let name = format!("{:?}", code.mnemonic()).to_lowercase();
        let Some(row) = table.row(&name) else {
            failures.push(format!("{code:?}: no row names {name}"));
            continue;
        };
        *covered.entry(name).or_insert(0) += 1;
        if code.op_code().encoding() == EncodingKind::MVEX {
            // Knights Corner: the tables name it, but iced-x86 decodes it only with a feature that rprof does not use.
            continue;
        }
        let expected = match row.expected(width_in_name(code)) {
            Ok(expected) => expected,
            Err(message) => {
                failures.push(format!("{code:?}: {message}"));
                continue;
            }
        };
        let forms = build::forms(code);
        if forms.is_empty() {
            failures.push(format!("{code:?}: no operands could be made for it"));
        }
        for form in forms {
            if let Err(message) = compare(&form, &expected) {
                failures.push(format!("{code:?} ({}): {message}", form.instruction));
            }
        }
    }
    failures.extend(
        table.names().filter(|name| !covered.contains_key(*name)).map(|name| format!("no code is called {name}")),
    );
    println!("{} codes, {} names", codes.len(), covered.len());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn compare(form: &Form, expected: &Expected) -> Result<(), String> {
    let facts = classify(&form.instruction);
    let wrong = |what: &str, found: String, wanted: String| Err(format!("{what}: found {found}, expected {wanted}"));
    let total: u32 = facts.flops.iter().map(|flop| flop.flops).sum();
    if total != expected.flops {
        return wrong("FLOPs", total.to_string(), expected.flops.to_string());
    }
    if (facts.fp_instruction, facts.simd_instruction) != (expected.fp, expected.packed) {
        return wrong(
            "(fp, simd)",
            format!("{:?}", (facts.fp_instruction, facts.simd_instruction)),
            format!("{:?}", (expected.fp, expected.packed)),
        );
    }
    let Some(flop) = facts.flops.first() else { return Ok(()) };
    let kind = format!("{} {}", flop.op.name(), flop.precision.name());
    if kind != expected.kind {
        return wrong("kind", kind, expected.kind.clone());
    }
    if flop.width.name() != expected.width {
        return wrong("width", flop.width.name().into(), expected.width.into());
    }
    if let Some(each) = expected.each {
        let lanes = expected.flops / each;
        if flop.lanes != lanes {
            return wrong("lanes", flop.lanes.to_string(), lanes.to_string());
        }
        check_mask(form, &facts, lanes)?;
    }
    Ok(())
}

/// A masked form depends on its mask register over exactly its lanes; an unmasked one on nothing.
fn check_mask(form: &Form, facts: &InstructionFacts, lanes: u32) -> Result<(), String> {
    let expected = form.mask.map(|k| Dynamic::Mask { k, lanes: lanes as u8 });
    if facts.dynamic == expected {
        Ok(())
    } else {
        Err(format!("dynamic: found {:?}, expected {expected:?}", facts.dynamic))
    }
}

#[test]
fn a_wrong_figure_is_noticed() {
    let row =
        |name: &str, width| tables().row(name).expect("the name is in the tables").expected(width).expect("a figure");
    let forms = build::forms(Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er);
    assert_eq!(forms.len(), 4, "register and memory, each with and without a mask");
    for form in &forms {
        assert_eq!(compare(form, &row("vaddpd", "512")), Ok(()));
        for (name, width) in
            [("vaddpd", "256"), ("vaddps", "512"), ("vmulpd", "512"), ("vfmadd231pd", "512"), ("vmovapd", "512")]
        {
            assert!(compare(form, &row(name, width)).is_err(), "vaddpd zmm passes for {name} at {width}");
        }
        // Half the lanes at twice the work: the same FLOPs, but a mask would be weighed wrongly.
        let uneven = Expected { each: Some(2), ..row("vaddpd", "512") };
        assert!(compare(form, &uneven).is_err());
    }
}
