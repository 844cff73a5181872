//! `jit-PID.dump`: code made at run time with its names, as perf's jitdump format has it.
//!
//! ```text
//!  header ─▶ records: load (address, size, name) · move (old address → new) · others, which are skipped
//! ```
//!
//! Described in the kernel's `tools/perf/Documentation/jitdump-specification.txt`.

use super::little_endian::{half, word};
use super::perf_map::JitSymbol;

/// `JiTD`, in the byte order of this host.
const MAGIC: u32 = 0x4a69_5444;
const LOAD: u32 = 0;
const MOVE: u32 = 1;
/// Bytes of a record before its own fields: id, size, time.
const PREFIX: usize = 16;

/// The functions in a dump, in the order in which they were made. Damage ends them.
pub fn parse(dump: &[u8]) -> Vec<JitSymbol> {
    let mut found: Vec<JitSymbol> = Vec::new();
    let (Some(MAGIC), Some(header)) = (half(dump, 0), half(dump, 8)) else { return found };
    let mut at = header as usize;
    while let (Some(kind), Some(size)) = (half(dump, at), half(dump, at + 4)) {
        let Some(record) = dump.get(at..at.saturating_add(size as usize)).filter(|r| r.len() >= PREFIX) else { break };
        at += size as usize;
        match kind {
            LOAD => found.extend(load(&record[PREFIX..])),
            MOVE => {
                let moved = moved(&record[PREFIX..], &found);
                found.extend(moved);
            }
            _ => {}
        }
    }
    found
}

/// pid (4), tid (4), virtual address (8), code address (8), size (8), index (8), name, code.
fn load(fields: &[u8]) -> Option<JitSymbol> {
    let (start, size) = (word(fields, 16)?, word(fields, 24)?);
    let name = fields.get(40..)?;
    let name = &name[..name.iter().position(|byte| *byte == 0)?];
    JitSymbol::new(start, size, &String::from_utf8_lossy(name))
}

/// pid (4), tid (4), virtual address (8), old address (8), new address (8), size (8), index (8).
fn moved(fields: &[u8], known: &[JitSymbol]) -> Option<JitSymbol> {
    let (old, new, size) = (word(fields, 16)?, word(fields, 24)?, word(fields, 32)?);
    let symbol = known.iter().rev().find(|symbol| symbol.start == old)?;
    JitSymbol::new(new, size, &symbol.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, fields: &[u64], tail: &[u8]) -> Vec<u8> {
        let size = (PREFIX + fields.len() * 8 + tail.len()) as u32;
        let mut bytes = [kind.to_le_bytes(), size.to_le_bytes(), [0; 4], [0; 4]].concat();
        fields.iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        bytes.extend(tail);
        bytes
    }

    #[test]
    fn loads_and_moves_are_read_and_damage_ends_them() {
        let mut dump = [MAGIC, 1, 40, 62, 0, 7, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
        dump.extend(record(LOAD, &[7, 0x1000, 0x1000, 0x20, 0], b"hot\0\xc3"));
        dump.extend(record(2, &[1, 2], b""));
        dump.extend(record(MOVE, &[7, 0x1000, 0x1000, 0x3000, 0x20, 0], b""));
        let whole = dump.len();
        dump.extend(record(LOAD, &[7, 0x5000, 0x5000, 0x20, 1], b"no end"));
        let symbols = parse(&dump);
        let starts: Vec<_> = symbols.iter().map(|s| (s.start, s.end, s.name.as_str())).collect();
        assert_eq!(starts, [(0x1000, 0x1020, "hot"), (0x3000, 0x3020, "hot")]);
        for length in 0..whole {
            assert!(parse(&dump[..length]).len() < 2);
        }
        assert!(parse(b"\x7fELF").is_empty());
    }
}
