//! Pairs of functions with a key that no other function of their side has.

use std::collections::HashMap;
use std::hash::Hash;

use rprof_profile::Function;

/// Takes those pairs out of both sides, in the order of `left`. Functions without a key stay.
pub fn take<'p, K: Hash + Eq>(
    left: &mut Vec<&'p Function>,
    right: &mut Vec<&'p Function>,
    key_left: impl Fn(&Function) -> Option<K>,
    key_right: impl Fn(&Function) -> Option<K>,
) -> Vec<(&'p Function, &'p Function)> {
    let mut holders: HashMap<K, [Vec<usize>; 2]> = HashMap::new();
    let sides = left.iter().map(|f| (0, key_left(f))).enumerate();
    for (at, (side, key)) in sides.chain(right.iter().map(|f| (1, key_right(f))).enumerate()) {
        if let Some(key) = key {
            holders.entry(key).or_default()[side].push(at);
        }
    }
    let only = |sides: [Vec<usize>; 2]| match (&sides[0][..], &sides[1][..]) {
        ([a], [b]) => Some((*a, *b)),
        _ => None,
    };
    let mut taken: Vec<(usize, usize)> = holders.into_values().filter_map(only).collect();
    taken.sort_unstable();
    let pairs = taken.iter().map(|(a, b)| (left[*a], right[*b])).collect();
    let (gone_left, mut gone_right): (Vec<usize>, Vec<usize>) = taken.into_iter().unzip();
    gone_right.sort_unstable();
    drop_at(left, &gone_left);
    drop_at(right, &gone_right);
    pairs
}

/// Removes the items at these indices, which ascend.
fn drop_at<T>(items: &mut Vec<T>, indices: &[usize]) {
    let mut at = 0;
    items.retain(|_| {
        let gone = indices.binary_search(&at).is_ok();
        at += 1;
        !gone
    });
}
