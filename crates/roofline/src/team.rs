//! On how many threads a function really ran: the weights of the parallel ceiling Σ p_k · C(k).

use rprof_profile::Function;

use super::deficiency::{Deficiency, Removed};

/// Shares of a function's elapsed time by the number of threads at work in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Team {
    /// `weights[k-1]` = p_k; sums to 1.
    weights: Vec<f64>,
    /// Threads that had work in it.
    pub size: u32,
    /// CPUs that its threads were allowed, if known.
    pub allowed: Option<u32>,
    /// λ, its load balance, if known.
    pub balance: Option<f64>,
}

impl Team {
    /// Takes the concurrency profile of `function`. Without one, the model assumes that its whole team is at work; without a known
    /// team, that a single thread is.
    pub fn of(function: &Function) -> Team {
        let total: f64 = function.concurrency.iter().filter(|p| **p > 0.0).sum();
        let size = function.team.unwrap_or(1).max(1);
        let mut weights: Vec<f64> = function.concurrency.iter().map(|p| p.max(0.0) / total).collect();
        if !(total > 0.0 && total.is_finite()) {
            weights = vec![0.0; size as usize];
            weights[size as usize - 1] = 1.0;
        }
        Team { weights, size, allowed: function.allowed_cpus, balance: function.lambda }
    }

    /// The team as it would be with its work spread evenly: 1/λ times as many threads at work on average, all of them
    /// if λ is not known. CPU time lost to other programs (no part of λ) stays lost.
    fn balanced(&self) -> Team {
        let full = self.size.max(self.most());
        let mean = self.mean();
        let wanted = self.balance.filter(|l| *l > 0.0).map_or(f64::from(full), |l| (mean / l).min(f64::from(full)));
        if wanted <= mean {
            return self.clone();
        }
        let share = (wanted - mean) / (f64::from(full) - mean);
        let mut weights: Vec<f64> = self.weights.iter().map(|p| p * (1.0 - share)).collect();
        weights.resize(full as usize, 0.0);
        weights[full as usize - 1] += share;
        Team { weights, ..self.clone() }
    }

    /// The team as it would be with the parallel deficiencies in `removed` gone: imbalance, its work spread evenly over
    /// its members; threads, all allowed CPUs in use. Never fewer threads than it had.
    pub fn without(&self, removed: Removed) -> Team {
        let mut target = self.clone();
        if removed.has(Deficiency::Imbalance) && self.size > 1 {
            target = self.balanced();
        }
        if removed.has(Deficiency::Threads)
            && let Some(allowed) = self.allowed.filter(|a| *a > self.most())
        {
            target.weights = widened(&target.weights, self.most(), allowed);
        }
        target
    }

    /// The greatest number of threads that were at work at once.
    pub fn most(&self) -> u32 {
        self.weights.iter().rposition(|p| *p > 0.0).map_or(1, |i| i as u32 + 1)
    }

    /// Mean threads at work, Σ p_k · k.
    pub fn mean(&self) -> f64 {
        self.weights.iter().enumerate().map(|(i, p)| p * (i + 1) as f64).sum()
    }

    /// Seconds that work takes on this team: `1 / Σ p_k / T(k)`, T(k) = `seconds_at(k)`. `None` if a needed T(k) is.
    pub fn seconds(&self, mut seconds_at: impl FnMut(u32) -> Option<f64>) -> Option<f64> {
        let mut rate = 0.0;
        for (i, p) in self.weights.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let seconds = seconds_at(i as u32 + 1)?;
            if seconds <= 0.0 {
                return Some(0.0);
            }
            rate += p / seconds;
        }
        (rate > 0.0).then(|| 1.0 / rate)
    }
}

/// Weights of a team with busiest times that use `allowed` instead of `busiest` threads, the others in proportion.
fn widened(weights: &[f64], busiest: u32, allowed: u32) -> Vec<f64> {
    let mut wider = vec![0.0; allowed as usize];
    for (i, p) in weights.iter().enumerate() {
        let k = (i as u32 + 1) * allowed / busiest.max(1);
        wider[(k.clamp(1, allowed) - 1) as usize] += p;
    }
    wider
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(weights: &[f64], size: u32, allowed: u32) -> Team {
        Team { weights: weights.to_vec(), size, allowed: Some(allowed), balance: None }
    }

    #[test]
    fn an_uneven_team_runs_at_lambda_of_the_whole() {
        // Thread 1 does a third of thread 0's work: two threads for a third of the time, λ = 2/3.
        let uneven = team(&[2.0 / 3.0, 1.0 / 3.0], 2, 2);
        let seconds = uneven.seconds(|k| Some(1.0 / f64::from(k))).unwrap();
        let even = uneven.without(Removed::only(Deficiency::Imbalance)).seconds(|k| Some(1.0 / f64::from(k))).unwrap();
        assert!((even / seconds - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn what_other_programs_took_is_no_imbalance() {
        let preempted = Team { balance: Some(1.0), ..team(&[0.25, 0.75], 2, 2) };
        assert_eq!(preempted.without(Removed::only(Deficiency::Imbalance)), preempted);
        let both = Team { balance: Some(0.9), ..team(&[0.4, 0.6], 2, 2) };
        let mean = both.without(Removed::only(Deficiency::Imbalance)).mean();
        assert!((mean - 1.6 / 0.9).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn removing_threads_uses_every_allowed_cpu() {
        let alone = team(&[1.0], 1, 4).without(Removed::only(Deficiency::Threads));
        assert_eq!(alone.most(), 4);
        assert_eq!(alone.mean(), 4.0);
    }

    #[test]
    fn no_concurrency_means_the_whole_team() {
        let function = Function { team: Some(3), ..Function::default() };
        assert_eq!(Team::of(&function).mean(), 3.0);
        assert_eq!(Team::of(&Function::default()).mean(), 1.0);
    }

    #[test]
    fn a_missing_rate_makes_the_term_missing() {
        assert_eq!(team(&[0.5, 0.5], 2, 2).seconds(|k| (k == 1).then_some(1.0)), None);
    }
}
