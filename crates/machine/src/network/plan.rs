//! The measurements and their order: the work of rank 0.

use super::NetworkError;
use super::collectives::{self, Planned};
use super::hosts::Hosts;
use super::pairs;
use super::sizes;
use super::team::Team;
use super::wanted::Wanted;
use rprof_profile::network::{CollectiveCurve, Distance, Network};

/// After this number of seconds nothing new is begun.
const LONGEST_S: f64 = 60.0;

/// Whether `known` has all that is wanted and can be measured with these ranks.
pub fn has_all(known: &Network, hosts: &Hosts, wanted: &Wanted) -> bool {
    !known.pairs.is_empty() && left(known, hosts, wanted).is_empty()
}

/// The collective calls that `known` lacks.
fn left(known: &Network, hosts: &Hosts, wanted: &Wanted) -> Vec<Planned> {
    let (mut plan, _) = collectives::plan(&wanted.collectives, hosts.count());
    for planned in &mut plan {
        let curves: Vec<_> = planned.names.iter().map(|name| known.collective(name, planned.members)).collect();
        let is_left_out = |bytes: u64| known.missing.iter().any(|line| *line == planned.too_much(bytes));
        let is_known = |bytes: u64| {
            let has_it = |curve: &CollectiveCurve| curve.cost.points.iter().any(|point| point.bytes == bytes);
            curves.iter().all(|curve| curve.is_some_and(has_it))
        };
        let bytes = planned.bytes.iter().copied();
        planned.bytes = bytes.filter(|bytes| !is_known(*bytes) && !is_left_out(*bytes)).collect();
    }
    plan.retain(|planned| !planned.bytes.is_empty());
    plan
}

/// Completes `known` by the wanted measurements. `report` gets a line before each part, with the number of parts before it
/// and of all.
///
/// # Errors
/// [`NetworkError`]; earlier measurements are in `known`.
pub fn complete(
    team: &mut dyn Team,
    hosts: &Hosts,
    wanted: &Wanted,
    known: &mut Network,
    report: &mut dyn FnMut(&str, usize, usize),
) -> Result<(), NetworkError> {
    let (_, impossible) = collectives::plan(&wanted.collectives, hosts.count());
    let mut rows = Vec::new();
    if known.pairs.is_empty() {
        for distance in [Distance::SameHost, Distance::OtherHost] {
            let pairs = hosts.pairs(distance);
            let one: Vec<_> = pairs.first().copied().into_iter().collect();
            let is_several = pairs.len() > 1;
            rows.extend((!one.is_empty()).then_some((distance, one)));
            rows.extend(is_several.then_some((distance, pairs)));
        }
    }
    let collectives = left(known, hosts, wanted);
    let all = rows.len() + collectives.len();
    let largest = wanted.largest_message.map_or(sizes::LARGEST, |bytes| bytes.max(4 << 20));
    for (done, (distance, pairs)) in rows.iter().enumerate() {
        report("messages between pairs of ranks", done, all);
        // Several pairs have the buckets that one has.
        let alone = known.pairs.iter().find(|alone| alone.distance == *distance);
        let most_burst = alone.map_or(f64::INFINITY, |alone| alone.burst_bytes.unwrap_or(0) as f64);
        known.pairs.push(pairs::measure(team, *distance, pairs, largest, most_burst)?);
    }
    // Of the link that most of the ranks share.
    let burst = known.pairs.iter().filter_map(|pair| pair.burst_bytes).max();
    let mut missing = impossible;
    for (done, planned) in collectives.iter().enumerate() {
        if team.elapsed_s() > LONGEST_S {
            missing.push(format!("{} of {} ranks: no time was left", planned.call.name(), planned.members));
            continue;
        }
        report(&planned.call.name(), rows.len() + done, all);
        let (curves, not) = collectives::measure(team, hosts, planned, burst)?;
        collectives::add(&mut known.collectives, curves);
        missing.extend(not);
    }
    missing.retain(|line| !known.missing.contains(line));
    known.missing.extend(missing);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::hosts::Place;
    use crate::network::step::{Pattern, Step};
    use crate::network::team::Stamps;
    use crate::network::wanted::WantedCollective;

    /// A network with a token bucket at each rank, and a clock of its own.
    struct Model {
        ranks: usize,
        now: f64,
        rate: f64,
        burst: f64,
        latency: f64,
        /// Bytes that may go at once now.
        tokens: f64,
        steps: Vec<Step>,
    }

    impl Model {
        fn new(ranks: usize, rate: f64, burst: f64) -> Model {
            Model { ranks, now: 1.0, rate, burst, latency: 30e-6, tokens: burst, steps: Vec::new() }
        }

        /// A message of the busy direction; its seconds.
        fn message(&mut self, bytes: f64) -> f64 {
            let seconds = (bytes / (2.0 * self.rate).max(2e9)).max((bytes - self.tokens) / self.rate);
            self.tokens = (self.tokens - bytes).max(0.0);
            self.rest(0.0, seconds);
            seconds
        }

        /// Time that passes, in part without sending.
        fn rest(&mut self, idle: f64, busy: f64) {
            self.now += idle + busy;
            self.tokens = (self.tokens + idle * self.rate).min(self.burst);
        }
    }

    impl Team for Model {
        fn lead(&mut self, step: &Step) -> Result<Stamps, NetworkError> {
            self.steps.push(step.clone());
            let mut stamps: Stamps = vec![Vec::new(); self.ranks];
            let ns = |seconds: f64| (seconds * 1e9) as u64;
            match step {
                Step::Messages { pairs, pattern, bytes, inner, rounds, .. } => {
                    for _ in 0..*rounds {
                        if let Pattern::Drained(drain) = pattern {
                            self.message(*drain as f64);
                        }
                        let start = self.now;
                        for _ in 0..*inner {
                            self.rest(self.latency, 0.0);
                            let one = self.message(*bytes as f64);
                            match pattern {
                                // The other direction; this one's bucket fills meanwhile.
                                Pattern::PingPong => self.rest(self.latency + one, 0.0),
                                Pattern::Drained(_) => self.rest(self.latency, 0.0),
                                Pattern::Exchange => {}
                            }
                        }
                        for (a, b) in pairs {
                            stamps[*a as usize].extend([ns(start), ns(self.now)]);
                            stamps[*b as usize].extend([ns(start), ns(self.now)]);
                        }
                    }
                }
                Step::Stream { pairs, bytes, messages, .. } => {
                    let mut all = vec![ns(self.now)];
                    self.rest(self.latency, 0.0);
                    for _ in 0..*messages {
                        self.message(*bytes as f64);
                        all.push(ns(self.now));
                    }
                    pairs.iter().for_each(|pair| stamps[pair.1 as usize] = all.clone());
                }
                Step::Collective { bytes, rounds, .. } => {
                    for _ in 0..*rounds {
                        let start = self.now;
                        self.rest(self.latency, 0.0);
                        self.message(*bytes as f64);
                        stamps.iter_mut().for_each(|stamps| stamps.extend([ns(start), ns(self.now)]));
                    }
                }
                Step::Rest(seconds) => self.rest(*seconds, 0.0),
                Step::End => {}
            }
            stamps.iter_mut().for_each(|stamps| stamps.resize(step.stamps(), 0));
            Ok(stamps)
        }

        fn elapsed_s(&self) -> f64 {
            self.now - 1.0
        }
    }

    fn hosts(names: &str) -> Hosts {
        let place = |name: char| Place { host: name.into(), boot: "b".into(), cpus: "0".into() };
        Hosts::new(names.chars().map(place).collect())
    }

    fn measured(model: &mut Model, names: &str, wanted: &Wanted) -> Network {
        let mut network = Network::default();
        complete(model, &hosts(names), wanted, &mut network, &mut |_, _, _| {}).unwrap();
        network
    }

    #[test]
    fn the_sustained_rate_is_found_behind_every_burst() {
        for (rate, burst) in [(96e6, 65_536.0), (96e6, 262_144.0), (24e6, 262_144.0)] {
            let mut model = Model::new(2, rate, burst);
            let network = measured(&mut model, "ab", &Wanted::default());
            let pair = &network.pairs[0];
            assert!((pair.bytes_per_s.unwrap() / rate - 1.0).abs() < 0.01, "{pair:?}");
            assert!((pair.burst_bytes.unwrap() as f64 / burst - 1.0).abs() < 0.15, "{:?} of {burst}", pair.burst_bytes);
            for bytes in [64u64 << 10, 1 << 20] {
                let expected = model.latency + bytes as f64 / rate;
                let of = [pair.one_way.seconds(bytes as f64), pair.exchange.seconds(bytes as f64)];
                for seconds in of.map(Option::unwrap) {
                    assert!((seconds / expected - 1.0).abs() < 0.12, "{bytes} bytes: {seconds} for {expected}");
                }
            }
            assert!(model.elapsed_s() < 30.0, "{}", model.elapsed_s());
        }
    }

    #[test]
    fn a_plain_fast_link_has_no_burst_and_takes_little_time() {
        let mut model = Model::new(2, 10e9, 0.0);
        let network = measured(&mut model, "ab", &Wanted::default());
        assert_eq!((network.pairs[0].burst_bytes, network.pairs[0].rendezvous_bytes), (None, None));
        assert!(model.elapsed_s() < 10.0, "{}", model.elapsed_s());
        assert!((network.pairs[0].latency_s.unwrap() / 30e-6 - 1.0).abs() < 0.01);
        assert!(network.missing.is_empty(), "{:?}", network.missing);
    }

    #[test]
    fn distances_and_numbers_of_pairs_are_those_that_there_are() {
        let of = |names: &str| {
            let none = Wanted { collectives: Vec::new(), largest_message: None };
            let network = measured(&mut Model::new(names.len(), 1e9, 0.0), names, &none);
            network.pairs.iter().map(|pair| (pair.distance, pair.at_once)).collect::<Vec<_>>()
        };
        use Distance::*;
        assert_eq!(of("aa"), [(SameHost, 1)]);
        assert_eq!(of("abcd"), [(OtherHost, 1), (OtherHost, 2)]);
        assert_eq!(of("aabb"), [(SameHost, 1), (SameHost, 2), (OtherHost, 1), (OtherHost, 2)]);
    }

    #[test]
    fn only_what_is_not_known_is_measured() {
        let mut model = Model::new(4, 1e9, 0.0);
        let one = |call: &str, bytes: &[u64]| Wanted {
            collectives: vec![WantedCollective { call: call.into(), members: Some(4), bytes: bytes.to_vec() }],
            largest_message: Some(8),
        };
        let first = one("MPI_Bcast", &[8, 64]);
        let mut network = measured(&mut model, "abcd", &first);
        assert!(has_all(&network, &hosts("abcd"), &first));
        let second = one("MPI_Bcast", &[64, 4096]);
        assert!(!has_all(&network, &hosts("abcd"), &second));
        model.steps.clear();
        complete(&mut model, &hosts("abcd"), &second, &mut network, &mut |_, _, _| {}).unwrap();
        assert!(model.steps.iter().all(|step| matches!(step, Step::Collective { bytes: 4096, .. })));
        let sizes: Vec<u64> = network.collectives[0].cost.points.iter().map(|point| point.bytes).collect();
        assert_eq!(sizes, [8, 64, 4096]);
        assert!(
            has_all(&network, &hosts("abcd"), &one("MPI_Isend", &[1])),
            "what cannot be measured is not waited for"
        );
    }
}
