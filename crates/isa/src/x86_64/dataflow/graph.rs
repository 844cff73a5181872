//! The operations of a body and their inputs, from this iteration and from earlier ones.

use std::collections::BTreeMap;

use iced_x86::{Instruction, InstructionInfoFactory};

use crate::dependency::ChainStep;
use crate::x86_64::classify;

use super::affine::Registers;
use super::factors::factors;
use super::memory::References;
use super::step::step;
use super::uses::{self, Place, Reader};

/// The source of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The operation of that number in the same iteration.
    Operation(usize),
    /// A value that an earlier iteration left: index into [`Graph::carried`].
    Carried(usize),
}

/// An input of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Input {
    pub from: Source,
    /// [`ChainStep::Load`] for the address of a load, [`ChainStep::Forward`] for a value that passed memory.
    pub via: Option<ChainStep>,
    /// A fused multiply-add multiplies it.
    pub is_factor: bool,
}

/// How an instruction uses a value, as [`Input`] has it.
#[derive(Debug, Clone, Copy)]
struct Use {
    via: Option<ChainStep>,
    is_factor: bool,
}

impl Use {
    fn input(self, from: Source) -> Input {
        Input { from, via: self.via, is_factor: self.is_factor }
    }
}

/// One instruction.
#[derive(Debug, Default)]
pub(super) struct Operation {
    pub step: Option<ChainStep>,
    pub inputs: Vec<Input>,
}

/// A value that crosses iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carried {
    /// The operation that makes it.
    pub made_by: usize,
    /// How many iterations later it is used.
    pub distance: u32,
}

/// The dependency graph of a body.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub operations: Vec<Operation>,
    pub carried: Vec<Carried>,
    pub fp_instructions: u32,
    /// Stores with another address in each iteration.
    pub moving_stores: Vec<usize>,
}

/// The value of a place while the analysis follows the body.
#[derive(Debug, Clone, Copy)]
enum Holds {
    Result(usize),
    /// The value that the named place had when the iteration began.
    Initial(Place),
    /// Something a callee left.
    Unknown,
}

impl Graph {
    pub(super) fn new(body: &[Instruction]) -> Graph {
        let mut graph = Graph::default();
        let mut initial: Vec<(usize, Use, Place)> = Vec::new();
        let mut places: BTreeMap<Place, Holds> = BTreeMap::new();
        let mut reader = Reader::new();
        for (at, instruction) in body.iter().enumerate() {
            let facts = classify(instruction);
            graph.fp_instructions += u32::from(!facts.flops.is_empty());
            let uses = reader.read(instruction);
            let mut operation = Operation { step: step(instruction, &facts), inputs: Vec::new() };
            let factors = factors(instruction, &facts);
            let data = uses.data.iter().map(|place| (Use { via: None, is_factor: factors.contains(place) }, place));
            let loads = Use { via: Some(ChainStep::Load), is_factor: false };
            let address = uses.address.iter().map(|place| (loads, place));
            for (how, place) in data.chain(address) {
                match places.get(place).copied().unwrap_or(Holds::Initial(*place)) {
                    Holds::Result(from) => operation.inputs.push(how.input(Source::Operation(from))),
                    Holds::Initial(place) => initial.push((at, how, place)),
                    Holds::Unknown => {}
                }
            }
            graph.operations.push(operation);
            if let Some((a, b)) = reader.exchanged(instruction) {
                let held = |places: &BTreeMap<Place, Holds>, place| {
                    places.get(&place).copied().unwrap_or(Holds::Initial(place))
                };
                let (in_a, in_b) = (held(&places, a), held(&places, b));
                places.extend([(a, in_b), (b, in_a)]);
                continue;
            }
            let result = if uses::is_call(instruction) { Holds::Unknown } else { Holds::Result(at) };
            places.extend(uses.writes.into_iter().map(|place| (place, result)));
        }
        let x87_known = reader.x87_drift() == 0;
        for (at, how, place) in initial {
            let known = x87_known || !matches!(place, Place::X87(_));
            if let (true, Some(carried)) = (known, origin(&places, place)) {
                graph.feed(at, how, carried);
            }
        }
        graph.add_memory(body);
        graph
    }

    fn feed(&mut self, at: usize, how: Use, carried: Carried) {
        let known = self.carried.iter().position(|&other| other == carried);
        let index = known.unwrap_or_else(|| {
            self.carried.push(carried);
            self.carried.len() - 1
        });
        self.operations[at].inputs.push(how.input(Source::Carried(index)));
    }

    /// Adds the edges from stores to the loads that they feed.
    fn add_memory(&mut self, body: &[Instruction]) {
        let mut registers = Registers::at_start();
        let mut references = References::default();
        let mut factory = InstructionInfoFactory::new();
        for (at, instruction) in body.iter().enumerate() {
            references.add(at, instruction, factory.info(instruction), &registers);
            registers.step(instruction);
        }
        let steps = registers.steps();
        self.moving_stores = references.moving_stores(&steps);
        for (load, store, distance) in references.forwarded(&steps) {
            let how = Use { via: Some(ChainStep::Forward), is_factor: false };
            match distance {
                0 => self.operations[load].inputs.push(how.input(Source::Operation(store))),
                distance => self.feed(load, how, Carried { made_by: store, distance }),
            }
        }
    }
}

/// The origin of the value that a place has when an iteration begins. Exchanged places hand values on from iteration to iteration.
fn origin(places: &BTreeMap<Place, Holds>, mut place: Place) -> Option<Carried> {
    for distance in 1..=8 {
        match places.get(&place)? {
            Holds::Result(made_by) => return Some(Carried { made_by: *made_by, distance }),
            Holds::Initial(other) => place = *other,
            Holds::Unknown => return None,
        }
    }
    None
}
