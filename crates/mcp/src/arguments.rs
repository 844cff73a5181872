//! The arguments of each tool.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::bounded;
use super::error::Refusal;

/// Of `profile`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileArguments {
    pub program: Vec<String>,
    #[serde(default = "usual_output")]
    pub output: String,
    #[serde(default)]
    pub passes: Option<PassesArgument>,
    #[serde(default = "usual_timeout_s")]
    pub timeout_s: f64,
    #[serde(default)]
    pub max_bytes: Limit,
}

/// `passes`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PassesArgument {
    Auto,
    Single,
    Timed,
    Counted,
    Both,
}

impl PassesArgument {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            PassesArgument::Auto => "auto",
            PassesArgument::Single => "single",
            PassesArgument::Timed => "timed",
            PassesArgument::Counted => "counted",
            PassesArgument::Both => "both",
        }
    }
}

/// Of `verdict`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictArguments {
    #[serde(default = "usual_output")]
    pub profile: String,
    #[serde(default)]
    pub max_bytes: Limit,
}

/// Of `explain` and `source`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionArguments {
    #[serde(default = "usual_output")]
    pub profile: String,
    #[serde(default)]
    pub function: Option<String>,
    #[serde(default)]
    pub max_bytes: Limit,
}

/// Of `ceilings`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CeilingsArguments {
    #[serde(default = "usual_output")]
    pub profile: String,
    #[serde(default)]
    pub prefix: String,
    #[serde(default)]
    pub max_bytes: Limit,
}

/// Of `compare` and `gate`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareArguments {
    pub before: String,
    pub after: String,
    #[serde(default)]
    pub fail_if: Vec<String>,
    #[serde(default)]
    pub max_bytes: Limit,
}

/// Bytes of the answer at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "usize")]
pub struct Limit(pub usize);

impl Default for Limit {
    fn default() -> Limit {
        Limit(bounded::USUAL)
    }
}

impl TryFrom<usize> for Limit {
    type Error = String;

    fn try_from(bytes: usize) -> Result<Limit, String> {
        if bytes >= bounded::LEAST {
            Ok(Limit(bytes))
        } else {
            Err(format!("max_bytes is at least {}", bounded::LEAST))
        }
    }
}

fn usual_output() -> String {
    "rprof.out".into()
}

fn usual_timeout_s() -> f64 {
    600.0
}

/// The arguments of the tool `name`.
///
/// # Errors
/// One is missing, unknown, or of another type.
pub fn read<T: DeserializeOwned>(name: &str, arguments: Option<Map<String, Value>>) -> Result<T, Refusal> {
    let value = Value::Object(arguments.unwrap_or_default());
    serde_json::from_value(value).map_err(|error| Refusal::new(format!("{name}: {error}")))
}
