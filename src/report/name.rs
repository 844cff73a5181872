//! Function names for display: C++ names of 2,000 characters are shortened, the profile keeps them whole.

/// `text` with control characters, which neither a terminal nor XML may be given, as `?`.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// `name` in at most `width` characters: template arguments first become `<…>`, then parameters `(…)`, then the middle is
/// cut. Control characters become `?`.
pub fn shorten(name: &str, width: usize) -> String {
    let clean = printable(name);
    let fits = |s: &String| s.chars().count() <= width;
    if fits(&clean) {
        return clean;
    }
    let bare = collapse(&clean, '(', ')');
    if fits(&bare) {
        return bare;
    }
    let bare = collapse(&bare, '<', '>');
    if fits(&bare) { bare } else { cut_middle(&bare, width) }
}

/// Replaces what stands between outermost brackets by `…`. `operator<`, `operator()` and unbalanced brackets stay.
fn collapse(name: &str, open: char, close: char) -> String {
    let mut out = String::new();
    let mut depth = 0usize;
    let mut inside = String::new();
    for c in name.chars() {
        if c == open && !(depth == 0 && out.ends_with("operator")) {
            depth += 1;
            if depth == 1 {
                inside.clear();
                continue;
            }
        } else if c == close && depth > 0 {
            depth -= 1;
            if depth == 0 {
                out.push(open);
                out.push_str(if inside.chars().count() > 1 { "…" } else { &inside });
                out.push(close);
                continue;
            }
        }
        if depth > 0 { inside.push(c) } else { out.push(c) }
    }
    if depth > 0 {
        out.push(open);
        out.push_str(&inside);
    }
    out
}

fn cut_middle(name: &str, width: usize) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= width {
        return name.to_owned();
    }
    // The end of a qualified name tells more than its beginning.
    let tail = width.saturating_sub(1) * 2 / 3;
    let head = width.saturating_sub(1 + tail);
    chars[..head].iter().chain(std::iter::once(&'…')).chain(&chars[chars.len() - tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_then_templates_then_the_middle() {
        let long = "void ns::solve<std::vector<double, std::allocator<double>>, 3>(std::vector<double> const&, int)";
        assert_eq!(shorten(long, 200), long);
        assert_eq!(shorten(long, 75), "void ns::solve<std::vector<double, std::allocator<double>>, 3>(…)");
        assert_eq!(shorten(long, 30), "void ns::solve<…>(…)");
        assert_eq!(shorten(long, 10).chars().count(), 10);
    }

    #[test]
    fn any_name_fits_any_width() {
        for name in ["operator<", "a::operator()(int)", "x<y<z", "((((", "日本語の関数名", "", "a\nb\u{1b}[31m"]
        {
            for width in 1..12 {
                let short = shorten(name, width);
                assert!(short.chars().count() <= width.max(name.chars().count().min(width)), "{name} {width} {short}");
                assert!(!short.chars().any(char::is_control));
            }
        }
    }
}
