//! CUDA graphs that the program launches: one launch of each is counted for each group of metrics, as a whole.

/// Most graphs that are counted; each takes a new profiler for each group, some 0.15 s.
const MOST: usize = 4;

/// A graph that can be launched.
#[derive(Clone, Copy)]
pub struct Graph {
    /// The driver's handle.
    executable: usize,
    pub launches: u32,
    /// A bit for each group that a launch was to be counted for.
    pub tried: u8,
    /// Whether that came to anything.
    pub has_counts: bool,
}

/// The first graphs, in the order of their first launches.
pub struct Graphs {
    list: [Graph; MOST],
    used: usize,
}

impl Graphs {
    pub const NONE: Graphs = Graphs { list: [Graph { executable: 0, launches: 0, tried: 0, has_counts: false }; MOST], used: 0 };

    /// The place of a graph; `None` for those beyond the first.
    pub fn of(&mut self, executable: usize) -> Option<usize> {
        let known = self.list[..self.used].iter().position(|graph| graph.executable == executable);
        known.or_else(|| {
            let new = self.list.get_mut(self.used)?;
            new.executable = executable;
            self.used += 1;
            Some(self.used - 1)
        })
    }

    pub fn at(&mut self, place: usize) -> &mut Graph {
        &mut self.list[place % MOST]
    }

    pub fn all(&self) -> &[Graph] {
        &self.list[..self.used]
    }
}
