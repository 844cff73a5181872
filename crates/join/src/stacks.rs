//! Frames and prefix-shared call stacks for flame graphs.

use std::collections::HashMap;
use std::sync::Arc;

use super::code_map::{CodeMap, FunctionId};
use super::modules::Pass;
use super::shown_names::ShownNames;
use rprof_profile::code::CodeRef;
use rprof_profile::{Frame, Stack};

/// Builds frames and stacks from the call stacks of the timed pass.
#[derive(Debug)]
pub struct StackTable<'n> {
    /// One per distinct (function, module).
    pub frames: Vec<Frame>,
    /// Each a frame on top of a parent.
    pub stacks: Vec<Stack>,
    names: &'n ShownNames,
    host_frames: HashMap<FunctionId, u32>,
    inlined_frames: HashMap<(Arc<str>, FunctionId), u32>,
    /// Frames at a code address: the host first, then functions inlined there, outermost to innermost.
    at_address: HashMap<CodeRef, Vec<u32>>,
    children: HashMap<(Option<u32>, u32), u32>,
}

impl<'n> StackTable<'n> {
    /// An empty table.
    pub fn new(names: &'n ShownNames) -> Self {
        StackTable {
            frames: Vec::new(),
            stacks: Vec::new(),
            names,
            host_frames: HashMap::new(),
            inlined_frames: HashMap::new(),
            at_address: HashMap::new(),
            children: HashMap::new(),
        }
    }

    /// The stack of `calls` (leaf first); `None` if there are none.
    pub fn add(&mut self, calls: &[CodeRef], code: &mut CodeMap) -> Option<u32> {
        let mut top = None;
        for call in calls.iter().rev() {
            if !self.at_address.contains_key(call) {
                let frames = self.frames_at(*call, code);
                self.at_address.insert(*call, frames);
            }
            for frame in &self.at_address[call] {
                let stacks = &mut self.stacks;
                let child = self.children.entry((top, *frame)).or_insert_with(|| {
                    stacks.push(Stack { parent: top, frame: *frame });
                    stacks.len() as u32 - 1
                });
                top = Some(*child);
            }
        }
        top
    }

    /// The stack that consists of `function` alone.
    pub fn add_function(&mut self, function: FunctionId, code: &mut CodeMap) -> u32 {
        let frame = self.host_frame(function, code);
        let stacks = &mut self.stacks;
        *self.children.entry((None, frame)).or_insert_with(|| {
            stacks.push(Stack { parent: None, frame });
            stacks.len() as u32 - 1
        })
    }

    fn frames_at(&mut self, call: CodeRef, code: &mut CodeMap) -> Vec<u32> {
        let Some(place) = code.place(Pass::Timed, call) else { return Vec::new() };
        let function = code.function(place);
        let mut frames = vec![self.host_frame(function, code)];
        let module = code.known(function).module.clone();
        for inlined in code.inlined(place).into_iter().rev() {
            let key = (inlined.name.clone(), function);
            let frame = match self.inlined_frames.get(&key) {
                Some(frame) => *frame,
                None => {
                    let file = inlined.line.map(|l| l.file.to_string());
                    let name = self.names.of(&inlined.name);
                    let frame = self.push(Frame { name, module: module.to_string(), file, line: None, inlined: true });
                    self.inlined_frames.insert(key, frame);
                    frame
                }
            };
            frames.push(frame);
        }
        frames
    }

    fn host_frame(&mut self, function: FunctionId, code: &mut CodeMap) -> u32 {
        if let Some(frame) = self.host_frames.get(&function) {
            return *frame;
        }
        let known = code.known(function).clone();
        let line = known.place.and_then(|place| code.host_line(place));
        let name = self.names.of(&known.name);
        let frame = self.push(Frame {
            name,
            module: known.module.to_string(),
            file: line.as_ref().map(|l| l.file.to_string()),
            line: line.map(|l| l.line),
            inlined: false,
        });
        self.host_frames.insert(function, frame);
        frame
    }

    fn push(&mut self, frame: Frame) -> u32 {
        self.frames.push(frame);
        self.frames.len() as u32 - 1
    }
}
