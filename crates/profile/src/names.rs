//! Names short enough to read: template arguments and parameter lists folded from the inside out, and of names that would then be
//! equal the part by which they differ.

use std::collections::HashMap;
use std::ops::Range;

/// Names are shown with up to this many characters.
pub const SHOWN: usize = 120;

/// Names that are equal when they are shortened to this are distinguished at all widths.
const NARROWEST: usize = 24;
/// Widths at which shortened names are compared.
const WIDTHS: [usize; 11] = [NARROWEST, 28, 30, 32, 40, 48, 60, 70, 80, 100, SHOWN];

/// The offset in `module` that a function without a symbol is called after: `+0x1130`; `None` for those with a name.
pub fn offset<'n>(name: &'n str, module: &str) -> Option<&'n str> {
    name.strip_prefix(module).filter(|rest| rest.starts_with("+0x"))
}

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

/// In place of an omitted part.
const LEFT_OUT: char = '…';

/// Whether `short` has an ellipsis and `name` the pieces around it, in this order; a number at the end of `short` is none of `name`'s.
pub fn may_be_shortened_to(name: &str, short: &str) -> bool {
    let of_short = |short: &str| {
        let mut pieces = short.split(LEFT_OUT);
        let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let pieces: Vec<&str> = pieces.collect();
        let Some((last, between)) = pieces.split_last() else { return false };
        for piece in between {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    };
    of_short(short) || of_short(without_number(short))
}

/// Before the number of a name that is one of several.
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

/// How a name differs from others that are shortened alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The characters in which it differs, whole words.
    part: Range<usize>,
    /// Its number among those with differing parts that are shortened alike, too.
    number: usize,
    /// From this width on its usual short form is its own.
    plain_from: usize,
}

/// For each of `names`, how it differs from others among them that are shortened alike; `None` for one that has no such others.
pub fn differences(names: &[&str]) -> Vec<Option<Difference>> {
    let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
    for (i, name) in names.iter().enumerate().filter(|(_, name)| name.chars().count() > NARROWEST) {
        alike.entry(shorten(name, NARROWEST)).or_default().push(i);
    }
    let mut found = vec![None; names.len()];
    for group in alike.into_values() {
        let mut different: Vec<&str> = Vec::new();
        for i in &group {
            if !different.contains(&names[*i]) {
                different.push(names[*i]);
            }
        }
        if different.len() < 2 {
            continue;
        }
        let of_each = differences_in(&different);
        for i in group {
            found[i] = different.iter().position(|name| *name == names[i]).map(|at| of_each[at].clone());
        }
    }
    found
}

/// The same for different names that are all shortened alike.
fn differences_in(names: &[&str]) -> Vec<Difference> {
    let all_differ = |texts: &[String]| {
        let mut sorted: Vec<&String> = texts.iter().collect();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1])
    };
    let at = |width: usize| names.iter().map(|name| shorten(name, width)).collect::<Vec<_>>();
    let plain_from = WIDTHS.iter().copied().find(|width| all_differ(&at(*width))).unwrap_or(usize::MAX);
    let letters: Vec<Vec<char>> = names.iter().map(|name| name.chars().collect()).collect();
    let shortest = letters.iter().map(Vec::len).min().unwrap_or(0);
    let common = |same: &dyn Fn(&[char], usize) -> Option<char>| {
        (0..shortest).take_while(|i| letters.iter().all(|l| same(l, *i) == same(&letters[0], *i))).count()
    };
    let begin = common(&|l, i| l.get(i).copied());
    let end = common(&|l, i| l.get(l.len() - 1 - i).copied()).min(shortest - begin);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let difference = |(letters, name): (&Vec<char>, &&str)| {
        let part = whole_words(letters, begin..letters.len() - end);
        let mut difference = Difference { part, number: 1, plain_from };
        let number = numbers.entry(difference.shortest_of(name)).or_default();
        *number += 1;
        difference.number = *number;
        difference
    };
    letters.iter().zip(names).map(difference).collect()
}

/// `part`, extended to the words that it begins and ends in, and by the comma in front of it.
fn whole_words(letters: &[char], part: Range<usize>) -> Range<usize> {
    let word = |i: usize| letters.get(i).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    let Range { mut start, mut end } = part;
    while start > 0 && word(start - 1) && (word(start) || start == end) {
        start -= 1;
    }
    while end > 0 && word(end) && word(end - 1) {
        end += 1;
    }
    if start >= 2 && letters[start - 2..start] == [',', ' '] {
        start -= 2;
    }
    start..end.max(start)
}

impl Difference {
    /// [`shorten`] for a `name` that has others that are shortened alike: the rest of it is unique.
    pub fn shorten(&self, name: &str, limit: usize) -> String {
        if limit >= self.plain_from || name.chars().count() <= limit {
            return shorten(name, limit);
        }
        let number = numbered(String::new(), self.number);
        self.around(name, limit.saturating_sub(number.chars().count())) + &number
    }

    /// The form at the narrowest width, without its number.
    fn shortest_of(&self, name: &str) -> String {
        self.around(name, NARROWEST)
    }

    /// The differing part within the text outside of brackets, in at most `limit` characters.
    fn around(&self, name: &str, limit: usize) -> String {
        let brackets = Brackets::of(name);
        let (mut before, mut part, mut after) = (String::new(), String::new(), String::new());
        let mut depth = 0;
        for (i, (c, sign)) in brackets.signs.iter().enumerate() {
            let outside = match sign {
                Sign::Opens(at) => *at == 1,
                Sign::Closes(at) => *at == 1,
                Sign::Plain => depth == 0,
            };
            depth = match sign {
                Sign::Opens(at) => *at,
                Sign::Closes(at) => *at - 1,
                Sign::Plain => depth,
            };
            let text = match i {
                i if i < self.part.start => &mut before,
                i if i < self.part.end => &mut part,
                _ => &mut after,
            };
            if outside || self.part.contains(&i) {
                text.push(*c);
            } else if !text.ends_with(LEFT_OUT) {
                text.push(LEFT_OUT);
            }
        }
        let part = shorten(&part, limit * 2 / 3);
        let left = limit.saturating_sub(part.chars().count());
        let tail = after.chars().count().min(left - left / 2);
        let before = cut(&before, left - tail, true);
        let after = cut(&after, left - before.chars().count(), false);
        before + &part + &after
    }
}

/// `text` in at most `limit` characters: its beginning, or its end.
fn cut(text: &str, limit: usize, beginning: bool) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let Some(kept) = limit.checked_sub(1) else { return String::new() };
    match beginning {
        true => text.chars().take(kept).chain([LEFT_OUT]).collect(),
        false => [LEFT_OUT].into_iter().chain(text.chars().skip(length - kept)).collect(),
    }
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

    fn shown(names: &[&str], width: usize) -> Vec<String> {
        let of = |(name, difference): (&&str, Option<Difference>)| match difference {
            Some(difference) => difference.shorten(name, width),
            None => shorten(name, width),
        };
        names.iter().zip(differences(names)).map(of).collect()
    }

    #[test]
    fn names_that_are_shortened_alike_keep_what_they_differ_in() {
        let deep = "expression_of_two_operands<left_operand_of_the_expression, right_operand>";
        let names = [1, 2, 13].map(|n| format!("double evaluate<{deep}, {n}>(long)"));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let of = |n| format!("double evaluate<…, {n}>(…)");
        assert_eq!(shown(&names, 30), [of(1), of(2), of(13)]);
        // Wide enough for all of them.
        assert_eq!(shown(&names, 60)[1], "double evaluate<expression_of_two_operands<…>, 2>(long)");
        let others =
            ["sum<a::very::deeply::nested::Alpha>(double const*)", "sum<a::very::deeply::nested::Beta>(double const*)"];
        assert_eq!(shown(&others, 30), ["sum<…Alpha>(…)", "sum<…Beta>(…)"]);
        let numbered = ["sum<…>(double const*, double)", "sum<…>(double const*, double) #2"];
        assert_eq!(shown(&numbered, 20), ["sum<…>(…)", "sum<…>(…) #2"]);
        // Nothing to distinguish.
        assert_eq!(differences(&[others[0], others[0], "short"]), [None, None, None]);
    }

    #[test]
    fn names_whose_differences_are_too_long_have_numbers() {
        let names = ["Alpha", "Beta", "Gamma"].map(|n| format!("f<{n}, {}, {n}>(int)", "between::".repeat(9)));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for width in [24, 30, 40, 60] {
            let mut all = shown(&names, width);
            assert!(all.iter().all(|name| name.chars().count() <= width), "{all:?}");
            all.dedup();
            assert_eq!(all.len(), 3, "{all:?}");
        }
    }

    proptest! {
        #[test]
        fn different_names_stay_different(names in proptest::collection::hash_set("[ab<>(), :]{0,60}", 2..6), width in 24usize..120) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut all = shown(&names, width);
            prop_assert!(all.iter().all(|name| name.chars().count() <= width), "{all:?}");
            all.sort();
            let before = all.len();
            all.dedup();
            prop_assert_eq!(all.len(), before, "{:?}", all);
        }

        #[test]
        fn never_longer_than_asked(name in "[a-z<>(),: -]{0,300}", limit in 1usize..200) {
            prop_assert!(shorten(&name, limit).chars().count() <= limit.max(1));
        }
    }
}
