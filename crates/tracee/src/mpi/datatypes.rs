//! Sizes of the datatypes that MPI libraries define, and constants that differ between libraries.

/// Libraries with the same constants and handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Open MPI: handles are addresses of objects.
    OpenMpi,
    /// MPICH and what it has become: handles of basic types hold their size.
    #[default]
    Mpich,
    /// The ABI of MPI 5.
    Abi,
}

impl Family {
    /// `MPI_PROC_NULL`.
    pub fn nobody(self) -> i32 {
        match self {
            Family::OpenMpi => -2,
            Family::Mpich => -1,
            Family::Abi => -3,
        }
    }

    /// Bytes of a handle.
    pub fn handle_bytes(self) -> usize {
        match self {
            Family::OpenMpi | Family::Abi => 8,
            Family::Mpich => 4,
        }
    }

    /// `MPI_IN_PLACE`.
    pub fn in_place(self) -> u64 {
        match self {
            Family::OpenMpi | Family::Abi => 1,
            Family::Mpich => u64::MAX,
        }
    }

    /// The handle of `MPI_COMM_WORLD`, if it is the same in every process.
    pub fn world(self) -> Option<u64> {
        match self {
            Family::OpenMpi => None,
            Family::Mpich => Some(0x4400_0000),
            Family::Abi => Some(0x101),
        }
    }

    /// Bytes of a basic type by its handle alone.
    pub fn bytes_in_handle(self, handle: u64) -> Option<u64> {
        let handle = handle as u32;
        match (self, handle) {
            // Pairs for MPI_MINLOC and MPI_MAXLOC.
            (Family::Mpich, 0x8c00_0000..=0x8c00_0004) => Some([8, 12, 12, 6, 20][(handle & 7) as usize]),
            (Family::Mpich, 0x4c00_0000..=0x4cff_ffff) => Some(u64::from(handle >> 8 & 0xff)),
            (Family::Abi, _) => OF_ABI.iter().find(|(_, handles)| handles.contains(&handle)).map(|(bytes, _)| *bytes),
            _ => None,
        }
    }
}

/// Bytes of an element by the handles of MPI 5, as `MPI_Type_size` of MPICH 5.0.2 says.
const OF_ABI: [(u64, &[u32]); 9] = [
    (1, &[0x207, 0x21e, 0x238, 0x239, 0x240, 0x241, 0x243, 0x244, 0x245, 0x247]),
    (2, &[0x208, 0x20c, 0x248, 0x249]),
    (4, &[0x209, 0x20d, 0x210, 0x218, 0x219, 0x21a, 0x23c, 0x250, 0x251]),
    (6, &[0x22c]),
    (
        8,
        &[
            0x201, 0x202, 0x203, 0x20a, 0x20b, 0x20e, 0x20f, 0x212, 0x213, 0x214, 0x21b, 0x21c, 0x228, 0x22b, 0x230,
            0x232, 0x258, 0x259,
        ],
    ),
    (12, &[0x229, 0x22a]),
    (16, &[0x216, 0x217, 0x21d, 0x220, 0x231]),
    (20, &[0x22d]),
    (32, &[0x224, 0x225]),
];

/// Objects of Open MPI behind its handles, and the bytes of an element.
const OPEN_MPI: [(&str, u8); 66] = [
    ("char", 1),
    ("signed_char", 1),
    ("unsigned_char", 1),
    ("byte", 1),
    ("packed", 1),
    ("short", 2),
    ("unsigned_short", 2),
    ("int", 4),
    ("unsigned", 4),
    ("long", 8),
    ("unsigned_long", 8),
    ("long_long_int", 8),
    ("unsigned_long_long", 8),
    ("float", 4),
    ("double", 8),
    ("long_double", 16),
    ("wchar", 4),
    ("int8_t", 1),
    ("uint8_t", 1),
    ("int16_t", 2),
    ("uint16_t", 2),
    ("int32_t", 4),
    ("uint32_t", 4),
    ("int64_t", 8),
    ("uint64_t", 8),
    ("c_bool", 1),
    ("cxx_bool", 1),
    ("c_complex", 8),
    ("c_float_complex", 8),
    ("c_double_complex", 16),
    ("c_long_double_complex", 32),
    ("cxx_cplex", 8),
    ("cxx_dblcplex", 16),
    ("cxx_ldblcplex", 32),
    ("aint", 8),
    ("offset", 8),
    ("count", 8),
    ("float_int", 8),
    ("double_int", 12),
    ("longdbl_int", 20),
    ("long_int", 12),
    ("short_int", 6),
    ("2int", 8),
    ("character", 1),
    ("logical", 4),
    ("logical1", 1),
    ("logical2", 2),
    ("logical4", 4),
    ("logical8", 8),
    ("integer", 4),
    ("integer1", 1),
    ("integer2", 2),
    ("integer4", 4),
    ("integer8", 8),
    ("real", 4),
    ("real4", 4),
    ("real8", 8),
    ("real16", 16),
    ("dblprec", 8),
    ("cplex", 8),
    ("complex8", 8),
    ("complex16", 16),
    ("complex32", 32),
    ("dblcplex", 16),
    ("2real", 8),
    ("2dblprec", 16),
];

/// Bytes of the type with this symbol for its object in Open MPI.
pub fn bytes_of_symbol(symbol: &str) -> Option<u8> {
    let name = symbol.strip_prefix("ompi_mpi_")?;
    OPEN_MPI.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_standard() {
        assert_eq!([bytes_of_symbol("ompi_mpi_double"), bytes_of_symbol("ompi_mpi_comm_world")], [Some(8), None]);
        // MPI_DOUBLE, MPI_CHAR, MPI_2INT of MPICH.
        let bytes = [0x4c00_080b, 0x4c00_0101, 0x4c00_0816].map(|handle| Family::Mpich.bytes_in_handle(handle));
        assert_eq!(bytes, [Some(8), Some(1), Some(8)]);
        assert_eq!(Family::OpenMpi.bytes_in_handle(0x4c00_080b), None);
        // MPI_DOUBLE, MPI_BYTE and MPI_DATATYPE_NULL of MPI 5.
        let bytes = [0x214, 0x247, 0x200].map(|handle| Family::Abi.bytes_in_handle(handle));
        assert_eq!(bytes, [Some(8), Some(1), None]);
    }
}
