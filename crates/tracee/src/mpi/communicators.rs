//! The communicators of a process, by handle, and what they were made from.

use std::collections::HashMap;

use rprof_profile::evidence::mpi::{Communicator, Made};

/// The communicators of a process.
#[derive(Debug, Clone)]
pub struct Communicators {
    all: Vec<Communicator>,
    /// How many were made from each.
    children: Vec<u32>,
    by_handle: HashMap<u64, u32>,
}

impl Default for Communicators {
    fn default() -> Self {
        let world = Communicator { made: Made::World, parent: 0, order: 0, size: None, rank: None };
        Communicators { all: vec![world], children: vec![0], by_handle: HashMap::new() }
    }
}

impl Communicators {
    /// Of a handle; `None`: not known.
    pub fn index(&self, handle: u64) -> Option<u32> {
        self.by_handle.get(&handle).copied()
    }

    /// Adds one with this `handle`, made from that with the index `parent`.
    pub fn add(&mut self, handle: u64, parent: u32, made: Made) {
        let Some(children) = self.children.get_mut(parent as usize) else { return };
        let order = *children;
        *children += 1;
        self.children.push(0);
        self.by_handle.insert(handle, self.all.len() as u32);
        self.all.push(Communicator { made, parent, order, size: None, rank: None });
    }

    /// Forgets a handle, and keeps its communicator.
    pub fn remove(&mut self, handle: u64) {
        self.by_handle.remove(&handle);
    }

    /// That with an index.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Communicator> {
        self.all.get_mut(index as usize)
    }

    /// Dimensions of the grid with an index.
    pub fn dimensions(&self, index: u32) -> Option<usize> {
        let mut at = self.all.get(index as usize)?;
        loop {
            match &at.made {
                Made::Grid { dimensions } => return Some(dimensions.len()),
                Made::Subgrid { remains } => return Some(remains.iter().filter(|one| **one).count()),
                Made::Same => at = self.all.get(at.parent as usize)?,
                _ => return None,
            }
        }
    }

    /// All of them, `MPI_COMM_WORLD` first.
    pub fn into_all(self) -> Vec<Communicator> {
        self.all
    }
}
