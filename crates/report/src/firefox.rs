//! The Firefox profiler's processed format: open the file at profiler.firefox.com (it is read in the browser).

use std::collections::HashMap;

use serde_json::{Value, json};

use rprof_profile::Profile;

/// The version of the processed format that is written here; newer profilers upgrade it on loading.
const PROCESSED_VERSION: u32 = 47;

/// The profile as JSON text.
pub fn text(profile: &Profile) -> String {
    let threads: Vec<Value> = (0..profile.run.threads.len() as u32).map(|t| thread(profile, t)).collect();
    let interval = profile.samples.iter().map(|s| s.weight_s).fold(0.0, f64::max).max(1e-6) * 1e3;
    json!({
        "meta": {
            "categories": [
                { "name": "Other", "color": "grey", "subcategories": ["Other"] },
                { "name": "Work", "color": "blue", "subcategories": ["Other"] },
                { "name": "Waiting", "color": "orange", "subcategories": ["Other"] }
            ],
            "debug": false,
            "extensions": { "baseURL": [], "id": [], "length": 0, "name": [] },
            "interval": interval,
            "markerSchema": [],
            "pausedRanges": [],
            "preprocessedProfileVersion": PROCESSED_VERSION,
            "processType": 0,
            "product": profile.run.command.join(" "),
            "sampleUnits": { "eventDelay": "ms", "threadCPUDelta": "µs", "time": "ms" },
            "sourceCodeIsNotOnSearchfox": true,
            "startTime": 0.0,
            "stackwalk": 1,
            "symbolicated": true,
            "usesOnlyOneStackType": true,
            "doesNotUseFrameImplementation": true,
            "version": 24
        },
        "libs": [],
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
        "threads": threads
    })
    .to_string()
}

/// Strings of one thread, each once.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    index: HashMap<String, usize>,
}

impl Strings {
    fn add(&mut self, text: &str) -> usize {
        if let Some(i) = self.index.get(text) {
            return *i;
        }
        self.all.push(text.to_owned());
        self.index.insert(text.to_owned(), self.all.len() - 1);
        self.all.len() - 1
    }
}

fn thread(profile: &Profile, id: u32) -> Value {
    let samples: Vec<_> = profile.samples.iter().filter(|s| s.thread == id).collect();
    let info = &profile.run.threads[id as usize];
    let mut strings = Strings::default();
    let names: Vec<usize> = profile.frames.iter().map(|f| strings.add(&f.name)).collect();
    let modules: Vec<usize> = profile.frames.iter().map(|f| strings.add(&f.module)).collect();
    let files: Vec<Option<usize>> = profile.frames.iter().map(|f| f.file.as_deref().map(|x| strings.add(x))).collect();
    let lines: Vec<Option<u32>> = profile.frames.iter().map(|f| f.line).collect();
    let mut libraries: Vec<usize> = modules.clone();
    libraries.sort_unstable();
    libraries.dedup();
    let resources: Vec<usize> = modules.iter().map(|m| libraries.binary_search(m).unwrap_or(0)).collect();
    let (frames, stacks, n) = (profile.frames.len(), profile.stacks.len(), samples.len());
    let none = |n: usize| vec![Value::Null; n];
    let per_frame = |v: i64| vec![v; frames];
    json!({
        "name": format!("thread {}", info.tid),
        "processType": "default",
        "processName": profile.run.command.first(),
        "processStartupTime": 0.0,
        "processShutdownTime": null,
        "registerTime": samples.first().map_or(0.0, |s| s.t_s * 1e3),
        "unregisterTime": null,
        "pausedRanges": [],
        "isMainThread": info.pid == info.tid,
        "pid": info.pid.to_string(),
        "tid": info.tid,
        "frameTable": {
            "length": frames, "address": per_frame(-1), "inlineDepth": per_frame(0),
            "category": per_frame(1), "subcategory": per_frame(0), "func": (0..frames).collect::<Vec<_>>(),
            "nativeSymbol": none(frames), "innerWindowID": per_frame(0), "implementation": none(frames),
            "line": lines, "column": none(frames)
        },
        "funcTable": {
            "length": frames, "name": names, "isJS": vec![false; frames], "relevantForJS": vec![false; frames],
            "resource": resources, "fileName": files, "lineNumber": lines, "columnNumber": none(frames)
        },
        "resourceTable": {
            "length": libraries.len(), "lib": none(libraries.len()), "name": libraries,
            "host": none(libraries.len()), "type": vec![1; libraries.len()]
        },
        "stackTable": {
            "length": stacks, "frame": profile.stacks.iter().map(|s| s.frame).collect::<Vec<_>>(),
            "prefix": profile.stacks.iter().map(|s| s.parent).collect::<Vec<_>>(),
            "category": vec![1; stacks], "subcategory": vec![0; stacks]
        },
        "samples": {
            "length": n, "weightType": "tracing-ms",
            "stack": samples.iter().map(|s| s.stack).collect::<Vec<_>>(),
            "time": samples.iter().map(|s| s.t_s * 1e3).collect::<Vec<_>>(),
            "weight": samples.iter().map(|s| s.weight_s * 1e3).collect::<Vec<_>>(),
            "threadCPUDelta": samples.iter().map(|s| (s.weight_s * 1e6).round()).collect::<Vec<_>>()
        },
        "markers": {
            "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": []
        },
        "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
        "stringArray": strings.all
    })
}
