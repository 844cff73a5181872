//! The text of a profile: its samples as they are, all else as values. There may be a million samples, which would take a hundred
//! times their memory as values.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::profile::ProfileSample;

/// A profile without its samples, and these.
pub struct Parsed {
    /// The fields; `samples` is an empty list if there was one.
    pub fields: Map<String, Value>,
    /// The samples.
    pub samples: Vec<ProfileSample>,
}

/// The field that is parsed at once.
const SAMPLES: &str = "samples";

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a profile")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parsed, A::Error> {
        let mut parsed = Parsed { fields: Map::new(), samples: Vec::new() };
        while let Some(key) = map.next_key::<String>()? {
            if key == SAMPLES {
                parsed.samples = map.next_value()?;
                parsed.fields.insert(key, Value::Array(Vec::new()));
            } else {
                parsed.fields.insert(key, map.next_value()?);
            }
        }
        Ok(parsed)
    }
}
