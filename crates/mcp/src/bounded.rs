//! Answers of a bounded length: the largest lists lose their last items, and say how many.

use serde_json::{Map, Value};

/// Bytes of an answer unless the client asks for more.
pub const USUAL: usize = 4096;
/// The least that a client can ask for.
pub const LEAST: usize = 512;
/// A text longer than this may be cut.
const LONG_TEXT: usize = 160;

/// `answer` as JSON of at most `most` bytes. A list `x` that was cut has its number of missing items beside it as `x_cut`; a list `items` as `cut`.
pub fn text(mut answer: Value, most: usize) -> String {
    loop {
        let text = answer.to_string();
        if text.len() <= most {
            return text;
        }
        let excess = text.len() - most;
        if !shorten(&mut answer, excess) {
            // Nothing is left that can be cut: whole fields go, the largest first.
            if !drop_largest(&mut answer) {
                return String::from("{}");
            }
        }
    }
}

/// Where a value is: names of fields and indices of items.
type Path = Vec<Step>;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Item(usize),
}

/// Cuts the longest list, else the longest text; `false` if there is none.
fn shorten(answer: &mut Value, excess: usize) -> bool {
    let mut largest: Option<(usize, Path)> = None;
    lists(answer, &mut Vec::new(), &mut largest);
    if let Some((bytes, path)) = largest {
        let owner = at(answer, &path[..path.len() - 1]);
        let (Some(Step::Field(name)), Some(owner)) = (path.last(), owner.and_then(Value::as_object_mut)) else {
            return false;
        };
        cut_list(owner, name, excess, bytes);
        return true;
    }
    let mut longest: Option<(usize, Path)> = None;
    texts(answer, &mut Vec::new(), &mut longest);
    let Some((bytes, path)) = longest else { return false };
    let Some(Value::String(text)) = at(answer, &path) else { return false };
    let keep = bytes.saturating_sub(excess + 8).max(LONG_TEXT / 2);
    let end = text.char_indices().map(|(i, _)| i).take_while(|i| *i <= keep).last().unwrap_or(0);
    text.truncate(end);
    text.push('…');
    true
}

/// Removes about as many items as have `excess` bytes, at least one.
fn cut_list(owner: &mut Map<String, Value>, name: &str, excess: usize, bytes: usize) {
    let Some(Value::Array(items)) = owner.get_mut(name) else { return };
    let part = (items.len() * excess).div_ceil(bytes.max(1));
    // In several steps, so that other lists lose theirs, too.
    let gone = (part / 2).clamp(1, (items.len() / 2).max(1));
    items.truncate(items.len() - gone);
    let counter = if name == "items" { "cut".to_owned() } else { format!("{name}_cut") };
    let before = owner.get(&counter).and_then(Value::as_u64).unwrap_or(0);
    owner.insert(counter, (before + gone as u64).into());
}

/// The list with most bytes that is a field and has more than one item.
fn lists(value: &Value, path: &mut Path, largest: &mut Option<(usize, Path)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                path.push(Step::Field(name.clone()));
                if let Value::Array(items) = field
                    && items.len() > 1
                {
                    let bytes = field.to_string().len();
                    if largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
                        *largest = Some((bytes, path.clone()));
                    }
                }
                lists(field, path, largest);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Item(index));
                lists(item, path, largest);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The longest text beyond [`LONG_TEXT`].
fn texts(value: &Value, path: &mut Path, longest: &mut Option<(usize, Path)>) {
    match value {
        Value::String(text)
            if text.len() > LONG_TEXT && longest.as_ref().is_none_or(|(most, _)| text.len() > *most) =>
        {
            *longest = Some((text.len(), path.clone()));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                path.push(Step::Field(name.clone()));
                texts(field, path, longest);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Item(index));
                texts(item, path, longest);
                path.pop();
            }
        }
        _ => {}
    }
}

fn at<'v>(value: &'v mut Value, path: &[Step]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Item(index) => value.get_mut(index),
    })
}

/// Drops the largest field of the answer; `false` if it has none.
fn drop_largest(answer: &mut Value) -> bool {
    let Some(fields) = answer.as_object_mut() else { return false };
    let largest =
        fields.iter().filter(|(name, _)| *name != "left_out").max_by_key(|(_, field)| field.to_string().len());
    let Some(name) = largest.map(|(name, _)| name.clone()) else { return false };
    fields.remove(&name);
    let left_out = fields.entry("left_out").or_insert_with(|| Value::String(String::new()));
    if let Value::String(names) = left_out {
        *names += if names.is_empty() { "" } else { ", " };
        *names += &name;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_fit_and_say_what_they_lack() {
        let long = json!({
            "a": (0..300).map(|n| json!({ "name": format!("f{n}"), "ci": [0.1, 0.2] })).collect::<Vec<_>>(),
            "b": { "items": (0..400).collect::<Vec<_>>(), "cut": 5, "total": 405 },
            "advice": "x".repeat(3000),
        });
        for most in [LEAST, 1000, USUAL, 100_000] {
            let text = text(long.clone(), most);
            assert!(text.len() <= most, "{} of {most}: {text}", text.len());
            let read: Value = serde_json::from_str(&text).unwrap();
            if let (Some(items), Some(cut)) = (read["a"].as_array(), read.get("a_cut")) {
                assert_eq!(items.len() as u64 + cut.as_u64().unwrap(), 300);
            }
            if let Some(items) = read["b"]["items"].as_array() {
                assert_eq!(items.len() as u64 + read["b"]["cut"].as_u64().unwrap(), 405);
            }
        }
        let usual = text(long, USUAL);
        assert!(usual.contains("a_cut") && usual.len() > USUAL / 2, "{} bytes", usual.len());
        assert_eq!(text(json!({ "a": 1 }), LEAST), "{\"a\":1}");
    }

    #[test]
    fn whole_fields_go_last() {
        let many: Map<String, Value> = (0..100).map(|n| (format!("field{n}"), json!("y".repeat(50 + n)))).collect();
        let text = text(Value::Object(many), LEAST);
        assert!(text.len() <= LEAST, "{text}");
    }
}
