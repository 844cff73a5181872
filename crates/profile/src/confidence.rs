//! How sure a function's class is. A function has a class whenever the evidence names one; this module has the doubts about it.

use serde::{Deserialize, Serialize};

/// How sure a class is, and why it is not surer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// The lowest level that a reason leaves.
    pub level: Level,
    /// Reasons, the gravest first; empty if nothing is in doubt.
    #[serde(default)]
    pub reasons: Vec<Doubt>,
}

/// Levels of confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Another class is as likely.
    Low,
    /// The class is likely right; its figures may be off.
    Medium,
    /// There is no doubt about it.
    High,
}

/// A reason why a class is less sure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Doubt {
    /// Its time rests on few samples.
    FewSamples {
        /// How many.
        samples: u64,
    },
    /// Other work took the CPUs.
    Load {
        /// Seconds kept off a CPU / seconds that could have run.
        share: f64,
    },
    /// The account of its time does not add up to the measured time.
    ModelError {
        /// `model_s` / `cpu_s` − 1.
        error: f64,
    },
    /// The binding ceiling explains this part of its time alone, and no account explains the rest.
    FarFromBound {
        /// T / `time_s`.
        fraction: f64,
    },
}

impl Level {
    /// The name in the profile.
    pub fn name(self) -> &'static str {
        match self {
            Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
        }
    }
}

impl Doubt {
    /// In a few words.
    pub fn words(&self) -> String {
        match self {
            Doubt::FewSamples { samples: 1 } => "1 sample".into(),
            Doubt::FewSamples { samples } => format!("{samples} samples"),
            Doubt::Load { share } => format!("kept off its CPU {:.0} % of the time", 100.0 * share),
            Doubt::ModelError { error } => format!("the model is off by {:.0} %", 100.0 * error.abs()),
            Doubt::FarFromBound { fraction } => {
                format!("its ceiling explains {:.0} % of its time", 100.0 * fraction)
            }
        }
    }
}
