//! The communicators of a process, by handle, and what they were made from.

use std::collections::HashMap;

use super::functions::{Making, Shape};
use super::volume::{Call, Handles};
use crate::profile::evidence::mpi::{Communicator, Made};

/// `MPI_COMM_TYPE_SHARED` of Open MPI and of MPICH.
const SHARED: [i32; 2] = [0, 1];
/// Most dimensions of a grid.
const MOST_DIMENSIONS: u64 = 16;

/// The communicators of a process.
#[derive(Debug, Clone)]
pub struct Communicators {
    all: Vec<Communicator>,
    by_handle: HashMap<u64, u32>,
}

impl Default for Communicators {
    fn default() -> Self {
        let world = Communicator { made: Made::World, parent: 0, order: 0, size: None, rank: None };
        Communicators { all: vec![world], by_handle: HashMap::new() }
    }
}

impl Communicators {
    /// Of a handle; `None`: not known.
    pub fn index(&self, handle: u64) -> Option<u32> {
        self.by_handle.get(&handle).copied()
    }

    /// Adds one with this `handle`, made from that with the index `parent`.
    pub fn add(&mut self, handle: u64, parent: u32, made: Made) {
        let order = self.all.iter().skip(1).filter(|known| known.parent == parent).count() as u32;
        self.by_handle.insert(handle, self.all.len() as u32);
        self.all.push(Communicator { made, parent, order, size: None, rank: None });
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

/// What the call makes, and from which communicator (its index). `None`: it makes none, or from one that is not known.
pub fn made(handles: &Handles, call: &Call<'_>) -> Option<(u32, Made)> {
    let Shape::Communicator(making, _) = call.function.shape else { return None };
    let parent = handles.communicator_index(handles.handle(call.arguments.first().copied()?))?;
    let int = |i: u8| call.int(i);
    let ints = |i: u8, n: u64| -> Option<Vec<i32>> {
        let mut bytes = vec![0; 4 * usize::try_from(n).ok()?];
        (call.read)(*call.arguments.get(usize::from(i))?, &mut bytes).then_some(())?;
        Some(bytes.chunks_exact(4).map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    };
    let made = match making {
        Making::Same => Some(Made::Same),
        Making::Split => int(1).zip(int(2)).map(|(color, key)| Made::Split { color, key }),
        Making::SplitByType => {
            int(1).zip(int(2)).filter(|(kind, _)| SHARED.contains(kind)).map(|(_, key)| Made::SplitByHost { key })
        }
        Making::Grid => int(1)
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| *n <= MOST_DIMENSIONS)
            .and_then(|n| ints(2, n))
            .and_then(|all| all.into_iter().map(|n| u32::try_from(n).ok()).collect())
            .map(|dimensions| Made::Grid { dimensions }),
        Making::Subgrid => handles
            .communicators
            .dimensions(parent)
            .and_then(|n| ints(1, n as u64))
            .map(|remains| Made::Subgrid { remains: remains.into_iter().map(|one| one != 0).collect() }),
        Making::Other => None,
    };
    Some((parent, made.unwrap_or(Made::Other)))
}
