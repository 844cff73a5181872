//! A fully associative LRU cache of the same size beside the real one: what it also misses is a capacity miss, what it
//! would have kept is a conflict miss (Hill's 3C).

use super::line::Line;
use super::placement::mix;

const NIL: u32 = u32::MAX;

/// Lines in order of use, at most `capacity` of them: a linked list threaded through a slot array, found by hash.
#[derive(Debug)]
pub struct Shadow {
    capacity: u32,
    nodes: Vec<Node>,
    /// Open addressing with linear probing; holds node numbers.
    table: Vec<u32>,
    newest: u32,
    oldest: u32,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    line: Line,
    newer: u32,
    older: u32,
}

impl Shadow {
    /// An empty cache for `capacity` lines; memory is taken as it fills, 24 bytes a line.
    pub fn new(capacity: u64) -> Self {
        let capacity = capacity.clamp(1, 1 << 30) as u32;
        Shadow { capacity, nodes: Vec::new(), table: vec![NIL; 64], newest: NIL, oldest: NIL }
    }

    /// Uses `line`: true if it was still there. It is afterwards, and the least recently used line may have gone.
    pub fn touch(&mut self, line: Line) -> bool {
        if let Some(slot) = self.lookup(line) {
            let node = self.table[slot];
            if node != self.newest {
                self.unlink(node);
                self.link_newest(node);
            }
            return true;
        }
        let node = if self.nodes.len() < self.capacity as usize {
            self.nodes.push(Node { line, newer: NIL, older: NIL });
            if self.nodes.len() * 2 > self.table.len() {
                self.grow();
            }
            (self.nodes.len() - 1) as u32
        } else {
            let node = self.oldest;
            self.forget(self.nodes[node as usize].line);
            self.unlink(node);
            self.nodes[node as usize].line = line;
            node
        };
        self.link_newest(node);
        self.enter(node);
        false
    }

    fn home(&self, line: Line) -> usize {
        mix(line.0) as usize & (self.table.len() - 1)
    }

    fn lookup(&self, line: Line) -> Option<usize> {
        let mut slot = self.home(line);
        while self.table[slot] != NIL {
            if self.nodes[self.table[slot] as usize].line == line {
                return Some(slot);
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
        None
    }

    fn enter(&mut self, node: u32) {
        let mut slot = self.home(self.nodes[node as usize].line);
        while self.table[slot] != NIL {
            slot = (slot + 1) & (self.table.len() - 1);
        }
        self.table[slot] = node;
    }

    /// Takes `line` out of the table and closes the gap that it leaves in its probe run.
    fn forget(&mut self, line: Line) {
        let Some(mut hole) = self.lookup(line) else { return };
        let mask = self.table.len() - 1;
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            let node = self.table[slot];
            if node == NIL {
                break;
            }
            let home = self.home(self.nodes[node as usize].line);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.table[hole] = node;
                hole = slot;
            }
        }
        self.table[hole] = NIL;
    }

    fn grow(&mut self) {
        self.table = vec![NIL; self.table.len() * 2];
        // The newest node is not entered yet; `touch` does that.
        for node in 0..self.nodes.len() as u32 - 1 {
            self.enter(node);
        }
    }

    fn unlink(&mut self, node: u32) {
        let Node { newer, older, .. } = self.nodes[node as usize];
        match newer {
            NIL => self.newest = older,
            n => self.nodes[n as usize].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            n => self.nodes[n as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, node: u32) {
        let old = self.newest;
        self.nodes[node as usize].newer = NIL;
        self.nodes[node as usize].older = old;
        match old {
            NIL => self.oldest = node,
            n => self.nodes[n as usize].newer = node,
        }
        self.newest = node;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(capacity in 1usize..40, lines in prop::collection::vec(0u64..80, 0..600)) {
            let mut shadow = Shadow::new(capacity as u64);
            let mut list: Vec<u64> = Vec::new();
            for line in lines {
                let at = list.iter().position(|&l| l == line);
                prop_assert_eq!(shadow.touch(Line(line)), at.is_some());
                if let Some(at) = at {
                    list.remove(at);
                }
                list.insert(0, line);
                list.truncate(capacity);
            }
        }
    }
}
