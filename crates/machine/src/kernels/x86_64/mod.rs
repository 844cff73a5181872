//! The kernels of x86-64. Register use of all of them:
//!
//! | register | holds |
//! | --- | --- |
//! | `rdi` | iterations left (outer loop) |
//! | `rsi` | the [`Arguments`](super::Arguments) |
//! | `rbx` | iterations left (inner loop) |
//! | `r8`–`r10`, `r11` | array pointers, scratch |
//! | last two vector registers | operands near one |

pub mod access;
pub mod chase;
pub mod emit;
pub mod fp;
pub mod integer;
pub mod irregular;
pub mod mix;
pub mod opcodes;
pub mod polynomial;
pub mod stream;
