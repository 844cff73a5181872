//! Names of kernels: each is written to the log once and is a number from then on.

use core::ffi::c_char;

use crate::log::{self, Kind};
use crate::system::{self, Locked};

const SLOTS: usize = 1 << 14;

struct Names {
    /// Hash and number of each name; a hash of 0 is a free slot.
    slots: [(u64, u32); SLOTS],
    /// Numbers given so far.
    given: u32,
}

static NAMES: Locked<Names> = Locked::new(Names { slots: [(0, 0); SLOTS], given: 0 });

/// The number of a name. Names beyond the table are written again each time.
pub unsafe fn id(name: *const c_char) -> u32 {
    if name.is_null() {
        return 0;
    }
    let text = unsafe { system::text(name) };
    let hash = system::hash(text, 0) | 1;
    let known = NAMES.with(|names| {
        for step in 0..64 {
            let slot = &mut names.slots[(hash as usize + step) % SLOTS];
            if slot.0 == hash {
                return slot.1;
            }
            if slot.0 == 0 {
                *slot = (hash, names.given + 1);
                break;
            }
        }
        names.given += 1;
        let id = names.given;
        unsafe { log::record(Kind::Name, &[], &[id], text) };
        id
    });
    known.unwrap_or(0)
}
