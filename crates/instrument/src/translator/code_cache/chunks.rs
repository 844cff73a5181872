//! A list that never moves its elements: a vector that doubles copies megabytes while a thread of the program waits.

use std::ops::{Index, IndexMut};

/// Elements in a chunk.
const CHUNK: usize = 4096;

/// A list that grows at its end.
#[derive(Debug)]
pub struct Chunks<T> {
    /// All but the last are full.
    chunks: Vec<Vec<T>>,
}

impl<T> Chunks<T> {
    /// An empty one.
    pub fn new() -> Self {
        Chunks { chunks: Vec::new() }
    }

    /// Adds `element` at the end.
    pub fn push(&mut self, element: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(element),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(element);
                self.chunks.push(chunk);
            }
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// The elements from the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are_in_their_order() {
        let mut list = Chunks::new();
        assert_eq!((list.len(), list.iter().next()), (0, None));
        list.push(0);
        let first: *const usize = &list[0];
        for i in 1..2 * CHUNK + 2 {
            assert_eq!(list.len(), i);
            list.push(i);
        }
        assert!(std::ptr::eq(first, &list[0]));
        list[CHUNK] += 1_000_000;
        let expected = (0..2 * CHUNK + 2).map(|i| if i == CHUNK { i + 1_000_000 } else { i });
        assert!(list.iter().copied().eq(expected));
    }
}
