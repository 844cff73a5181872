//! Questions about profiles in the folder.

use serde_json::{Value, json};

use rprof_profile::Profile;
use rprof_report::diff::{self, Condition, Judgement};
use rprof_report::json;
use rprof_report::query::{self, By, Query};

use super::arguments::{CeilingsArguments, CompareArguments, FunctionArguments};
use super::error::Refusal;
use super::figures;
use super::folder::Folder;

/// Functions of a list, and ceilings: more than fit into any usual answer.
const MANY: usize = 200;

/// The profile that `given` names.
///
/// # Errors
/// It is outside of the folder, or no profile.
pub fn read(folder: &Folder, given: &str) -> Result<Profile, Refusal> {
    let mut path = folder.existing(given)?;
    if path.is_dir() {
        path = folder.existing(&format!("{given}/profile.json"))?;
    }
    json::read(&path).map_err(Refusal::new)
}

/// The verdict, and the figures of the function that it names.
///
/// # Errors
/// [`Refusal`].
pub fn verdict(folder: &Folder, given: &str) -> Result<Value, Refusal> {
    let profile = read(folder, given)?;
    let mut answer = query::json(&profile, &Query::Verdict { source: given }).map_err(Refusal::new)?;
    let symbol = answer["where"]["symbol"].as_str();
    if let Some(f) = symbol.and_then(|symbol| profile.functions.iter().find(|f| f.is_called(symbol))) {
        answer["figures"] = figures::of_function(f);
    }
    // The command line's next command is the tool's here.
    answer["next"] = match answer["where"]["symbol"].as_str() {
        Some(symbol) => json!({ "tool": "explain", "profile": given, "function": symbol }),
        None => json!({ "tool": "explain", "profile": given }),
    };
    Ok(answer)
}

/// One function whole, or the first ones.
///
/// # Errors
/// [`Refusal`].
pub fn explain(folder: &Folder, arguments: &FunctionArguments) -> Result<Value, Refusal> {
    let profile = read(folder, &arguments.profile)?;
    let Some(name) = &arguments.function else {
        let mut answer = query::json(&profile, &Query::Top { by: By::Saving, limit: MANY }).map_err(Refusal::new)?;
        answer["source"] = json!(
            "time_s, cpu_s and share: samples of the timed pass, ci95_s is the half 95 % interval; savings: the model"
        );
        return Ok(answer);
    };
    let mut answer = query::json(&profile, &Query::Explain { name }).map_err(Refusal::new)?;
    if let Some(f) = answer["function"]["name"].as_str().and_then(|n| profile.functions.iter().find(|f| f.name == n)) {
        answer["figures"] = figures::of_function(f);
    }
    if let Some(fields) = answer.as_object_mut() {
        // They are in the figures.
        fields.remove("sources");
    }
    Ok(answer)
}

/// Ceilings of the host.
///
/// # Errors
/// [`Refusal`].
pub fn ceilings(folder: &Folder, arguments: &CeilingsArguments) -> Result<Value, Refusal> {
    let profile = read(folder, &arguments.profile)?;
    let prefix = &*arguments.prefix;
    let answer = query::json(&profile, &Query::Ceilings { prefix, limit: MANY }).map_err(Refusal::new)?;
    if answer["ceilings"]["total"] == json!(0) {
        return Err(Refusal::new(format!(
            "no ceiling has an id that begins with {prefix}; try dram., dp., lat. or l1."
        )));
    }
    Ok(answer)
}

/// What changed.
///
/// # Errors
/// [`Refusal`].
pub fn compare(folder: &Folder, arguments: &CompareArguments) -> Result<Value, Refusal> {
    let [before, after] = [read(folder, &arguments.before)?, read(folder, &arguments.after)?];
    let mut answer = diff::json(&diff::compare(&before, &after), &[]);
    if let Some(fields) = answer.as_object_mut() {
        // There are none, and the schema is another answer's.
        fields.remove("conditions");
        fields.remove("schema");
    }
    keep_changes(&mut answer["program"]);
    for change in answer["changed"]["items"].as_array_mut().into_iter().flatten() {
        keep_changes(&mut change["figures"]);
        for inner in change["loops"]["items"].as_array_mut().into_iter().flatten() {
            keep_changes(&mut inner["figures"]);
        }
    }
    Ok(answer)
}

/// Leaves of `figures` those that changed; of the others their names.
fn keep_changes(figures: &mut Value) {
    let Some(all) = figures.as_object_mut() else { return };
    let (mut unchanged, mut unknown) = (Vec::new(), Vec::new());
    all.retain(|name, figure| {
        match figure["outcome"].as_str() {
            Some("unchanged") => unchanged.push(name.clone()),
            Some("unknown") => unknown.push(name.clone()),
            _ => return true,
        }
        false
    });
    all.insert("unchanged".into(), json!(unchanged));
    all.insert("not_known".into(), json!(unknown));
}

/// Whether conditions hold.
///
/// # Errors
/// [`Refusal`].
pub fn gate(folder: &Folder, arguments: &CompareArguments) -> Result<Value, Refusal> {
    let parsed = arguments.fail_if.iter().map(|text| text.parse::<Condition>());
    let conditions = parsed.collect::<Result<Vec<_>, _>>().map_err(|e| Refusal::new(format!("fail_if {e}")))?;
    if conditions.is_empty() {
        return Err(Refusal::new("fail_if is empty: name a condition, such as instructions>1%"));
    }
    let [before, after] = [read(folder, &arguments.before)?, read(folder, &arguments.after)?];
    let diff = diff::compare(&before, &after);
    let judge = |condition: Condition| {
        let judgement = diff::judge(&diff, &condition).map_err(|e| Refusal::new(format!("fail_if {e}")))?;
        Ok((condition, judgement))
    };
    let judged = conditions.into_iter().map(judge).collect::<Result<Vec<_>, Refusal>>()?;
    let holds = judged.iter().any(|(_, judgement)| matches!(judgement, Judgement::Holds(_)));
    let unknown = judged.iter().any(|(_, judgement)| matches!(judgement, Judgement::Unknown(_)));
    let mut whole = diff::json(&diff, &judged);
    keep_changes(&mut whole["program"]);
    let passed = if holds {
        json!(false)
    } else if unknown {
        Value::Null
    } else {
        json!(true)
    };
    Ok(json!({
        "passed": passed, "conditions": whole["conditions"].take(), "verdict": whole["verdict"].take(),
        "counts": whole["counts"].take(), "program": whole["program"].take(), "notes": whole["notes"].take(),
    }))
}
