//! `profile.json`: writing, and strict reading. The reader refuses a file that is truncated, foreign, or lacks a field, and names the
//! file and the field; it ignores fields that this version does not know.

use std::fs;
use std::path::Path;

use serde_json::Value;

use rprof_model as roofline;
use rprof_profile::{OLDER_SCHEMAS, Profile, ProfileSample, SCHEMA};

use super::conforms::conforms;
use super::error::ReportError;
use super::schema;

/// Reads a profile and recomputes its analysis from its facts.
///
/// # Errors
/// [`ReportError::Read`], [`ReportError::Truncated`], [`ReportError::Syntax`] for text that is no JSON, [`ReportError::Foreign`]
/// naming the first field that is missing or of another type.
pub fn read(path: &Path) -> Result<Profile, ReportError> {
    let text = fs::read(path).map_err(|source| ReportError::Read { path: path.into(), source })?;
    // The quick way reads valid files; the other one finds the field that is not valid.
    let mut profile = match quick(&text) {
        Some(profile) => profile,
        None => thorough(path, &text)?,
    };
    drop(text);
    roofline::analyse(&mut profile);
    Ok(profile)
}

/// Reads a profile that a rank of this version has just written, for merging: without its analysis, which the merged profile gets, and
/// checked against the schema only if it is not as it should be.
///
/// # Errors
/// As [`read`].
pub fn read_rank(path: &Path) -> Result<Profile, ReportError> {
    let text = fs::read(path).map_err(|source| ReportError::Read { path: path.into(), source })?;
    match serde_json::from_slice::<Profile>(&text) {
        Ok(profile) if profile.schema == SCHEMA && has_its_stacks(&profile) => Ok(profile),
        _ => read(path),
    }
}

/// Whether samples have times, threads and stacks that are there, and stacks frames and parents.
fn has_its_stacks(profile: &Profile) -> bool {
    let (frames, stacks, threads) = (profile.frames.len(), profile.stacks.len(), profile.run.threads.len());
    let mut parents = profile.stacks.iter().enumerate();
    let are_stacks =
        parents.all(|(i, s)| (s.frame as usize) < frames && s.parent.is_none_or(|parent| (parent as usize) < i));
    let is_right = |s: &ProfileSample| {
        s.weight_s >= 0.0 && (s.thread as usize) < threads && s.stack.is_none_or(|stack| (stack as usize) < stacks)
    };
    are_stacks && profile.samples.iter().all(is_right)
}

/// The profile, parsed while another CPU checks its fields; `None` if anything is wrong with it.
fn quick(text: &[u8]) -> Option<Profile> {
    let (is_right, profile) = std::thread::scope(|scope| {
        let check = scope.spawn(|| conforms(text));
        let profile = serde_json::from_slice::<Profile>(text);
        (check.join(), profile)
    });
    let is_right = is_right.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let is_known = |name: &str| name == SCHEMA || OLDER_SCHEMAS.contains(&name);
    let profile = profile.ok().filter(|profile| is_right && is_known(&profile.schema) && has_its_stacks(profile))?;
    Some(Profile { schema: SCHEMA.into(), ..profile })
}

fn thorough(path: &Path, text: &[u8]) -> Result<Profile, ReportError> {
    let value: Value = serde_json::from_slice(text).map_err(|source| match source.is_eof() {
        true => ReportError::Truncated { path: path.into(), field: last_field(text) },
        false => ReportError::Syntax { path: path.into(), source },
    })?;
    let profile = check(&value).and_then(|()| typed(text));
    profile.map_err(|v| ReportError::Foreign { path: path.into(), field: v.field, problem: v.problem })
}

/// The field within which a truncated text ends, as a path such as `functions[3].bytes`.
fn last_field(text: &[u8]) -> String {
    let ends = serde_path_to_error::deserialize::<_, Value>(&mut serde_json::Deserializer::from_slice(text)).err();
    let path = ends.map(|error| error.path().to_string()).filter(|path| path != ".");
    path.unwrap_or_else(|| "its first field".into())
}

/// Checks `value` against the schema and turns it into a profile, as stored.
///
/// # Errors
/// The first violation.
pub fn parse(value: &Value) -> Result<Profile, schema::Violation> {
    check(value)?;
    typed(value.to_string().as_bytes())
}

/// The profile in a text that has passed [`check`]. From text, as everywhere: each kind of parser of a profile adds a megabyte to the
/// binary.
fn typed(text: &[u8]) -> Result<Profile, schema::Violation> {
    let profile: Profile = serde_json::from_slice(text).map_err(|error| {
        let lines = text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
        let at = lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
        // The value that is wrong begins, or goes on, behind the last of these.
        let before = &text[..at.min(text.len())];
        let value_at = before.iter().rposition(|byte| b":,[".contains(byte)).map_or(0, |at| at + 1);
        schema::Violation::new(last_field(&before[..value_at]), error.to_string())
    })?;
    Ok(Profile { schema: SCHEMA.into(), ..profile })
}

/// Checks `value` against the name and the rules of the schema, and its indices.
fn check(value: &Value) -> Result<(), schema::Violation> {
    // For a foreign file, report its schema name rather than the first field that it lacks.
    match value.get("schema") {
        Some(Value::String(name)) if name == SCHEMA || OLDER_SCHEMAS.contains(&name.as_str()) => {}
        Some(other) => return Err(schema::Violation::new("schema", format!("is {other}"))),
        None if value.is_object() => return Err(schema::Violation::new("schema", "is missing")),
        None => {}
    }
    schema::check(value)?;
    indices(value)
}

/// Indices into `frames`, `stacks` and `threads` stay within them; a stack's parent comes before it.
fn indices(value: &Value) -> Result<(), schema::Violation> {
    fn list<'a>(v: &'a Value, key: &str) -> &'a [Value] {
        v.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    let (frames, stacks) = (list(value, "frames").len() as u64, list(value, "stacks"));
    let threads = value.get("run").map_or(0, |run| list(run, "threads").len()) as u64;
    let below = |v: &Value, key: &str, limit: u64, list: &str, n: usize| match v.get(key).and_then(Value::as_u64) {
        Some(i) if i >= limit => {
            Err(schema::Violation::new(format!("{list}[{n}].{key}"), format!("is {i}, out of range")))
        }
        _ => Ok(()),
    };
    for (i, stack) in stacks.iter().enumerate() {
        below(stack, "frame", frames, "stacks", i)?;
        below(stack, "parent", i as u64, "stacks", i)?;
    }
    for (i, sample) in list(value, "samples").iter().enumerate() {
        below(sample, "stack", stacks.len() as u64, "samples", i)?;
        below(sample, "thread", threads, "samples", i)?;
    }
    Ok(())
}

/// The profile as JSON text.
///
/// # Errors
/// [`ReportError::Render`] if a number cannot be written (never for finite ones).
pub fn text(profile: &Profile) -> Result<String, ReportError> {
    serde_json::to_string(profile)
        .map(|mut s| {
            s.push('\n');
            s
        })
        .map_err(|e| ReportError::Render { what: "profile.json", problem: e.to_string() })
}
