//! The recorded profile of `fixtures/profiles/`, analysed.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::json;
use rprof_profile::Profile;

/// Path of the recorded profile.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/profiles/kernels.json")
}

/// It as written, without looking at its meaning.
pub fn value() -> Value {
    serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap()
}

/// It as `rprof report` reads it.
pub fn profile() -> Profile {
    json::read(&path()).unwrap()
}
