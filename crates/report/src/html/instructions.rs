//! The instructions of a function's hottest loops, hot ones by colour.

use std::fmt::Write;

use crate::disassembly::{HotLoop, SKID, executions, hot_loops, missing};
use crate::name;
use crate::number::seconds;
use rprof_profile::Function;
use rprof_profile::disassembly::LoopInstruction;

use super::escape;

/// Loops of a function that are shown, and instructions of each.
const SHOWN: (usize, usize) = (3, 40);
/// The same of functions that are not among the first.
const SHOWN_OF_OTHERS: (usize, usize) = (1, 24);
/// Characters of an instruction.
const WIDTH: usize = 90;
/// An instruction with more than this share of the loop's hottest one's time has the first, second, … colour.
const HEAT: [f64; 4] = [0.02, 0.2, 0.5, 0.8];

/// The part of a section; empty where no loop was disassembled. `behind_source`: the source text is shown, so that this is folded.
/// `first`: the function is one of the first, which have more room.
pub fn markup(f: &Function, behind_source: bool, first: bool) -> String {
    let loops = hot_loops(f);
    let (most_loops, most) = if first { SHOWN } else { SHOWN_OF_OTHERS };
    let mut out = String::new();
    for hot in loops.iter().take(most_loops) {
        out += &one(hot, behind_source, most);
    }
    match (out.is_empty(), missing(f)) {
        (true, None) => return out,
        (true, Some(reason)) => {
            let _ = write!(out, "<p class=\"place\">not disassembled: {}</p>", escape(&name::printable(reason)));
        }
        (false, _) => {
            let _ = write!(out, "<p class=\"place\">{SKID}</p>");
        }
    }
    format!("<div><h4>Instructions of hot loops</h4>{out}</div>\n")
}

fn one(hot: &HotLoop, folded: bool, most: usize) -> String {
    let shown = hot.code.hottest(most);
    let all = hot.code.instructions.len() + hot.code.left_out as usize;
    let part = if shown.len() < all { format!("{} of ", shown.len()) } else { String::new() };
    let time = hot.of.cpu_s.map_or(String::new(), |s| format!(", {}", seconds(s)));
    let mut out = format!(
        "<details{}><summary class=\"place\">{}: {part}{all} instructions{time}</summary>\
         <table class=\"source asm\"><tr><th>address<th>time<th>{}<th>",
        if folded { "" } else { " open" },
        escape(&hot.title()),
        if hot.is_estimated() { "executed (estimate)" } else { "executed" },
    );
    let hottest = shown.iter().filter_map(|i| i.cpu_s).fold(0.0, f64::max);
    let mut expected = shown.first().map(|i| i.offset);
    for instruction in shown {
        if expected != Some(instruction.offset) {
            out += "<tr><td>⋮";
        }
        expected = Some(instruction.offset + u64::from(instruction.length));
        out += &row(instruction, hottest);
    }
    out + "</table></details>"
}

fn row(i: &LoopInstruction, hottest: f64) -> String {
    let heat = i.cpu_s.map_or(0, |s| HEAT.iter().filter(|least| s > **least * hottest).count());
    let class = if heat > 0 { format!(" class=\"h{heat}\"") } else { String::new() };
    format!(
        "<tr{class}><td>{:#x}<td>{}<td>{}<td>{}",
        i.offset,
        i.cpu_s.map(seconds).unwrap_or_default(),
        i.executions.map(executions).unwrap_or_default(),
        escape(&name::printable(&i.text).chars().take(WIDTH).collect::<String>())
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use rprof_profile::disassembly::Disassembly;
    use rprof_profile::source::Source;

    fn instruction(offset: u64, text: &str, executions: u64, cpu_s: Option<f64>) -> LoopInstruction {
        LoopInstruction { offset, length: 4, text: text.into(), executions: Some(executions), cpu_s }
    }

    fn function(code: Disassembly) -> Function {
        let inner = Function {
            name: "triad+0x10".into(),
            module: "app".into(),
            cpu_s: Some(1.5),
            disassembly: Some(code),
            ..Function::default()
        };
        let outer = Function { loops: vec![inner], ..Function::default() };
        Function { loops: vec![outer], ..Function::default() }
    }

    #[test]
    fn hot_instructions_have_their_colour_and_gaps_are_marked() {
        let instructions = vec![
            instruction(0x1130, "add rax,0x8", 4000, None),
            instruction(0x1134, "mulsd xmm0,qword ptr [rdi+rax]", 4000, Some(1.2)),
            instruction(0x1150, "call 0x1040 <a<b>>", 3, Some(0.3)),
        ];
        let f = function(Disassembly { instructions, left_out: 7 });
        let out = markup(&f, false, true);
        assert!(
            out.contains(
                "<details open><summary class=\"place\">triad+0x10 at app+0x1130: 3 of 10 instructions, 1.50 s"
            ),
            "{out}"
        );
        assert!(
            out.contains(
                "<tr><td>0x1130<td><td>4000<td>add rax,0x8<tr class=\"h4\"><td>0x1134<td>1.20 s<td>4000<td>mulsd"
            ),
            "{out}"
        );
        assert!(
            out.contains("<tr><td>⋮<tr class=\"h2\"><td>0x1150<td>300 ms<td>3<td>call 0x1040 &lt;a&lt;b&gt;&gt;"),
            "{out}"
        );
        assert!(markup(&f, true, true).contains("<details><summary"));
    }

    #[test]
    fn code_made_at_run_time_has_a_reason_instead() {
        let mut f = function(Disassembly::default());
        f.loops[0].loops[0].disassembly = None;
        assert_eq!(markup(&f, false, true), "");
        let reason = Source::not_measured("no file has it");
        f.loops[0].source = BTreeMap::from([("disassembly".to_owned(), reason)]);
        assert!(markup(&f, false, true).contains("not disassembled: no file has it"));
    }
}
