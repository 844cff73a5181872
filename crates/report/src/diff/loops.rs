//! Which loops of a function in two profiles are the same one: by their line from the function's start, else by their name, which has
//! their offset; then by their number of instructions; then, level by level, the only ones left. An edit above a function moves all its lines.

use rprof_profile::Function;

use super::unique;

/// Loops in both profiles, or in one of them; and how many were not distinguished.
#[derive(Debug, Default)]
pub struct Loops<'p> {
    pub pairs: Vec<(Option<&'p Function>, Option<&'p Function>)>,
    pub alike: usize,
}

/// The loops of `old` and `new`, inner ones included.
pub fn of<'p>(old: &'p Function, new: &'p Function) -> Loops<'p> {
    let mut found = Loops::default();
    level((old, &old.loops), (new, &new.loops), &mut found);
    found
}

type Side<'p> = (&'p Function, &'p [Function]);

fn level<'p>(old: Side<'p>, new: Side<'p>, found: &mut Loops<'p>) {
    let (mut left, mut right): (Vec<&Function>, Vec<&Function>) = (old.1.iter().collect(), new.1.iter().collect());
    let mut pairs = unique::take(&mut left, &mut right, |f| Some(place(old.0, f)), |f| Some(place(new.0, f)));
    // Copies of one loop, as compilers make them, have one line.
    pairs.extend(unique::take(&mut left, &mut right, |f| f.instructions, |f| f.instructions));
    match (&left[..], &right[..]) {
        ([a], [b]) => pairs.push((a, b)),
        ([], all) => found.pairs.extend(all.iter().map(|f| (None, Some(*f)))),
        (all, []) => found.pairs.extend(all.iter().map(|f| (Some(*f), None))),
        (a, b) => found.alike += a.len().max(b.len()),
    }
    for (a, b) in pairs {
        found.pairs.push((Some(a), Some(b)));
        // Inner loops are placed from the start of the function, as their own loop is.
        level((old.0, &a.loops), (new.0, &b.loops), found);
    }
}

/// A loop's place in its function.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    /// Lines below the function's first one.
    Line(i64),
    /// Its name without that of the function.
    Name(String),
}

fn place(host: &Function, f: &Function) -> Place {
    match (host.line, f.line) {
        (Some(start), Some(line)) => Place::Line(i64::from(line) - i64::from(start)),
        _ => Place::Name(f.name.strip_prefix(host.name.as_str()).unwrap_or(&f.name).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, line: Option<u32>, loops: Vec<Function>) -> Function {
        Function { name: name.into(), line, loops, ..Function::default() }
    }

    fn named(found: &Loops<'_>) -> Vec<(String, String)> {
        let name = |f: &Option<&Function>| f.map_or("–".to_owned(), |f| f.name.clone());
        let mut all: Vec<_> = found.pairs.iter().map(|(a, b)| (name(a), name(b))).collect();
        all.sort();
        all
    }

    #[test]
    fn a_function_that_moved_has_the_same_loops() {
        let lines = |start: u32, loops: &[u32]| {
            let loops = loops.iter().map(|n| function(&format!("f:{n}"), Some(*n), Vec::new())).collect();
            function("f", Some(start), loops)
        };
        let (old, new) = (lines(10, &[12, 16]), lines(14, &[16, 20]));
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(named(&of(&old, &new)), [pair("f:12", "f:16"), pair("f:16", "f:20")]);
        let edited = lines(14, &[16, 25]);
        assert_eq!(named(&of(&old, &edited)), [pair("f:12", "f:16"), pair("f:16", "f:25")], "the only ones left");
        let fewer = lines(10, &[12]);
        assert_eq!(named(&of(&old, &fewer)), [pair("f:12", "f:12"), pair("f:16", "–")]);
        let unlike = lines(10, &[30, 40]);
        assert_eq!((of(&old, &unlike).pairs.len(), of(&old, &unlike).alike), (0, 2));
    }

    #[test]
    fn without_lines_offsets_decide_and_inner_loops_follow_their_own() {
        let nest =
            |inner: &str| function("f", None, vec![function("f+0x10", None, vec![function(inner, None, Vec::new())])]);
        let (old, new) = (nest("f+0x20"), nest("f+0x28"));
        let found = of(&old, &new);
        assert_eq!(found.pairs.len(), 2);
        assert_eq!(found.pairs[1].1.unwrap().name, "f+0x28");
    }
}
