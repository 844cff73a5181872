//! The misses of a function by how far ahead their addresses are known.
//!
//! ```text
//! per instruction:  misses of L2 × order of its misses of L1 ─▶ foreseen, or not
//!                   those that are not × origin of its address (isa dataflow) ─▶ computable, chased, not known
//! ```

use std::collections::HashMap;

use super::loops::LoopNest;
use rprof_isa::dependency::AddressOrigin;
use rprof_isa::x86_64::dataflow::address_origins;
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::prefetch::Prefetch;

/// By the offset of the instruction.
pub type Origins = HashMap<u64, AddressOrigin>;

/// The origins of the addresses in innermost loop `index` with the common path `body`.
pub fn origins(nest: &LoopNest, index: usize, body: &[iced_x86::Instruction], into: &mut Origins) {
    let on_path: std::collections::HashSet<u64> = body.iter().map(|i| i.ip()).collect();
    let all = nest.loops[index].blocks.iter().flat_map(|b| nest.graph.block_instructions(*b));
    let off_path: Vec<_> = all.filter(|i| !on_path.contains(&i.ip())).copied().collect();
    into.extend(address_origins(body, &off_path));
}

/// Sums up the instructions of a function: (offset, traffic). `None` if no access missed L2.
pub fn sum<'t>(sites: impl Iterator<Item = (u64, &'t Traffic)>, origins: &Origins) -> Option<Prefetch> {
    let mut sum = Prefetch::default();
    for (offset, t) in sites {
        let known = t.lines_of_known_order();
        sum.lines += t.l2_misses;
        if known <= 0.0 {
            continue;
        }
        let regular = t.l2_misses * (t.unit_lines + t.strided_lines) / known;
        sum.foreseen += regular;
        match origins.get(&offset) {
            Some(AddressOrigin::Computed | AddressOrigin::Indexed) => {
                sum.computable += (t.l2_misses - regular).max(0.0)
            }
            Some(AddressOrigin::Chased) => sum.chased += (t.l2_misses - regular).max(0.0),
            None => {}
        }
    }
    (sum.lines > 0.0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_divided_by_order_and_origin() {
        let t =
            |unit_lines, random_lines, l2_misses| Traffic { unit_lines, random_lines, l2_misses, ..Traffic::default() };
        let sites = [t(100.0, 0.0, 50.0), t(20.0, 80.0, 100.0), t(0.0, 10.0, 10.0), t(0.0, 5.0, 5.0)];
        let origins = Origins::from([(1, AddressOrigin::Indexed), (2, AddressOrigin::Chased)]);
        let found = sum(sites.iter().enumerate().map(|(i, t)| (i as u64, t)), &origins).unwrap();
        assert_eq!(found, Prefetch { lines: 165.0, foreseen: 70.0, computable: 80.0, chased: 10.0 });
        assert_eq!(found.potential(), Some(80.0 / 95.0));
        assert_eq!(sum([(0, &Traffic::default())].into_iter(), &origins), None);
    }
}
