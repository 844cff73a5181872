//! Loads, stores and string instructions: their issue, their waits, and values that pass through memory.

use crate::op::{Op, Renaming};
use rprof_isa::facts::AccessKind;
use rprof_profile::account::Cause;
use rprof_profile::evidence::bursts::BurstAccess;

use super::graph::{Cause4, Node, index};
use super::stores::{Match, Store};
use super::{Core, Ready, STRING_START, lanes, memory};

impl Core<'_> {
    pub(super) fn load(&mut self, op: &Op, accesses: &[BurstAccess], number: u32, now: Ready) -> Option<Ready> {
        let address = self.inputs(&op.address, now, 0);
        let width = self.data_width(op);
        let ports = self.core.load_ports[width];
        let l1 = self.core.l1[width];
        let mut last: Option<Ready> = None;
        for (n, access) in accesses.iter().enumerate() {
            let prefetch = access.access.kind == AccessKind::Prefetch;
            if !matches!(access.access.kind, AccessKind::Load | AccessKind::Gather | AccessKind::Prefetch) {
                continue;
            }
            let issue = self.ports.issue(ports, address.time);
            let waited = (issue - address.time).min(u32::from(u16::MAX)) as u16;
            let place = (op.site, number + n as u32, self.generation);
            let arrival = self.memory.access(access, place, issue, l1, false);
            let cause = Cause4 {
                rest: index(Cause::Chain),
                port: index(Cause::L1),
                level: arrival.level_cause,
                bandwidth: arrival.bandwidth_cause,
            };
            let takes = if prefetch { 1 } else { arrival.takes };
            let mut node = Node {
                time: issue + takes,
                from: address.node,
                port: waited,
                translation: if prefetch { 0 } else { arrival.translation.min(u32::from(u16::MAX)) as u16 },
                level: if prefetch { 0 } else { arrival.level },
                bandwidth: if prefetch { 0 } else { arrival.bandwidth },
                cause,
            };
            self.forward(op, access, issue, l1, now, &mut node);
            let time = node.time;
            let node = self.push(node);
            match &mut last {
                Some(last) => last.and(time, node),
                None => last = Some(Ready { time, node }),
            }
        }
        last
    }

    /// Forwards the data of an earlier store to a load, if the data is not in L1 yet.
    fn forward(&mut self, op: &Op, access: &BurstAccess, issue: u32, l1: u32, now: Ready, node: &mut Node) {
        let Some(found) = self.stores.meet(access.access.address, access.access.bytes, issue) else { return };
        let cut = self.change.no_forwarding;
        let (time, from) = match found {
            Match::Whole(store) | Match::Part(store) if self.is_cut(store.iteration) => (issue + l1, node.from),
            // In a register the value would be usable as soon as it is computed.
            Match::Whole(store) | Match::Part(store) if cut => {
                if store.data > now.time {
                    (store.data, store.node)
                } else {
                    (now.time, now.node)
                }
            }
            Match::Whole(store) => {
                let forward = self.forwarding(op, &store, access.access.bytes);
                let time = store.data + forward;
                if forward < l1 && op.data_width == 0 {
                    // Renaming hands the value on; the address does not matter.
                    if time > now.time { (time, store.node) } else { (now.time, now.node) }
                } else {
                    let hit = issue + l1;
                    if time > hit { (time, store.node) } else { (hit, node.from) }
                }
            }
            Match::Part(store) => {
                // It is read from L1 once the stores are there, at the earliest as late as was measured of two stores.
                let (hit, data) = (issue + l1, store.data + self.core.merged_forward);
                if data > hit { (data, store.node) } else { (hit, node.from) }
            }
        };
        let plain = Node::plain(time, from, Cause::Forwarding);
        *node = if from == node.from { Node { time, level: 0, bandwidth: 0, translation: 0, ..*node } } else { plain };
    }

    /// [`Op::data_width`], or that of the widest vectors.
    fn data_width(&self, op: &Op) -> usize {
        if self.widened { 1 + lanes::widest(self.core) } else { op.data_width as usize }
    }

    /// Cycles from the data of `store` to a load of all or some of it.
    fn forwarding(&self, op: &Op, store: &Store, bytes: u32) -> u32 {
        let core = self.core;
        match op.data_width {
            0 if store.renaming == Renaming::Never || bytes != store.bytes => core.indexed_forward,
            0 => match op.renaming {
                Renaming::Never => core.indexed_forward,
                Renaming::Computed => core.computed_forward,
                Renaming::Plain if bytes < 8 => core.narrow_forward,
                Renaming::Plain => {
                    let same = store.expression == op.expression && store.versions == self.versions(op);
                    if same { core.renamed_forward } else { core.rebased_forward }
                }
            },
            1 => core.forward,
            width => core.wide_forward[width as usize - 2],
        }
    }

    #[inline]
    fn versions(&self, op: &Op) -> [u32; 2] {
        op.address.map(|register| self.registers[register as usize].version)
    }

    pub(super) fn store(&mut self, op: &Op, accesses: &[BurstAccess], data: Ready, now: Ready) -> Option<(Ready, u32)> {
        let address = self.inputs(&op.address, now, 0);
        let ports = self.core.store_ports[self.data_width(op)];
        let mut last: Option<(Ready, u32)> = None;
        for access in accesses {
            if !matches!(access.access.kind, AccessKind::Store | AccessKind::NtStore | AccessKind::Scatter) {
                continue;
            }
            let issue = self.ports.issue(ports, address.time);
            let (time, from) = if data.time > issue { (data.time + 1, data.node) } else { (issue + 1, address.node) };
            let cause = Cause4 { rest: index(Cause::Chain), port: index(Cause::L1), ..Cause4::default() };
            let waited = if from == address.node { issue - address.time } else { 0 };
            let waited = waited.min(u32::from(u16::MAX)) as u16;
            let node = self.push(Node { time, from, port: waited, cause, ..Node::default() });
            match &mut last {
                Some((ready, asked)) => {
                    ready.and(time, node);
                    *asked = issue;
                }
                None => last = Some((Ready { time, node }, issue)),
            }
        }
        last
    }

    /// Stores go to L1 in order, after retirement.
    pub(super) fn commit(
        &mut self,
        op: &Op,
        accesses: &[BurstAccess],
        number: u32,
        data: Ready,
        complete: Ready,
        issue: u32,
    ) {
        let ports = self.core.store_ports[op.data_width as usize].count_ones();
        let (retired, _, retirement) = self.retired;
        for (n, access) in accesses.iter().enumerate() {
            if !matches!(access.access.kind, AccessKind::Store | AccessKind::NtStore | AccessKind::Scatter) {
                continue;
            }
            let arrival = match access.access.kind {
                AccessKind::NtStore => memory::Arrival::default(),
                _ => self.memory.access(access, (op.site, number + n as u32, self.generation), issue, 1, true),
            };
            let (cycle, used, before) = self.committed;
            let mut time = cycle + u32::from(used >= ports);
            let mut from = before;
            if retired + 1 > time {
                (time, from) = (retired + 1, retirement);
            }
            let line = issue + arrival.takes;
            let cause = Cause4 {
                rest: index(Cause::L1),
                level: arrival.level_cause,
                bandwidth: arrival.bandwidth_cause,
                ..Cause4::default()
            };
            let mut node = Node { time, from, cause, ..Node::default() };
            if line > time {
                node.bandwidth = arrival.bandwidth.min(line - time);
                node.level = line - time - node.bandwidth;
                node.time = line;
            }
            let time = node.time;
            let used = if time > cycle { 1 } else { used + 1 };
            let node = self.push(node);
            self.committed = (time, used, node);
            self.store_queue.take(time, node);
            self.stores.insert(Store {
                address: access.access.address,
                bytes: access.access.bytes,
                data: data.time.max(complete.time.saturating_sub(1)),
                node: if data.time + 1 >= complete.time { data.node } else { complete.node },
                commits: time,
                expression: op.expression,
                versions: self.versions(op),
                renaming: op.renaming,
                iteration: self.iteration,
            });
        }
    }

    /// A string instruction: everything before it, then its bytes.
    pub(super) fn string(&mut self, op: &Op, accesses: &[BurstAccess], number: u32, now: Ready) {
        let ready = self.inputs(&op.data, self.inputs(&op.address, now, 0), 0);
        let mut bytes = 0;
        let (mut behind, mut cause) = (0, index(Cause::L2));
        for (n, access) in accesses.iter().enumerate() {
            let writes = matches!(access.access.kind, AccessKind::Store | AccessKind::NtStore);
            bytes = bytes.max(access.access.bytes);
            let (parts, level) = self.memory.string(access, op.site, number + n as u32, writes);
            if parts > 0 {
                (behind, cause) = (behind + parts / 16, level);
            }
        }
        let inside = STRING_START + bytes / self.core.string_bytes;
        let time = ready.time + inside.max(behind);
        let causes = Cause4 { rest: index(Cause::L1), level: cause, ..Cause4::default() };
        let level = behind.saturating_sub(inside);
        let node = Node { time, from: ready.node, level, cause: causes, ..Node::default() };
        let node = self.push(node);
        let done = Ready { time, node };
        self.write(op, done, 0);
        self.retire(op, done, done, &[], None, number);
    }
}
