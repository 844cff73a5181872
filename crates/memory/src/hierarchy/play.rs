//! Plays one access, line by line, into a hierarchy.

use rprof_isa::facts::AccessKind;
use rprof_profile::evidence::memory::Access;

use crate::attribution::owners::{Owners, Place};
use crate::attribution::tallies::Stratum;
use crate::caches::geometry::{LINE_BYTES, LINE_SHIFT};
use crate::caches::line::{Line, Owner, bytes_of_line};
use crate::classify::access_pattern::AccessPattern;
use crate::hierarchy::{Hierarchy, Outcome};

/// Counts the execution of `access` and plays those of its lines that `admit` accepts. `orders`: the access pattern of misses is noted,
/// with one line in 2 to that power admitted. `from_memory` receives an address in each line that comes from memory or is stored past the
/// caches.
#[inline]
pub fn play(
    hierarchy: &mut Hierarchy,
    owners: &mut Owners,
    (place, owner): (Place, Owner),
    access: &Access,
    orders: Option<u32>,
    admit: impl Fn(Line) -> bool,
    mut from_memory: impl FnMut(Stratum, u64),
) {
    let stratum = hierarchy.tallies.stratum();
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
                from_memory(stratum, start);
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
            from_memory(stratum, start);
        }
    }
}

/// `follows`: the line before it belongs to the same access.
fn note_order(
    hierarchy: &mut Hierarchy,
    owners: &mut Owners,
    (stratum, owner): (usize, Owner),
    line: Line,
    kind: AccessKind,
    follows: bool,
) {
    let Some((steps, recent)) = owners.order(stratum, owner) else { return };
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
