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

/// [`hanging`] in at most `most` lines; the last one ends with `…` where something is left out. Nothing for an empty text.
pub fn at_most(text: &str, width: usize, indent: usize, most: usize) -> String {
    if text.is_empty() {
        return String::new();
    }
    let all = hanging(text, width, indent);
    if all.lines().count() <= most {
        return all;
    }
    let mut lines: Vec<String> = all.lines().take(most).map(str::to_owned).collect();
    if let Some(last) = lines.last_mut() {
        while last.chars().count() + 2 > width {
            match last.trim_end().rfind(' ') {
                Some(space) if !last[..space].trim().is_empty() => last.truncate(space),
                _ => *last = last.chars().take(width.saturating_sub(2)).collect(),
            }
        }
        *last = format!("{} …", last.trim_end());
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::{at_most, hanging};

    #[test]
    fn wraps_at_words_and_keeps_the_lead() {
        assert_eq!(hanging("  aa bb cc dd", 8, 4), "  aa bb\n    cc\n    dd\n");
        assert_eq!(hanging("", 8, 4), "\n");
        assert_eq!(hanging("immeasurable x", 4, 1), "immeasurable\n x\n");
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(at_most("aa bb cc dd", 5, 0, 2), "aa bb\ncc dd\n");
        assert_eq!(at_most("aa bb cc dd ee", 5, 0, 2), "aa bb\ncc …\n");
        assert_eq!(at_most("immeasurable x", 6, 0, 1), "imme …\n");
        assert_eq!(at_most("", 5, 0, 2), "");
    }
}
