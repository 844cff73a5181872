//! Throw-away copies of a running program, and changes that are tried and timed in them. The program itself is never changed.
//!
//! ```text
//!  refuse ─▶ halt (all threads stopped, < 2 ms) ─▶ make ─▶ Draft ─▶ Copy (filter, threads) ─ run ─▶ killed
//!                                                                    │ calls: what its system calls may do
//!  samples ─▶ hot ─▶ pilot (place, written pages) ─▶ rounds ─▶ measure (variant) ─▶ ratio
//! ```
//!
//! **A copy** has all threads of the program with their registers and memory. Nothing that it does is seen outside: it may ask, read files
//! that it opens anew, and compute; its writes are left out; before anything else it ends ([`calls`]). It is killed with rprof.
//!
//! **What it needs.** rprof has started the process itself, the program has no seccomp filter of its own, and there is memory for what the
//! copies write ([`refuse`]).
//!
//! All requests on a program and its copies are made by one thread.

pub mod breakpoint;
pub mod calls;
pub mod candidates;
pub mod copy;
pub mod drive;
pub mod error;
pub mod filter;
pub mod halt;
pub mod hot;
pub mod huge;
pub mod loops;
pub mod make;
pub mod measure;
pub mod pages;
pub mod pilot;
pub mod plan;
pub mod ratio;
pub mod refuse;
mod restart;
pub mod rewrite;
pub mod rounds;
mod shared;
mod variant;

#[cfg(test)]
mod tests;
