//! Names short enough to read: template arguments and parameter lists folded from the inside out.

/// Names are shown with up to this many characters.
pub const SHOWN: usize = 120;

/// `name` in at most `limit` characters. Brackets are folded (`<…>`, `(…)`), the most deeply nested first; a name that is
/// still too long loses its middle.
pub fn shorten(name: &str, limit: usize) -> String {
    if name.chars().count() <= limit {
        return name.to_owned();
    }
    let brackets = Brackets::of(name);
    for depth in (1..=brackets.deepest).rev() {
        for parameters in [false, true] {
            let folded = brackets.fold(depth, parameters);
            if folded.chars().count() <= limit {
                return folded;
            }
        }
    }
    let folded: Vec<char> = brackets.fold(1, true).chars().collect();
    if folded.len() <= limit {
        return folded.into_iter().collect();
    }
    let kept = limit.saturating_sub(1);
    // The end of a qualified name is more informative than its beginning.
    let front = kept - kept * 2 / 3;
    let head = folded[..front].iter();
    head.chain(['…'].iter()).chain(folded[folded.len() - (kept - front)..].iter()).collect()
}

/// Stands before the number of a name that is one of several.
const NUMBER: &str = " #";

/// `name` with its number among names that would read the same; the first has none.
pub fn numbered(name: String, number: usize) -> String {
    if number > 1 { format!("{name}{NUMBER}{number}") } else { name }
}

/// `name` without the number that [`numbered`] gave it.
pub fn without_number(name: &str) -> &str {
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|c| c.is_ascii_digit());
    name.rsplit_once(NUMBER).filter(|(_, end)| is_number(end)).map_or(name, |(name, _)| name)
}

/// A name cut into its characters, brackets with their nesting level.
struct Brackets {
    signs: Vec<(char, Sign)>,
    deepest: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plain,
    Opens(usize),
    Closes(usize),
}

impl Brackets {
    fn of(name: &str) -> Self {
        let characters: Vec<char> = name.chars().collect();
        let mut brackets = Brackets { signs: Vec::with_capacity(characters.len()), deepest: 0 };
        let mut open: Vec<char> = Vec::new();
        let mut plain_until = 0;
        for (i, c) in characters.iter().enumerate() {
            if characters[..i].ends_with(&OPERATOR) {
                plain_until = i + operator_signs(&characters[i..]);
            }
            let arrow = *c == '>' && i > 0 && characters[i - 1] == '-';
            let closes = match c {
                '>' => open.last() == Some(&'<'),
                ')' => open.last() == Some(&'('),
                _ => false,
            };
            let sign = if i < plain_until || arrow {
                Sign::Plain
            } else if matches!(c, '<' | '(') {
                open.push(*c);
                brackets.deepest = brackets.deepest.max(open.len());
                Sign::Opens(open.len())
            } else if closes {
                open.pop();
                Sign::Closes(open.len() + 1)
            } else {
                Sign::Plain
            };
            brackets.signs.push((*c, sign));
        }
        brackets
    }

    /// Replaces the contents of brackets at `level` and deeper; those of parameter lists only if `parameters`.
    fn fold(&self, level: usize, parameters: bool) -> String {
        let mut folded = String::new();
        let mut inside: Option<usize> = None;
        for (i, (c, sign)) in self.signs.iter().enumerate() {
            match (inside, sign) {
                (None, Sign::Opens(at)) if *at >= level && (parameters || *c == '<') => {
                    folded.push(*c);
                    if self.signs.get(i + 1).is_some_and(|next| next.1 != Sign::Closes(*at)) {
                        folded.push('…');
                    }
                    inside = Some(*at);
                }
                (Some(opened), Sign::Closes(at)) if opened == *at => {
                    folded.push(*c);
                    inside = None;
                }
                (Some(_), _) => {}
                (None, _) => folded.push(*c),
            }
        }
        folded
    }
}

const OPERATOR: [char; 8] = ['o', 'p', 'e', 'r', 'a', 't', 'o', 'r'];

/// Number of characters of `rest`, the text after the word `operator`, that belong to the operator's name and are no brackets.
fn operator_signs(rest: &[char]) -> usize {
    match rest {
        ['(', ')', ..] => 2,
        _ => rest.iter().take(3).take_while(|c| "<>-=".contains(**c)).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_names_stay() {
        assert_eq!(shorten("f<int>(double)", 20), "f<int>(double)");
    }

    #[test]
    fn deep_arguments_fold_first() {
        let name = "solve<std::vector<std::pair<int, double>, std::allocator<int>>>(std::vector<double>&, int)";
        assert_eq!(shorten(name, 80), "solve<std::vector<std::pair<…>, std::allocator<…>>>(std::vector<double>&, int)");
        assert_eq!(shorten(name, 60), "solve<std::vector<…>>(std::vector<…>&, int)");
        assert_eq!(shorten(name, 22), "solve<…>(…)");
    }

    #[test]
    fn numbers_come_and_go() {
        for number in [1, 2, 30] {
            assert_eq!(without_number(&numbered("f<…>()".into(), number)), "f<…>()");
        }
        assert_eq!(without_number("closure #x"), "closure #x");
    }

    #[test]
    fn operators_are_no_brackets() {
        let name = format!("std::ostream& operator<< <char>(std::ostream&, {})", "long::".repeat(30));
        assert_eq!(shorten(&name, 60), "std::ostream& operator<< <…>(…)");
    }

    proptest! {
        #[test]
        fn never_longer_than_asked(name in "[a-z<>(),: -]{0,300}", limit in 1usize..200) {
            prop_assert!(shorten(&name, limit).chars().count() <= limit.max(1));
        }
    }
}
