//! What the tools are called, what they are for, and their arguments as JSON Schema.

use rmcp::model::{JsonObject, Tool as Described, ToolAnnotations};
use serde_json::{Value, json};

use super::bounded;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Profile,
    Verdict,
    Explain,
    Source,
    Ceilings,
    Compare,
    Gate,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 7] =
        [Tool::Profile, Tool::Verdict, Tool::Explain, Tool::Source, Tool::Ceilings, Tool::Compare, Tool::Gate];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Profile => "profile",
            Tool::Verdict => "verdict",
            Tool::Explain => "explain",
            Tool::Source => "source",
            Tool::Ceilings => "ceilings",
            Tool::Compare => "compare",
            Tool::Gate => "gate",
        }
    }

    /// The tool `name`.
    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn description(self) -> &'static str {
        match self {
            Tool::Profile => {
                "Runs a program under rprof in the server's folder and says what holds it: the same answer as verdict, the program's exit status and \
                 the end of its output. A program of less than ten seconds runs twice: the second run counts its instructions and has no outside effect. Build with -g for lines."
            }
            Tool::Verdict => {
                "The cause that costs most, where it is, the change that helps, the seconds that this saves (least and most), confidence, the evidence \
                 (because), causes that were looked at and are not it (ruled_out), and further candidates."
            }
            Tool::Explain => {
                "Everything about one function: the argument, figures with source and error, seconds by cause, its own ceilings, savings, hottest lines \
                 and loops. Without a function: the functions with most to save."
            }
            Tool::Source => {
                "The hottest source lines of a function with their figures, and the lines around them. Without a function: of the one that the verdict names."
            }
            Tool::Ceilings => {
                "What the host can do, measured: FLOP/s, bandwidths and latencies per level, with spread (relative error) and quality. prefix selects, for instance \
                 dram. or lat."
            }
            Tool::Compare => "What changed from one profile to another, by more than the error of the figures.",
            Tool::Gate => {
                "Whether conditions hold for the change from one profile to another, such as instructions>1%, time(NAME)>5%, class(NAME), program.flops>0%: \
                 passed is false if one does, null if one cannot be judged."
            }
        }
    }

    fn schema(self) -> JsonObject {
        let profile = json!({
            "type": "string",
            "description": "Folder of a profile, or its profile.json, within the server's folder. Default: rprof.out",
        });
        let function = json!({ "type": "string", "description": "Its name, or a part of it" });
        let (mut properties, required): (Value, &[&str]) = match self {
            Tool::Profile => (
                json!({
                    "program": {
                        "type": "array", "items": { "type": "string" }, "minItems": 1,
                        "description": "The program and its arguments: a path within the server's folder (./app), or a name to look up in PATH (python3). No shell.",
                    },
                    "output": { "type": "string", "description": "Name of the profile's folder. Default: rprof.out; an older one is kept as rprof.out.N" },
                    "passes": {
                        "enum": ["auto", "single", "timed", "counted", "both"],
                        "description": "auto (default); single: the program runs only once; timed: no counts; counted: no times; both: exact counts, in two runs",
                    },
                    "timeout_s": { "type": "number", "exclusiveMinimum": 0, "description": "Seconds after which the program is interrupted (SIGINT) and what was seen is reported. Default: 600" },
                }),
                &["program"],
            ),
            Tool::Verdict => (json!({ "profile": profile }), &[]),
            Tool::Explain | Tool::Source => (json!({ "profile": profile, "function": function }), &[]),
            Tool::Ceilings => (
                json!({ "profile": profile, "prefix": { "type": "string", "description": "How their ids begin. Default: all" } }),
                &[],
            ),
            Tool::Compare => (json!({ "before": profile, "after": profile }), &["before", "after"]),
            Tool::Gate => (
                json!({
                    "before": profile, "after": profile,
                    "fail_if": { "type": "array", "items": { "type": "string" }, "minItems": 1, "description": "Conditions; none may hold" },
                }),
                &["before", "after", "fail_if"],
            ),
        };
        properties["max_bytes"] = json!({
            "type": "integer", "minimum": bounded::LEAST,
            "description": "Bytes of the answer at most. Default: 4096; lists are cut to fit, and say by how much",
        });
        let schema =
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        schema.as_object().cloned().unwrap_or_default()
    }

    /// As the protocol lists it.
    pub fn described(self) -> Described {
        let mut tool = Described::new(self.name(), self.description(), self.schema());
        let reads = self != Tool::Profile;
        tool.annotations = Some(ToolAnnotations::from_raw(None, Some(reads), Some(!reads), Some(reads), Some(!reads)));
        tool
    }
}
