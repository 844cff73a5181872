//! Any bytes as text: what the translator makes of them does what they did. `tests/library/decode_to_encode.rs` runs the same check.

#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(difference) = check::decode_to_encode(bytes) {
        panic!("{difference}");
    }
});
