//! Function names for display: C++ names of 2,000 characters are shortened, the profile keeps them whole.

use crate::profile::names;

/// `text` with control characters, which neither a terminal nor XML may be given, as `?`.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// `name` in at most `width` characters, as [`names::shorten`] has it. Control characters become `?`.
pub fn shorten(name: &str, width: usize) -> String {
    names::shorten(&printable(name), width)
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
