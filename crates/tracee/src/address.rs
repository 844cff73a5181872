//! Addresses as types: an address in the target, in the code cache, in a file are different things.

use std::fmt;
use std::ops::{Add, Sub};

macro_rules! address_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a raw value.
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }
            /// The raw value.
            pub const fn get(self) -> u64 {
                self.0
            }
            /// Rounds down to a multiple of `align`, a power of two.
            pub const fn align_down(self, align: u64) -> Self {
                Self(self.0 & !(align - 1))
            }
            /// Rounds up to a multiple of `align`, a power of two.
            pub const fn align_up(self, align: u64) -> Self {
                Self((self.0 + align - 1) & !(align - 1))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
        impl Add<u64> for $name {
            type Output = Self;
            fn add(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
        }
        impl Sub<u64> for $name {
            type Output = Self;
            fn sub(self, bytes: u64) -> Self {
                Self(self.0.wrapping_sub(bytes))
            }
        }
        impl Sub for $name {
            type Output = u64;
            fn sub(self, other: Self) -> u64 {
                self.0.wrapping_sub(other.0)
            }
        }
    };
}

address_type!(
    /// A virtual address in the target process, as the program itself sees it.
    Address
);
address_type!(
    /// A virtual address in the target's code cache: the address of a translated copy.
    CacheAddress
);
address_type!(
    /// An offset in a file.
    FileOffset
);
