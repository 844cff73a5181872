//! The global branch history, hashed over several lengths at once.

/// Lengths, in branches, over which the history is hashed: geometric (Seznec and Michaud, A case for (partially) tagged geometric
/// history length branch prediction, 2006).
pub(super) const LENGTHS: [usize; TABLES] = [4, 9, 18, 36, 72, 144, 288, 576];
/// Number of lengths.
pub(super) const TABLES: usize = 8;

/// Branches that are remembered: more than the longest length, a power of two.
const REMEMBERED: usize = 1024;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Outcomes of branches, newest last.
///
/// hash over n branches = Σ item(i) · FACTOR^i, i = 0 for the newest, modulo 2⁶⁴: one multiplication for each length and branch.
#[derive(Debug, Clone)]
pub(super) struct History {
    items: Box<[u64; REMEMBERED]>,
    next: usize,
    hashes: [u64; TABLES],
    /// FACTOR^length: the factor of an item when it leaves the hash.
    leaving: [u64; TABLES],
}

impl History {
    pub(super) fn new() -> History {
        let leaving = LENGTHS.map(|length| FACTOR.wrapping_pow(length as u32));
        History { items: Box::new([0; REMEMBERED]), next: 0, hashes: [0; TABLES], leaving }
    }

    /// The hash over the `table`th length.
    #[inline]
    pub(super) fn hash(&self, table: usize) -> u64 {
        self.hashes[table]
    }

    /// A conditional branch went this way.
    #[inline]
    pub(super) fn push_direction(&mut self, taken: bool) {
        self.push(if taken { 0xd6e8_feb8_6659_fd93 } else { 0xa5a3_564e_27f8_8691 });
    }

    /// An indirect jump or call went to `target`.
    #[inline]
    pub(super) fn push_target(&mut self, target: u64) {
        self.push(target.wrapping_mul(0xff51_afd7_ed55_8ccd) | 1);
    }

    #[inline]
    fn push(&mut self, item: u64) {
        for ((hash, length), leaving) in self.hashes.iter_mut().zip(LENGTHS).zip(self.leaving) {
            let left = self.items[self.next.wrapping_sub(length) % REMEMBERED];
            *hash = hash.wrapping_mul(FACTOR).wrapping_add(item).wrapping_sub(left.wrapping_mul(leaving));
        }
        self.items[self.next] = item;
        self.next = (self.next + 1) % REMEMBERED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_recent_branches_give_equal_hashes() {
        let (mut a, mut b) = (History::new(), History::new());
        for n in 0..2000u32 {
            a.push_direction(n % 3 == 0);
            b.push_direction(n % 5 == 0);
        }
        assert_ne!(a.hash(7), b.hash(7));
        for n in 0..40u32 {
            a.push_direction(n % 7 == 0);
            b.push_direction(n % 7 == 0);
        }
        assert_eq!((a.hash(0), a.hash(3)), (b.hash(0), b.hash(3)));
        assert_ne!(a.hash(4), b.hash(4));
    }
}
