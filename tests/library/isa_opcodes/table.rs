//! The tables of expected figures.

use std::collections::BTreeMap;

/// One row: the same for all its names.
#[derive(Debug, Clone)]
pub struct Row {
    /// `add dp`; `fp` or `none` for rows without FLOPs.
    kind: String,
    each: Option<u32>,
    /// FLOPs by width; for rows without FLOPs only whether they are packed.
    widths: BTreeMap<String, u32>,
    packed: bool,
}

/// Expected work of an opcode.
#[derive(Debug, Clone)]
pub struct Expected {
    pub kind: String,
    pub flops: u32,
    pub each: Option<u32>,
    pub width: &'static str,
    pub fp: bool,
    pub packed: bool,
}

/// All rows by name.
pub struct Table {
    rows: BTreeMap<String, Row>,
}

impl Table {
    pub fn read(texts: &[&str]) -> Table {
        let mut rows = BTreeMap::new();
        for line in texts.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (head, names) = line.split_once(" : ").unwrap_or_else(|| panic!("no names in the row: {line}"));
            let row = parse(head);
            for name in names.split_whitespace().flat_map(expand) {
                let with_flops = rows.get(&name).is_some_and(|other: &Row| other.kind != row.kind);
                assert!(!with_flops, "{name} stands in two rows of different kinds");
                rows.insert(name, row.clone());
            }
        }
        Table { rows }
    }

    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }
}

impl Row {
    pub fn expected(&self, width: &str) -> Result<Expected, String> {
        let zero = |fp, packed| Expected { kind: self.kind.clone(), flops: 0, each: None, width: "", fp, packed };
        match self.kind.as_str() {
            "none" => return Ok(zero(false, false)),
            "fp" => return Ok(zero(true, self.packed)),
            _ => {}
        }
        let width = if self.widths.contains_key("scalar") { "scalar" } else { width };
        let flops = *self.widths.get(width).ok_or_else(|| format!("the row has no figure for width {width}"))?;
        let booked = match width {
            "scalar" => "scalar",
            "64" | "128" => "128",
            "256" => "256",
            _ => "512",
        };
        Ok(Expected {
            kind: self.kind.clone(),
            flops,
            each: self.each,
            width: booked,
            fp: true,
            packed: width != "scalar",
        })
    }
}

fn parse(head: &str) -> Row {
    let words: Vec<&str> = head.split_whitespace().collect();
    let kind = words.iter().take_while(|word| !word.contains('=')).copied().collect::<Vec<_>>();
    let figures = words.iter().filter_map(|word| word.split_once('='));
    let figures: BTreeMap<String, u32> =
        figures.map(|(key, value)| (key.into(), value.parse().expect("a number"))).collect();
    let each = figures.get("each").copied();
    let widths = figures.into_iter().filter(|(key, _)| key != "each").collect();
    let (kind, packed) = match kind[..] {
        ["fp", how] => ("fp".to_string(), how == "packed"),
        _ => (kind.join(" "), false),
    };
    Row { kind, each, widths, packed }
}

/// `{a,b}c` → `ac`, `bc`.
fn expand(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.into()] };
    let (choices, after) = rest.split_once('}').expect("a closing brace");
    let tails = expand(after);
    choices.split(',').flat_map(|choice| tails.iter().map(move |tail| format!("{before}{choice}{tail}"))).collect()
}
