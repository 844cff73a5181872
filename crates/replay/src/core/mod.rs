//! The core: timestamps of every instruction in program order.
//!
//! ```text
//!  fetch ─▶ dispatch (width, reorder buffer, queues, schedulers, registers) ─▶ issue (ports) ─▶ result ─▶ retire
//!                                                                    │
//!                                                     loads, stores: memory, stores
//! ```
//!
//! Each event is a node that remembers the last event that it waited for. The walk back from the last retirement gives every cycle one
//! cause (Fields, Bodík, Hill, Focusing processor policies via critical-path prediction, 2001). The cycle belongs to the instruction that
//! retires next (`retirement`).

mod accesses;
mod bandwidth;
mod branches;
mod change;
mod front_end;
mod graph;
mod lanes;
mod lines;
mod memory;
mod ports;
mod retirement;
mod stores;
mod window;
mod wrong_path;

#[cfg(test)]
mod tests;

use rprof_profile::account::{Cause, Changes};
use rprof_profile::evidence::bursts::{Burst, BurstAccess, Prediction};

use super::code::Code;
use super::form::{Form, Kind};
use super::levels::Levels;
use super::op::{NO_FORM, NONE, Op, REGISTERS, kind};
use super::parameters::{CoreParameters, FormCost, PER_CYCLE};

use branches::Choice;
use change::Change;
use front_end::FrontEnd;
use graph::{Cause4, Graph, Node, Stretch, index};
use memory::Memory;
use ports::Ports;
use retirement::Retirement;
use stores::Stores;
use window::{Queue, Scheduler};

/// Cycles from dispatch to the earliest issue.
const TO_ISSUE: u32 = 1;
/// Cycles that a string instruction takes beside its bytes; assumed.
const STRING_START: u32 = 15;
/// Cycle of a burst's first instruction: nodes before it would otherwise have negative times.
const START: u32 = 16;

/// Cycles by cause, in the order of [`Cause::ALL`].
pub type Cycles = [f32; Cause::ALL.len()];

/// Cycles of one replayed burst by instruction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Instructions behind the lead-in, by number: executions, mispredictions, cycles.
    pub instructions: Vec<(u32, u32, u32, Cycles)>,
}

impl Outcome {
    /// Cycles in all.
    pub fn cycles(&self) -> f64 {
        self.instructions.iter().flat_map(|(_, _, _, cycles)| cycles).map(|&c| f64::from(c)).sum()
    }

    /// Executions of instructions in all.
    pub fn executed(&self) -> u64 {
        self.instructions.iter().map(|(_, executed, _, _)| u64::from(*executed)).sum()
    }
}

/// A register's value.
#[derive(Debug, Clone, Copy, Default)]
struct Register {
    /// Time at which it can be used, and the node that makes it.
    time: u32,
    node: u32,
    /// Bypass index of the operation that made it.
    bypass: u8,
    /// Counts its writes.
    version: u32,
    /// Backward branches before it was written.
    iteration: u32,
}

/// The last of several inputs.
#[derive(Debug, Clone, Copy)]
struct Ready {
    time: u32,
    node: u32,
}

impl Ready {
    #[inline]
    fn and(&mut self, time: u32, node: u32) {
        if time > self.time {
            *self = Ready { time, node };
        }
    }
}

/// A core that replays bursts, one at a time. It keeps its buffers between them.
pub struct Core<'a> {
    core: &'a CoreParameters,
    code: &'a Code,
    change: Change,
    memory: Memory<'a>,
    ports: Ports,
    front_end: FrontEnd,
    stores: Stores,
    graph: Graph,
    registers: [Register; REGISTERS],
    reorder: Queue,
    load_queue: Queue,
    store_queue: Queue,
    integer_registers: Queue,
    vector_registers: Queue,
    integer_window: Scheduler,
    vector_window: Scheduler,
    /// The last dispatch: cycle, slots of it that are taken, node.
    dispatched: (u32, u32, u32),
    retired: (u32, u32, u32),
    committed: (u32, u32, u32),
    /// The node of a mispredicted branch with successors not dispatched yet, and the earliest time of their dispatch.
    refilling: Option<(u32, u32)>,
    /// The code that is executed next, if its branch became a choice.
    choice: Option<Choice>,
    /// The result of the last instruction.
    result: Ready,
    /// Backward branches so far.
    iteration: u32,
    /// Whether the present block belongs to a loop with its operations moved to the widest vectors.
    widened: bool,
    /// Changes with each operation, to spread the parts of a cycle.
    dither: u16,
    generation: u32,
    counts: Vec<(u32, u32)>,
    cycles: Vec<Cycles>,
    touched: Vec<u32>,
    /// Retirements behind the lead-in, and the way back from the last of them.
    retirements: Vec<Retirement>,
    path: Vec<Stretch>,
    counting: bool,
}

impl<'a> Core<'a> {
    /// A core that replays blocks of `code` with `changes`.
    pub fn new(core: &'a CoreParameters, code: &'a Code, levels: &'a Levels, changes: Option<Changes>) -> Core<'a> {
        let change = Change::of(changes);
        let sites = code.program.sites.len();
        Core {
            core,
            code,
            change,
            memory: Memory::new(core, levels, sites, change),
            ports: Ports::new(),
            front_end: FrontEnd::new(core),
            stores: Stores::new(),
            graph: Graph::default(),
            registers: [Register::default(); REGISTERS],
            reorder: Queue::new(core.reorder),
            load_queue: Queue::new(core.loads),
            store_queue: Queue::new(core.stores),
            integer_registers: Queue::new(core.integer_registers),
            vector_registers: Queue::new(core.vector_registers),
            integer_window: Scheduler::new(core.integer_window),
            vector_window: Scheduler::new(core.vector_window),
            dispatched: (0, 0, 0),
            retired: (0, 0, 0),
            committed: (0, 0, 0),
            refilling: None,
            choice: None,
            widened: false,
            result: Ready { time: 0, node: 0 },
            iteration: 0,
            dither: 0,
            generation: 0,
            counts: vec![(0, 0); sites],
            cycles: vec![[0.0; Cause::ALL.len()]; sites],
            touched: Vec::new(),
            retirements: Vec::new(),
            path: Vec::new(),
            counting: false,
        }
    }

    fn begin(&mut self, seed: u64) {
        let core = self.core;
        self.generation += 1;
        self.memory.begin(seed);
        self.ports = Ports::new();
        self.front_end.begin(START);
        self.stores.clear();
        self.graph.nodes.clear();
        self.graph.nodes.push(Node { time: START, ..Node::default() });
        self.registers = [Register::default(); REGISTERS];
        self.reorder = Queue::new(core.reorder);
        self.load_queue = Queue::new(core.loads);
        self.store_queue = Queue::new(core.stores);
        self.integer_registers = Queue::new(core.integer_registers);
        self.vector_registers = Queue::new(core.vector_registers);
        self.integer_window = Scheduler::new(core.integer_window);
        self.vector_window = Scheduler::new(core.vector_window);
        (self.dispatched, self.retired, self.committed) = ((START, 0, 0), (START, 0, 0), (START, 0, 0));
        (self.refilling, self.choice, self.iteration, self.dither) = (None, None, 0, 0);
    }

    /// Replays `burst`. Equal seeds draw equal levels.
    pub fn replay(&mut self, burst: &Burst, seed: u64) -> Outcome {
        self.begin(seed);
        let program = &self.code.program;
        let mut executed = 0u32;
        let mut counted_from = START;
        self.counting = burst.lead_in == 0;
        let lanes = if self.change.all_lanes { self.lanes(burst) } else { Vec::new() };
        let mut passes = vec![0u32; if self.change.all_lanes { program.blocks.len() } else { 0 }];
        for (n, step) in burst.steps.iter().enumerate() {
            let next = burst.steps.get(n + 1);
            let end = next.map_or(burst.accesses.len(), |next| next.first_access as usize);
            let accesses = &burst.accesses[step.first_access as usize..end];
            let (block, ops) = program.block(step.block);
            if !self.counting && executed >= burst.lead_in {
                self.counting = true;
                counted_from = self.retired.0;
            }
            if self.counting {
                self.count(ops, step.branch);
            }
            executed += ops.len() as u32;
            self.widened = lanes.get(step.block as usize).is_some_and(|lanes| *lanes > 1);
            if let Some(&lanes) = lanes.get(step.block as usize)
                && self.widened
            {
                passes[step.block as usize] += 1;
                if passes[step.block as usize] % lanes != 0 {
                    self.touch(ops, accesses, step.first_access);
                    continue;
                }
            }
            self.front_end.block(self.core, block);
            let mut at = 0;
            for (n, op) in ops.iter().enumerate() {
                while at < accesses.len() && accesses[at].access.offset < op.offset {
                    at += 1;
                }
                let first = at;
                while at < accesses.len() && accesses[at].access.offset == op.offset {
                    at += 1;
                }
                self.instruction(op, &accesses[first..at], step.first_access + first as u32);
                self.behind(ops, n);
            }
            let taken = next.is_some_and(|next| program.blocks[next.block as usize].start != block.end);
            if let Some(last) = ops.last() {
                self.ending(last, taken, step.branch, burst, n);
            }
        }
        self.outcome(counted_from)
    }

    fn count(&mut self, ops: &[Op], branch: Prediction) {
        for op in ops {
            let count = &mut self.counts[op.site as usize];
            if count.0 == 0 {
                self.touched.push(op.site);
            }
            count.0 += 1;
        }
        if let (true, Some(last)) = (branch != Prediction::Right, ops.last()) {
            self.counts[last.site as usize].1 += 1;
        }
    }

    fn outcome(&mut self, start: u32) -> Outcome {
        graph::walk(&self.graph, self.retired.2, start, &mut self.path);
        retirement::share_out(&self.retirements, &self.path, start, &mut self.cycles);
        self.retirements.clear();
        let mut instructions = Vec::with_capacity(self.touched.len());
        for site in self.touched.drain(..) {
            let (executed, mispredicted) = std::mem::take(&mut self.counts[site as usize]);
            let cycles = std::mem::take(&mut self.cycles[site as usize]);
            instructions.push((site, executed, mispredicted, cycles));
        }
        Outcome { instructions }
    }

    #[inline]
    fn push(&mut self, node: Node) -> u32 {
        self.graph.nodes.push(node);
        self.graph.nodes.len() as u32 - 1
    }

    /// One instruction; its accesses are numbered from `number` on.
    fn instruction(&mut self, op: &Op, accesses: &[BurstAccess], number: u32) {
        let dispatch = self.dispatch(op, accesses);
        let dispatched = self.graph.nodes[dispatch as usize].time;
        let now = Ready { time: dispatched + TO_ISSUE, node: dispatch };
        if op.is(kind::STRING) {
            return self.string(op, accesses, number, now);
        }
        let mut loaded: Option<Ready> = None;
        if op.is(kind::LOAD) {
            loaded = self.load(op, accesses, number, now);
        }
        let (result, issue, bypass) = self.compute(op, loaded, now);
        let mut done = now;
        done.and(result.time, result.node);
        if let Some(loaded) = loaded {
            done.and(loaded.time, loaded.node);
        }
        let mut stored = None;
        if op.is(kind::STORE) {
            stored = self.store(op, accesses, result, now);
            if let Some((complete, _)) = stored {
                done.and(complete.time, complete.node);
            }
        }
        if op.is(kind::VECTOR_WINDOW) && !self.core.one_window {
            self.vector_window.take(dispatched, issue.time, issue.node);
        } else if op.form != NO_FORM {
            self.integer_window.take(dispatched, issue.time, issue.node);
        }
        self.result = result;
        self.write(op, result, bypass);
        self.retire(op, done, result, accesses, stored, number);
    }

    fn dispatch(&mut self, op: &Op, accesses: &[BurstAccess]) -> u32 {
        let core = self.core;
        let slots = self.slots(op);
        let fetched = if self.change.perfect_front_end { 0 } else { self.front_end.fetch(core, op, self.dispatched.0) };
        let (cycle, used, before) = self.dispatched;
        let full = used >= core.width && slots > 0;
        let (mut time, mut from, mut cause) = (cycle + u32::from(full), before, Cause::Base);
        if let Some((branch, restarts)) = self.refilling.take()
            && restarts > time
        {
            (time, from, cause) = (restarts, branch, Cause::Mispredict);
        }
        if fetched > time {
            (time, from, cause) = (fetched, before, Cause::FrontEnd);
        }
        let mut limit = |(at, node): (u32, u32), why: Cause| {
            if at > time {
                (time, from, cause) = (at, node, why);
            }
        };
        if slots > 0 {
            limit(self.reorder.room_for(slots as usize), Cause::Base);
        }
        if op.is(kind::LOAD) && !accesses.is_empty() {
            limit(self.load_queue.room(), Cause::Base);
        }
        if op.is(kind::STORE) && !accesses.is_empty() {
            limit(self.store_queue.room(), Cause::L1);
        }
        if op.is(kind::GENERAL) {
            limit(self.integer_registers.room(), Cause::Base);
        }
        if op.is(kind::VECTOR) {
            limit(self.vector_registers.room(), Cause::Base);
        }
        if op.form != NO_FORM {
            let vector = op.is(kind::VECTOR_WINDOW) && !core.one_window;
            let window = if vector { &mut self.vector_window } else { &mut self.integer_window };
            if let Some(room) = window.room(time) {
                (time, from, cause) = (room.0, room.1, Cause::Ports);
            }
        }
        let mut used = if time > cycle { slots } else { used + slots };
        if used > core.width {
            (time, used) = (time + 1, used - core.width);
        }
        if time > cycle {
            self.ports.advance(time);
        }
        let node = self.push(Node::plain(time, from, cause));
        self.dispatched = (time, used, node);
        node
    }

    /// Whether a value that was written in `iteration` is there at once.
    #[inline]
    fn is_cut(&self, iteration: u32) -> bool {
        self.change.independent_iterations && iteration != self.iteration
    }

    #[inline]
    fn inputs<const N: usize>(&self, registers: &[u8; N], mut ready: Ready, consumer: u8) -> Ready {
        for &register in registers {
            if register == NONE {
                break;
            }
            let held = &self.registers[register as usize];
            if self.is_cut(held.iteration) {
                continue;
            }
            let extra = self.core.bypass[held.bypass as usize][consumer as usize] / PER_CYCLE as i16;
            ready.and(held.time + extra as u32, held.node);
        }
        ready
    }

    /// Returns the result, the issue (its time and the node that it waited for), and the bypass index of the result.
    fn compute(&mut self, op: &Op, loaded: Option<Ready>, now: Ready) -> (Ready, Ready, u8) {
        if op.is(kind::CLEARS) {
            return (now, now, 0);
        }
        let form = self.form(op);
        let mut ready = if op.is(kind::MOVES) { Ready { time: 0, node: now.node } } else { now };
        ready = self.inputs(&op.data, ready, form.map_or(0, |form| form.bypass));
        if op.address[0] != NONE && !op.is(kind::LOAD | kind::STORE) {
            ready = self.inputs(&op.address, ready, 0);
        }
        if let Some(loaded) = loaded {
            ready.and(loaded.time, loaded.node);
        }
        let Some(form) = form else { return (ready, ready, 0) };
        let (mut ports, mut latency, mut occupies) = (form.ports, form.latency, form.occupies);
        if self.change.no_divider && occupies > 0 && ports.count_ones() == 1 {
            let multiply = match Form(op.form).kind() {
                Kind::Div64 | Kind::Div32 => Kind::Imul,
                _ => Kind::FMul,
            };
            let multiply = self.core.forms[multiply as usize * 4 + op.form as usize % 4];
            (ports, latency, occupies) = (multiply.ports, multiply.latency, 0);
        }
        let issue = if occupies > 0 {
            let cycles = u32::from(occupies).div_ceil(u32::from(PER_CYCLE));
            self.ports.occupy(ports, cycles, ready.time)
        } else {
            let mut issue = self.ports.issue_bound(ports, now.time, ready.time);
            for _ in 1..op.uops {
                issue = issue.max(self.ports.issue_bound(ports, now.time, ready.time));
            }
            issue
        };
        self.dither = self.dither.wrapping_add(7) % PER_CYCLE;
        let takes = u32::from((latency + self.dither) / PER_CYCLE);
        let time = issue + takes;
        let waited = (issue - ready.time).min(u32::from(u16::MAX)) as u16;
        let cause = Cause4 { rest: index(Cause::Chain), port: index(Cause::Ports), ..Cause4::default() };
        let node = Node { time, from: ready.node, port: waited, cause, ..Node::default() };
        let node = self.push(node);
        (Ready { time, node }, Ready { time: issue, node: ready.node }, form.bypass)
    }

    /// Slots that it takes.
    fn slots(&self, op: &Op) -> u32 {
        if self.change.fused && op.is(kind::FUSED_PRODUCT) { 0 } else { u32::from(op.slots) }
    }

    /// Cost of the computation; `None` if it costs nothing.
    fn form(&self, op: &Op) -> Option<&'a FormCost> {
        let fused = |bits| self.change.fused && op.is(bits);
        if op.form == NO_FORM || fused(kind::FUSED_PRODUCT) {
            return None;
        }
        let place = match Form(op.form).0 % 4 {
            _ if self.widened && op.is(kind::ARITHMETIC) => op.form as usize / 4 * 4 + lanes::widest(self.core),
            lanes if fused(kind::FUSED_SUM) => Kind::FFma as usize * 4 + lanes as usize,
            _ => op.form as usize,
        };
        Some(&self.core.forms[place])
    }

    fn write(&mut self, op: &Op, result: Ready, bypass: u8) {
        let moved = (op.is(kind::MOVES) && op.data[0] != NONE).then(|| self.registers[op.data[0] as usize]);
        for &register in op.writes.iter().take_while(|&&register| register != NONE) {
            let held = &mut self.registers[register as usize];
            let version = held.version.wrapping_add(1);
            *held = match moved {
                Some(moved) => Register { version, iteration: self.iteration, ..moved },
                None => {
                    let Ready { time, node } = result;
                    Register { time, node, bypass, version, iteration: self.iteration }
                }
            };
        }
    }

    fn retire(
        &mut self,
        op: &Op,
        done: Ready,
        data: Ready,
        accesses: &[BurstAccess],
        stored: Option<(Ready, u32)>,
        number: u32,
    ) {
        let core = self.core;
        let slots = self.slots(op);
        let (cycle, used, before) = self.retired;
        let full = used >= core.retire_width && slots > 0;
        let (mut time, mut from) = (cycle + u32::from(full), before);
        if done.time > time {
            (time, from) = (done.time, done.node);
        }
        let used = if time > cycle { slots } else { used + slots };
        let node = self.push(Node::plain(time, from, Cause::Base));
        self.retired = (time, used, node);
        if self.counting {
            self.retirements.push(Retirement { time, site: op.site });
        }
        for _ in 0..slots {
            self.reorder.take(time, node);
        }
        if op.is(kind::LOAD) && !accesses.is_empty() {
            self.load_queue.take(time, node);
        }
        if op.is(kind::GENERAL) {
            self.integer_registers.take(time, node);
        }
        if op.is(kind::VECTOR) {
            self.vector_registers.take(time, node);
        }
        if let Some((complete, issue)) = stored {
            self.commit(op, accesses, number, data, complete, issue);
        }
    }
}
