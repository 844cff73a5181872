//! The groups of metrics that are counted, as the file of groups names them.

use core::ffi::c_char;

use crate::launches::{GROUPS, Known};
use crate::system;

/// Most metrics of a group.
pub const METRICS: usize = 32;
/// Longest file of groups.
const FILE: usize = 16 << 10;

/// A group of metrics.
#[derive(Clone, Copy)]
pub struct Group {
    /// Launches of each kernel and shape that are counted; 0: not usable.
    pub wanted: u16,
    /// The metric of another group that must not be 0, or null.
    condition: *const c_char,
    pub names: [*const c_char; METRICS],
    pub metrics: usize,
}

impl Group {
    /// Whether a kernel and shape lacks counts of this group, which has number `g`.
    pub fn is_lacked_by(&self, known: &Known, g: usize) -> bool {
        known.counts[g] < self.wanted && (self.condition.is_null() || known.meets & 1 << g != 0)
    }
}

/// All groups. Stays where it is: the names lie in it.
pub struct Groups {
    pub list: [Group; GROUPS],
    text: [u8; FILE],
}

impl Groups {
    pub const NONE: Groups = Groups {
        list: [Group { wanted: 0, condition: core::ptr::null(), names: [core::ptr::null(); METRICS], metrics: 0 }; GROUPS],
        text: [0; FILE],
    };

    /// Reads lines of `launches [if:metric] metric metric …`.
    pub unsafe fn read(&mut self, path: *const c_char) -> bool {
        unsafe {
            let fd = system::open(path, system::READ_ONLY, 0);
            if fd < 0 {
                return false;
            }
            let mut length = 0;
            while length < FILE - 1 {
                match system::read(fd, self.text.as_mut_ptr().add(length), FILE - 1 - length) {
                    n if n > 0 => length += n as usize,
                    _ => break,
                }
            }
            system::close(fd);
            self.text[length] = b'\n';
            let (mut group, mut start, mut first) = (0, 0, true);
            for i in 0..=length {
                let byte = self.text[i];
                if byte != b' ' && byte != b'\n' {
                    continue;
                }
                let word = start..i;
                start = i + 1;
                self.text[i] = 0;
                if !word.is_empty() && group < GROUPS {
                    let g = &mut self.list[group];
                    if first {
                        let digits = self.text[word].iter();
                        g.wanted = digits.fold(0, |n: u16, d| n.saturating_mul(10).saturating_add(u16::from(d.wrapping_sub(b'0'))));
                        first = false;
                    } else if self.text[word.start..].starts_with(b"if:") {
                        g.condition = self.text.as_ptr().add(word.start + 3).cast();
                    } else if g.metrics < METRICS {
                        g.names[g.metrics] = self.text.as_ptr().add(word.start).cast();
                        g.metrics += 1;
                    }
                }
                if byte == b'\n' && !first {
                    group += 1;
                    first = true;
                }
            }
            group > 0
        }
    }

    /// Whether group `g` is counted for graphs: not if it depends on another one.
    pub fn is_for_graphs(&self, g: usize) -> bool {
        self.list[g].wanted > 0 && self.list[g].condition.is_null()
    }

    /// A bit for each group with a metric of group `g` as its condition, if that metric is not 0.
    pub unsafe fn met(&self, g: usize, values: &[f64; METRICS]) -> u8 {
        let text = |name: *const c_char| unsafe { system::text(name) };
        let mut met = 0;
        for i in (0..self.list[g].metrics).filter(|i| values[*i] > 0.0) {
            for (other, group) in self.list.iter().enumerate().filter(|(_, group)| !group.condition.is_null()) {
                if text(group.condition) == text(self.list[g].names[i]) {
                    met |= 1 << other;
                }
            }
        }
        met
    }
}
