//! Function names for display: C++ names of 2,000 characters are shortened, the profile keeps them whole.

use rprof_profile::{Function, names};

/// `kernel.c:12`: the file's name and the line, if both are known.
pub fn place(file: Option<&str>, line: Option<u32>) -> Option<String> {
    let (path, line) = file.zip(line)?;
    Some(format!("{}:{line}", printable(path.rsplit('/').next().unwrap_or(path))))
}

/// `text` with control characters, which neither a terminal nor XML may be given, and marks that change the direction of what
/// follows as `?`.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || turns(c) { '?' } else { c }).collect()
}

/// Whether `c` changes the direction of text (Unicode's Bidi_Control).
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `name` in at most `width` characters, as [`names::shorten`] has it. Control characters become `?`.
pub fn shorten(name: &str, width: usize) -> String {
    names::shorten(&printable(name), width)
}

/// The name of `f` in at most `width` characters, another than those of the other functions of its profile.
pub fn of(f: &Function, width: usize) -> String {
    printable(&f.short_name(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_folded_then_the_middle() {
        let long = "void ns::solve<std::vector<double, std::allocator<double>>, 3>(std::vector<double> const&, int)";
        assert_eq!(shorten(long, 200), long);
        assert_eq!(shorten(long, 30), "void ns::solve<…>(…)");
        assert_eq!(shorten(long, 10).chars().count(), 10);
    }

    #[test]
    fn any_name_fits_any_width() {
        for name in [
            "operator<",
            "a::operator()(int)",
            "x<y<z",
            "((((",
            "日本語の関数名",
            "",
            "a\nb\u{1b}[31m",
            "a\u{202e}b\u{2066}",
        ] {
            for width in 1..12 {
                let short = shorten(name, width);
                assert!(short.chars().count() <= width.max(name.chars().count().min(width)), "{name} {width} {short}");
                assert!(!short.chars().any(|c| c.is_control() || turns(c)));
            }
        }
    }
}
