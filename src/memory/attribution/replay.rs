//! Plays one access, line by line, into a hierarchy.

use crate::isa::facts::AccessKind;
use crate::profile::evidence::memory::Access;

use crate::memory::attribution::owners::{Owners, Place};
use crate::memory::attribution::tallies::Book;
use crate::memory::caches::geometry::{LINE_BYTES, LINE_SHIFT};
use crate::memory::caches::hierarchy::{Hierarchy, Outcome};
use crate::memory::caches::line::{Line, Owner, bytes_of_line};
use crate::memory::classify::access_pattern::AccessPattern;

/// What an access counts for where time is told by accesses: those of strings by their lines, of which a sample of one in
/// `one_in` has a part.
pub fn weight(access: &Access, one_in: u64) -> u64 {
    1 + u64::from(access.bytes.saturating_sub(1)) / (LINE_BYTES * one_in)
}

/// What all of them count for.
pub fn weights(accesses: &[Access], one_in: u64) -> u64 {
    accesses.iter().map(|access| weight(access, one_in)).sum()
}

/// `access` up to about so many `lines` of it, and the rest, if there is any.
fn cut(access: &Access, lines: u64) -> (Access, Option<Access>) {
    if weight(access, 1) <= lines {
        return (*access, None);
    }
    let bytes = ((lines * LINE_BYTES - access.address % LINE_BYTES) as u32).min(access.bytes);
    let rest = Access { address: access.address + u64::from(bytes), bytes: access.bytes - bytes, ..*access };
    (Access { bytes, ..*access }, Some(rest).filter(|rest| rest.bytes > 0))
}

/// The first ones of `accesses` that count for so many `lines`, and the others; one that is longer is cut in two.
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

/// What of an access warms the caches up, where so much of that is `left`, and what counts. A string may be longer than all of
/// the warm-up: its stores would count, and not its loads.
#[inline]
pub fn by_warm_up(access: &Access, left: u64) -> [Option<(Book, Access)>; 2] {
    if left == 0 {
        return [None, Some((Book::Plain, *access))];
    }
    let (first, rest) = cut(access, left);
    [Some((Book::Nothing, first)), rest.map(|rest| (Book::Plain, rest))]
}

/// Books the execution of `access` and plays those of its lines that `admit` lets pass. `orders`: the order class of
/// misses is noted, where one line in 2 to that power is admitted. `from_memory` is told an address in each line that comes from memory or is stored past the caches.
#[inline]
pub fn play(
    hierarchy: &mut Hierarchy,
    owners: &mut Owners,
    (place, owner): (Place, Owner),
    access: &Access,
    orders: Option<u32>,
    admit: impl Fn(Line) -> bool,
    mut from_memory: impl FnMut(Book, u64),
) {
    let book = hierarchy.tallies.book();
    let tally = hierarchy.tallies.of(owner);
    tally.accesses += 1;
    let store = match access.kind {
        AccessKind::Load | AccessKind::Gather => {
            tally.read_bytes += u64::from(access.bytes);
            false
        }
        AccessKind::Store | AccessKind::Scatter | AccessKind::NtStore => {
            tally.write_bytes += u64::from(access.bytes);
            true
        }
        AccessKind::Prefetch => false,
    };
    let last_byte = access.last_byte();
    for number in access.address >> LINE_SHIFT..=last_byte >> LINE_SHIFT {
        let line = Line::of(number << LINE_SHIFT, place.space);
        if !admit(line) {
            continue;
        }
        hierarchy.tallies.of(owner).admitted += 1;
        let start = access.address.max(number << LINE_SHIFT);
        let end = last_byte.min(number << LINE_SHIFT | (LINE_BYTES - 1));
        let bytes = bytes_of_line(start % LINE_BYTES, end - start + 1);
        if access.kind == AccessKind::NtStore {
            if hierarchy.store_past(place.core, owner, line, bytes) {
                from_memory(book, start);
            }
            continue;
        }
        let outcome = hierarchy.access(place.core, owner, line, store);
        hierarchy.note_overwriting(place.core, owner, line, store.then_some(bytes), outcome);
        if let (true, Some(sample)) = (outcome != Outcome::Hit, orders) {
            let follows = number > access.address >> LINE_SHIFT;
            note_order(hierarchy, owners, (place.book, owner), line.group(sample), access.kind, follows);
        }
        if outcome == Outcome::Memory {
            from_memory(book, start);
        }
    }
}

/// `follows`: the line before it belongs to the same access.
fn note_order(
    hierarchy: &mut Hierarchy,
    owners: &mut Owners,
    (book, owner): (usize, Owner),
    line: Line,
    kind: AccessKind,
    follows: bool,
) {
    let Some((steps, recent)) = owners.order(book, owner) else { return };
    let order = recent.classify(line, steps);
    let order = if follows { AccessPattern::Unit } else { order };
    let tally = hierarchy.tallies.of(owner);
    match (kind, order) {
        (AccessKind::Gather | AccessKind::Scatter, _) => tally.gathered += 1,
        (_, AccessPattern::Unit) => tally.unit += 1,
        (_, AccessPattern::Strided) => tally.strided += 1,
        (_, AccessPattern::Random) => tally.random += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::facts::AccessKind;

    #[test]
    fn a_string_is_divided_where_the_warm_up_ends() {
        let string = Access { address: 0x1010, bytes: 1000, site: 7, kind: AccessKind::Store };
        let divided = |left| by_warm_up(&string, left).map(|part| part.map(|(book, a)| (book, a.address, a.bytes)));
        assert_eq!(divided(0), [None, Some((Book::Plain, 0x1010, 1000))]);
        assert_eq!(divided(4), [Some((Book::Nothing, 0x1010, 240)), Some((Book::Plain, 0x1100, 760))]);
        assert_eq!(divided(16), [Some((Book::Nothing, 0x1010, 1000)), None]);
        let word = Access { bytes: 8, ..string };
        assert_eq!(by_warm_up(&word, 1)[0].map(|part| part.0), Some(Book::Nothing));
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
