//! Constants of MPI libraries that calls need.

use crate::loader::{Library, Remote};
use rprof_tracee::mpi::datatypes::Family;

use super::NetworkError;

/// Handles of one library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handles {
    /// Its family.
    pub family: Family,
    /// `MPI_COMM_WORLD`.
    pub world: u64,
    /// `MPI_BYTE`.
    pub byte: u64,
    /// `MPI_DOUBLE`.
    pub double: u64,
    /// `MPI_SUM`.
    pub sum: u64,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: u64,
}

impl Handles {
    /// Those of a loaded library with this file name.
    ///
    /// # Errors
    /// Open MPI lacks an object, or the process is lost.
    pub fn of(remote: &mut Remote, library: Library, file: &str) -> Result<Handles, NetworkError> {
        if let Ok(world) = remote.symbol(library, "ompi_mpi_comm_world") {
            let mut object = |name| remote.symbol(library, name);
            return Ok(Handles {
                family: Family::OpenMpi,
                world,
                byte: object("ompi_mpi_byte")?,
                double: object("ompi_mpi_double")?,
                sum: object("ompi_mpi_op_sum")?,
                errors_return: object("ompi_mpi_errors_return")?,
            });
        }
        // Numbers: mpi.h of MPICH (its ABI initiative: also Intel MPI, MVAPICH, Cray); table A of the MPI 5.0 standard.
        Ok(if file.starts_with("libmpi_abi") {
            let family = Family::Abi;
            Handles { family, world: 0x101, byte: 0x247, double: 0x214, sum: 0x21, errors_return: 0x143 }
        } else {
            Handles {
                family: Family::Mpich,
                world: 0x4400_0000,
                byte: 0x4c00_010d,
                double: 0x4c00_080b,
                sum: 0x5800_0003,
                errors_return: 0x5400_0001,
            }
        })
    }

    /// A handle that the library wrote, from the eight bytes at its place.
    pub fn written(&self, bytes: u64) -> u64 {
        if self.family.handle_bytes() == 4 { u64::from(bytes as u32) } else { bytes }
    }
}
