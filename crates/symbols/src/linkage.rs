//! Names for the entries of the procedure linkage table: `memcpy@plt`.
//!
//! ```text
//!  endbr64; jmp [rip+slot]      slot ─▶ relocation whose place is the slot ─▶ symbol
//!  endbr64; push index; jmp 0   index ─▶ relocation number index of .rela.plt ─▶ symbol
//! ```

use std::collections::HashMap;

use goblin::elf::section_header::SHT_RELA;
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

use super::elf_file::{ElfFile, Section};
use super::elf_symbols::{CodeSymbol, dynamic_names};

const RELA_ENTRY: usize = 24;

/// One symbol per linkage entry. `resolvers` are the module's own functions by address: in a static program an entry
/// belongs to an indirect function that is known by its resolver's address only.
pub fn linkage_symbols(elf: &ElfFile, resolvers: &[CodeSymbol]) -> Vec<CodeSymbol> {
    let sections: Vec<&Section> = elf.sections().iter().filter(|s| s.name.starts_with(".plt") && s.is_code()).collect();
    if sections.is_empty() {
        return Vec::new();
    }
    let names = dynamic_names(elf);
    let by_address: HashMap<u64, &str> = resolvers.iter().map(|s| (s.start, s.name.as_str())).collect();
    let relocations = relocations(elf);
    let name_of = |r: &Relocation| -> Option<String> {
        let name = match r.symbol {
            0 => by_address.get(&r.addend).map(|n| (*n).to_owned()),
            n => names.get(n as usize).filter(|n| !n.is_empty()).cloned(),
        };
        name.map(|n| format!("{n}@plt"))
    };
    let by_slot: HashMap<u64, &Relocation> = relocations.iter().map(|r| (r.place, r)).collect();
    let lazy: Vec<&Relocation> = relocations.iter().filter(|r| r.lazy).collect();
    let mut found = Vec::new();
    for section in sections {
        let Ok(code) = elf.contents(section) else { continue };
        let size = entry_size(section);
        for (i, entry) in code.chunks(size).enumerate() {
            let start = section.header.sh_addr.saturating_add((i * size) as u64);
            let name = match goes_through(entry, start) {
                Some(Key::Slot(slot)) => by_slot.get(&slot).and_then(|r| name_of(r)),
                Some(Key::Index(index)) => lazy.get(index as usize).and_then(|r| name_of(r)),
                None => None,
            };
            let name = name.unwrap_or_else(|| section.name.clone());
            found.push(CodeSymbol {
                start,
                size: entry.len() as u64,
                name,
                global: false,
                weak: false,
                function: true,
            });
        }
    }
    found
}

struct Relocation {
    place: u64,
    symbol: u32,
    addend: u64,
    lazy: bool,
}

enum Key {
    Slot(u64),
    Index(u64),
}

fn relocations(elf: &ElfFile) -> Vec<Relocation> {
    let mut all = Vec::new();
    for section in elf.sections().iter().filter(|s| s.header.sh_type == SHT_RELA && s.header.sh_addr != 0) {
        let Ok(bytes) = elf.contents(section) else { continue };
        let lazy = section.name == ".rela.plt";
        for entry in bytes.chunks_exact(RELA_ENTRY) {
            let word = |at: usize| entry[at..at + 8].iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b));
            all.push(Relocation { place: word(0), symbol: (word(8) >> 32) as u32, addend: word(16), lazy });
        }
    }
    all
}

fn entry_size(section: &Section) -> usize {
    match section.header.sh_entsize {
        size @ (8 | 16 | 32) => size as usize,
        _ if section.name == ".plt.got" => 8,
        _ => 16,
    }
}

/// Follows one entry to the slot it jumps through, or to the relocation number it pushes.
fn goes_through(entry: &[u8], address: u64) -> Option<Key> {
    let mut index = None;
    for instruction in Decoder::with_ip(64, entry, address, DecoderOptions::NONE).iter() {
        match instruction.mnemonic() {
            Mnemonic::Jmp if instruction.is_ip_rel_memory_operand() => {
                return Some(Key::Slot(instruction.ip_rel_memory_address()));
            }
            Mnemonic::Jmp => break,
            Mnemonic::Push if instruction.op0_kind() != OpKind::Memory => {
                index = instruction.try_immediate(0).ok().map(Key::Index);
            }
            _ => {}
        }
    }
    index
}
