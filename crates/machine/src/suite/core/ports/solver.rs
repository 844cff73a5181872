//! Finds execution ports that explain how fast classes of instructions run, alone and two by two.
//!
//! Instructions of class c may go to any port of a set S(c). A mix of two classes then runs at the least of three limits: the rates of the
//! classes alone, the number of ports that either may use, and the instructions that enter the core in a cycle. A mix of two classes in
//! proportion to their own rates shows how many ports they have in common.
//!
//! Ports have no names: a solution is one of many that differ in the order of the ports.

use std::collections::BTreeMap;

/// Most ports.
const MOST: usize = 8;

/// Partial solutions that are followed.
const FOLLOWED: usize = 100;

/// Largest error with more ports, as a share of the error with fewer, that makes the ports credible.
const BETTER: f64 = 0.8;

/// A mean error over the mixes that counts as none: repetitions differ by as much.
const NONE: f64 = 0.01;

/// Largest number of classes that are placed last, and largest mean square error without such a class, as a share.
const APART: usize = 2;
const CONTRADICTED: f64 = 0.3;

/// The measured rates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    /// Instructions a cycle of each class alone.
    pub alone: Vec<f64>,
    /// Mixes of two.
    pub mixes: Vec<Mix>,
    /// Most instructions a cycle of any kind.
    pub width: f64,
}

/// Instructions of two classes, independent of each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// The classes.
    pub classes: [usize; 2],
    /// How many of each in turn.
    pub counts: [usize; 2],
    /// Instructions a cycle of both together.
    pub rate: f64,
}

/// Ports that explain the rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Bit p of the set of a class: it may use port p.
    pub sets: Vec<u32>,
    /// For each class the largest share by which a mix with it runs faster or slower than the ports predict. Mixes with a class that no
    /// ports explain count for that one alone.
    pub errors: Vec<f64>,
}

impl Rates {
    /// Ports of a class, by its rate alone; a class slower than one a cycle has one.
    fn size(&self, class: usize) -> u32 {
        (self.alone[class].round() as u32).clamp(1, MOST as u32)
    }

    /// The rate that the ports predict for a mix with classes that may use `of_either` ports.
    fn predicted(&self, mix: &Mix, of_either: usize) -> f64 {
        let all = (mix.counts[0] + mix.counts[1]) as f64;
        let alone = [0, 1].map(|n| self.alone[mix.classes[n]] * all / mix.counts[n] as f64);
        (of_either as f64).min(self.width).min(alone[0]).min(alone[1])
    }

    /// By how much a mix runs otherwise than the ports say, as a share.
    fn off(&self, mix: &Mix, ports: &Ports) -> f64 {
        self.predicted(mix, ports.of_either(mix.classes)) / mix.rate - 1.0
    }

    /// The ports that explain the rates best; `None` without classes.
    ///
    /// A class of more than one micro-operation has no set of ports, and would give other classes wrong ones. If all classes but one or two
    /// are explained far better without those, they are placed last, and their errors show that.
    pub fn solve(&self) -> Option<Solution> {
        let classes = self.alone.len();
        let mut placed: Vec<usize> = (0..classes).collect();
        let (mut error, mut ports) = self.fewest_of(&placed)?;
        for _ in 0..classes.min(APART) {
            let without = |class: &usize| {
                let rest: Vec<usize> = placed.iter().copied().filter(|other| other != class).collect();
                self.fewest_of(&rest).map(|(error, ports)| (error, ports, rest))
            };
            let best = placed.iter().filter_map(without).min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((least, of_rest, rest)) = best.filter(|(least, ..)| *least < CONTRADICTED * error) else { break };
            if error <= NONE * NONE {
                break;
            }
            (error, ports, placed) = (least, of_rest, rest);
        }
        let explained = placed;
        for class in (0..classes).filter(|class| !explained.contains(class)) {
            let count = ports.count().max(self.size(class) as usize);
            ports = self.placed(&[(0.0, ports)], class, &explained, count).first()?.1;
        }
        // No class is blamed for another one that is not explained.
        let counts = |mix: &&Mix, class: usize| {
            let is_sound = |other: &usize| *other == class || explained.contains(other);
            mix.classes.contains(&class) && mix.classes.iter().all(is_sound)
        };
        let off =
            |class: usize| self.mixes.iter().filter(move |mix| counts(mix, class)).map(|mix| self.off(mix, &ports));
        let errors = (0..classes).map(|class| off(class).fold(0.0, |most, off| off.abs().max(most))).collect();
        Some(Solution { sets: (0..classes).map(|class| ports.of(class)).collect(), errors })
    }

    /// The fewest ports that explain some `classes`, with the mean square of the errors.
    fn fewest_of(&self, classes: &[usize]) -> Option<(f64, Ports)> {
        let largest = classes.iter().map(|class| self.size(*class)).max()?;
        let mut best: Option<(f64, Ports)> = None;
        for count in largest as usize..=MOST {
            let (error, ports) = self.with(classes, count)?;
            if best.as_ref().is_some_and(|(least, _)| error >= BETTER * least || *least <= NONE * NONE) {
                break;
            }
            best = Some((error, ports));
        }
        best
    }

    /// The best sets of `count` ports. Goes class by class and follows the best partial solutions.
    fn with(&self, classes: &[usize], count: usize) -> Option<(f64, Ports)> {
        // Those of many ports first: the others' places follow from theirs.
        let mut order = classes.to_vec();
        order.sort_by_key(|class| std::cmp::Reverse(self.size(*class)));
        let mut followed = vec![(0.0, Ports::default())];
        for (placed, class) in order.iter().enumerate() {
            followed = self.placed(&followed, *class, &order[..placed], count);
        }
        let (error, ports) = followed.into_iter().next()?;
        let mixes = self.mixes.iter().filter(|mix| mix.classes.iter().all(|class| classes.contains(class))).count();
        Some((error / mixes.max(1) as f64, ports))
    }

    /// Adds `class` on some of `count` ports to partial solutions, the best ones first; with the sums of the squares of the errors.
    fn placed(&self, followed: &[(f64, Ports)], class: usize, before: &[usize], count: usize) -> Vec<(f64, Ports)> {
        let is_fresh = |mix: &&Mix| {
            let other = mix.classes.iter().find(|other| **other != class);
            mix.classes.contains(&class) && other.is_some_and(|other| before.contains(other))
        };
        let fresh: Vec<&Mix> = self.mixes.iter().filter(is_fresh).collect();
        let mut next: BTreeMap<Ports, f64> = BTreeMap::new();
        for (error, ports) in followed {
            for set in (0..1_u32 << count).filter(|set| set.count_ones() == self.size(class)) {
                let ports = ports.with(class, set);
                let squares = || fresh.iter().map(|mix| self.off(mix, &ports).powi(2)).sum::<f64>();
                next.entry(ports).or_insert_with(|| error + squares());
            }
        }
        let mut next: Vec<(f64, Ports)> = next.into_iter().map(|(ports, error)| (error, ports)).collect();
        next.sort_by(|a, b| a.0.total_cmp(&b.0));
        next.truncate(FOLLOWED);
        next
    }
}

/// For each port the classes that may use it, as bits. The order of the ports is normalized, so that solutions that differ only in the
/// names of the ports are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Ports([u16; MOST]);

impl Ports {
    /// With `class` on the ports of `set`, too.
    fn with(mut self, class: usize, set: u32) -> Self {
        for (port, users) in self.0.iter_mut().enumerate() {
            *users |= ((set >> port & 1) as u16) << class;
        }
        self.0.sort_unstable_by_key(|users| std::cmp::Reverse(users.reverse_bits()));
        self
    }

    /// How many ports are used.
    fn count(&self) -> usize {
        self.0.iter().filter(|users| **users != 0).count()
    }

    /// The ports of a class, as bits.
    fn of(&self, class: usize) -> u32 {
        self.0.iter().enumerate().map(|(port, users)| u32::from(users >> class & 1) << port).sum()
    }

    /// How many ports either class may use.
    fn of_either(&self, classes: [usize; 2]) -> usize {
        let users = 1 << classes[0] | 1 << classes[1];
        self.0.iter().filter(|port| *port & users != 0).count()
    }
}

/// `sets` with the ports in the order that agrees best with `model`.
pub fn alike(sets: &[u32], model: &[u32]) -> Vec<u32> {
    let shared = |port: u32, as_port: u32| {
        sets.iter().zip(model).filter(|(a, b)| *a >> port & 1 == 1 && *b >> as_port & 1 == 1).count()
    };
    let mut best = (0, (0..MOST as u32).collect::<Vec<u32>>());
    let mut places = Vec::new();
    assign(&shared, &mut places, 0, &mut best);
    let moved = |set: &u32| (0..MOST).map(|port| (set >> port & 1) << best.1[port]).sum();
    sets.iter().map(moved).collect()
}

/// Tries all orders: `places[p]` is the new place of port p.
fn assign(shared: &impl Fn(u32, u32) -> usize, places: &mut Vec<u32>, sum: usize, best: &mut (usize, Vec<u32>)) {
    let port = places.len() as u32;
    if port == MOST as u32 {
        if sum > best.0 {
            *best = (sum, places.clone());
        }
        return;
    }
    for place in 0..MOST as u32 {
        if !places.contains(&place) {
            places.push(place);
            assign(shared, places, sum + shared(port, place), best);
            places.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates that ports of the given sets would show, each with an error of up to `noise`. A class of `slow` runs at that rate.
    fn rates(sets: &[u32], slow: &[(usize, f64)], width: f64, noise: f64) -> Rates {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1.0 - noise * (state >> 40) as f64 / (1 << 24) as f64
        };
        let own =
            |class: usize| slow.iter().find(|s| s.0 == class).map_or(f64::from(sets[class].count_ones()), |s| s.1);
        let alone: Vec<f64> = (0..sets.len()).map(|class| own(class) * random()).collect();
        let mut rates = Rates { alone, mixes: Vec::new(), width };
        for a in 0..sets.len() {
            for b in a + 1..sets.len() {
                let counts = super::super::pairs::proportion(own(a), own(b));
                let mut mix = Mix { classes: [a, b], counts, rate: 1.0 };
                mix.rate = rates.predicted(&mix, (sets[a] | sets[b]).count_ones() as usize) * random();
                rates.mixes.push(mix);
            }
        }
        rates
    }

    /// How many ports any two classes have in common.
    fn common(sets: &[u32]) -> Vec<u32> {
        let pairs = (0..sets.len()).flat_map(|a| (a + 1..sets.len()).map(move |b| (a, b)));
        pairs.map(|(a, b)| (sets[a] & sets[b]).count_ones()).collect()
    }

    /// add, imul, shift, lea, branch, andn, popcnt, cmov.
    const INTEL: [u32; 8] = [0b11111, 0b00010, 0b01001, 0b00111, 0b01001, 0b00110, 0b00010, 0b01001];
    const ZEN: [u32; 8] = [0b001111, 0b000010, 0b000110, 0b001001, 0b010001, 0b001111, 0b001111, 0b001001];

    #[test]
    fn integer_ports_are_found() {
        for (sets, width) in [(INTEL, 6.0), (ZEN, 6.0)] {
            for noise in [0.0, 0.01] {
                let solution = rates(&sets, &[], width, noise).solve().expect("classes");
                assert_eq!(common(&solution.sets), common(&sets), "{solution:?}");
                assert!(solution.errors.iter().all(|e| *e < 0.03), "{solution:?}");
            }
        }
    }

    /// fadd, fmul, ffma, vadd, vlogic, shuffle, permute, fcmp, cvt, fdiv.
    #[test]
    fn vector_ports_are_found() {
        let intel = [0b110, 0b011, 0b011, 0b111, 0b111, 0b110, 0b100, 0b110, 0b011, 0b001];
        let zen = [0b1100, 0b0011, 0b0011, 0b1101, 0b1111, 0b0110, 0b0010, 0b0011, 0b1100, 0b0010];
        for (sets, slow) in [(intel, 0.25), (zen, 0.2)] {
            let solution = rates(&sets, &[(9, slow)], 6.0, 0.01).solve().expect("classes");
            assert_eq!(common(&solution.sets), common(&sets), "{solution:?}");
        }
    }

    #[test]
    fn two_micro_operations_do_not_lead_others_astray() {
        // Observed on an Intel server of 2024: conversions of 256 bits need port 5 and one of 0 and 1.
        let sets = [0b110, 0b011, 0b011, 0b111, 0b111, 0b110, 0b100, 0b011, 0b100];
        let mut rates = rates(&sets, &[], 5.9, 0.01);
        for mix in rates.mixes.iter_mut().filter(|mix| mix.classes.contains(&8)) {
            let other = mix.classes[0];
            mix.rate = [1.99, 1.99, 1.99, 2.39, 2.39, 1.99, 0.99, 1.99][other];
        }
        let solution = rates.solve().expect("classes");
        assert_eq!(common(&solution.sets[..8]), common(&sets[..8]), "{solution:?}");
        assert!(solution.errors[8] > 0.2, "{solution:?}");
    }

    #[test]
    fn rates_that_no_ports_explain_say_so() {
        let mut rates = rates(&INTEL, &[], 6.0, 0.0);
        rates.mixes[0].rate *= 0.7;
        let solution = rates.solve().expect("classes");
        assert!(solution.errors[0] > 0.05, "{solution:?}");
        assert_eq!(Rates::default().solve(), None);
    }

    #[test]
    fn ports_are_named_as_in_another_solution() {
        let shuffled: Vec<u32> = INTEL.iter().map(|set| set >> 2 | (set & 0b11) << 3).collect();
        assert_ne!(shuffled, INTEL);
        assert_eq!(common(&alike(&shuffled, &INTEL)), common(&INTEL));
        assert_eq!(alike(&shuffled, &INTEL)[1..4], INTEL[1..4]);
    }
}
