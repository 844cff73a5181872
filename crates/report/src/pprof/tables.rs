//! The tables that samples of a pprof profile point into: text, files, functions and places, each once.

use std::collections::HashMap;

use rprof_profile::{Frame, Function, Profile};

use super::messages::{Line, Location, Mapping, PprofFunction};
use crate::name::printable;

/// Texts by index; the first is empty.
#[derive(Debug)]
pub struct Strings {
    pub all: Vec<String>,
    index: HashMap<String, i64>,
}

impl Strings {
    pub fn new() -> Strings {
        Strings { all: vec![String::new()], index: HashMap::from([(String::new(), 0)]) }
    }

    /// The index of `text`, without characters that a terminal obeys.
    pub fn add(&mut self, text: &str) -> i64 {
        let text = printable(text);
        if let Some(index) = self.index.get(&text) {
            return *index;
        }
        let index = self.all.len() as i64;
        self.all.push(text.clone());
        self.index.insert(text, index);
        index
    }
}

/// What is told of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    pub name: &'a str,
    /// Empty: none.
    pub module: &'a str,
    pub file: Option<&'a str>,
    /// Line of the function's start.
    pub line: Option<u32>,
}

impl<'a> From<&'a Frame> for Named<'a> {
    fn from(frame: &'a Frame) -> Named<'a> {
        Named { name: &frame.name, module: &frame.module, file: frame.file.as_deref(), line: frame.line }
    }
}

impl<'a> From<&'a Function> for Named<'a> {
    fn from(f: &'a Function) -> Named<'a> {
        Named { name: &f.name, module: &f.module, file: f.file.as_deref(), line: f.line }
    }
}

/// Files, functions and places.
#[derive(Debug)]
pub struct Tables {
    pub strings: Strings,
    pub mappings: Vec<Mapping>,
    pub functions: Vec<PprofFunction>,
    pub locations: Vec<Location>,
    mapping_ids: HashMap<String, u64>,
    function_ids: HashMap<(i64, i64, i64), u64>,
    location_ids: HashMap<(u64, Vec<u64>), u64>,
}

impl Tables {
    /// Tables with the files of `profile`, the program first: pprof names the profile after it.
    pub fn new(profile: &Profile) -> Self {
        let mut tables = Tables {
            strings: Strings::new(),
            mappings: Vec::new(),
            functions: Vec::new(),
            locations: Vec::new(),
            mapping_ids: HashMap::new(),
            function_ids: HashMap::new(),
            location_ids: HashMap::new(),
        };
        let program = profile.run.command.first().map_or("", |path| path.rsplit('/').next().unwrap_or(path));
        let modules = profile.frames.iter().map(|frame| &*frame.module);
        let names: Vec<&str> = modules.chain(profile.functions.iter().map(|f| &*f.module)).collect();
        let first = names.iter().filter(|name| **name == program);
        for name in first.chain(&names) {
            tables.add_mapping(name, profile);
        }
        tables
    }

    /// The id of the place of `frames`: functions that were inlined, innermost first, and the one that holds them.
    pub fn location(&mut self, frames: &[Named<'_>]) -> u64 {
        let functions: Vec<u64> = frames.iter().map(|frame| self.function(*frame)).collect();
        let mapping_id = frames.last().and_then(|frame| self.mapping_ids.get(frame.module)).copied().unwrap_or(0);
        let next = self.locations.len() as u64 + 1;
        let id = *self.location_ids.entry((mapping_id, functions.clone())).or_insert(next);
        if id == next {
            let line = functions.into_iter().map(|function_id| Line { function_id }).collect();
            self.locations.push(Location { id, mapping_id, line });
        }
        id
    }

    fn function(&mut self, frame: Named<'_>) -> u64 {
        let (name, filename) = (self.strings.add(frame.name), self.strings.add(frame.file.unwrap_or("")));
        let start_line = i64::from(frame.line.unwrap_or(0));
        let next = self.functions.len() as u64 + 1;
        let id = *self.function_ids.entry((name, filename, start_line)).or_insert(next);
        if id == next {
            self.functions.push(PprofFunction { id, name, system_name: name, filename, start_line });
        }
        id
    }

    fn add_mapping(&mut self, name: &str, profile: &Profile) {
        if name.is_empty() || self.mapping_ids.contains_key(name) {
            return;
        }
        let id = self.mappings.len() as u64 + 1;
        let known = profile.run.modules.iter().find(|module| module.name == name);
        let filename = self.strings.add(known.map_or(name, |module| &module.path));
        let build_id = self.strings.add(known.and_then(|module| module.build_id.as_deref()).unwrap_or(""));
        // The symbols are in the profile, so that pprof does not look for the file.
        self.mappings.push(Mapping {
            id,
            filename,
            build_id,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
        self.mapping_ids.insert(name.to_owned(), id);
    }
}
