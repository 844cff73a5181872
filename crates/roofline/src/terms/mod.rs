//! The terms of the model (docs/conventions.md, Model): for a function's own work, the least time that each resource needs.
//!
//! ```text
//!  in the core                              beyond it
//!  pipe    arithmetic pipes and divider     l1 l2 l3 dram   bytes / bandwidth of the own read/write mix
//!  chain   loop-carried dependencies        latency         irregular misses × latency / concurrency
//!  issue   instruction mix and footprint
//!  access  loads and stores by width
//! ```
//!
//! Each term is computed for k threads and then weighted by how long k threads were at work ([`Team::seconds`]). In-core
//! terms contain no memory stalls. A term without measured ceilings is `None` with the reason in its trace.

pub mod access;
pub mod bandwidth;
pub mod chain;
pub mod issue;
pub mod latency;
pub mod llc_retention;
pub mod misses;
pub mod paging;
pub mod pipe;
pub mod spread;
pub mod vector;
pub mod zeroed;

use rprof_profile::Function;
use rprof_profile::function::Terms;

use super::deficiency::{Deficiency, Removed};
use super::host::{Host, Trace};
use super::memory_side;
use super::reuse::Reuse;
use super::surroundings::Surroundings;
use super::team::Team;
use spread::Spread;
use vector::Vector;

/// The nine terms in the order in which a tie is decided: the core before memory, the pipes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TermId {
    Pipe,
    Chain,
    Access,
    Issue,
    L1,
    L2,
    L3,
    Dram,
    Latency,
}

impl TermId {
    /// All nine.
    pub const ALL: [TermId; 9] = [
        TermId::Pipe,
        TermId::Chain,
        TermId::Access,
        TermId::Issue,
        TermId::L1,
        TermId::L2,
        TermId::L3,
        TermId::Dram,
        TermId::Latency,
    ];

    /// The name in `terms` of the profile.
    pub fn name(self) -> &'static str {
        match self {
            TermId::Pipe => "pipe",
            TermId::Chain => "chain",
            TermId::Access => "access",
            TermId::Issue => "issue",
            TermId::L1 => "l1",
            TermId::L2 => "l2",
            TermId::L3 => "l3",
            TermId::Dram => "dram",
            TermId::Latency => "latency",
        }
    }

    /// The deficiencies that the term depends on, as [`Subject::term`] says.
    pub fn depends_on(self) -> Removed {
        use Deficiency as D;
        let own: &[Deficiency] = match self {
            TermId::Pipe => &[D::Simd, D::Fma, D::DivSqrt],
            TermId::Chain => &[D::Ilp, D::Simd],
            TermId::Access => &[D::Access, D::Simd],
            TermId::Issue => &[D::Mix, D::Simd, D::DivSqrt],
            TermId::L1 => &[],
            TermId::L2 | TermId::L3 => &misses::KINDS,
            TermId::Dram => &[D::WriteAllocate, D::SmallPages, D::MemoryImbalance],
            TermId::Latency => &[D::Latency, D::SmallPages],
        };
        let misses: &[Deficiency] = if self == TermId::Dram { &misses::KINDS } else { &[] };
        own.iter().chain(misses).copied().chain([D::Threads, D::Imbalance]).collect()
    }

    /// Whether the resource is in the core (A.3: no memory stalls).
    pub fn in_core(self) -> bool {
        matches!(self, TermId::Pipe | TermId::Chain | TermId::Access | TermId::Issue)
    }
}

/// One term of one function.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Term {
    /// Least seconds, or `None` if not computable.
    pub seconds: Option<f64>,
    /// The ceilings that it was computed from.
    pub trace: Trace,
}

/// A function's facts together with the host's ceilings: the input to every term.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The function or loop.
    pub function: &'a Function,
    /// Its machine.
    pub host: Host<'a>,
    /// On how many threads it ran.
    pub team: Team,
    /// Mean / greatest load of the memory controllers, if they were uneven while it ran.
    pub uneven: Option<f64>,
    /// How its bytes from memory are spread over its threads.
    pub spread: Spread,
    /// The part of its work that wider vectors could do.
    pub vector: Vector,
    /// Earlier places of its lines from memory.
    pub reuse: Reuse,
}

impl<'a> Subject<'a> {
    /// Joins `function`, `host` and the surroundings `around`.
    pub fn new(function: &'a Function, host: Host<'a>, around: &Surroundings) -> Self {
        let even = Subject {
            function,
            host,
            team: Team::of(function),
            uneven: None,
            spread: Spread::of(function),
            vector: Vector::of(function, host),
            reuse: Reuse::of(function, around),
        };
        Subject { uneven: memory_side::of_function(&even), ..even }
    }

    /// Share of its elapsed time in which no other function was at work.
    pub fn alone_share(&self) -> Option<f64> {
        let f = self.function;
        f.exclusive_s.zip(f.time_s).filter(|(_, t)| *t > 0.0).map(|(alone, t)| (alone / t).clamp(0.0, 1.0))
    }

    /// Term `id` with the deficiencies in `removed` gone.
    ///
    /// Removing one shortens only its own terms: SIMD pipe, chain, issue and access of the code that becomes vector instructions; FMA pipe;
    /// the divider pipe, at the price of its replacement in pipe and issue; ILP chain, of chains that can be broken; mix
    /// issue; access access; latency latency, down to that of as many misses at once as there can be; write-allocate dram; the
    /// miss kinds l2, l3 and dram; small pages latency and dram. Threads and imbalance change the team of every term.
    pub fn term(&self, id: TermId, removed: Removed) -> Term {
        let gone = match id {
            TermId::Issue => removed.has(Deficiency::Mix),
            TermId::Access => removed.has(Deficiency::Access),
            _ => false,
        };
        if gone {
            return Term { seconds: Some(0.0), trace: Trace::default() };
        }
        let mut trace = Trace::default();
        let shares_data = id == TermId::Dram && self.spread.is_uneven() && self.shares_data_out(removed);
        // Threads that have as many bytes as the others work as long as these.
        let team = self.team.without(if shares_data { removed.and(Deficiency::Imbalance) } else { removed });
        let seconds = team.seconds(|threads| match id {
            TermId::Pipe => pipe::seconds(self, threads, removed, &mut trace),
            TermId::Chain => chain::seconds(self, threads, removed, &mut trace),
            TermId::Access => access::seconds(self, threads, removed, &mut trace),
            TermId::Issue => issue::seconds(self, threads, removed, &mut trace),
            TermId::Latency => latency::seconds(self, threads, removed, &mut trace),
            TermId::L1 | TermId::L2 | TermId::L3 => bandwidth::cache_seconds(self, id, threads, removed, &mut trace),
            TermId::Dram => bandwidth::dram_seconds(self, threads, removed, &mut trace),
        });
        let uneven = id == TermId::Dram && self.spread.is_uneven() && !shares_data;
        let alone = uneven.then(|| self.spread.seconds(|k| bandwidth::dram_seconds(self, k, removed, &mut trace)));
        let seconds = match alone.flatten() {
            Some(alone) => seconds.map(|together| together.max(alone)),
            None => seconds,
        };
        if let (TermId::Dram, Some(balance), false) = (id, self.uneven, removed.has(Deficiency::MemoryImbalance)) {
            trace.from.insert(memory_side::BALANCE.into());
            return Term { seconds: seconds.map(|s| s / balance), trace };
        }
        Term { seconds, trace }
    }

    /// Whether removing these lets all threads move as many bytes: their data is shared out, or the work that goes with it.
    fn shares_data_out(&self, removed: Removed) -> bool {
        let evens_work = || self.team.without(Removed::only(Deficiency::Imbalance)) != self.team;
        removed.has(Deficiency::MemoryImbalance) || removed.has(Deficiency::Imbalance) && evens_work()
    }

    /// All nine terms in the order of [`TermId::ALL`].
    pub fn terms(&self, removed: Removed) -> [(TermId, Term); 9] {
        TermId::ALL.map(|id| (id, self.term(id, removed)))
    }
}

/// The terms as the profile stores them.
pub fn stored(terms: &[(TermId, Term); 9]) -> Terms {
    let get = |id: TermId| terms.iter().find(|(t, _)| *t == id).and_then(|(_, term)| term.seconds);
    Terms {
        pipe: get(TermId::Pipe),
        chain: get(TermId::Chain),
        issue: get(TermId::Issue),
        access: get(TermId::Access),
        l1: get(TermId::L1),
        l2: get(TermId::L2),
        l3: get(TermId::L3),
        dram: get(TermId::Dram),
        latency: get(TermId::Latency),
    }
}
