//! Physical memory of a program: its pages get frames one after the other, in the order of their first access. Caches with physical
//! indices then behave alike wherever the kernel maps the pages, and as on a host with contiguous free memory.

use std::collections::HashMap;

/// The frames so far.
#[derive(Debug, Default)]
pub(super) struct Frames {
    by_page: HashMap<u64, u64>,
    last: Option<(u64, u64)>,
}

impl Frames {
    /// The frame of page number `page`.
    #[inline]
    pub(super) fn frame(&mut self, page: u64) -> u64 {
        if let Some((last, frame)) = self.last
            && last == page
        {
            return frame;
        }
        let next = self.by_page.len() as u64;
        let frame = *self.by_page.entry(page).or_insert(next);
        self.last = Some((page, frame));
        frame
    }
}
