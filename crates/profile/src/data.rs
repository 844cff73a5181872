//! Which data memory traffic goes to.

use serde::{Deserialize, Serialize};

/// A data structure, as far as it has a name, and its part of a function's lines from memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// The variable; the place that asked for the memory (`function:line`); the file; or the kind of memory.
    pub name: String,
    /// The meaning of the name.
    pub kind: DataKind,
    /// Part of the lines that the function brings from memory or stores past the caches.
    pub share: f64,
    /// Size of the variable, or of the memory that was asked for or mapped; of several pieces the largest one's.
    pub bytes: Option<u64>,
    /// Pieces of memory of that name that the program's lines were found in.
    #[serde(default = "one")]
    pub pieces: u32,
}

fn one() -> u32 {
    1
}

/// The kinds of names for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataKind {
    /// A variable, or other data, of a module.
    Static,
    /// Who asked the kernel for the memory: a large allocation.
    Allocated,
    /// The heap; its blocks are not distinguished.
    Heap,
    /// A stack.
    Stack,
    /// A mapped file.
    File,
    /// Nothing: anonymous memory.
    Anonymous,
    /// Nothing: it was not mapped any more, or rprof could not read the mappings.
    Unknown,
}

impl DataKind {
    /// As a report says it.
    pub fn word(self) -> &'static str {
        match self {
            DataKind::Static => "static",
            DataKind::Allocated => "allocated",
            DataKind::Heap => "heap",
            DataKind::Stack => "stack",
            DataKind::File => "file",
            DataKind::Anonymous => "anonymous",
            DataKind::Unknown => "unknown",
        }
    }
}

/// Entries of a function that are kept.
const MOST: usize = 16;

/// The largest of `data` by share; several of one name and kind are one.
pub fn largest(data: Vec<Data>) -> Vec<Data> {
    let mut merged: Vec<Data> = Vec::new();
    for one in data {
        match merged.iter_mut().find(|d| d.name == one.name && d.kind == one.kind) {
            Some(same) => {
                same.share += one.share;
                same.bytes = same.bytes.max(one.bytes);
                same.pieces = same.pieces.max(one.pieces);
            }
            None => merged.push(one),
        }
    }
    merged.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
    merged.truncate(MOST);
    merged
}

/// The data of two parts that brought `lines` (or bytes) each.
pub fn together(a: Vec<Data>, b: Vec<Data>, lines: (f64, f64)) -> Vec<Data> {
    let all = lines.0 + lines.1;
    if all <= 0.0 {
        return largest(a.into_iter().chain(b).map(|d| Data { share: d.share / 2.0, ..d }).collect());
    }
    let weighed = |data: Vec<Data>, part: f64| data.into_iter().map(move |d| Data { share: d.share * part / all, ..d });
    largest(weighed(a, lines.0).chain(weighed(b, lines.1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(name: &str, share: f64, bytes: u64) -> Data {
        Data { name: name.into(), kind: DataKind::Static, share, bytes: Some(bytes), pieces: 1 }
    }

    #[test]
    fn parts_weigh_by_their_lines() {
        let whole = together(vec![data("x", 1.0, 8)], vec![data("x", 0.5, 8), data("y", 0.5, 4)], (100.0, 300.0));
        assert_eq!(whole, [data("x", 0.625, 8), data("y", 0.375, 4)]);
    }
}
