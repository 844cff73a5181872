//! Source lines and inlined functions of one function in several parts.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;

use super::sums::sum;
use rprof_profile::Function;
use rprof_profile::function::{InlineFacts, LineFacts};

/// Adds the lines and inlined functions of `other` to those of `into`. Call it when the figures of both functions are added up: a
/// figure not known of the function is not known of its lines.
pub fn add(into: &mut Function, lines: Vec<LineFacts>, inlined: Vec<InlineFacts>) {
    let key = |line: &LineFacts| (line.file.clone(), line.line);
    into.lines = together(std::mem::take(&mut into.lines), lines, key, |own, other| {
        own.cpu_s = sum(own.cpu_s, other.cpu_s);
        own.instructions = sum(own.instructions, other.instructions);
        own.flops = sum(own.flops, other.flops);
        own.dram_bytes = sum(own.dram_bytes, other.dram_bytes);
    });
    let key = |inline: &InlineFacts| (inline.name.clone(), inline.file.clone(), inline.line);
    into.inlined = together(std::mem::take(&mut into.inlined), inlined, key, |own, other| {
        own.cpu_s = sum(own.cpu_s, other.cpu_s);
        own.instructions = sum(own.instructions, other.instructions);
        own.flops = sum(own.flops, other.flops);
    });
    let is_known = |known: bool| move |_: &f64| known;
    let is_counted = |known: bool| move |_: &u64| known;
    into.lines.sort_by(|a, b| most_first((a.cpu_s, a.instructions), (b.cpu_s, b.instructions)));
    into.inlined.sort_by(|a, b| most_first((a.cpu_s, a.instructions), (b.cpu_s, b.instructions)));
    let dram = into.bytes.is_some_and(|bytes| bytes.dram.is_some());
    for line in &mut into.lines {
        line.cpu_s = line.cpu_s.filter(is_known(into.cpu_s.is_some()));
        line.instructions = line.instructions.filter(is_counted(into.instructions.is_some()));
        line.flops = line.flops.filter(is_counted(into.flops.is_some()));
        line.dram_bytes = line.dram_bytes.filter(is_counted(dram));
    }
    for inline in &mut into.inlined {
        inline.cpu_s = inline.cpu_s.filter(is_known(into.cpu_s.is_some()));
        inline.instructions = inline.instructions.filter(is_counted(into.instructions.is_some()));
        inline.flops = inline.flops.filter(is_counted(into.flops.is_some()));
    }
}

/// By time, then by instructions; the greater first.
fn most_first(a: (Option<f64>, Option<u64>), b: (Option<f64>, Option<u64>)) -> Ordering {
    let seconds = |s: Option<f64>| s.unwrap_or(0.0);
    seconds(b.0).total_cmp(&seconds(a.0)).then(b.1.cmp(&a.1))
}

/// Both lists, those of one key added up.
fn together<T, K: Eq + Hash>(
    mut own: Vec<T>,
    others: Vec<T>,
    key: impl Fn(&T) -> K,
    mut add: impl FnMut(&mut T, T),
) -> Vec<T> {
    let places: HashMap<K, usize> = own.iter().enumerate().map(|(place, one)| (key(one), place)).collect();
    for other in others {
        match places.get(&key(&other)) {
            Some(place) => add(&mut own[*place], other),
            None => own.push(other),
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u32, cpu_s: f64, instructions: u64) -> LineFacts {
        let file = Some("a.c".to_owned());
        LineFacts { file, line, cpu_s: Some(cpu_s), instructions: Some(instructions), ..LineFacts::default() }
    }

    fn function(instructions: Option<u64>) -> Function {
        let inlined = vec![InlineFacts { name: "square".into(), cpu_s: Some(1.0), ..InlineFacts::default() }];
        let lines = vec![line(7, 1.0, 10), line(8, 2.0, 20)];
        Function { cpu_s: Some(3.0), instructions, lines, inlined, ..Function::default() }
    }

    #[test]
    fn lines_of_both_parts_add_up() {
        let mut whole = function(Some(36));
        let inlined = vec![InlineFacts { name: "cube".into(), cpu_s: Some(4.0), ..InlineFacts::default() }];
        add(&mut whole, vec![line(8, 0.5, 5), line(9, 0.25, 1)], inlined);
        let lines: Vec<_> = whole.lines.iter().map(|l| (l.line, l.cpu_s, l.instructions)).collect();
        assert_eq!(lines, [(8, Some(2.5), Some(25)), (7, Some(1.0), Some(10)), (9, Some(0.25), Some(1))]);
        let names: Vec<_> = whole.inlined.iter().map(|i| (i.name.as_str(), i.cpu_s)).collect();
        assert_eq!(names, [("cube", Some(4.0)), ("square", Some(1.0))]);
    }

    #[test]
    fn a_part_without_counts_leaves_none_of_a_line() {
        let mut whole = function(None);
        add(&mut whole, vec![line(9, 0.25, 1)], Vec::new());
        assert!(whole.lines.iter().all(|l| l.instructions.is_none() && l.cpu_s.is_some()));
    }
}
