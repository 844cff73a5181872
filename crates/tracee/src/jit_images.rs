//! ELF images that run-time compilers keep in memory for debuggers, by GDB's JIT interface: a list that begins at
//! `__jit_debug_descriptor`.
//!
//! ```text
//!  __jit_debug_descriptor: version, action, relevant entry, first entry ─▶ entry: next, previous, image, its size ─▶ entry …
//! ```
//!
//! Described in GDB's manual, "JIT Compilation Interface". A process takes entries off the list when it frees their code, so the list is
//! read again whenever it changed.

use std::collections::{HashMap, HashSet};
use std::io;

use nix::unistd::Pid;

use super::address::Address;
use super::elf_layout::ElfLayout;
use super::elf_reader::{ElfReader, OBJECT};
use super::mapped_file::{self, Known};
use super::maps::{Mapping, read_maps};
use super::memory::Memory;

/// The variable that a list begins at.
const DESCRIPTOR: &[u8] = b"__jit_debug_descriptor";
/// The version of the interface.
const VERSION: u64 = 1;
/// The most entries of a list that are read.
const MOST_ENTRIES: usize = 1 << 16;
/// The most bytes of images that are kept of one process.
const MOST_BYTES: u64 = 256 << 20;

/// The images of one process.
#[derive(Debug, Default)]
pub struct JitImages {
    lists: Vec<List>,
    /// Files that were looked into, each once.
    files: HashSet<(String, u64)>,
    images: Vec<Vec<u8>>,
    bytes: u64,
}

#[derive(Debug)]
struct List {
    descriptor: Address,
    /// Relevant and first entry at the last look.
    state: [u64; 2],
    /// Images by entry: place and size.
    known: HashMap<u64, [u64; 2]>,
}

impl JitImages {
    /// Reads the images that process `pid` registered since the last look.
    ///
    /// # Errors
    /// The process is gone, or we may not read its memory.
    pub fn look(&mut self, pid: Pid) -> io::Result<()> {
        let memory = Memory::open(pid)?;
        self.find_lists(pid)?;
        for list in &mut self.lists {
            for image in list.new_images(&memory) {
                if let Ok(bytes) = read(&memory, image, MOST_BYTES - self.bytes) {
                    self.bytes += bytes.len() as u64;
                    self.images.push(bytes);
                }
            }
        }
        Ok(())
    }

    /// All images so far, in the order in which they were found.
    pub fn into_images(self) -> Vec<Vec<u8>> {
        self.images
    }

    /// Finds the lists of files that the process has mapped since the last look.
    fn find_lists(&mut self, pid: Pid) -> io::Result<()> {
        let maps = read_maps(pid)?;
        for map in maps.iter().filter(|m| m.is_file()) {
            if self.files.insert((map.path.clone(), map.inode)) {
                let of_file: Vec<&Mapping> = maps.iter().filter(|m| m.is_of_same_file(map)).collect();
                let descriptor = descriptor(pid, map, &of_file).ok().flatten();
                self.lists.extend(descriptor.map(|descriptor| List {
                    descriptor,
                    state: [0; 2],
                    known: HashMap::new(),
                }));
            }
        }
        Ok(())
    }
}

/// The descriptor's address in the process for the file behind `map`; `of_file` are all its mappings.
fn descriptor(pid: Pid, map: &Mapping, of_file: &[&Mapping]) -> io::Result<Option<Address>> {
    let file = mapped_file::open(pid, map.start, &map.path, Known::Inode(map.inode))?.file;
    let elf = ElfReader::at(file, 0)?;
    let mut found = None;
    elf.defined_symbols(|symbol| {
        if symbol.kind == OBJECT && symbol.name == DESCRIPTOR {
            found = Some(symbol.at);
        }
    })?;
    let Some(found) = found else { return Ok(None) };
    let bias = ElfLayout::of(&elf)?.bias_among(map.start, map.offset.get(), of_file);
    Ok(bias.map(|bias| Address::new(found.wrapping_add(bias))))
}

impl List {
    /// (place, size) of the images that were registered since the last look, in the order in which that was done.
    fn new_images(&mut self, memory: &Memory) -> Vec<[u64; 2]> {
        let Ok([version, relevant, first]) = words::<3>(memory, self.descriptor.get()) else { return Vec::new() };
        if version & 0xffff_ffff != VERSION || self.state == [relevant, first] {
            return Vec::new();
        }
        self.state = [relevant, first];
        // It may be a new image at the place of one that was freed.
        self.known.remove(&relevant);
        let (mut found, mut at, mut listed) = (Vec::new(), first, HashMap::new());
        while at != 0 && listed.len() < MOST_ENTRIES && !listed.contains_key(&at) {
            let Ok([next, _, place, size]) = words::<4>(memory, at) else { break };
            if self.known.get(&at) != Some(&[place, size]) {
                found.push([place, size]);
            }
            listed.insert(at, [place, size]);
            at = next;
        }
        self.known = listed;
        // New entries are put at the beginning of the list.
        found.reverse();
        found
    }
}

fn words<const N: usize>(memory: &Memory, at: u64) -> io::Result<[u64; N]> {
    let mut found = [0; N];
    for (i, word) in found.iter_mut().enumerate() {
        *word = memory.read_u64(Address::new(at.wrapping_add(8 * i as u64)))?;
    }
    Ok(found)
}

/// An image of at most `most` bytes.
fn read(memory: &Memory, [place, size]: [u64; 2], most: u64) -> io::Result<Vec<u8>> {
    if size > most {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let mut bytes = vec![0; size as usize];
    memory.read(Address::new(place), &mut bytes)?;
    if !bytes.starts_with(b"\x7fELF") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor and its entries in our own memory, at even places: version and action, relevant, first; then next, previous, place,
    /// size of each.
    fn list(entries: &[(usize, &[u8])], words: &mut [u64]) -> u64 {
        let base = words.as_ptr() as u64;
        let entry = |slot: usize| base + 8 * (3 + 4 * slot as u64);
        words[0] = VERSION;
        words[1] = entries.first().map_or(0, |(slot, _)| entry(*slot));
        words[2] = words[1];
        for (i, (slot, image)) in entries.iter().enumerate() {
            let next = entries.get(i + 1).map_or(0, |(slot, _)| entry(*slot));
            words[3 + 4 * slot..7 + 4 * slot].copy_from_slice(&[next, 0, image.as_ptr() as u64, image.len() as u64]);
        }
        base
    }

    #[test]
    fn images_are_read_as_they_come_and_kept_when_they_go() {
        let memory = Memory::open(Pid::this()).unwrap();
        let (a, b, other) = (b"\x7fELFa".to_vec(), b"\x7fELFb".to_vec(), b"none".to_vec());
        let mut words = vec![0; 32];
        let at = list(&[], &mut words);
        let mut images = JitImages::default();
        images.lists.push(List { descriptor: Address::new(at), state: [0; 2], known: HashMap::new() });
        let mut look = || {
            let found: Vec<_> = images.lists[0].new_images(&memory);
            found.into_iter().filter_map(|image| read(&memory, image, 100).ok()).collect::<Vec<_>>()
        };
        assert!(look().is_empty());
        list(&[(1, &b), (0, &a), (2, &other)], &mut words);
        assert_eq!(look(), [a.clone(), b.clone()], "in the order of registration; what is no image is left out");
        assert!(look().is_empty(), "nothing changed");
        list(&[(0, &a)], &mut words);
        words[1] = at + 8 * 7;
        assert!(look().is_empty(), "one was taken off");
        list(&[(1, &b), (0, &a)], &mut words);
        assert_eq!(look(), [b], "and came again");
        // A list that runs in a circle ends.
        let first = words[2];
        words[7] = first;
        words[1] = 0;
        look();
    }

    #[test]
    fn images_that_are_too_large_are_left_out() {
        let memory = Memory::open(Pid::this()).unwrap();
        let image = b"\x7fELF12";
        assert!(read(&memory, [image.as_ptr() as u64, 6], 5).is_err());
        assert!(read(&memory, [8, 6], 100).is_err());
    }
}
