//! Numbers of the page's data.

use serde_json::{Value, json};

/// At four significant digits, one more than the page prints; null where it is not finite.
pub fn rounded(value: f64) -> Value {
    let short: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    if short.is_finite() { json!(short) } else { Value::Null }
}
