//! The kinds of the program's descriptors that translated code reads before system calls.

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::layout;

/// The kind of a descriptor, as far as bytes over the network are concerned. Descriptors with the same low 16 bits have one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DescriptorKind {
    /// No socket.
    Other = 0,
    /// A socket: the host of its other end has to be looked up at each call.
    New = 1,
    /// A socket with its other end on another host.
    OtherHost = 2,
    /// A socket with its other end on this host.
    SameHost = 3,
}

impl DescriptorKind {
    /// Of a byte of the table.
    pub fn from_byte(byte: u8) -> DescriptorKind {
        match byte {
            1 => DescriptorKind::New,
            2 => DescriptorKind::OtherHost,
            3 => DescriptorKind::SameHost,
            _ => DescriptorKind::Other,
        }
    }
}

impl CodeCache {
    /// Sets the kind of a descriptor.
    pub fn set_descriptor(&self, fd: i32, kind: DescriptorKind) {
        self.tables.store(u64::from(layout::DESCRIPTORS) + u64::from(fd as u16), kind as u8);
    }
}
