//! Directions of conditional branches: TAGE (Seznec and Michaud 2006) without statistical corrector, which would predict better than
//! hardware does.

use super::history::{History, TABLES};

/// Entries of each tagged table by `predictor.outcomes`, as a power of two. If the outcomes of one branch repeat without a rule, this
/// predictor learns half of them when 16 times as many repeat as a table has entries.
fn entry_bits(outcomes: f64) -> u32 {
    (outcomes / 16.0).log2().round().clamp(7.0, 13.0) as u32
}

/// Entries of the table without history, as a power of two.
const BASE_BITS: u32 = 14;
/// Branches between two halvings of all `useful` counters.
const AGEING: u32 = 1 << 18;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    tag: u16,
    /// −4 … 3: taken if not negative.
    counter: i8,
    /// 0 … 3: not replaced unless 0.
    useful: u8,
}

impl Entry {
    fn taken(self) -> bool {
        self.counter >= 0
    }

    fn is_weak(self) -> bool {
        matches!(self.counter, -1 | 0)
    }
}

/// The predictor of directions of one thread.
#[derive(Debug, Clone)]
pub(super) struct Directions {
    entry_bits: u32,
    tables: Vec<Entry>,
    base: Vec<i8>,
    /// −8 … 7: not negative if the shorter history is the better guess while an entry is new.
    trust_alternative: i8,
    random: u32,
    until_ageing: u32,
}

impl Directions {
    /// A predictor that learns this number of outcomes (`predictor.outcomes`).
    pub(super) fn new(outcomes: f64) -> Directions {
        let entry_bits = entry_bits(outcomes);
        Directions {
            entry_bits,
            tables: vec![Entry::default(); TABLES << entry_bits],
            base: vec![0; 1 << BASE_BITS],
            trust_alternative: 0,
            random: 0x1234_5678,
            until_ageing: AGEING,
        }
    }

    /// Whether the branch at `address` would have been predicted rightly; learns that it was `taken`.
    pub(super) fn meet(&mut self, address: u64, taken: bool, history: &History) -> bool {
        let mut places = [0usize; TABLES];
        let mut tags = [0u16; TABLES];
        let (mut provider, mut second) = (TABLES, TABLES);
        for table in 0..TABLES {
            let mixed =
                (history.hash(table) ^ address.wrapping_mul(0x2545_f491_4f6c_dd1d)).wrapping_mul(0x9fb2_1c65_1e98_df25);
            places[table] = table << self.entry_bits | (mixed >> (64 - self.entry_bits)) as usize;
            tags[table] = (mixed >> 36) as u16 & 0xfff | 0x1000;
            if self.tables[places[table]].tag == tags[table] {
                (second, provider) = (provider, table);
            }
        }
        let base = (address ^ address >> BASE_BITS) as usize & ((1 << BASE_BITS) - 1);
        let alternative = if second < TABLES { self.tables[places[second]].taken() } else { self.base[base] >= 0 };
        let predicted = if provider == TABLES {
            alternative
        } else {
            let entry = self.tables[places[provider]];
            let is_new = entry.useful == 0 && entry.is_weak();
            let predicted = if is_new && self.trust_alternative >= 0 { alternative } else { entry.taken() };
            if is_new && entry.taken() != alternative {
                step(&mut self.trust_alternative, alternative == taken, -8, 7);
            }
            predicted
        };
        if predicted != taken && (provider == TABLES || provider + 1 < TABLES) {
            let from = if provider == TABLES { 0 } else { provider + 1 };
            self.allocate(from, &places, &tags, taken);
        }
        if provider == TABLES {
            step(&mut self.base[base], taken, -2, 1);
        } else {
            let entry = &mut self.tables[places[provider]];
            let own = entry.taken();
            if own != alternative {
                entry.useful = if own == taken { (entry.useful + 1).min(3) } else { entry.useful.saturating_sub(1) };
            }
            let unproven = entry.useful == 0;
            step(&mut entry.counter, taken, -4, 3);
            if unproven {
                match second {
                    TABLES => step(&mut self.base[base], taken, -2, 1),
                    _ => step(&mut self.tables[places[second]].counter, taken, -4, 3),
                }
            }
        }
        self.age();
        predicted == taken
    }

    /// Takes an entry with a longer history, mostly the next longer one that is free.
    fn allocate(&mut self, from: usize, places: &[usize; TABLES], tags: &[u16; TABLES], taken: bool) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let skip = usize::from(self.random & 3 == 0 && from + 1 < TABLES);
        let free = (from + skip..TABLES).find(|&table| self.tables[places[table]].useful == 0);
        match free {
            Some(table) => {
                let counter = if taken { 0 } else { -1 };
                self.tables[places[table]] = Entry { tag: tags[table], counter, useful: 0 };
            }
            None => {
                for &place in &places[from..] {
                    let entry = &mut self.tables[place];
                    entry.useful = entry.useful.saturating_sub(1);
                }
            }
        }
    }

    fn age(&mut self) {
        self.until_ageing -= 1;
        if self.until_ageing == 0 {
            self.until_ageing = AGEING;
            self.tables.iter_mut().for_each(|entry| entry.useful >>= 1);
        }
    }
}

fn step(counter: &mut i8, up: bool, least: i8, most: i8) {
    *counter = if up { (*counter + 1).min(most) } else { (*counter - 1).max(least) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of wrong predictions in the second half of `outcomes` of one branch, between `filler` predictable ones.
    fn missed(outcomes: impl Iterator<Item = bool>) -> f64 {
        let outcomes: Vec<bool> = outcomes.collect();
        let (mut directions, mut history) = (Directions::new(8192.0), History::new());
        let mut wrong = 0;
        for (n, &taken) in outcomes.iter().enumerate() {
            let right = directions.meet(0x40_1000, taken, &history);
            history.push_direction(taken);
            wrong += u32::from(!right && n >= outcomes.len() / 2);
        }
        f64::from(wrong) / (outcomes.len() / 2) as f64
    }

    fn random() -> impl Iterator<Item = f64> {
        let mut state = 88_172_645_463_325_252u64;
        std::iter::from_fn(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            Some((state >> 11) as f64 / (1u64 << 53) as f64)
        })
    }

    #[test]
    fn random_branches_are_missed_as_often_as_they_go_the_rarer_way_or_little_more() {
        for rarer in [0.05, 0.2, 0.35, 0.5] {
            let share = missed(random().take(200_000).map(|x| x < rarer));
            assert!((0.97 * rarer..1.16 * rarer).contains(&share), "{rarer}: {share}");
        }
    }

    #[test]
    fn periodic_patterns_and_loops_are_learnt() {
        for period in [2, 3, 7, 16, 30] {
            let share = missed((0..100_000).map(|n| n % period != 0));
            assert!(share < 0.002, "loop of {period}: {share}");
        }
        let pattern: Vec<bool> = random().take(200).map(|x| x < 0.5).collect();
        let share = missed((0..200_000).map(|n| pattern[n % 200]));
        assert!(share < 0.005, "random pattern of 200: {share}");
    }

    #[test]
    fn as_many_outcomes_are_learnt_as_were_measured() {
        let outcomes: Vec<bool> = random().take(1 << 16).map(|x| x < 0.5).collect();
        for measured in [2048usize, 8192] {
            let (mut directions, mut history) = (Directions::new(measured as f64), History::new());
            let mut share = |period: usize| {
                let mut wrong = 0;
                for pass in 0..16 {
                    for &taken in &outcomes[..period] {
                        let right = directions.meet(0x40_1000, taken, &history);
                        history.push_direction(taken);
                        wrong += u32::from(!right && pass >= 8);
                    }
                }
                f64::from(wrong) / (8 * period) as f64
            };
            assert!(share(measured / 4) < 0.15, "a quarter of {measured}");
            assert!(share(measured * 4) > 0.4, "four times {measured}");
        }
    }
}
