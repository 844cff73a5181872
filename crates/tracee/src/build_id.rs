//! The GNU build id: by it a module is the same in different passes and files.

use goblin::elf::note::NT_GNU_BUILD_ID;

/// The NT_GNU_BUILD_ID descriptor in a PT_NOTE segment (`namesz descsz type "GNU\0" descriptor`, padded to 4), in
/// lower-case hexadecimal.
pub fn from_notes(mut notes: &[u8]) -> Option<String> {
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let (name_size, size, kind) = (word(0) as usize, word(4) as usize, word(8));
        let (name, rest) = rest.split_at_checked(name_size.next_multiple_of(4))?;
        let descriptor = rest.get(..size)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(hex(descriptor));
        }
        notes = rest.get(size.next_multiple_of(4)..)?;
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_segment_yields_its_build_id_past_other_notes() {
        let mut notes = vec![4, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0];
        notes.extend(b"GNU\0abc\0");
        notes.extend([4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        notes.extend(b"GNU\0\x0a\xff\0\0");
        assert_eq!(from_notes(&notes).as_deref(), Some("0aff"));
        assert_eq!(from_notes(&notes[..20]), None);
    }
}
