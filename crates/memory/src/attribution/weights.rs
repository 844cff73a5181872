//! Weights of accesses, and division of accesses by weight.

use crate::attribution::tallies::Stratum;
use crate::caches::geometry::LINE_BYTES;
use rprof_profile::evidence::memory::Access;

/// The weight of an access in time measured by accesses: a string counts one per line, and a sample of one in `one_in` lines has a part of
/// it.
pub fn weight(access: &Access, one_in: u64) -> u64 {
    1 + u64::from(access.bytes.saturating_sub(1)) / (LINE_BYTES * one_in)
}

/// The weight of all `accesses`.
pub fn weights(accesses: &[Access], one_in: u64) -> u64 {
    accesses.iter().map(|access| weight(access, one_in)).sum()
}

/// `access` up to about this many `lines` of it, and the rest, if there is any.
fn cut(access: &Access, lines: u64) -> (Access, Option<Access>) {
    if weight(access, 1) <= lines {
        return (*access, None);
    }
    let bytes = ((lines * LINE_BYTES - access.address % LINE_BYTES) as u32).min(access.bytes);
    let rest = Access { address: access.address + u64::from(bytes), bytes: access.bytes - bytes, ..*access };
    (Access { bytes, ..*access }, Some(rest).filter(|rest| rest.bytes > 0))
}

/// Splits `accesses` after a weight of `lines`; an access that is longer is cut in two.
pub fn split(accesses: &[Access], lines: u64) -> (Vec<Access>, Vec<Access>) {
    let (mut first, mut others, mut left) = (Vec::new(), Vec::new(), lines);
    for access in accesses {
        if left == 0 {
            others.push(*access);
            continue;
        }
        let (part, rest) = cut(access, left);
        left = left.saturating_sub(weight(&part, 1));
        first.push(part);
        others.extend(rest);
    }
    (first, others)
}

/// The parts of an access that warm the caches up and that count, if a weight of `left` of the warm-up is left. A string may be longer
/// than all of the warm-up: its stores would count, and not its loads.
#[inline]
pub fn by_warm_up(access: &Access, left: u64) -> [Option<(Stratum, Access)>; 2] {
    if left == 0 {
        return [None, Some((Stratum::Plain, *access))];
    }
    let (first, rest) = cut(access, left);
    [Some((Stratum::Nothing, first)), rest.map(|rest| (Stratum::Plain, rest))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_isa::facts::AccessKind;

    #[test]
    fn a_string_is_divided_where_the_warm_up_ends() {
        let string = Access { address: 0x1010, bytes: 1000, site: 7, kind: AccessKind::Store };
        let divided =
            |left| by_warm_up(&string, left).map(|part| part.map(|(stratum, a)| (stratum, a.address, a.bytes)));
        assert_eq!(divided(0), [None, Some((Stratum::Plain, 0x1010, 1000))]);
        assert_eq!(divided(4), [Some((Stratum::Nothing, 0x1010, 240)), Some((Stratum::Plain, 0x1100, 760))]);
        assert_eq!(divided(16), [Some((Stratum::Nothing, 0x1010, 1000)), None]);
        let word = Access { bytes: 8, ..string };
        assert_eq!(by_warm_up(&word, 1)[0].map(|part| part.0), Some(Stratum::Nothing));
    }

    #[test]
    fn what_is_split_is_the_same_bytes_in_the_same_order() {
        let string = |address, bytes| Access { address, bytes, site: 0, kind: AccessKind::Store };
        let all = [string(0x1010, 8), string(0x2020, 64 * 100), string(0x9000, 8)];
        let (first, others) = split(&all, 11);
        assert_eq!(first, [all[0], string(0x2020, 64 * 10 - 0x20)]);
        assert_eq!(others, [string(0x2020 + 64 * 10 - 0x20, 64 * 90 + 0x20), all[2]]);
        assert_eq!(weights(&first, 1), 11);
        assert_eq!(split(&all, 1000), (all.to_vec(), Vec::new()));
        assert_eq!(split(&all, 1).1, all[1..]);
    }
}
