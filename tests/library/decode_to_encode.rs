//! The fuzz target's check on bytes that a seed determines: random ones, and real text with random changes.

use crate::check;

/// splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn rounds() -> usize {
    if std::env::var_os("RPROF_FULL").is_some() { 2_000_000 } else { 60_000 }
}

#[test]
fn random_bytes() {
    let mut state = 1;
    let mut compared = 0;
    for _ in 0..rounds() {
        let bytes: Vec<u8> = (0..8).flat_map(|_| next(&mut state).to_le_bytes()).collect();
        compared += check::decode_to_encode(&bytes).unwrap_or_else(|e| panic!("{bytes:02x?}: {e}"));
    }
    println!("random_bytes: {compared} instructions compared");
    assert!(compared > rounds() / 2);
}

#[test]
fn real_text_with_changes() {
    let text = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut state = 2;
    let mut compared = 0;
    for _ in 0..rounds() {
        let from = (next(&mut state) as usize) % (text.len() - 64);
        let mut bytes = text[from..from + 64].to_vec();
        // The rules concern RIP-relative, GS and FS operands.
        match next(&mut state) % 4 {
            0 => bytes.insert(0, 0x65),
            1 => bytes.insert(0, 0x64),
            2 => bytes.splice(0..0, [0x48, 0x8b, 0x05]).for_each(drop),
            _ => {
                let at = (next(&mut state) as usize) % 8;
                bytes[at] = next(&mut state) as u8;
            }
        }
        compared += check::decode_to_encode(&bytes).unwrap_or_else(|e| panic!("{bytes:02x?}: {e}"));
    }
    println!("real_text_with_changes: {compared} instructions compared");
    assert!(compared > rounds() / 2);
}
