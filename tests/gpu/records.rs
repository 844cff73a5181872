//! What the collector assumes of CUPTI's records, parameters and numbers, against NVIDIA's headers of several versions.
//!
//! The assumed numbers are read out of the collector's source (crates/embedded/programs/collector/), which declares what it needs itself; here stand only the
//! fields' names, in the order in which the source reads or lists them. `RPROF_CUPTI_HEADERS` names a folder with a folder of headers for each
//! version; `tests/run` gets them (tests/pypi).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A structure of records or parameters: its name and its fields.
type Structure = (&'static str, &'static [&'static str]);

/// A value of C and what the collector takes it for.
struct Question {
    c: String,
    assumed: u64,
}

fn source(name: &str) -> String {
    let path = format!("{}/crates/embedded/programs/collector/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Several files of the collector, one after the other.
fn sources(names: &[&str]) -> String {
    names.iter().map(|name| source(name)).collect()
}

/// The folders of headers, by version; without them says that the test is skipped.
fn versions(test: &str) -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("RPROF_CUPTI_HEADERS") else {
        println!("SKIPPED: pypi: {test}: RPROF_CUPTI_HEADERS is not set; tests/run gets the headers");
        return Vec::new();
    };
    let mut folders: Vec<_> = fs::read_dir(folder).expect("headers").map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(!folders.is_empty(), "no headers");
    folders
}

fn header(version: &Path, name: &str) -> String {
    String::from_utf8_lossy(&fs::read(version.join(name)).expect("a header")).into_owned()
}

/// Compiles a program that prints the values, and compares. In C++: the header of the host API of 12.9 includes <string>.
fn ask(version: &Path, questions: &[Question]) {
    const INCLUDES: [&str; 6] = [
        "cuda.h",
        "cupti.h",
        "cupti_profiler_target.h",
        "cupti_profiler_host.h",
        "cupti_range_profiler.h",
        "cupti_target.h",
    ];
    let dir = tempfile::tempdir().unwrap();
    let (file, program) = (dir.path().join("ask.cc"), dir.path().join("ask"));
    let mut text = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    INCLUDES.iter().for_each(|name| text += &format!("#include <{name}>\n"));
    text += "int main(void) {\n";
    questions.iter().for_each(|question| text += &format!("printf(\"%zu\\n\", (size_t)({}));\n", question.c));
    text += "}\n";
    fs::write(&file, text).unwrap();
    let output =
        Command::new("g++").arg("-w").arg("-I").arg(version).arg(&file).arg("-o").arg(&program).output().unwrap();
    assert!(output.status.success(), "{}: {}", version.display(), String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).output().unwrap();
    let values = String::from_utf8(output.stdout).unwrap();
    assert_eq!(values.lines().count(), questions.len());
    let wrong: Vec<String> = questions
        .iter()
        .zip(values.lines())
        .filter(|(question, value)| question.assumed.to_string() != **value)
        .map(|(question, value)| format!("{} is {value}, the collector takes {}", question.c, question.assumed))
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}", version.display(), wrong.join("\n"));
}

fn offset(structure: &str, field: &str, assumed: u64) -> Question {
    Question { c: format!("offsetof({structure}, {field})"), assumed }
}

fn size(structure: &str, field: &str, assumed: u64) -> Question {
    Question { c: format!("sizeof((({structure} *)0)->{field})"), assumed }
}

/// The numbers at the front of a text, separated by commas.
fn numbers(text: &str) -> Vec<u64> {
    text.split(',').map_while(|word| word.trim().parse().ok()).collect()
}

/// Offsets that an arm of the `match` in `activity.rs` reads, in its order: `at(r, 16)`, `at::<u16>(r, 6)`, `[4, 5, 6].map(|offset| …)`.
fn offsets(source: &str, arm: &str) -> Vec<u64> {
    let start = source.find(&format!("            {arm} => ")).unwrap_or_else(|| panic!("no arm of {arm}"));
    let rest = &source[start..];
    let end =
        rest.find("\n            }\n").into_iter().chain(rest.find("),\n            _ =>")).min().expect("an end");
    let mut offsets = Vec::new();
    for (place, _) in rest[..end].match_indices(['(', '[']) {
        let after = &rest[place + 1..end];
        if let Some(argument) = after.strip_prefix("r, ") {
            offsets.extend(argument.split(')').next().unwrap().parse::<u64>());
        } else if let Some((list, map)) = after.split_once(']')
            && map.starts_with(".map(|offset|")
        {
            offsets.extend(numbers(list));
        }
    }
    offsets
}

/// The newest version of a structure: `CUpti_ActivityKernel13` for `CUpti_ActivityKernel`.
fn newest(header: &str, stem: &str) -> String {
    let version = |line: &str| {
        let digits = line.strip_prefix("} ")?.strip_prefix(stem)?.strip_suffix(';')?;
        if digits.is_empty() { Some(1) } else { digits.parse::<u32>().ok() }
    };
    match header.lines().filter_map(|line| version(line.trim_end())).max() {
        Some(1) => stem.to_owned(),
        Some(version) => format!("{stem}{version}"),
        None => panic!("no {stem}"),
    }
}

/// The value of a constant of the collector, a number or a list of numbers.
fn constant(source: &str, name: &str) -> Vec<u64> {
    let (_, rest) = source.split_once(&format!("const {name}: ")).unwrap_or_else(|| panic!("no constant {name}"));
    let value = rest.split_once(" = ").unwrap().1.split(';').next().unwrap();
    numbers(value.trim_matches(['[', ']']))
}

/// Records by the arm of `activity.rs` that reads them; a field's size in bytes after `:`.
const RECORDS: [(&str, Structure); 6] = [
    (
        "KERNEL",
        (
            "CUpti_ActivityKernel",
            &[
                "name:8",
                "start:8",
                "end:8",
                "graphNodeId:8",
                "gridX:4",
                "registersPerThread:2",
                "deviceId:4",
                "contextId:4",
                "streamId:4",
                "staticSharedMemory:4",
                "dynamicSharedMemory:4",
                "localMemoryPerThread:4",
            ],
        ),
    ),
    ("MEMCPY | MEMCPY_PEER", ("CUpti_ActivityMemcpy", COPY)),
    ("MEMCPY | MEMCPY_PEER", ("CUpti_ActivityMemcpyPtoP", COPY)),
    (
        "MEMSET",
        (
            "CUpti_ActivityMemset",
            &["memoryKind:2", "deviceId:4", "contextId:4", "streamId:4", "start:8", "end:8", "bytes:8"],
        ),
    ),
    (
        "SYNCHRONIZATION",
        ("CUpti_ActivitySynchronization", &["start:8", "end:8", "type:4", "contextId:4", "streamId:4"]),
    ),
    ("OVERHEAD", ("CUpti_ActivityOverhead", &["start:8", "end:8", "overheadKind:4"])),
];
const COPY: &[&str] =
    &["copyKind:1", "srcKind:1", "dstKind:1", "deviceId:4", "contextId:4", "streamId:4", "start:8", "end:8", "bytes:8"];

#[test]
fn records_have_their_fields_where_the_collector_reads_them() {
    let source = source("activity.rs");
    for version in versions("records_have_their_fields_where_the_collector_reads_them") {
        let header = header(&version, "cupti_activity.h");
        let mut questions = Vec::new();
        for (arm, (stem, fields)) in RECORDS {
            let (structure, offsets) = (newest(&header, stem), offsets(&source, arm));
            assert_eq!(offsets.len(), fields.len(), "{arm} reads {offsets:?}");
            questions.push(offset(&structure, "kind", 0));
            for (field, assumed) in fields.iter().zip(offsets) {
                let (field, bytes) = field.split_once(':').unwrap();
                questions.push(offset(&structure, field, assumed));
                questions.push(size(&structure, field, bytes.parse().unwrap()));
                if field == "gridX" {
                    let others = ["gridY", "gridZ", "blockX", "blockY", "blockZ"].iter().zip(1..);
                    questions.extend(others.map(|(field, place)| offset(&structure, field, assumed + 4 * place)));
                }
            }
        }
        ask(&version, &questions);
    }
}

/// Lists of parameters as `ranges.rs` writes them, with the structure that each describes: one word of 8 bytes for each entry, in which
/// fields that are smaller follow one another (`+`).
const PARAMETERS: [(&str, Structure); 20] = [
    ("[16, 0]", ("CUpti_Profiler_Initialize_Params", &["structSize", "pPriv"])),
    (
        "[52, 0, device as u32 as u64, 0, 0, 0, 0]",
        (
            "CUpti_Profiler_DeviceSupported_Params",
            &[
                "structSize",
                "pPriv",
                "cuDevice+isSupported",
                "architecture+sli",
                "vGpu+confidentialCompute",
                "cmp+wsl",
                "api",
            ],
        ),
    ),
    (
        "[32, 0, device as u32 as u64, 0]",
        ("CUpti_Device_GetChipName_Params", &["structSize", "pPriv", "deviceIndex", "pChipName"]),
    ),
    (
        "[32, 0, self.context as u64, 0]",
        ("CUpti_RangeProfiler_Enable_Params", &["structSize", "pPriv", "ctx", "pRangeProfilerObject"]),
    ),
    ("[24, 0, self.handle]", ("CUpti_RangeProfiler_Disable_Params", PROFILER)),
    ("[24, 0, self.handle]", ("CUpti_RangeProfiler_Start_Params", PROFILER)),
    ("[24, 0, self.handle]", ("CUpti_RangeProfiler_PopRange_Params", PROFILER)),
    (
        "[32, 0, self.handle, c\"graph\".as_ptr() as u64]",
        ("CUpti_RangeProfiler_PushRange_Params", &["structSize", "pPriv", "pRangeProfilerObject", "pRangeName"]),
    ),
    (
        "[48, 0, RANGE_PROFILER, chip, availability, 0]",
        (
            "CUpti_Profiler_Host_Initialize_Params",
            &["structSize", "pPriv", "profilerType", "pChipName", "pCounterAvailabilityImage", "pHostObject"],
        ),
    ),
    (
        "[40, 0, self.context as u64, 0, 0, 0]",
        (
            "CUpti_Profiler_GetCounterAvailability_Params",
            &["structSize", "pPriv", "ctx", "counterAvailabilityImageSize", "pCounterAvailabilityImage"],
        ),
    ),
    (
        "[40, 0, images.host, names, metrics]",
        (
            "CUpti_Profiler_Host_ConfigAddMetrics_Params",
            &["structSize", "pPriv", "pHostObject", "ppMetricNames", "numMetrics"],
        ),
    ),
    (
        "[32, 0, images.host, 0]",
        ("CUpti_Profiler_Host_GetConfigImageSize_Params", &["structSize", "pPriv", "pHostObject", "configImageSize"]),
    ),
    (
        "[40, 0, images.host, size[3], images.config as u64]",
        (
            "CUpti_Profiler_Host_GetConfigImage_Params",
            &["structSize", "pPriv", "pHostObject", "configImageSize", "pConfigImage"],
        ),
    ),
    (
        "[40, 0, size[3], images.config as u64, 0]",
        (
            "CUpti_Profiler_Host_GetNumOfPasses_Params",
            &["structSize", "pPriv", "configImageSize", "pConfigImage", "numOfPasses"],
        ),
    ),
    ("[64, 0, self.handle, names, metrics, BATCH as u64, BATCH as u64, 0]", DATA_SIZE),
    ("[64, 0, self.handle, images.kept_names, group.metrics as u64, BATCH as u64, BATCH as u64, 0]", DATA_SIZE),
    (
        "[40, 0, self.handle, data_size, data]",
        (
            "CUpti_RangeProfiler_CounterDataImage_Initialize_Params",
            &["structSize", "pPriv", "pRangeProfilerObject", "counterDataSize", "pCounterData"],
        ),
    ),
    (
        "[90, 0, self.handle, config_size, config, data_size, data, replay, BATCH as u64, levels, 0, 0]",
        (
            "CUpti_RangeProfiler_SetConfig_Params",
            &[
                "structSize",
                "pPriv",
                "pRangeProfilerObject",
                "configSize",
                "pConfig",
                "counterDataImageSize",
                "pCounterDataImage",
                "range+replayMode",
                "maxRangesPerPass",
                "numNestingLevels+minNestingLevel",
                "passIndex",
                "targetNestingLevel",
            ],
        ),
    ),
    (
        "[41, 0, self.handle, 0, 0, 0]",
        (
            "CUpti_RangeProfiler_Stop_Params",
            &["structSize", "pPriv", "pRangeProfilerObject", "passIndex", "targetNestingLevel", "isAllPassSubmitted"],
        ),
    ),
    (
        "[32, 0, self.handle, 0]",
        (
            "CUpti_RangeProfiler_DecodeData_Params",
            &["structSize", "pPriv", "pRangeProfilerObject", "numOfRangeDropped"],
        ),
    ),
];
const PROFILER: &[&str] = &["structSize", "pPriv", "pRangeProfilerObject"];
const DATA_SIZE: Structure = (
    "CUpti_RangeProfiler_GetCounterDataSize_Params",
    &[
        "structSize",
        "pPriv",
        "pRangeProfilerObject",
        "pMetricNames",
        "numMetrics",
        "maxNumOfRanges",
        "maxNumRangeTreeNodes",
        "counterDataSize",
    ],
);
/// The rest of [`PARAMETERS`].
const ANSWERS: [(&str, Structure); 2] = [
    (
        "[40, 0, data as u64, data_size as u64, 0]",
        (
            "CUpti_RangeProfiler_GetCounterDataInfo_Params",
            &["structSize", "pPriv", "pCounterDataImage", "counterDataImageSize", "numTotalRanges"],
        ),
    ),
    (
        "[72, 0, host, data as u64, data_size as u64, range as u64, names, metrics, values.as_mut_ptr() as u64]",
        (
            "CUpti_Profiler_Host_EvaluateToGpuValues_Params",
            &[
                "structSize",
                "pPriv",
                "pHostObject",
                "pCounterDataImage",
                "counterDataImageSize",
                "rangeIndex",
                "ppMetricNames",
                "numMetrics",
                "pMetricValues",
            ],
        ),
    ),
];

/// Structures that have a field more in versions after 13.0, which the collector leaves out: `STRUCT_SIZE` is above the size there.
const GROWN: [&str; 4] = [
    "CUpti_RangeProfiler_Enable_Params",
    "CUpti_Profiler_DeviceSupported_Params",
    "CUpti_Profiler_Host_Initialize_Params",
    "CUpti_Profiler_GetCounterAvailability_Params",
];

#[test]
fn parameters_have_the_sizes_and_fields_that_the_collector_passes() {
    let source = sources(&["ranges.rs", "groups.rs", "profiler.rs", "callbacks.rs"]);
    let all = || PARAMETERS.into_iter().chain(ANSWERS);
    // Every list of parameters in the source is one of those: a number, then 0.
    let lists = source.match_indices('[').filter(|(place, _)| {
        let text = &source[place + 1..];
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < text.len() && rest.starts_with(", 0")
    });
    for (place, _) in lists {
        let known = all().any(|(list, _)| source[place..].starts_with(list));
        assert!(known, "not compared with a header: {}", source[place..].lines().next().unwrap());
    }
    for version in versions("parameters_have_the_sizes_and_fields_that_the_collector_passes") {
        let mut questions = Vec::new();
        for (list, (structure, fields)) in all() {
            assert!(source.contains(list), "{list} is no longer in the collector");
            let assumed = numbers(&list[1..])[0];
            let c = format!("{structure}_STRUCT_SIZE");
            if GROWN.contains(&structure) && version.file_name() > Some("13.0".as_ref()) {
                questions.push(Question { c: format!("{c} > {assumed}"), assumed: 1 });
            } else {
                questions.push(Question { c, assumed });
            }
            for (word, names) in fields.iter().enumerate() {
                let mut place = (8 * word).to_string();
                for field in names.split('+') {
                    let c = format!("offsetof({structure}, {field}) == {place}");
                    questions.push(Question { c, assumed: 1 });
                    place += &format!(" + sizeof((({structure} *)0)->{field})");
                }
                if word + 1 == fields.len() {
                    questions.push(Question { c: place, assumed });
                }
            }
        }
        ask(&version, &questions);
    }
}

/// Constants of the collector and the names of C for their numbers.
const CONSTANTS: [(&str, &str, &[&str]); 25] = [
    ("activity.rs", "MEMCPY", &["CUPTI_ACTIVITY_KIND_MEMCPY"]),
    ("activity.rs", "MEMSET", &["CUPTI_ACTIVITY_KIND_MEMSET"]),
    ("activity.rs", "KERNEL", &["CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"]),
    ("activity.rs", "OVERHEAD", &["CUPTI_ACTIVITY_KIND_OVERHEAD"]),
    ("activity.rs", "MEMCPY_PEER", &["CUPTI_ACTIVITY_KIND_MEMCPY2"]),
    ("activity.rs", "SYNCHRONIZATION", &["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"]),
    ("activity.rs", "FORCED", &["CUPTI_ACTIVITY_FLAG_FLUSH_FORCED"]),
    ("callbacks.rs", "DRIVER_API", &["CUPTI_CB_DOMAIN_DRIVER_API"]),
    ("callbacks.rs", "RESOURCE", &["CUPTI_CB_DOMAIN_RESOURCE"]),
    ("callbacks.rs", "CONTEXT_DESTROYED", &["CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING"]),
    (
        "callbacks.rs",
        "LAUNCH_KERNEL",
        &["cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz"],
    ),
    ("callbacks.rs", "LAUNCH_KERNEL_EX", &["cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"]),
    ("callbacks.rs", "LAUNCH_GRAPH", &["cuGraphLaunch", "cuGraphLaunch_ptsz"]),
    (
        "callbacks.rs",
        "BEGIN_CAPTURE",
        &[
            "cuStreamBeginCapture",
            "cuStreamBeginCapture_ptsz",
            "cuStreamBeginCapture_v2",
            "cuStreamBeginCapture_v2_ptsz",
            "cuStreamBeginCaptureToGraph",
            "cuStreamBeginCaptureToGraph_ptsz",
            "cuStreamBeginRecaptureToGraph",
            "cuStreamBeginRecaptureToGraph_ptsz",
        ],
    ),
    ("callbacks.rs", "END_CAPTURE", &["cuStreamEndCapture", "cuStreamEndCapture_ptsz"]),
    ("callbacks.rs", "PER_THREAD", &["cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel_ptsz", "cuLaunchKernelEx_ptsz"]),
    ("callbacks.rs", "PER_THREAD_STREAM", &["CU_STREAM_PER_THREAD"]),
    ("callbacks.rs", "NO_ERROR", &["CUDA_SUCCESS"]),
    (
        "callbacks.rs",
        "BROKEN_CAPTURE",
        &["CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"],
    ),
    ("profiler.rs", "RANGE_PROFILER", &["CUPTI_PROFILER_TYPE_RANGE_PROFILER"]),
    ("profiler.rs", "AUTO_RANGE", &["CUPTI_AutoRange"]),
    ("profiler.rs", "USER_RANGE", &["CUPTI_UserRange"]),
    ("profiler.rs", "KERNEL_REPLAY", &["CUPTI_KernelReplay"]),
    ("profiler.rs", "USER_REPLAY", &["CUPTI_UserReplay"]),
    ("profiler.rs", "SUPPORTED", &["CUPTI_PROFILER_CONFIGURATION_SUPPORTED"]),
];

#[test]
fn numbers_of_callbacks_and_enumerations_are_those_of_the_headers() {
    for version in versions("numbers_of_callbacks_and_enumerations_are_those_of_the_headers") {
        let callbacks = header(&version, "cupti_driver_cbid.h");
        let mut questions = Vec::new();
        for (file, name, meanings) in CONSTANTS {
            let values = constant(&source(file), name);
            assert_eq!(values.len(), meanings.len(), "{name} is {values:?}");
            for (meaning, assumed) in meanings.iter().zip(values) {
                if !meaning.starts_with("cu") {
                    // A macro, an enumerator or a pointer: all convert to a number.
                    questions.push(Question { c: (*meaning).into(), assumed });
                    continue;
                }
                let c = format!("CUPTI_DRIVER_TRACE_CBID_{meaning}");
                let known = callbacks.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == c);
                assert!(known || assumed > 653, "{}: no {c}", version.display());
                questions.extend(known.then_some(Question { c, assumed }));
            }
        }
        ask(&version, &questions);
    }
}

#[test]
fn callbacks_find_context_kernel_and_shape_where_the_collector_looks() {
    let source = sources(&["ranges.rs", "groups.rs", "profiler.rs", "callbacks.rs"]);
    let read = |list: &[&str]| list.iter().for_each(|piece| assert!(source.contains(piece), "{piece} is gone"));
    // `struct Call` and `launch` in ranges.rs.
    read(&["site: u32,\n    function: *const c_char,\n    parameters: *const u8,\n    result: *const c_void,\n"]);
    read(&["symbol: *const c_char,\n    context: *mut c_void,\n}"]);
    read(&["call.parameters.cast::<*const u8>()", "call.parameters.add(8)", "call.parameters.add(40)", "shape.add("]);
    read(&[
        "{ 32 } else { 28 }",
        "data.cast::<*mut c_void>()",
        "entered = call.site == 0",
        "call.parameters.cast::<usize>()",
    ]);
    let shape = ["gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"];
    for version in versions("callbacks_find_context_kernel_and_shape_where_the_collector_looks") {
        let call =
            ["callbackSite", "functionName", "functionParams", "functionReturnValue", "symbolName", "context"].iter();
        let mut questions: Vec<_> =
            call.zip(0..).map(|(field, n)| offset("CUpti_CallbackData", field, 8 * n)).collect();
        for parameters in ["cuLaunchKernel_params", "cuLaunchCooperativeKernel_params"] {
            questions.extend(shape.iter().zip(0..).map(|(field, n)| offset(parameters, field, 8 + 4 * n)));
            questions.push(offset(parameters, "hStream", 40));
        }
        questions.extend(shape.iter().zip(0..).map(|(field, n)| offset("CUlaunchConfig", field, 4 * n)));
        questions.push(offset("CUlaunchConfig", "hStream", 32));
        questions.push(offset("cuLaunchKernelEx_params", "config", 0));
        questions.push(offset("cuGraphLaunch_params", "hGraph", 0));
        questions.push(offset("CUpti_ResourceData", "context", 0));
        questions.push(Question { c: "CUPTI_API_ENTER".into(), assumed: 0 });
        questions.push(Question { c: "CUPTI_API_EXIT".into(), assumed: 1 });
        ask(&version, &questions);
    }
}

/// `CUptiResult`s explained in `crates/device/src/refusals.rs`: the headers' names, in its order.
const RESULTS: [&str; 26] = [
    "INVALID_PARAMETER",
    "INVALID_DEVICE",
    "INVALID_CONTEXT",
    "INVALID_OPERATION",
    "OUT_OF_MEMORY",
    "HARDWARE",
    "PARAMETER_SIZE_NOT_SUFFICIENT",
    "API_NOT_IMPLEMENTED",
    "MAX_LIMIT_REACHED",
    "NOT_READY",
    "NOT_COMPATIBLE",
    "NOT_INITIALIZED",
    "INVALID_METRIC_NAME",
    "HARDWARE_BUSY",
    "NOT_SUPPORTED",
    "VIRTUALIZED_DEVICE_NOT_SUPPORTED",
    "INSUFFICIENT_PRIVILEGES",
    "OLD_PROFILER_API_INITIALIZED",
    "MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
    "VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
    "CONFIDENTIAL_COMPUTING_NOT_SUPPORTED",
    "CMP_DEVICE_NOT_SUPPORTED",
    "MIG_DEVICE_NOT_SUPPORTED",
    "SLI_DEVICE_NOT_SUPPORTED",
    "WSL_DEVICE_NOT_SUPPORTED",
    "UNKNOWN",
];

/// Device attributes of `crates/machine/src/gpu/driver/device.rs` and the headers' names for them.
const ATTRIBUTES: [(&str, &str); 14] = [
    ("CLOCK_KHZ", "CLOCK_RATE"),
    ("MULTIPROCESSORS", "MULTIPROCESSOR_COUNT"),
    ("INTEGRATED", "INTEGRATED"),
    ("MEMORY_CLOCK_KHZ", "MEMORY_CLOCK_RATE"),
    ("BUS_BITS", "GLOBAL_MEMORY_BUS_WIDTH"),
    ("L2_BYTES", "L2_CACHE_SIZE"),
    ("THREADS_PER_MULTIPROCESSOR", "MAX_THREADS_PER_MULTIPROCESSOR"),
    ("MAJOR", "COMPUTE_CAPABILITY_MAJOR"),
    ("MINOR", "COMPUTE_CAPABILITY_MINOR"),
    ("SHARED_PER_MULTIPROCESSOR", "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
    ("REGISTERS_PER_MULTIPROCESSOR", "MAX_REGISTERS_PER_MULTIPROCESSOR"),
    ("MANAGED", "MANAGED_MEMORY"),
    ("SHARED_OPT_IN", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
    ("MPS", "MPS_ENABLED"),
];

/// Constants of `crates/machine/src/gpu/driver/context.rs` and `transfer.rs` and the headers' names for them.
const DRIVER: [(&str, &str); 7] = [
    ("JIT_ERROR_LOG", "CU_JIT_ERROR_LOG_BUFFER"),
    ("JIT_ERROR_LOG_BYTES", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"),
    ("FUNCTION_LOCAL_BYTES", "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES"),
    ("FUNCTION_REGISTERS", "CU_FUNC_ATTRIBUTE_NUM_REGS"),
    ("FUNCTION_DYNAMIC_SHARED", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"),
    ("DEVICE_MAP", "CU_MEMHOSTALLOC_DEVICEMAP"),
    ("ATTACH_GLOBAL", "CU_MEM_ATTACH_GLOBAL"),
];

#[test]
fn results_and_attributes_have_the_numbers_of_the_headers() {
    let read = |path: &str| {
        let (name, file) = path.split_once('/').expect("a crate and a file");
        fs::read_to_string(format!("{}/crates/{name}/src/{file}", env!("CARGO_MANIFEST_DIR"))).expect(path)
    };
    // `(7, "invalid operation"),` in a list.
    let listed = |text: &str, from: &str| -> Vec<u64> {
        let list = text.split_once(from).expect(from).1.split_once("\n];").expect("an end").0;
        list.lines().filter_map(|line| numbers(line.trim().strip_prefix('(')?).first().copied()).collect()
    };
    let results = listed(&read("device/refusals.rs"), "const RESULTS: ");
    assert_eq!(results.len(), RESULTS.len(), "{results:?}");
    let codes = read("machine/gpu/codes.rs");
    let driver = read("machine/gpu/driver/context.rs") + &read("machine/gpu/driver/transfer.rs");
    let device = read("machine/gpu/driver/device.rs");
    for version in versions("results_and_attributes_have_the_numbers_of_the_headers") {
        let mut questions = Vec::new();
        for (name, assumed) in RESULTS.iter().zip(&results) {
            questions.push(Question { c: format!("CUPTI_ERROR_{name}"), assumed: *assumed });
        }
        for (ours, theirs) in ATTRIBUTES {
            let assumed = constant(&device, ours)[0];
            questions.push(Question { c: format!("CU_DEVICE_ATTRIBUTE_{theirs}"), assumed });
        }
        for (ours, theirs) in DRIVER {
            questions.push(Question { c: theirs.into(), assumed: constant(&driver, ours)[0] });
        }
        for (code, name) in codes_and_names(&codes) {
            questions.push(Question { c: format!("CUDA_ERROR_{name}"), assumed: code });
        }
        ask(&version, &questions);
    }
}

/// The numbers and names of `KNOWN` in `codes.rs`.
fn codes_and_names(source: &str) -> Vec<(u64, String)> {
    let list = source.split_once("const KNOWN: ").expect("the list").1.split_once("\n];").expect("an end").0;
    let words: Vec<&str> = list.split(['(', ',', '\n']).map(str::trim).filter(|word| !word.is_empty()).collect();
    let number = |word: &str| match word {
        "OUT_OF_MEMORY" => Some(2),
        "NO_DEVICE" => Some(100),
        other => other.parse().ok(),
    };
    let is_name =
        |word: &str| word.len() > 2 && word.starts_with('"') && word[1..].starts_with(|c: char| c.is_ascii_uppercase());
    let found: Vec<(u64, String)> = words
        .windows(2)
        .filter(|pair| is_name(pair[1]))
        .filter_map(|pair| Some((number(pair[0])?, pair[1].trim_matches('"').to_owned())))
        .collect();
    assert!(found.len() > 20, "{found:?}");
    found
}
