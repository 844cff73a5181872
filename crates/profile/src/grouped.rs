//! Lists in which entries of one key are put together.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// Adds `new` entries to `known`: those with the key of a known one by `plus`, others at the end.
pub fn add<T, K: Hash + Eq>(
    known: &mut Vec<T>,
    new: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
    plus: impl Fn(&mut T, &T),
) {
    let mut places: HashMap<K, usize> = known.iter().enumerate().map(|(i, one)| (key(one), i)).collect();
    for one in new {
        match places.entry(key(&one)) {
            Entry::Occupied(place) => plus(&mut known[*place.get()], &one),
            Entry::Vacant(place) => {
                place.insert(known.len());
                known.push(one);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn entries_of_one_key_are_one() {
        let mut known = vec![("a", 1), ("b", 2)];
        super::add(&mut known, [("b", 3), ("c", 4), ("c", 5)], |one| one.0, |one, other| one.1 += other.1);
        assert_eq!(known, [("a", 1), ("b", 5), ("c", 9)]);
    }
}
