//! Paths as text, without loss: a path may hold any bytes, text only UTF-8.
//!
//! ```text
//!  /tmp/caf\xe9/prog (bytes)  ⇄  "/tmp/caf\\xe9/prog" (text)
//! ```
//!
//! A byte that is no UTF-8 becomes `\xHH`. A path that holds these four characters itself keeps them apart: its backslash
//! becomes `\x5c`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The text of a path.
pub fn encode(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find("\\x") {
            let is_escape = escaped(&rest.as_bytes()[at..]).is_some();
            text.push_str(&rest[..at]);
            text.push_str(if is_escape { "\\x5c" } else { "\\" });
            rest = &rest[at + 1..];
        }
        text.push_str(rest);
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// The path of a text that [`encode`] made.
pub fn decode(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match escaped(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The byte that `\xHH` at the beginning of `text` means.
fn escaped(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"\\x")?.first_chunk::<2>()?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn text_stays_and_other_bytes_are_written_out() {
        assert_eq!(encode("/tmp/größe/a b".as_bytes()), "/tmp/größe/a b");
        assert_eq!(encode(b"/tmp/\xff\xe9/prog"), "/tmp/\\xff\\xe9/prog");
        assert_eq!(encode(br"/tmp/\x41\xg"), r"/tmp/\x5cx41\xg");
    }

    proptest! {
        #[test]
        fn every_path_comes_back(path in prop::collection::vec(prop_oneof![Just(b'\\'), Just(b'x'), Just(b'4'), any::<u8>()], 0..40)) {
            let back = decode(&encode(&path));
            prop_assert_eq!(back.as_os_str().as_bytes(), &path[..]);
        }
    }
}
