//! This host: topology, clock, microkernels, ceilings, their cache.
//!
//! ```text
//! host/ (what it says of itself) ─▶ store/ (cached?) ──still good──▶ Machine
//!                                     │ no
//!                                     ▼
//!            suite/ (what) ─▶ kernels/ (exact code) ─▶ harness/ (pinned, timed) ─▶ estimate/ (rounds to values) ─▶ Machine ─▶ store/
//! ```
//!
//! [`load_or_measure`] is the entry. Every ceiling is a [`Ceiling`](rprof_profile::Ceiling). `value` is in base units for all its
//! `threads` together (times: of one event), by the rule of docs/ceilings.md. `clock_hz` is the clock while it ran, measured by a dependent
//! chain of multiplications right after the kernel; `idle_clock_hz` is the clock some time later, if different. Thread counts: 1, the powers
//! of two, the cores, the fast CPUs of a hybrid host, all. Ceilings marked † are measured only at 1 and the highest count, those marked ‡
//! only at 1.
//!
//! # Ids
//!
//! Written out: p = `dp` or `sp`; w = `scalar`, `128`, `256`, `512`; op = `fma add mul div sqrt`.
//!
//! | id | unit | meaning |
//! | --- | --- | --- |
//! | `p.tlp` `p.ilp` `p.simd` `p.fma` `p.peak` | flop/s | the ladder of A.1.3; `fma` is the roof, `peak` the best of any mix |
//! | `p.balance.addmul` `p.balance.add` | flop/s | without FMA: adds and multiplies 1:1; adds alone (best width) |
//! | `p.mix.fma+add` `p.mix.fma+fma+add` | flop/s | mixes that may beat all FMA (best width) |
//! | `p.op.w` | flop/s | throughput of independent instructions |
//! | `p.op.512.masked` | flop/s | the same with half of the lanes masked off: active lanes' FLOPs |
//! | `p.coissue.a+b.w` † | instr/s | both instructions together, 1:1, independent; a before b in `fma add mul div sqrt` |
//! | `lat.p.a.after.b.w` ‡ | s | from the start of b, which produces, to the start of a, which consumes: sum these over the edges of a cycle |
//! | `lat.p.a.after.load.scalar` `lat.forward` ‡ | s | a cycle through memory: `lat.forward` (store → load, one double) and the latency that a adds |
//! | `lat.int.{add,mul,div}` `lat.forward.gpr` `lat.vector` ‡ | s | integer steps (`div`: with the two fillers of its chain); store → load of a general register; a shuffle |
//! | `overlap.window` ‡ | op | W: long restarted chains of n overlap as k(n) = n / (n − W); short ones by the sweep below |
//! | sweep `overlap.{add,fma}.scalar` ‡ | chains | k(n): chains of n operations under way at once when each is restarted |
//! | `l1.access.{load,store,load2store1,load1store1}.{int,fp.scalar,fp.128,fp.256,fp.512}` | access/s | accesses by width and register file |
//! | `mix.{mov,alu,load}.{2,4,8,16}` + ``, `.l1i`, `.l2` † | instr/s | one FP instruction in k, filler else; code of some KiB (the best of several lengths), of L1I, of L2 |
//! | `issue` `issue.nop` † | instr/s | the upper limit: register moves, additions, vector additions; `nop` alone, which some cores drop |
//! | `{l1,l2,l3,dram}.{read,copy,triad,update,write}` | byte/s | streams; bytes of docs/conventions.md, Bytes at that level |
//! | `dram.{copy,triad,write}.nt` | byte/s | with non-temporal stores |
//! | `dram.{read,copy,triad,update,write}.4k` `dram.{copy,triad,write}.nt.4k` † | byte/s | the same streams of DRAM on small pages |
//! | `dram.noprefetch` `dram.prefetch` `dram.cores.k` | byte/s | software prefetch; k cores generate traffic |
//! | `dram.stride.{2,4,8,16,page}` † | byte/s | one double in 2, 4, …; each line touched counts 64 bytes |
//! | `dram.random` `dram.gather` `dram.chase.{1,2,4,8,16}` † | byte/s | 64 bytes for each access (`random`: the better of all that the core can begin and 16 at a time); huge pages (`.4k`: small ones, also `stride.page`) |
//! | `lat.{l1,l2,l3,dram}` ‡ | s | load to use through a pointer |
//! | `tlb.reach`, sweeps `latency.{huge,4k}` ‡ | byte, s | the most 4 KiB pages that are visited in scattered order without page walks; a hop over the set |
//! | `smt.*` `slow.*` | | `dp.{tlp,ilp,simd,fma}` `issue` `{l1,l2,l3,dram}.read` of both hardware threads of one core; of slow cores |
//! | `mispredict` `pagefault` ‡ | s | one mispredicted branch; first touch of a 4 KiB page that was given back just before |
//! | `int.{add,mul,logic}.w` `int.alu.scalar` `int8.dot.w` † | op/s | 32-bit lanes (logic and scalar: 64 bits); `alu`: rotate, xor, add in turn |
//! | `hp.{fma,add,mul}.512` `bf16.dot.w` † | flop/s | low precisions |
//! | `dp.fraction.{2,4,8,16}` † | flop/s | derived: the peak that remains with one FP instruction in k and the best filler of `mix` |
//! | `imbalance.{2,4,…}` `p.imbalance.*` | flop/s | derived: the roof when 1/2, 1/4, … of the threads work |
//! | `dram.noaffinity` `dram.snoop` | byte/s | hosts with several memory nodes, all threads: memory on one node; a set of twice the caches |
//! | `chains.p.op.w` ‡, sweeps of that name | op, flop/s | fewest independent chains that saturate (scalar and widest; add, mul, fma) |
//! | sweep `writefraction.dram` † | byte/s | over the share of writes in the bytes that cross (fills are reads) |
//! | sweeps `workingset.{kind}` `plateaus.read` † | byte/s | over the bytes of all threads' working sets; the levels found in it, each at its end |
//! | sweep `flops-per-element.dp` † | flop/s | FLOPs on each element of an array in L1, 1 … 256 |
//! | sweep `prefetch-distance` | byte/s | over the distance in bytes |
//!
//! Parameters of the core (`suite/core/`), for the replay of bursts; all ‡. W = `s` (scalar), `128`, `256`, `512`, if there is such an
//! instruction. They have a rule of their own: the second-best of some twenty runs, in cycles of the clock measured right beside it. They
//! are `derived` if the time of other instructions of a chain was subtracted.
//!
//! | id | unit | meaning |
//! | --- | --- | --- |
//! | `width.dispatch` `width.taken` | instr/s | most instructions that enter the core (the best of moves, additions and mixes with vectors and loads); jumps taken |
//! | `window.rob` | op | instructions under way at once |
//! | `window.int` `window.vector` | op | instructions that wait for an operand in the scheduler: integer; vector, with the queue before it |
//! | `window.loads` `window.stores` | op | loads and stores under way |
//! | `window.registers` `window.vector.registers` | op | results under way: general registers, vector registers |
//! | `misses.l1` | op | lines that the core waits for at once: the time of a miss of all caches over that of each further line of a burst |
//! | `banks.{l2,l3}` `banks.{l2,l3}.line` | op, s | parts of the cache that lines fall to in turn, each of which delivers on its own (1: none were found); time of a line of one of them |
//! | `mispredict.indirect` | s | one mispredicted indirect jump, as `mispredict` |
//! | `predictor.outcomes` | op | outcomes of one branch that repeat without a rule, up to which half of the wrong predictions are gone |
//! | `btb.first.entries` `btb.second` | op, s | taken branches whose targets the first-level branch target buffer holds; time of one beyond it |
//! | `forward.wide` `forward.vector.{128,256,512}` | s | two stores of four bytes → a load of both; store → load of a vector |
//! | `forward.{narrow,indexed,base,computed}` | s | store → load of a general register: of four bytes; with an index register; the load with another base register; with an addition of registers right behind the load (which is in it) |
//! | `tlb.second` `tlb.walk` | s | extra time of a load: with its page in the second-level TLB; in no TLB, the page tables in caches |
//! | `tlb.first.entries` `tlb.second.entries` | op | pages of 4 KiB that these know, in scattered order |
//! | `tlb.walks` | op | walks of page tables under way at once |
//! | `form.NAME.lat` | s | from operand to result |
//! | `form.NAME.rate` | instr/s | independent ones (`call`: with its return, counted once; `push`: `push` and `pop` in turn; `cvt`, `cvtint`: both directions in turn) |
//! | `form.NAME.ports` | op | bits: the ports that it may use, 0 to 7 of integer and 8 to 15 of vector units; which bit is which port means nothing |
//!
//! NAME: `add imul div64 div32 shift shiftcl lea3 bmi popcnt cmov setcc adc bsf branch movgprvec movvecgpr fcomi kop push call` and, each
//! with `.W`, `vadd vmul vshift vlogic shuffle permute blend fadd fmul ffma fdiv fsqrt fdivs fsqrts fcmp fminmax fround sha aes clmul cvt
//! cvtint gather load store` (the instructions: `suite/core/forms/mod.rs`). `ports` exist for `add imul shift lea3 branch bmi popcnt cmov`
//! and for `fadd fmul ffma vadd vlogic shuffle permute fcmp cvt fdiv`. The latter are measured at 256 bits for all widths up to that (at
//! 128 if 256 are two operations), and at 512.
//!
//! A quick measurement leaves out the `.4k` forms, some thread counts and the sweeps, except for the points of `workingset.read` at one
//! thread that show how much of the last level this host gets and keeps. These ceilings are null with that reason.
//!
//! Shown, but not used by the model: `smt.*`, `slow.*` and `tlb.reach`. (The ceilings of a thread count are measured on the CPUs that its
//! threads are placed on, on siblings and slow cores once the others are taken; the profile does not record the core that a function ran
//! on.)

pub mod error;
pub mod estimate;
#[cfg(target_arch = "x86_64")]
pub mod gpu;
pub mod harness;
pub mod host;
pub mod kernels;
pub mod loader;
pub mod network;
pub mod products;
pub mod progress;
pub mod store;
#[cfg(target_arch = "x86_64")]
pub mod suite;
pub mod watch;

pub use error::MachineError;
pub use progress::{Progress, Quiet};
#[cfg(target_arch = "x86_64")]
pub use store::measure::{Request, load_or_measure, topology};
pub use suite::campaign::Effort;
