//! Wraps lines at words.

/// `text` in lines of at most `width` characters, continuation lines indented by `indent`, each ended by a newline.
/// Keeps leading spaces of the first line. A word longer than a line gets a line of its own.
pub fn hanging(text: &str, width: usize, indent: usize) -> String {
    let lead: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut out = String::new();
    let mut line = lead;
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            out += &line;
            out.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    out + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::hanging;

    #[test]
    fn wraps_at_words_and_keeps_the_lead() {
        assert_eq!(hanging("  aa bb cc dd", 8, 4), "  aa bb\n    cc\n    dd\n");
        assert_eq!(hanging("", 8, 4), "\n");
        assert_eq!(hanging("immeasurable x", 4, 1), "immeasurable\n x\n");
    }
}
