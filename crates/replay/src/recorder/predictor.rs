//! Whether a core would have predicted each branch.

use iced_x86::{FlowControl, Instruction};

use rprof_profile::evidence::bursts::Prediction;

use super::direction::Directions;
use super::history::History;
use super::targets::Targets;

/// How a block ends, as far as prediction goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Ending {
    /// No branch, or one with a single target.
    #[default]
    Direct,
    /// A conditional jump.
    Conditional,
    /// A call with a single target.
    Call,
    /// A jump to a computed target.
    IndirectJump,
    /// A call of a computed target.
    IndirectCall,
    /// A return.
    Return,
}

impl Ending {
    /// The end of a block with the last instruction `last`.
    pub(super) fn of(last: &Instruction) -> Ending {
        match last.flow_control() {
            FlowControl::ConditionalBranch => Ending::Conditional,
            FlowControl::Call if last.is_call_near() || last.is_call_far() => Ending::Call,
            FlowControl::IndirectBranch => Ending::IndirectJump,
            FlowControl::IndirectCall => Ending::IndirectCall,
            FlowControl::Return => Ending::Return,
            _ => Ending::Direct,
        }
    }
}

/// A branch predictor with the state that one thread left in it.
#[derive(Debug, Clone)]
pub(super) struct Predictor {
    history: History,
    directions: Directions,
    targets: Targets,
}

impl Predictor {
    /// `outcomes`: number of outcomes that [`Directions`] learn.
    pub(super) fn new(outcomes: f64) -> Predictor {
        Predictor { history: History::new(), directions: Directions::new(outcomes), targets: Targets::new() }
    }

    /// The branch at `address`, the last one of a block that ends at `end`, led to `next`.
    pub(super) fn meet(&mut self, ending: Ending, address: u64, end: u64, next: u64) -> Prediction {
        match ending {
            Ending::Direct => Prediction::Right,
            Ending::Conditional => {
                let taken = next != end;
                let right = self.directions.meet(address, taken, &self.history);
                self.history.push_direction(taken);
                if right { Prediction::Right } else { Prediction::WrongDirection }
            }
            Ending::Call => {
                self.targets.call(end);
                Prediction::Right
            }
            Ending::IndirectJump | Ending::IndirectCall => {
                let right = self.targets.meet(address, next, &self.history);
                self.history.push_target(next);
                if ending == Ending::IndirectCall {
                    self.targets.call(end);
                }
                target(right)
            }
            Ending::Return => target(self.targets.ret(next)),
        }
    }
}

fn target(right: bool) -> Prediction {
    if right { Prediction::Right } else { Prediction::WrongTarget }
}
