//! The order of a function's savings: what is likely and cheap before what may gain most (Williams 2008, section 4: optimised as the lower
//! ceilings suggest).
//!
//! ```text
//! 1  balance, if it gains a quarter of what the best one does
//! 2  what the function's class names
//! 3  the others by seconds; deficiencies of the core among them in the order of the ladder, those with a quarter of the best one's gain
//! ```

use rprof_profile::function::Saving;
use rprof_profile::vocabulary::Class;

use super::deficiency::Deficiency;
use super::removal;

/// Share of the best gain from which a cheaper change comes first.
const QUARTER: f64 = 0.25;
/// Deficiencies with a rung of the ladder.
const LADDER: [Deficiency; 8] = [
    Deficiency::Threads,
    Deficiency::Imbalance,
    Deficiency::Ilp,
    Deficiency::Mix,
    Deficiency::Simd,
    Deficiency::Fma,
    Deficiency::DivSqrt,
    Deficiency::Access,
];

/// Puts the savings of a function of class `class` in order.
pub fn put_in_order(savings: &mut [Saving], class: Option<Class>) {
    savings.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let least = QUARTER * savings.first().map_or(0.0, |best| best.seconds);
    climb(savings);
    savings.sort_by_key(|saving| {
        if is_balance(saving) && saving.seconds >= least {
            0
        } else if class.is_some_and(|own| removes_class(saving, own)) {
            1
        } else {
            2
        }
    });
}

/// Puts the savings that are rungs of the ladder in its order, in the places that they have together.
fn climb(savings: &mut [Saving]) {
    let places: Vec<usize> = (0..savings.len()).filter(|i| rung(&savings[*i]).is_some()).collect();
    let Some(best) = places.first().map(|i| savings[*i].seconds) else { return };
    let mut rungs: Vec<Saving> = places.iter().map(|i| savings[*i].clone()).collect();
    rungs.sort_by_key(|saving| if saving.seconds >= QUARTER * best { rung(saving) } else { Some(LADDER.len()) });
    for (place, saving) in places.into_iter().zip(rungs) {
        savings[place] = saving;
    }
}

/// The place of a saving in the ladder, if it removes one deficiency that has one.
fn rung(saving: &Saving) -> Option<usize> {
    let [only] = &saving.remove[..] else { return None };
    LADDER.iter().position(|deficiency| deficiency.name() == only)
}

/// Whether it shares work or data out among the threads that there are.
fn is_balance(saving: &Saving) -> bool {
    let is = |deficiency: Deficiency| saving.remove == [deficiency.name()];
    is(Deficiency::Imbalance) || is(Deficiency::MemoryImbalance)
}

fn removes_class(saving: &Saving, own: Class) -> bool {
    saving.remove.first().is_some_and(|name| removal::class_of(name, own) == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(savings: &[(&str, f64)], class: Class) -> Vec<String> {
        let saving = |(remove, seconds): &(&str, f64)| Saving {
            remove: remove.split('+').map(str::to_owned).collect(),
            seconds: *seconds,
            seconds_max: 2.0 * seconds,
            program_seconds: None,
            advice: String::new(),
        };
        let mut all: Vec<Saving> = savings.iter().map(saving).collect();
        put_in_order(&mut all, Some(class));
        all.into_iter().map(|saving| saving.remove.join("+")).collect()
    }

    #[test]
    fn ilp_comes_first_in_a_function_of_that_class() {
        assert_eq!(order(&[("simd", 0.87), ("ilp", 0.6)], Class::Ilp), ["ilp", "simd"]);
        assert_eq!(order(&[("simd", 0.87), ("ilp", 0.06)], Class::Ilp), ["ilp", "simd"], "whatever it gains");
        assert_eq!(order(&[("simd", 0.87), ("ilp", 0.06)], Class::Simd), ["simd", "ilp"]);
    }

    #[test]
    fn balance_comes_first_where_four_parts_meet_one() {
        // Two threads, four parts of the work and one: 3/8 of the time.
        assert_eq!(
            order(&[("simd", 0.87), ("ilp", 0.6), ("imbalance", 0.375)], Class::Ilp),
            ["imbalance", "ilp", "simd"]
        );
        assert_eq!(order(&[("simd", 0.87), ("imbalance", 0.05)], Class::Simd), ["simd", "imbalance"], "hardly any");
    }

    #[test]
    fn rungs_of_the_ladder_go_from_low_to_high_among_the_others() {
        let all = [("mispredict", 0.7), ("simd", 0.5), ("l2-misses", 0.4), ("mix", 0.3), ("fma", 0.06)];
        assert_eq!(order(&all, Class::Mispredict), ["mispredict", "mix", "l2-misses", "simd", "fma"]);
        assert_eq!(order(&[("simd+fma", 0.5), ("ilp", 0.2)], Class::Unknown), ["simd+fma", "ilp"], "a pair is no rung");
    }
}
