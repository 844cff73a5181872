//! What a program did with MPI, by call site (docs/mpi.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::communication::Communication;
use super::evidence::mpi::{Communicator, MpiCall, NetworkMissing, Traffic};
use super::grouped;
use super::peer::Peer;
use super::site_key::SiteKey;
use super::source::{Figures, Source, joined};

/// Calls of MPI of one rank, or of all ranks of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Mpi {
    /// Ranks of `MPI_COMM_WORLD`; `null` if neither program nor launcher says.
    pub ranks: Option<u32>,
    /// Call sites, those with most time first.
    pub sites: Vec<CallSite>,
    /// A process ran natively from some time on: calls and bytes are those before.
    #[serde(default)]
    pub at_least: bool,
    /// Why waiting and transfer are `null`; `null` if they are not.
    pub split_missing: Option<String>,
    /// Messages of ranks with one another and their waiting, the longest first; only if the ranks' single calls were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// Calls with a message, or several, from or to an unknown rank: they are not in `peers`.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub calls_without_peer: u64,
    /// Rows of `peers` that are not there: there were too many.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub peers_left_out: u64,
    /// The clocks of the hosts were compared by messages, within these seconds; `null`: one host, or they were not compared.
    #[serde(default)]
    pub clock_error_s: Option<f64>,
    /// Seconds in calls in the timed pass by those in the counted pass, at most 1: what the ranks' time leaves for them; `null`: not known.
    #[serde(default)]
    pub timed_share: Option<f64>,
    /// Functions by the seconds that they communicate, with all that they call; in merged profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Communication>,
    /// POP's efficiencies of the job; `null` in the profile of one rank.
    #[serde(default)]
    pub efficiency: Option<Efficiency>,
    /// Bytes that crossed the network; `null` if no counted pass saw calls.
    #[serde(default)]
    pub network: Option<NetworkBytes>,
}

fn is_none_left_out(number: &u64) -> bool {
    *number == 0
}

/// Bytes that crossed the network between hosts, as the ranks' system calls say: without headers and retransmissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkBytes {
    /// To other hosts, within and outside of calls; `null` if that is not known of all.
    pub sent: Option<u64>,
    /// From other hosts.
    pub received: Option<u64>,
    /// The part of both that is of no call: the library's own threads, and the program itself.
    pub outside: Traffic,
    /// To and from the own host through sockets: no network.
    pub within_host: Traffic,
    /// Through RDMA ports of a host while it ran, by all programs; `null` if there are none, and of several hosts.
    pub host_ports: Option<Traffic>,
    /// How it was measured.
    pub method: NetworkMethod,
    /// Why `sent` and `received` are `null`; `null` if they are not.
    pub missing: Option<NetworkMissing>,
}

/// How bytes that crossed the network were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMethod {
    /// Results of system calls on sockets.
    SocketCalls,
}

impl NetworkBytes {
    /// Of two ranks.
    pub fn plus(self, other: NetworkBytes) -> NetworkBytes {
        let both = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        let sum = |mut a: Traffic, b: Traffic| {
            a += b;
            a
        };
        NetworkBytes {
            sent: both(self.sent, other.sent),
            received: both(self.received, other.received),
            outside: sum(self.outside, other.outside),
            within_host: sum(self.within_host, other.within_host),
            // Ranks of one host see the same ports.
            host_ports: None,
            method: self.method,
            missing: self.missing.or(other.missing),
        }
    }
}

impl Mpi {
    /// Seconds in the calls of a site, as long as they are in the timed pass.
    pub fn timed_s(&self, site: &CallSite) -> Option<f64> {
        site.time_s.map(|time| self.timed_share.unwrap_or(1.0) * time)
    }

    /// Seconds of waiting of a site, as long as they are in the timed pass.
    pub fn timed_waiting_s(&self, site: &CallSite) -> Option<f64> {
        site.waiting_s.map(|waiting| self.timed_share.unwrap_or(1.0) * waiting)
    }

    /// Whether its times are those of samples: no counted pass saw the calls.
    pub fn is_sampled(&self) -> bool {
        self.sites.iter().any(CallSite::is_sampled)
    }

    /// Adds call sites; those of one place are one.
    pub fn add(&mut self, sites: impl IntoIterator<Item = CallSite>) {
        grouped::add(&mut self.sites, sites, CallSite::key, CallSite::plus);
    }

    /// Puts the sites with most time first.
    pub fn sort(&mut self) {
        self.sites.sort_by(|a, b| b.time_s.unwrap_or(0.0).total_cmp(&a.time_s.unwrap_or(0.0)));
    }
}

/// Calls of one function from one place.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CallSite {
    /// The function that calls.
    pub caller: String,
    /// Its module.
    pub module: String,
    /// Source file and line, if known.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// The place of the call in its module: hexadecimal offset.
    pub site: String,
    /// The function of MPI.
    pub call: String,
    /// The rank; `null` if several are put together or it is not known.
    pub rank: Option<u32>,
    /// Calls; `null` if only samples saw some.
    pub calls: Option<u64>,
    /// Bytes that they passed; `null` if that is not known of some of them.
    pub bytes: Option<u64>,
    /// Calls with an unknown number of bytes.
    pub unknown_calls: u64,
    /// Seconds from call to return, on and off the CPU, of the calls with an observed return, in the counted pass; without one those on
    /// the CPU, by samples.
    pub time_s: Option<f64>,
    /// Calls with an observed return.
    pub timed_calls: u64,
    /// Seconds of them in which another rank was not there yet.
    pub waiting_s: Option<f64>,
    /// The other seconds: transfer, and the library's own work.
    pub transfer_s: Option<f64>,
    /// Ranks of the communicator; `null` if that is not known or the calls differ.
    #[serde(default)]
    pub members: Option<u32>,
    /// Calls with a partner on another host; `null`: not known.
    #[serde(default)]
    pub far_calls: Option<u64>,
    /// Bytes of the messages that it received, as their senders say; `null` if a sender is not known.
    #[serde(default)]
    pub received: Option<u64>,
    /// Calls by size, ascending.
    pub sizes: Vec<SizeClass>,
    /// Bytes that the calls sent to other hosts; `null` if that is not known.
    #[serde(default)]
    pub network_sent: Option<u64>,
    /// Bytes that they received from other hosts.
    #[serde(default)]
    pub network_received: Option<u64>,
    /// Bytes that have to cross between hosts, whatever the algorithm (a model); `null` if it is not known, and in the profile of one
    /// rank.
    #[serde(default)]
    pub needed: Option<f64>,
    /// The source of `calls`, `bytes`, `time_s` and `waiting_s`, if it is not a counted pass.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source: BTreeMap<String, Source>,
}

/// Calls that pass at least this number of bytes and less than twice as many; the class of 0 has those of 0 alone. In the file:
/// `[from, calls, bytes]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SizeClass(
    /// Least bytes.
    pub u64,
    /// Calls.
    pub u64,
    /// Their bytes.
    #[serde(default)]
    pub u64,
);

/// POP's efficiencies (Performance Optimisation and Productivity, pop-coe.eu): the product of the latter two is the first. Elapsed seconds are
/// those of the whole program in the timed pass, `MPI_Init` and `MPI_Finalize` included, which POP leaves out: calls have no times there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Efficiency {
    /// Mean of the ranks' seconds at work / elapsed seconds.
    pub parallel: f64,
    /// Mean of the ranks' seconds at work / those of the busiest.
    pub load_balance: f64,
    /// Seconds at work of the busiest rank / elapsed seconds.
    pub communication: f64,
}

impl CallSite {
    /// Its calls and bytes are not known, for this reason.
    pub fn leave_calls_out(&mut self, reason: &str) {
        (self.calls, self.bytes, self.unknown_calls) = (None, None, 0);
        (self.network_sent, self.network_received, self.needed) = (None, None, None);
        self.sizes.clear();
        let sources = ["calls", "bytes"].map(|figure| (figure.to_owned(), Source::not_measured(reason.to_owned())));
        self.source.extend(sources);
    }

    /// Adds the calls of another thread or rank from the same place.
    pub fn plus(&mut self, other: &CallSite) {
        let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        self.source = joined(&self.figures(), &other.figures());
        self.rank = self.rank.filter(|_| self.rank == other.rank);
        self.calls = self.calls.zip(other.calls).map(|(a, b)| a + b);
        self.bytes = self.bytes.zip(other.bytes).map(|(a, b)| a + b);
        self.unknown_calls += other.unknown_calls;
        self.time_s = match (self.time_s, other.time_s) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.timed_calls += other.timed_calls;
        self.waiting_s = both(self.waiting_s, other.waiting_s);
        self.transfer_s = both(self.transfer_s, other.transfer_s);
        self.far_calls = self.far_calls.zip(other.far_calls).map(|(a, b)| a + b);
        self.received = self.received.zip(other.received).map(|(a, b)| a + b);
        self.members = self.members.filter(|_| self.members == other.members);
        self.network_sent = self.network_sent.zip(other.network_sent).map(|(a, b)| a + b);
        self.network_received = self.network_received.zip(other.network_received).map(|(a, b)| a + b);
        self.needed = both(self.needed, other.needed);
        for class in &other.sizes {
            match self.sizes.iter_mut().find(|known| known.0 == class.0) {
                Some(known) => (known.1, known.2) = (known.1 + class.1, known.2 + class.2),
                None => self.sizes.push(*class),
            }
        }
        self.sizes.sort_unstable();
    }
}

impl CallSite {
    /// One of the calls with an unknown number of bytes passed `bytes`.
    pub fn knows_bytes(&mut self, bytes: u64) {
        if self.unknown_calls == 0 {
            return;
        }
        self.unknown_calls -= 1;
        let from = if bytes == 0 { 0 } else { 1 << bytes.ilog2() };
        match self.sizes.iter_mut().find(|class| class.0 == from) {
            Some(class) => (class.1, class.2) = (class.1 + 1, class.2 + bytes),
            None => self.sizes.push(SizeClass(from, 1, bytes)),
        }
        self.sizes.sort_unstable();
        if self.unknown_calls == 0 {
            self.source.remove("bytes");
            self.bytes = Some(self.sizes.iter().map(|class| class.2).sum());
        }
    }

    /// Whether it moves data or waits: it does not begin, end, ask, or make handles.
    pub fn is_communication(&self) -> bool {
        let others = ["MPI_Init", "MPI_Finalize", "MPI_Comm_", "MPI_Type_", "MPI_Cart_", "MPI_Cancel"];
        !others.iter().any(|name| self.call.starts_with(name))
    }

    /// Whether its time is that of samples: no counted pass saw its calls.
    pub fn is_sampled(&self) -> bool {
        self.source.get("time_s").is_some_and(|source| source.how == "sampled")
    }

    /// Half-width of the 95 % interval of a figure, relative; `None`: not an estimate, or not known.
    pub fn error(&self, figure: &str) -> Option<f64> {
        self.source.get(figure)?.error
    }

    /// The figures that have a source.
    fn figures(&self) -> Figures<'_> {
        let number = |n: Option<u64>| n.map(|n| n as f64);
        let values = [
            ("calls", number(self.calls)),
            ("bytes", number(self.bytes)),
            ("time_s", self.time_s),
            ("waiting_s", self.waiting_s),
        ];
        Figures { source: &self.source, values: values.into_iter().filter_map(|(k, v)| Some((k, v?))).collect() }
    }

    /// What distinguishes it from other sites of its rank.
    pub fn key(&self) -> SiteKey {
        SiteKey {
            caller: self.caller.clone(),
            module: self.module.clone(),
            site: self.site.clone(),
            call: self.call.clone(),
        }
    }
}

/// Single calls of a rank, for matching with those of others: a file beside `profile.json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RankCalls {
    /// The rank in `MPI_COMM_WORLD`.
    pub rank: Option<u32>,
    /// The job's name, as the rank's profile has it.
    pub job: Option<String>,
    /// The host.
    pub host: String,
    /// Identifies the clock of the times: by the boot of its kernel, which containers share, or the host if that is not known.
    /// Filled in for the comparison.
    #[serde(skip)]
    pub clock: String,
    /// Call sites that the calls refer to.
    pub sites: Vec<SiteKey>,
    /// Communicators that the calls refer to: the first is `MPI_COMM_WORLD`.
    pub communicators: Vec<Communicator>,
    /// The calls, in order of their end.
    pub calls: Vec<MpiCall>,
    /// Calls that are not there.
    pub left_out: u64,
}
