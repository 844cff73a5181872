//! Generated programs: they leave the same registers, flags, vector state and memory natively and translated, and the
//! translator's counts equal the single-step engine's. A failure prints the seeds, and proptest the smallest case.

mod guest;
mod isa;
mod operands;
mod random;
mod run;
mod snippet;

use iced_x86::{Code, Instruction};
use proptest::prelude::*;

use random::Random;
use run::{Against, Difference, Ended, compare};
use snippet::{Assembly, Choice};

fn full() -> bool {
    std::env::var_os("RPROF_FULL").is_some()
}

fn choice() -> Choice {
    Choice { plain: isa::plain(), gathers: isa::gathers(), fsgsbase: isa::flags().contains("fsgsbase") }
}

/// Rounds take most of the time: of many programs one in eight is executed so.
fn against(seed: u64) -> Against {
    if full() && !seed.is_multiple_of(8) { Against::Steps } else { Against::StepsAndRounds }
}

/// Snippets of pieces, each made from a number.
fn snippets(choice: &Choice, seeds: &[Vec<u64>]) -> Vec<Vec<Instruction>> {
    let one = |(n, pieces): (usize, &Vec<u64>)| {
        let mut code = Assembly::default();
        pieces.iter().for_each(|&seed| choice.piece(&mut code, seed, guest::memory(n)));
        code.instructions
    };
    seeds.iter().enumerate().map(one).collect()
}

#[test]
fn random_sequences() {
    let choice = choice();
    let cases = if full() { 1500 } else { 40 };
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let seeds = prop::collection::vec(prop::collection::vec(any::<u64>(), 1..24), 1..24);
    let faults = std::cell::Cell::new((0u32, 0u32));
    let result = runner.run(&(any::<u64>(), seeds), |(seed, seeds)| {
        let snippets = snippets(&choice, &seeds);
        let ended = compare(&snippets, seed, against(seed)).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let (runs, signals) = faults.get();
        if ended != Ended::Normally {
            println!("random_sequences: {ended:?} natively and translated: {}", run::faulting(&snippets, seed));
        }
        faults.set((runs + 1, signals + u32::from(ended != Ended::Normally)));
        Ok(())
    });
    let (runs, signals) = faults.get();
    println!("random_sequences: {runs} programs, {signals} of them ended by a signal natively and translated");
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(signals * 5 <= runs, "the generator makes programs that fault: {signals} of {runs}");
}

#[test]
fn every_instruction_of_this_cpu() {
    let codes = isa::plain();
    let variants = if full() { 8 } else { 2 };
    let seed = std::env::var("RPROF_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("every_instruction_of_this_cpu: {} codes, {variants} variants, RPROF_SEED={seed}", codes.len());
    let mut refused = Vec::new();
    let mut never = Vec::new();
    for variant in 0..variants {
        for group in codes.chunks(96) {
            let mut made: Vec<(Code, Vec<Instruction>)> = Vec::new();
            for &code in group {
                let mut random = Random::new(seed ^ (code as u64) << 20 ^ variant << 50);
                let memory = guest::memory(made.len());
                match (0..40).find_map(|_| operands::instruction(code, &mut random, memory)) {
                    Some(instruction) => {
                        let mut assembly = Assembly::default();
                        assembly.defined(instruction);
                        made.push((code, assembly.instructions));
                    }
                    None => never.push(code),
                }
            }
            check(&made, 0..made.len(), seed, &mut refused);
        }
    }
    println!("every_instruction_of_this_cpu: end a program with a signal: {refused:?}; no operands found: {never:?}");
    assert!(refused.len() * 50 <= codes.len(), "{} instructions are not as the table says: {refused:?}", refused.len());
    assert!(never.len() * 50 <= codes.len(), "{} instructions were never made: {never:?}", never.len());
}

/// Compares a part of the group. A part that faults is split, so that the rest of it is still compared. The other snippets
/// stay in the program as empty ones, since operands may name their own snippet's memory.
fn check(made: &[(Code, Vec<Instruction>)], part: std::ops::Range<usize>, seed: u64, refused: &mut Vec<Code>) {
    let snippet = |(n, (_, s)): (usize, &(Code, Vec<Instruction>))| if part.contains(&n) { s.clone() } else { vec![] };
    let snippets: Vec<_> = made.iter().enumerate().map(snippet).collect();
    match compare(&snippets, seed, Against::Native) {
        Ok(Ended::Normally) => {}
        Ok(Ended::BySignal(_)) if part.len() > 1 => {
            let middle = part.start + part.len() / 2;
            check(made, part.start..middle, seed, refused);
            check(made, middle..part.end, seed, refused);
        }
        Ok(Ended::BySignal(_)) => refused.extend(made[part].iter().map(|m| m.0)),
        Err(Difference { text }) => panic!("{text}"),
    }
}
