//! `source`: the hottest lines of a function, with their figures and the lines around them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use rprof_profile::function::LineFacts;
use rprof_profile::{Function, Profile};
use rprof_report::query::{self, Query};

use super::arguments::FunctionArguments;
use super::error::Refusal;
use super::folder::Folder;
use super::questions;

/// Lines with figures at most.
const HOT: usize = 12;
/// Lines before and after each.
const AROUND: u32 = 2;
/// Characters of a line at most.
const WIDTH: usize = 160;

/// The lines.
///
/// # Errors
/// [`Refusal`]: there is no such function, it has no lines, or its file is outside of the folder.
pub fn lines(folder: &Folder, arguments: &FunctionArguments) -> Result<Value, Refusal> {
    let profile = questions::read(folder, &arguments.profile)?;
    let f = function(&profile, arguments)?;
    let mut hot: Vec<&LineFacts> = f.lines.iter().collect();
    let weight = |line: &LineFacts| (line.cpu_s.unwrap_or(0.0), line.instructions.unwrap_or(0) as f64);
    hot.sort_by(|a, b| weight(b).0.total_cmp(&weight(a).0).then(weight(b).1.total_cmp(&weight(a).1)));
    hot.truncate(HOT);
    let own = f.file.as_deref();
    let mut by_file: BTreeMap<&str, Vec<&LineFacts>> = BTreeMap::new();
    for line in hot.iter().copied() {
        if let Some(file) = line.file.as_deref().or(own) {
            by_file.entry(file).or_default().push(line);
        }
    }
    if by_file.is_empty() {
        return Err(Refusal::new(format!("{}: no lines are known; compile with -g and profile again", f.name)));
    }
    let mut files = Vec::new();
    let mut refused = Vec::new();
    for (file, lines) in by_file {
        match excerpt(folder, file, own, &lines) {
            Ok(excerpt) => files.push(excerpt),
            Err(refusal) => refused.push(refusal),
        }
    }
    if let (true, Some(first)) = (files.is_empty(), refused.first()) {
        return Err(first.clone());
    }
    Ok(json!({
        "function": f.name, "class": f.analysis.class,
        "source": { "cpu_s": "sampled", "instructions": f.source.get("instructions"), "dram_bytes": f.source.get("bytes.dram") },
        "files": files,
        "not_shown": refused.iter().map(|refusal| &refusal.0).collect::<Vec<_>>(),
    }))
}

/// The function that is asked for, else the one that the verdict names.
fn function<'p>(profile: &'p Profile, arguments: &FunctionArguments) -> Result<&'p Function, Refusal> {
    let name = match &arguments.function {
        Some(name) => name.clone(),
        None => {
            let verdict = query::json(profile, &Query::Verdict { source: "" }).map_err(Refusal::new)?;
            let symbol = verdict["where"]["symbol"].as_str().map(str::to_owned);
            symbol.ok_or_else(|| Refusal::new("the verdict names no function: name one"))?
        }
    };
    let found = query::json(profile, &Query::Explain { name: &name }).map_err(Refusal::new)?;
    let found = found["function"]["name"].as_str();
    let function = profile.functions.iter().find(|f| Some(&*f.name) == found);
    function.ok_or_else(|| Refusal::new(format!("{name}: no such function")))
}

/// The lines of one file.
fn excerpt(folder: &Folder, file: &str, own: Option<&str>, hot: &[&LineFacts]) -> Result<Value, Refusal> {
    let path = path_of(folder, file, own)?;
    let text = std::fs::read(&path).map_err(|error| Refusal::new(format!("{}: {error}", path.display())))?;
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    let shown = |number: u32| hot.iter().any(|line| line.line.abs_diff(number) <= AROUND);
    let line = |number: u32| {
        let text: String = all[number as usize - 1].chars().take(WIDTH).collect();
        let mut row = json!({ "line": number, "text": text });
        if let Some(facts) = hot.iter().find(|facts| facts.line == number) {
            row["cpu_s"] = json!(facts.cpu_s);
            row["instructions"] = json!(facts.instructions);
            row["flops"] = json!(facts.flops);
            row["dram_bytes"] = json!(facts.dram_bytes);
        }
        row
    };
    let rows: Vec<Value> = (1..=all.len() as u32).filter(|number| shown(*number)).map(line).collect();
    if rows.is_empty() {
        return Err(Refusal::new(format!(
            "{}: has no such lines: it is another version of the file",
            folder.shown(&path)
        )));
    }
    Ok(json!({ "file": folder.shown(&path), "lines": rows }))
}

/// Where `file` is: lines name the file as the debug information does, often without its folder, which is that of the function's file then.
fn path_of(folder: &Folder, file: &str, own: Option<&str>) -> Result<PathBuf, Refusal> {
    let found = folder.existing(file);
    let beside = own.and_then(|own| own.rsplit_once('/')).map(|(parent, _)| format!("{parent}/{file}"));
    match (found, beside) {
        (Ok(path), _) => Ok(path),
        (Err(_), Some(beside)) if !file.starts_with('/') => folder.existing(&beside),
        (Err(refusal), _) => Err(refusal),
    }
}
