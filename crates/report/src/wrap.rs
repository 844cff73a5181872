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

/// [`hanging`] in at most `most` lines; the last one ends with `…` if something is left out. Nothing for an empty text.
pub fn at_most(text: &str, width: usize, indent: usize, most: usize) -> String {
    cut(text, width, indent, most, "…")
}

/// [`at_most`], with `tail` in place of `…`: it points to the rest.
pub fn cut(text: &str, width: usize, indent: usize, most: usize, tail: &str) -> String {
    let fits = |lines: &str| lines.lines().count() <= most;
    let all = if text.is_empty() { String::new() } else { hanging(text, width, indent) };
    if fits(&all) {
        return all;
    }
    let ends = text.match_indices(' ').map(|(at, _)| at).collect::<Vec<_>>();
    let shortened = ends.iter().rev().map(|end| hanging(&format!("{} {tail}", text[..*end].trim_end()), width, indent));
    shortened.into_iter().find(|lines| fits(lines)).unwrap_or_else(|| {
        let word: String = text.chars().take(width.saturating_sub(1 + tail.chars().count())).collect();
        format!("{word} {tail}\n")
    })
}

/// [`cut`] after a sentence if the first one fits.
pub fn cut_at_sentence(text: &str, width: usize, indent: usize, most: usize, tail: &str) -> String {
    let fits = |lines: &String| lines.lines().count() <= most;
    let ends = text.match_indices(". ").map(|(at, _)| at + 1).collect::<Vec<_>>();
    let sentences = ends.iter().rev().map(|end| hanging(&format!("{} {tail}", &text[..*end]), width, indent));
    let whole = Some(hanging(text, width, indent)).filter(fits);
    whole.or_else(|| sentences.into_iter().find(fits)).unwrap_or_else(|| cut(text, width, indent, most, tail))
}

#[cfg(test)]
mod tests {
    use super::{at_most, cut, cut_at_sentence, hanging};

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
        assert_eq!(cut("aa bb cc dd ee ff gg", 8, 0, 2, "(all)"), "aa bb cc\ndd (all)\n");
    }

    #[test]
    fn whole_sentences_are_left_where_one_fits() {
        let text = "One two. Three four. Five six seven.";
        assert_eq!(cut_at_sentence(text, 40, 0, 1, "(all)"), format!("{text}\n"));
        assert_eq!(cut_at_sentence(text, 14, 0, 1, "(all)"), "One two. (all)\n");
        assert_eq!(cut_at_sentence(text, 14, 0, 2, "(all)"), "One two. Three\nfour. (all)\n");
        assert_eq!(cut_at_sentence("One two three. Four.", 12, 0, 1, "(all)"), "One (all)\n");
    }
}
