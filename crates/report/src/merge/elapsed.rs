//! Elapsed time of merged functions, and how many threads were at work in it.

use super::jobs::Arrangement;
use rprof_profile::Function;

/// Adds the time of `other` to that of `into`.
pub fn add(into: &mut Function, other: &Function, arrangement: Arrangement) {
    match arrangement {
        Arrangement::SideBySide => beside(into, other),
        Arrangement::InTurn => in_turn(into, other),
    }
}

/// Ranks work at the same time: the shorter time lies within the longer one, and the rest of the longer one has its own threads alone.
fn beside(into: &mut Function, other: &Function) {
    let times = into.time_s.zip(other.time_s);
    into.lambda = times.and_then(|(a, b)| lambda((into, a), (other, b)));
    into.concurrency = times.map_or(Vec::new(), |(a, b)| {
        let ((short, short_s), (long, long_s)) = if a <= b {
            ((&into.concurrency, a), (&other.concurrency, b))
        } else {
            ((&other.concurrency, b), (&into.concurrency, a))
        };
        mean_of(&together(short, long), short_s, long, long_s - short_s)
    });
    into.time_s = times.map(|(a, b)| a.max(b));
    into.fault_time_s = into.fault_time_s.zip(other.fault_time_s).map(|(a, b)| a.max(b));
    into.time_ci95_s = into.time_ci95_s.zip(other.time_ci95_s).map(|(a, b)| a.max(b));
    into.exclusive_s = into.exclusive_s.zip(other.exclusive_s).map(|(a, b)| a.min(b));
    into.team = into.team.zip(other.team).map(|(a, b)| a + b);
    // Ranks that are bound have CPUs of their own; those that are not share them, and are no more than the host's cores.
    into.allowed_cpus = into.allowed_cpus.zip(other.allowed_cpus).map(|(a, b)| a + b);
}

fn in_turn(into: &mut Function, other: &Function) {
    let times = into.time_s.zip(other.time_s);
    into.concurrency = times.map_or(Vec::new(), |(a, b)| mean_of(&into.concurrency, a, &other.concurrency, b));
    into.time_s = times.map(|(a, b)| a + b);
    into.fault_time_s = into.fault_time_s.zip(other.fault_time_s).map(|(a, b)| a + b);
    into.time_ci95_s = into.time_ci95_s.zip(other.time_ci95_s).map(|(a, b)| a.hypot(b));
    into.exclusive_s = into.exclusive_s.zip(other.exclusive_s).map(|(a, b)| a + b);
    into.team = into.team.zip(other.team).map(|(a, b)| a.max(b));
    into.lambda = into.lambda.zip(other.lambda).map(|(a, b)| a.min(b));
    into.allowed_cpus = into.allowed_cpus.zip(other.allowed_cpus).map(|(a, b)| a.max(b));
}

/// λ = Σ busy / (n · time) of both together: λ · n · time of each is its Σ busy.
fn lambda((a, a_s): (&Function, f64), (b, b_s): (&Function, f64)) -> Option<f64> {
    let busy = |f: &Function, seconds: f64| Some(f.lambda? * f64::from(f.team?) * seconds);
    let members = f64::from(a.team? + b.team?);
    let longest = a_s.max(b_s);
    if longest <= 0.0 || members <= 0.0 {
        return None;
    }
    Some(((busy(a, a_s)? + busy(b, b_s)?) / (members * longest)).min(1.0))
}

/// k threads here and j there are k + j at work (independent of one another, at the same time).
fn together(a: &[f64], b: &[f64]) -> Vec<f64> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let mut out = vec![0.0; a.len() + b.len()];
    for (i, p) in a.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        for (j, q) in b.iter().enumerate() {
            out[i + j + 1] += p * q;
        }
    }
    out
}

/// The share of time with k threads at work over both times.
fn mean_of(a: &[f64], a_s: f64, b: &[f64], b_s: f64) -> Vec<f64> {
    if a.is_empty() || b.is_empty() || a_s + b_s <= 0.0 {
        return Vec::new();
    }
    let share = |of: &[f64], k: usize| of.get(k).copied().unwrap_or(0.0);
    (0..a.len().max(b.len())).map(|k| (share(a, k) * a_s + share(b, k) * b_s) / (a_s + b_s)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_is_done_leaves_the_others_at_work() {
        let rank = |time_s, lambda| Function {
            time_s: Some(time_s),
            team: Some(1),
            lambda: Some(lambda),
            concurrency: vec![1.0],
            ..Function::default()
        };
        let mut whole = rank(1.0, 1.0);
        add(&mut whole, &rank(4.0, 1.0), Arrangement::SideBySide);
        assert_eq!(whole.concurrency, [0.75, 0.25]);
        assert_eq!((whole.time_s, whole.team, whole.lambda), (Some(4.0), Some(2), Some(5.0 / 8.0)));
        add(&mut whole, &rank(4.0, 1.0), Arrangement::SideBySide);
        assert_eq!(whole.concurrency, [0.0, 0.75, 0.25]);
        assert_eq!(whole.lambda, Some(9.0 / 12.0));
    }
}
