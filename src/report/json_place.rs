//! The place in a truncated JSON text at which it ends.

/// An object or list that is still open.
enum Open {
    /// The key whose value was begun last, once there is one.
    Object { key: Option<String> },
    /// Index of the item that was begun last.
    List { index: usize },
}

/// The field within which `text` ends, as a path such as `functions[3].bytes`; `None` if no field was begun.
pub fn last_field(text: &[u8]) -> Option<String> {
    let mut open: Vec<Open> = Vec::new();
    let mut rest = text.iter().copied();
    // The string that ended last: a key, if a colon follows.
    let mut string = None;
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => string = Some(read_string(&mut rest)),
            b'{' => open.push(Open::Object { key: None }),
            b'[' => open.push(Open::List { index: 0 }),
            b'}' | b']' => drop(open.pop()),
            b':' => {
                if let Some(Open::Object { key }) = open.last_mut() {
                    *key = string.take();
                }
            }
            b',' => match open.last_mut() {
                Some(Open::List { index }) => *index += 1,
                Some(Open::Object { key }) => *key = None,
                None => {}
            },
            _ => {}
        }
    }
    let mut path = String::new();
    for level in &open {
        match level {
            Open::Object { key: Some(key) } if path.is_empty() => path += key,
            Open::Object { key: Some(key) } => path += &format!(".{key}"),
            Open::Object { key: None } => break,
            Open::List { index } => path += &format!("[{index}]"),
        }
    }
    (!path.is_empty()).then_some(path)
}

/// The string whose opening quote was just read; its beginning if the text ends before the string does.
fn read_string(rest: &mut impl Iterator<Item = u8>) -> String {
    let mut bytes = Vec::new();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => break,
            b'\\' => bytes.extend(rest.next()),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_open_field_is_named() {
        let at = |text: &str| last_field(text.as_bytes());
        assert_eq!(at(""), None);
        assert_eq!(at("{\"sch"), None);
        assert_eq!(at("{\"schema\": \"rp").as_deref(), Some("schema"));
        assert_eq!(at("{\"a\": {\"b\": [1, {\"c\": 2}, {\"d\": ").as_deref(), Some("a.b[2].d"));
        assert_eq!(at("{\"a\": {\"b\": 1}, \"c\": [[], [").as_deref(), Some("c[1][0]"));
        assert_eq!(at("{\"a\": \"x: {[\\\" ,\", \"e\": 1").as_deref(), Some("e"));
    }
}
