//! Which launches have been counted how often, by kernel and shape.

use crate::system;

/// Most groups of metrics.
pub const GROUPS: usize = 8;
const SLOTS: usize = 1 << 12;

/// A launch.
#[derive(Clone, Copy)]
pub struct Launch {
    /// Number of its name.
    pub name: u32,
    /// Blocks in x, y, z and threads of a block in x, y, z.
    pub shape: [u32; 6],
}

/// What is known of a kernel and shape.
#[derive(Clone, Copy)]
pub struct Known {
    /// Counted launches, by group.
    pub counts: [u16; GROUPS],
    /// A bit for each group with its condition met.
    pub meets: u8,
}

/// All kernels and shapes.
pub struct Counted {
    slots: [(u64, Known); SLOTS],
}

impl Counted {
    pub const EMPTY: Counted = Counted { slots: [(0, Known { counts: [0; GROUPS], meets: 0 }); SLOTS] };

    /// What is known of a launch's kernel and shape; `None` if the table is full.
    pub fn of(&mut self, launch: &Launch) -> Option<&mut Known> {
        let numbers = [launch.name, launch.shape[0], launch.shape[1], launch.shape[2], launch.shape[3], launch.shape[4], launch.shape[5]];
        let hash = numbers.iter().fold(0, |h, n| system::hash(&n.to_ne_bytes(), h)) | 1;
        for step in 0..64 {
            let i = (hash as usize + step) % SLOTS;
            if self.slots[i].0 == 0 {
                self.slots[i].0 = hash;
            }
            if self.slots[i].0 == hash {
                return Some(&mut self.slots[i].1);
            }
        }
        None
    }
}
