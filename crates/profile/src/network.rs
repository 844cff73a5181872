//! Ceilings of the network between the ranks of a job, measured with the job's own MPI library (docs/mpi.md).

use serde::{Deserialize, Serialize};

use super::mpi_name::MpiName;

/// What messages and collective calls cost between certain hosts, with a certain library.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Network {
    /// File of the MPI library.
    pub library: String,
    /// Origin of the library; `null`: an older rprof measured.
    #[serde(default)]
    pub library_of: Option<LibraryOf>,
    /// Its build id, in hexadecimal digits.
    pub build_id: Option<String>,
    /// Variables of the environment that change how the library sends: (name, value), by name.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// The hosts, with their ranks.
    pub hosts: Vec<NetworkHost>,
    /// Messages from rank to rank.
    pub pairs: Vec<PairCurve>,
    /// Collective calls.
    #[serde(default)]
    pub collectives: Vec<CollectiveCurve>,
    /// Missing measurements, each with the reason.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// Origin of the library that was measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibraryOf {
    /// The program loads it when it starts.
    Program,
    /// The program loads none when it starts, or no program was named: this host's library of the launcher's family.
    Launcher,
}

/// A host of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkHost {
    /// Its name.
    pub name: String,
    /// Ranks of `MPI_COMM_WORLD` there, ascending.
    pub ranks: Vec<u32>,
}

/// How far apart ranks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// On one host.
    #[default]
    SameHost,
    /// On several.
    OtherHost,
}

impl Distance {
    /// What their messages go through.
    pub fn words(self) -> &'static str {
        match self {
            Distance::SameHost => "shared memory between ranks",
            Distance::OtherHost => "network",
        }
    }
}

/// Sustained speed of messages between ranks of one distance.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PairCurve {
    /// Of the ranks.
    pub distance: Distance,
    /// Pairs of ranks that exchanged messages at the same time: they share the link.
    pub at_once: u32,
    /// Seconds of a message from send to its arrival (half of a ping-pong), by bytes.
    pub one_way: Curve,
    /// Seconds of the exchange of two messages in both directions (`MPI_Sendrecv`), by bytes of one of them.
    pub exchange: Curve,
    /// Seconds of a message of 0 bytes.
    pub latency_s: Option<f64>,
    /// Bytes a second of long messages that follow one another until a burst is used up.
    pub bytes_per_s: Option<f64>,
    /// Bytes that go faster than that at first; `null`: no burst was seen.
    pub burst_bytes: Option<u64>,
    /// From this number of bytes on, sender and receiver meet before the data go (rendezvous): the break of the curve; `null`: none
    /// was seen.
    pub rendezvous_bytes: Option<u64>,
}

/// Cost of a collective call.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CollectiveCurve {
    /// The function: `MPI_Allreduce`.
    pub call: String,
    /// Ranks of the communicator.
    pub members: u32,
    /// How far apart they are.
    pub distance: Distance,
    /// Seconds of a call that all ranks begin together, until the last one returns, by the bytes that one rank hands over (docs/mpi.md; the
    /// root, if there is one).
    pub cost: Curve,
}

/// Seconds by bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Curve {
    /// Ascending by bytes.
    pub points: Vec<CurvePoint>,
}

/// A measured point of a [`Curve`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Bytes.
    pub bytes: u64,
    /// Median of the rounds.
    pub seconds: f64,
    /// Shortest round.
    pub least_s: f64,
}

impl Network {
    /// Whether its figures can be such: a file may have been changed.
    pub fn is_possible(&self) -> bool {
        let is_duration = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        let ranks: usize = self.hosts.iter().map(|host| host.ranks.len()).sum();
        let costs = self.collectives.iter().map(|collective| &collective.cost);
        let mut curves = self.pairs.iter().flat_map(|pair| [&pair.one_way, &pair.exchange]).chain(costs);
        self.pairs.iter().filter_map(|pair| pair.latency_s).all(is_duration)
            && self.pairs.iter().filter_map(|pair| pair.bytes_per_s).all(|rate| is_duration(rate) && rate > 0.0)
            && self.collectives.iter().all(|collective| collective.members as usize <= ranks)
            && curves.all(|curve| {
                curve.points.is_sorted_by(|a, b| a.bytes < b.bytes)
                    && curve.points.iter().all(|point| {
                        is_duration(point.least_s) && is_duration(point.seconds) && point.least_s <= point.seconds
                    })
            })
    }
}

impl Curve {
    /// Seconds of `bytes`: between measured points along the line between them, above the last one at the rate of the last two (of the
    /// last one, if there is only one). `None`: nothing was measured.
    pub fn seconds(&self, bytes: f64) -> Option<f64> {
        let first = self.points.first()?;
        let after = self.points.partition_point(|point| (point.bytes as f64) < bytes);
        let (a, b) = match (after, self.points.len()) {
            (0, _) => return Some(first.seconds),
            (_, 1) => return Some(first.seconds * bytes / (first.bytes as f64).max(1.0)),
            (after, n) if after == n => (self.points[n - 2], self.points[n - 1]),
            (after, _) => (self.points[after - 1], self.points[after]),
        };
        let slope = (b.seconds - a.seconds) / b.bytes.saturating_sub(a.bytes).max(1) as f64;
        let from_last = b.seconds + slope * (bytes - b.bytes as f64);
        // If the last two points fall, the last one's rate holds.
        Some(if slope < 0.0 && bytes > b.bytes as f64 { b.seconds * bytes / b.bytes as f64 } else { from_last })
    }
}

/// The call that gives the curve for a collective call: that of even parts, which returns when it is done. `MPI_Ialltoallv_c` has
/// that of `MPI_Alltoall`.
pub fn curve_of(call: &str) -> String {
    let Some(name) = MpiName::of(call) else { return call.to_owned() };
    let name = name.blocking();
    let is_uneven = ["Gatherv", "Allgatherv", "Alltoallv", "Scatterv"].contains(&&*name);
    format!("MPI_{}", if is_uneven { &name[..name.len() - 1] } else { &name })
}

impl Network {
    /// Messages between ranks of a distance, with the most pairs at the same time that are no more than `at_once` (else the fewest).
    pub fn pair(&self, distance: Distance, at_once: u32) -> Option<&PairCurve> {
        let of_distance = || self.pairs.iter().filter(|pair| pair.distance == distance);
        let within = of_distance().filter(|pair| pair.at_once <= at_once).max_by_key(|pair| pair.at_once);
        within.or_else(|| of_distance().min_by_key(|pair| pair.at_once))
    }

    /// The cost of a collective call of `members` ranks; `None`: not measured.
    pub fn collective(&self, call: &str, members: u32) -> Option<&CollectiveCurve> {
        let of = |name: &str| self.collectives.iter().find(|curve| curve.call == name && curve.members == members);
        of(call).or_else(|| of(&curve_of(call)))
    }

    /// What is between the ranks: those of one host share its memory.
    pub fn distance(&self) -> Distance {
        if self.hosts.len() > 1 { Distance::OtherHost } else { Distance::SameHost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> Curve {
        Curve {
            points: points.iter().map(|&(bytes, seconds)| CurvePoint { bytes, seconds, least_s: seconds }).collect(),
        }
    }

    #[test]
    fn between_points_is_a_line_and_beyond_the_last_their_rate() {
        let measured = curve(&[(0, 1e-6), (100, 2e-6), (1100, 12e-6)]);
        for (bytes, seconds) in [(0.0, 1e-6), (50.0, 1.5e-6), (600.0, 7e-6), (1100.0, 12e-6), (2100.0, 22e-6)] {
            assert!((measured.seconds(bytes).unwrap() - seconds).abs() < 1e-12, "{bytes}");
        }
        assert_eq!(curve(&[]).seconds(5.0), None);
        assert_eq!(curve(&[(100, 1e-6)]).seconds(1000.0), Some(1e-5));
        assert_eq!(curve(&[(50, 3e-6), (100, 1e-6)]).seconds(1000.0), Some(1e-5), "falling");
    }

    #[test]
    fn variants_of_a_call_have_its_curve() {
        let names = ["MPI_Ialltoallv_c", "MPI_Allgatherv", "MPI_Ibcast", "MPI_Allreduce", "MPI_Barrier"].map(curve_of);
        assert_eq!(names, ["MPI_Alltoall", "MPI_Allgather", "MPI_Bcast", "MPI_Allreduce", "MPI_Barrier"]);
    }

    #[test]
    fn the_curve_of_as_many_pairs_is_found() {
        let pair = |at_once| PairCurve { at_once, distance: Distance::OtherHost, ..PairCurve::default() };
        let network = Network { pairs: vec![pair(1), pair(4)], ..Network::default() };
        let found = |n| network.pair(Distance::OtherHost, n).map(|pair| pair.at_once);
        assert_eq!((found(1), found(2), found(9), found(0)), (Some(1), Some(1), Some(4), Some(1)));
        assert_eq!(network.pair(Distance::SameHost, 1), None);
    }
}
