//! Finds code that runs in pauses and that no window has seen yet. A function may begin and end within one pause; to miss nothing
//! that takes time, rprof samples the threads' program counters during a pause.

use crate::translator::code_cache::hash::AddressMap;
use rprof_profile::code::CodeRef;

/// Log2 of the bytes of code that count as seen together, and of the pages that finds are added up in: loops have several
/// lines, and a thread waits at few of their instructions.
const LINE: u32 = 6;
const PAGE: u32 = 12;
/// Number of finds in one page that request a window.
const FINDS: u32 = 2;
/// Most windows that one line requests: no window sees a line that accesses no memory.
const REQUESTS: u32 = 2;

/// The code that windows have seen, and the code found to run in pauses.
#[derive(Debug, Default)]
pub struct Unseen {
    /// By line, the windows that it may still request: none once it was seen.
    requests: AddressMap<(u32, u64), u32>,
    /// By page, finds since it last requested one.
    finds: AddressMap<(u32, u64), u32>,
}

impl Unseen {
    /// A measuring window has seen the instruction at `at` access memory.
    pub fn saw(&mut self, at: CodeRef) {
        self.requests.insert(part(at, LINE), 0);
    }

    /// A thread was found at `at` during a pause; returns whether the pause must end now.
    pub fn found(&mut self, at: CodeRef) -> bool {
        let left = self.requests.entry(part(at, LINE)).or_insert(REQUESTS);
        if *left == 0 {
            return false;
        }
        let finds = self.finds.entry(part(at, PAGE)).or_default();
        *finds += 1;
        if *finds < FINDS {
            return false;
        }
        *finds = 0;
        *left -= 1;
        true
    }
}

fn part(at: CodeRef, bits: u32) -> (u32, u64) {
    (at.module, at.offset >> bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(offset: u64) -> CodeRef {
        CodeRef { module: 0, offset }
    }

    #[test]
    fn what_runs_unseen_for_long_asks_for_a_window_and_gives_up() {
        let mut unseen = Unseen::default();
        unseen.saw(code(0x1000));
        assert!((0..10).all(|_| !unseen.found(code(0x103f))), "it was seen");
        let asked: Vec<bool> = (0..6).map(|_| unseen.found(code(0x1040))).collect();
        assert_eq!(asked, [false, true, false, true, false, false]);
    }

    #[test]
    fn finds_of_one_loop_add_up_and_those_of_far_code_do_not() {
        let mut unseen = Unseen::default();
        assert!(!unseen.found(code(0x2000)));
        assert!(!unseen.found(code(0x3000)));
        assert!(unseen.found(code(0x2fff)));
        unseen.saw(code(0x3000));
        assert!(!unseen.found(code(0x3001)), "a window came in between");
        let other = CodeRef { module: 1, offset: 0x2000 };
        assert!(!unseen.found(other));
    }
}
