//! Text of the page that is compressed until it is needed: raw DEFLATE (RFC 1951) in Base64, which browsers unpack themselves.

use std::io::Write;

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::DeflateEncoder;

/// `text`, packed.
pub fn pack(text: &str) -> String {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(7));
    // A Vec takes every byte.
    let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).unwrap_or_default();
    BASE64.encode(&packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_unpacks() {
        use std::io::Read;
        let text = "<p>λ \u{202e} </script> & more";
        let bytes = BASE64.decode(pack(text).as_bytes()).unwrap();
        let mut read = String::new();
        flate2::read::DeflateDecoder::new(&bytes[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
    }

    #[test]
    fn repetition_packs_well() {
        let text = "<tr><td>Copy<td>1.00 GB".repeat(1000);
        assert!(pack(&text).len() < text.len() / 50);
    }
}
