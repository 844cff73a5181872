//! Memory imbalance between threads (A.2.2): a thread that moves bytes alone does so at the bandwidth of one core.
//!
//! ```text
//! b_1 ≥ b_2 ≥ … ≥ b_n   bytes of each thread         share(k) = k · (b_k − b_k+1) / Σ b        b_n+1 = 0
//! T_dram = Σ_k share(k) · T_dram(k)                  T_dram(k): all its bytes at the bandwidth of k cores
//! ```
//!
//! All threads start together, and those that have little are done first.

use rprof_profile::Function;

/// Least part moved by all threads together from which they count as even: sampling windows do not see all threads alike.
const EVEN: f64 = 0.75;

/// Shares of a function's bytes from memory by how many threads move them at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread {
    /// `shares[k-1]` = share(k); empty if threads are even or it is not known.
    shares: Vec<f64>,
    /// Bytes of the busiest thread / all.
    pub busiest: f64,
}

impl Spread {
    /// From the bytes of each thread of `function`.
    pub fn of(function: &Function) -> Spread {
        let team = function.team.unwrap_or(1) as usize;
        let mut bytes: Vec<f64> = function.per_thread.iter().filter_map(|t| t.dram_bytes).map(|b| b as f64).collect();
        let all: f64 = bytes.iter().sum();
        if team < 2 || bytes.is_empty() || all <= 0.0 {
            return Spread::default();
        }
        bytes.sort_unstable_by(|a, b| b.total_cmp(a));
        bytes.resize(team.max(bytes.len()), 0.0);
        bytes.push(0.0);
        let shares: Vec<f64> = (1..bytes.len()).map(|k| k as f64 * (bytes[k - 1] - bytes[k]) / all).collect();
        if shares.last().is_none_or(|together| *together >= EVEN) {
            return Spread::default();
        }
        Spread { shares, busiest: bytes[0] / all }
    }

    /// Some threads move much more than others.
    pub fn is_uneven(&self) -> bool {
        !self.shares.is_empty()
    }

    /// T_dram from that at each number of threads; `None` if a needed one is.
    pub fn seconds(&self, mut at: impl FnMut(u32) -> Option<f64>) -> Option<f64> {
        let parts = self.shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
        parts.map(|(i, share)| at(i as u32 + 1).map(|seconds| share * seconds)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::function::PerThread;

    fn spread(bytes: &[u64]) -> Spread {
        let per_thread = bytes.iter().map(|b| PerThread { dram_bytes: Some(*b), ..PerThread::default() }).collect();
        Spread::of(&Function { team: Some(bytes.len() as u32), per_thread, ..Function::default() })
    }

    #[test]
    fn one_thread_with_all_bytes_has_the_bandwidth_of_one_core() {
        let seconds = |bytes: &[u64]| spread(bytes).seconds(|k| Some(12.0 / f64::from(k)));
        assert_eq!(seconds(&[100, 0]), Some(12.0));
        assert_eq!(seconds(&[0, 75, 25]), Some(0.5 * 12.0 + 0.5 * 6.0), "half of them alone, half by two");
        assert!(!spread(&[50, 50]).is_uneven() && !spread(&[100]).is_uneven() && !spread(&[0, 0]).is_uneven());
    }
}
