//! Whether the text of a profile is as the schema wants it, found while it is parsed: a profile has millions of values, which need not be
//! made for that. [`schema::check`](super::schema::check) gives the same verdict and names the field.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::schema;

/// Whether `text` is one JSON value that the schema allows. The items of the list `samples` are not looked at.
pub fn conforms(text: &[u8]) -> bool {
    let Ok(whole) = serde_json::from_str::<Value>(schema::TEXT) else { return false };
    let mut rules = Rules { schema: &whole, all: Vec::new(), of_definition: HashMap::new() };
    let root = rules.add(&whole);
    if let Some(samples) = rules.all[root].fields.get("samples").and_then(|field| field.rule) {
        rules.all[samples].items = None;
    }
    let mut parser = serde_json::Deserializer::from_slice(text);
    Check { rules: &rules, rule: Some(root) }.deserialize(&mut parser).and_then(|()| parser.end()).is_ok()
}

/// The place of a rule among all.
type Id = usize;

/// The rules of the schema, each reference followed.
struct Rules<'s> {
    schema: &'s Value,
    all: Vec<Rule<'s>>,
    of_definition: HashMap<&'s str, Id>,
}

/// What a value must be like.
#[derive(Default)]
struct Rule<'s> {
    /// Bits of [`Kind`]; `None`: any.
    kinds: Option<u8>,
    known: Option<Vec<&'s Value>>,
    least: Option<f64>,
    choices: Vec<Id>,
    fields: HashMap<&'s str, Field>,
    /// Bits of the fields that must be there.
    required: u128,
    other_fields: Option<Id>,
    first_items: Vec<Id>,
    items: Option<Id>,
    least_items: usize,
}

/// A field of an object.
#[derive(Clone, Copy, Default)]
struct Field {
    rule: Option<Id>,
    /// Its bit in [`Rule::required`], or 0.
    bit: u128,
}

/// A type of JSON.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Null = 1,
    Boolean = 2,
    Text = 4,
    List = 8,
    Object = 16,
    Number = 32,
    Integer = 64,
}

impl Kind {
    const ALL: [(&'static str, u8); 7] = [
        ("null", Kind::Null as u8),
        ("boolean", Kind::Boolean as u8),
        ("string", Kind::Text as u8),
        ("array", Kind::List as u8),
        ("object", Kind::Object as u8),
        // Integers are numbers, too.
        ("number", Kind::Number as u8 | Kind::Integer as u8),
        ("integer", Kind::Integer as u8),
    ];

    fn of(value: &Value) -> u8 {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Boolean,
            Value::String(_) => Kind::Text,
            Value::Array(_) => Kind::List,
            Value::Object(_) => Kind::Object,
            Value::Number(n) => number_kind(n.as_f64().unwrap_or(0.5)),
        };
        kind as u8
    }
}

fn number_kind(value: f64) -> Kind {
    if value.fract() == 0.0 { Kind::Integer } else { Kind::Number }
}

impl<'s> Rules<'s> {
    fn add(&mut self, rule: &'s Value) -> Id {
        let name = rule.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
        if let Some(name) = name {
            if let Some(known) = self.of_definition.get(name) {
                return *known;
            }
            // Before its parts, which may refer to it.
            let id = self.reserve();
            self.of_definition.insert(name, id);
            let schema = self.schema;
            if let Some(definition) = schema.get("$defs").and_then(|all| all.get(name)) {
                self.fill(id, definition);
            }
            return id;
        }
        let id = self.reserve();
        self.fill(id, rule);
        id
    }

    fn reserve(&mut self) -> Id {
        self.all.push(Rule::default());
        self.all.len() - 1
    }

    fn fill(&mut self, id: Id, rule: &'s Value) {
        let list = |key: &str| rule.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut made = Rule { least: rule.get("minimum").and_then(Value::as_f64), ..Rule::default() };
        let known: Option<Vec<&Value>> = rule
            .get("enum")
            .and_then(Value::as_array)
            .map(|all| all.iter().collect())
            .or(rule.get("const").map(|v| vec![v]));
        made.kinds = match rule.get("type") {
            Some(Value::String(name)) => Some(bits(std::slice::from_ref(name))),
            Some(Value::Array(names)) => {
                Some(bits(&names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect::<Vec<_>>()))
            }
            _ => known.as_ref().map(|all| all.iter().fold(0, |bits, value| bits | Kind::of(value))),
        };
        made.known = known;
        made.choices = list("anyOf").iter().map(|choice| self.add(choice)).collect();
        for (name, inner) in rule.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let rule = Some(self.add(inner));
            made.fields.insert(name, Field { rule, bit: 0 });
        }
        made.other_fields = rule.get("additionalProperties").filter(|r| r.is_object()).map(|r| self.add(r));
        for (i, name) in list("required").iter().filter_map(Value::as_str).enumerate() {
            let bit = 1u128.checked_shl(i as u32).unwrap_or(0);
            made.required |= bit;
            let other = Field { rule: made.other_fields, bit: 0 };
            made.fields.entry(name).or_insert(other).bit = bit;
        }
        made.first_items = list("prefixItems").iter().map(|item| self.add(item)).collect();
        made.items = rule.get("items").map(|item| self.add(item));
        made.least_items = rule.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
        self.all[id] = made;
    }
}

fn bits(names: &[String]) -> u8 {
    let of = |name: &String| Kind::ALL.iter().find(|(known, _)| known == name).map_or(0, |(_, bits)| *bits);
    names.iter().fold(0, |all, name| all | of(name))
}

/// One value against one rule; without a rule all is allowed.
#[derive(Clone, Copy)]
struct Check<'r, 's> {
    rules: &'r Rules<'s>,
    rule: Option<Id>,
}

impl<'r, 's> Check<'r, 's> {
    fn with(self, rule: Option<Id>) -> Self {
        Check { rule, ..self }
    }

    /// The rule for a value of `kind`, or the choice that this kind leaves; no rule of the schema leaves more than one.
    fn of<E: Error>(self, kind: Kind) -> Result<Option<&'r Rule<'s>>, E> {
        let Some(id) = self.rule else { return Ok(None) };
        let rule = &self.rules.all[id];
        let allows = |rule: &Rule| rule.kinds.is_none_or(|kinds| kinds & kind as u8 != 0);
        if !allows(rule) {
            return Err(E::custom("another type"));
        }
        if rule.choices.is_empty() {
            return Ok(Some(rule));
        }
        let mut left = rule.choices.iter().filter(|choice| allows(&self.rules.all[**choice]));
        match (left.next(), left.next()) {
            (Some(choice), None) => self.with(Some(*choice)).of(kind),
            _ => Err(E::custom("no choice")),
        }
    }

    fn scalar<E: Error>(self, kind: Kind, number: Option<f64>, is: impl Fn(&Value) -> bool) -> Result<(), E> {
        let Some(rule) = self.of(kind)? else { return Ok(()) };
        let is_known = rule.known.as_ref().is_none_or(|known| known.iter().any(|value| is(value)));
        let is_enough = rule.least.zip(number).is_none_or(|(least, number)| number >= least);
        if is_known && is_enough { Ok(()) } else { Err(E::custom("another value")) }
    }

    fn number<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(number_kind(value), Some(value), |known| known.as_f64() == Some(value))
    }
}

impl<'de> DeserializeSeed<'de> for Check<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.rule {
            Some(_) => deserializer.deserialize_any(self),
            None => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ()),
        }
    }
}

impl<'de> Visitor<'de> for Check<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that the schema allows")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(Kind::Null, None, Value::is_null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(Kind::Boolean, None, |known| known.as_bool() == Some(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.scalar(Kind::Text, None, |known| known.as_str() == Some(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.number(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.number(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.number(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let rule = self.of(Kind::List)?;
        let mut n = 0;
        let rule_of = |n: usize| rule.and_then(|rule| rule.first_items.get(n).copied().or(rule.items));
        while items.next_element_seed(self.with(rule_of(n)))?.is_some() {
            n += 1;
        }
        if rule.is_some_and(|rule| n < rule.least_items) { Err(A::Error::custom("too few items")) } else { Ok(()) }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let rule = self.of(Kind::Object)?;
        let mut met = 0;
        while let Some(field) = map.next_key_seed(Key(rule))? {
            met |= field.bit;
            map.next_value_seed(self.with(field.rule))?;
        }
        let is_whole = rule.is_none_or(|rule| met == rule.required);
        if is_whole { Ok(()) } else { Err(A::Error::custom("a field is missing")) }
    }
}

/// The name of a field, found in a rule.
struct Key<'r, 's>(Option<&'r Rule<'s>>);

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_, '_> {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Field, E> {
        let Some(rule) = self.0 else { return Ok(Field::default()) };
        Ok(rule.fields.get(name).copied().unwrap_or(Field { rule: rule.other_fields, bit: 0 }))
    }
}
