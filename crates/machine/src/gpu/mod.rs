//! GPUs of this host: their ceilings.
//!
//! ```text
//!  request ─▶ kept? ──yes──▶ Gpu
//!               │ no
//!               ▼
//!  measure/ (plan, rounds) ─▶ campaign (buffers, trips) ─▶ driver/ (typed calls) ─▶ ../loader (a process of its own) ─▶ libcuda
//!      │                      ▲
//!      ▼                     ptx/ (kernels with their exact work)
//!  ledger (rounds to ceilings by `estimate`) ─▶ order ─▶ Gpu ─▶ kept
//! ```
//!
//! [`load_or_measure`] is the entry. All ids begin with `gpu.`; `device` is `gpu0`, `gpu1`, … and `threads` 0. `clock_hz` is the
//! multiprocessors' clock while the ceiling ran, from the clocks and the timer that the kernels read.
//!
//! | id | unit | meaning |
//! | --- | --- | --- |
//! | `gpu.{fp64,fp32,fp16,bf16}.{fma,add,mul}` | flop/s | independent scalar instructions; 16-bit ones in pairs |
//! | `gpu.int32.mad` `gpu.ex2` | op/s | integer multiply-add (2 each); the special-function unit |
//! | `gpu.mma.{bf16,f16,tf32,s8,fp64}` | flop/s, op/s | tensor instructions with operands in registers |
//! | `gpu.tensor.{bf16,f16,tf32,fp8,int8,fp64}` | flop/s, op/s | the roof: the best tensor instruction, a burst after a pause |
//! | `gpu.tensor.{bf16,f16,tf32,fp8,int8}.sustained` | flop/s, op/s | from 0.2 to 0.6 s of it |
//! | `gpu.dram.{read,copy,triad,update,write}` | byte/s | streams; bytes of 1, 2, 3, 2, 1 arrays |
//! | `gpu.l2.read` `gpu.l1.read` | byte/s | repeated reads of a set in that cache |
//! | `gpu.shared.{read,write,stride2,stride32}` | byte/s | shared memory; with two and 32 threads on a bank |
//! | `gpu.lat.{l1,l2,dram}` | s | load to use through a pointer |
//! | `gpu.launch` `gpu.launch.wait` | s | the host's time for a launch, back to back; with waiting for its end |
//! | `gpu.link.{h2d,d2h}.{pinned,pageable}` `gpu.link.both.pinned` | byte/s | copies of 64 MiB |
//! | `gpu.link.zerocopy` | byte/s | a kernel reads page-locked memory of the host |
//! | `gpu.link.managed.{to-gpu,to-cpu}` | byte/s | pages move because a kernel, or a core, uses them |
//!
//! Sweeps: `gpu.workingset.{l2,l1l2}` and `gpu.l1.region` over bytes (the latter of a multiprocessor);
//! `gpu.flops-per-element.{fp32,fp64}.{dram,l1}`; `gpu.ilp.{1,2,4,8}` over warps of a multiprocessor; `gpu.trials.{update,read,staged,launches}`
//! over bytes (kernels A, A-read, C, B of Lo et al., "Roofline Model Toolkit", 2014); `gpu.link.{h2d,d2h}.{pinned,pageable}` over bytes;
//! `gpu.reuse.{pageable,pinned,zerocopy,managed}` over the number of kernels on 64 MiB copied once, the same as `gpu.reuse-8m` and
//! `gpu.reuse-1m` on 8 and 1 MiB (Figure 7 there);
//! `gpu.tensor-rate.bf16` over seconds since the pause.
//!
//! `RPROF_LOG=1` prints a line for each step on standard error.

mod campaign;
mod catalogue;
mod codes;
mod driver;
mod error;
mod kept;
pub mod known;
mod ledger;
mod log;
mod measure;
pub mod order;
pub mod ptx;
mod request;

pub use error::GpuError;
pub use request::{GpuRequest, facts, first_that_loads, for_a_run, load_or_measure};
