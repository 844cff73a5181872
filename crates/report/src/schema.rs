//! Checks a profile against `profile.schema.json` and names the first field that violates it.
//!
//! The checker knows the part of JSON Schema that the file uses: `type`, `required`, `properties`, `items`, `prefixItems`,
//! `additionalProperties` (as a schema), `enum`, `const`, `minimum`, `anyOf`, `$ref` into `$defs`. A test compares its
//! verdicts with those of a complete validator.

use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;

/// The schema file.
pub const TEXT: &str = include_str!("profile.schema.json");

/// A field that is not as the schema wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path such as `functions[3].bytes.l1`.
    pub field: String,
    /// The problem.
    pub problem: String,
}

impl Violation {
    /// Names a field and its problem.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Violation { field: field.into(), problem: problem.into() }
    }
}

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| serde_json::from_str(TEXT).unwrap_or(Value::Bool(true)))
}

/// Checks a whole profile.
///
/// # Errors
/// The first violation in the order of the schema.
pub fn check(profile: &Value) -> Result<(), Violation> {
    node(profile, schema(), &Place::Root)
}

/// A value's place in the profile. It becomes text only for a violation: a profile has millions of values.
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Root => Ok(()),
            Place::Field(Place::Root, name) => f.write_str(name),
            Place::Field(parent, name) => write!(f, "{parent}.{name}"),
            Place::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl Place<'_> {
    fn violation(&self, problem: impl Into<String>) -> Violation {
        Violation::new(if matches!(self, Place::Root) { "file".to_owned() } else { self.to_string() }, problem)
    }
}

/// The rule that `rule` refers to, or itself.
fn resolved(rule: &Value) -> &Value {
    let Some(name) = rule.get("$ref").and_then(Value::as_str) else { return rule };
    let target = name.strip_prefix("#/$defs/").and_then(|name| schema().get("$defs")?.get(name));
    resolved(target.unwrap_or(&Value::Bool(true)))
}

fn node(value: &Value, rule: &Value, at: &Place) -> Result<(), Violation> {
    let rule = resolved(rule);
    if let Some(types) = rule.get("type")
        && !type_matches(value, types)
    {
        return Err(at.violation(format!("is {}, not {}", type_name(value), listed(types))));
    }
    if let Some(expected) = rule.get("const")
        && value != expected
    {
        return Err(at.violation(format!("is {value}, not {expected}")));
    }
    if let Some(allowed) = rule.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        return Err(at.violation(format!("is {value}, which is not among the known values")));
    }
    if let (Some(least), Some(number)) = (rule.get("minimum").and_then(Value::as_f64), value.as_f64())
        && number < least
    {
        return Err(at.violation(format!("is {number}, below {least}")));
    }
    if let Some(choices) = rule.get("anyOf").and_then(Value::as_array) {
        let fits = |choice: &&Value| resolved(choice).get("type").is_none_or(|types| type_matches(value, types));
        // Those of another type are passed over without a description of the violation.
        let mut verdicts = choices.iter().filter(fits).map(|choice| node(value, choice, at));
        if !verdicts.any(|verdict| verdict.is_ok()) {
            choices.first().map_or(Ok(()), |first| node(value, first, at))?;
        }
    }
    match value {
        Value::Object(fields) => object(fields, rule, at),
        Value::Array(items) => array(items, rule, at),
        _ => Ok(()),
    }
}

fn object(fields: &serde_json::Map<String, Value>, rule: &Value, at: &Place) -> Result<(), Violation> {
    for name in rule.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(Place::Field(at, name).violation("is missing"));
        }
    }
    let known = rule.get("properties").and_then(Value::as_object);
    for (name, value) in fields {
        match known.and_then(|k| k.get(name)).or(rule.get("additionalProperties")) {
            Some(inner) => node(value, inner, &Place::Field(at, name))?,
            None => continue,
        }
    }
    Ok(())
}

fn array(items: &[Value], rule: &Value, at: &Place) -> Result<(), Violation> {
    let prefix = rule.get("prefixItems").and_then(Value::as_array);
    if let Some(least) = rule.get("minItems").and_then(Value::as_u64)
        && (items.len() as u64) < least
    {
        return Err(at.violation(format!("has {} items, not {least}", items.len())));
    }
    for (i, item) in items.iter().enumerate() {
        if let Some(inner) = prefix.and_then(|p| p.get(i)).or(rule.get("items")) {
            node(item, inner, &Place::Item(at, i))?;
        }
    }
    Ok(())
}

fn type_matches(value: &Value, types: &Value) -> bool {
    let one = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0),
        _ => true,
    };
    match types {
        Value::Array(all) => all.iter().filter_map(Value::as_str).any(one),
        Value::String(name) => one(name),
        _ => true,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn listed(types: &Value) -> String {
    match types {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        Value::String(name) => name.clone(),
        other => other.to_string(),
    }
}
