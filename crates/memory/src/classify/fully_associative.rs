//! A fully associative LRU cache of the same size beside the real one: misses of both are capacity misses, misses of the real one alone
//! are conflict misses (Hill's 3C).

use crate::caches::line::Line;
use rprof_basics::random::mix;

const NIL: u32 = u32::MAX;

/// The shadow of a cache, for a hash-selected part of the lines and the same part of the cache: all of both for a small cache.
#[derive(Debug)]
pub struct PartialShadow {
    shadow: FullyAssociative,
    /// log2 of the number of parts.
    parts_shift: u32,
}

impl PartialShadow {
    /// For a cache of `lines` lines, with `most` at most.
    pub fn new(lines: u64, most: u64) -> Self {
        let parts_shift = lines.div_ceil(most).next_power_of_two().ilog2();
        PartialShadow { shadow: FullyAssociative::new(lines >> parts_shift), parts_shift }
    }

    /// Uses `line` and returns whether it was still there; `None` if it is not in the shadowed part.
    #[inline]
    pub fn touch(&mut self, line: Line) -> Option<bool> {
        self.covers(line).then(|| self.shadow.touch(line))
    }

    /// Takes `line` out, because the cache was forced to give it up.
    pub fn remove(&mut self, line: Line) {
        if self.covers(line) {
            self.shadow.remove(line);
        }
    }

    /// Forgets all lines, because the content of the cache is not known any more.
    pub fn clear(&mut self) {
        self.shadow.clear();
    }

    #[inline]
    fn covers(&self, line: Line) -> bool {
        let hash = line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.parts_shift == 0 || hash >> (64 - self.parts_shift) == 0
    }
}

/// Lines in order of use, at most `capacity` of them: a linked list threaded through a slot array, found by hash.
#[derive(Debug)]
pub struct FullyAssociative {
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

impl FullyAssociative {
    /// An empty cache for `capacity` lines; memory is allocated as it fills, 24 bytes a line.
    pub fn new(capacity: u64) -> Self {
        let capacity = capacity.clamp(1, 1 << 30) as u32;
        FullyAssociative { capacity, nodes: Vec::new(), table: vec![NIL; 64], newest: NIL, oldest: NIL }
    }

    /// Forgets all lines.
    pub fn clear(&mut self) {
        if !self.nodes.is_empty() {
            *self = FullyAssociative::new(u64::from(self.capacity));
        }
    }

    /// Takes `line` out; its place is the next to be used.
    pub fn remove(&mut self, line: Line) {
        let Some(slot) = self.lookup(line) else { return };
        let node = self.table[slot];
        self.forget(line);
        self.unlink(node);
        self.nodes[node as usize].line = Line::NONE;
        self.link_oldest(node);
    }

    /// Uses `line`: true if it was still there. Afterwards it is there, and the least recently used line may have gone.
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
        // The newest node is not entered yet, `touch` does that; nodes that were taken out hold no line.
        for node in 0..self.nodes.len() as u32 - 1 {
            if self.nodes[node as usize].line != Line::NONE {
                self.enter(node);
            }
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

    fn link_oldest(&mut self, node: u32) {
        let old = self.oldest;
        self.nodes[node as usize].older = NIL;
        self.nodes[node as usize].newer = old;
        match old {
            NIL => self.newest = node,
            n => self.nodes[n as usize].older = node,
        }
        self.oldest = node;
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

    #[test]
    fn a_part_of_the_lines_stands_for_all() {
        let mut shadow = PartialShadow::new(512, 128);
        // A set of lines that fits, and one that does not.
        for (lines, least, most) in [(400u64, 0.95, 1.0), (700, 0.0, 0.05)] {
            shadow.clear();
            let mut kept = Vec::new();
            for round in 0..20 {
                let touched = (0..lines).filter_map(|line| shadow.touch(Line(line * 64 + 7)));
                kept.extend(touched.filter(|_| round > 0));
            }
            let share = kept.iter().filter(|kept| **kept).count() as f64 / kept.len() as f64;
            assert!(kept.len() as u64 > lines * 3, "{}", kept.len());
            assert!((least..=most).contains(&share), "{lines} lines: {share}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(capacity in 1usize..40, lines in prop::collection::vec((0u64..80, 0u8..8), 0..600)) {
            let mut shadow = FullyAssociative::new(capacity as u64);
            let mut list: Vec<u64> = Vec::new();
            for (line, what) in lines {
                let at = list.iter().position(|&l| l == line);
                if what == 0 {
                    shadow.remove(Line(line));
                    at.into_iter().for_each(|at| _ = list.remove(at));
                    continue;
                }
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
