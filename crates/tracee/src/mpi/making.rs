//! The communicators that calls make.

use super::functions::{Making, Shape};
use super::volume::{Call, Handles};
use rprof_profile::evidence::mpi::Made;

/// `MPI_COMM_TYPE_SHARED` of Open MPI and of MPICH.
const SHARED: [i32; 2] = [0, 1];
/// Most dimensions of a grid.
const MOST_DIMENSIONS: u64 = 16;

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
