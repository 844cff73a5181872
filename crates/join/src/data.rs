//! Names for the data that lines come from: variables, the code that requested the memory, files; otherwise the kind of memory.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::code_map::CodeMap;
use super::modules::Pass;
use super::resolver::DataAt;
use rprof_profile::code::CodeRef;
use rprof_profile::data::{Data, DataKind, largest};
use rprof_profile::evidence::data::{Backing, DataEvidence, DataMapping, DataSample};

/// Libraries with functions that request memory from the kernel on behalf of their callers.
const ALLOCATORS: [&str; 9] =
    ["libc.", "libc-", "libstdc++.", "libc++", "ld-", "libgcc_s.", "libjemalloc.", "libtcmalloc", "libmimalloc."];
/// Functions that do so in programs that were linked with them; compilers' clones (`.isra.0`) are the same.
const ALLOCATING: [&str; 16] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "mmap",
    "mmap64",
    "__mmap",
    "__mmap64",
    "mremap",
    "__mremap",
    "mremap_chunk",
];
/// The same by the beginnings of their names, without return types.
const ALLOCATING_IN: [&str; 14] = [
    "_int_",
    "_mid_memalign",
    "sysmalloc",
    "__libc_",
    "operator new",
    "std::",
    "__gnu_cxx::",
    "alloc::",
    "<alloc::",
    "core::",
    "<core::",
    "__rust_",
    "__rdl_",
    "__rg_",
];

/// The data that lines belong to, without their number.
type Object = Rc<Data>;

/// Lines of one instruction: how many belong to each object.
#[derive(Debug)]
pub struct Lines {
    parts: Vec<(Object, f64)>,
    samples: usize,
    complete: bool,
}

/// Data of some instructions.
#[derive(Debug, Clone, Default)]
pub struct MeasuredData {
    /// Largest part first.
    pub data: Vec<Data>,
    /// Relative standard error of the largest share from the number of samples; `None` if the samples are complete.
    pub error: Option<f64>,
}

/// Names the lines of every instruction.
pub fn lines(evidence: &DataEvidence, code: &mut CodeMap) -> Vec<(CodeRef, Lines)> {
    let mut names = Names::new(evidence, code);
    let of_site = |site: &rprof_profile::evidence::data::SiteData| {
        let each = site.lines / site.samples.len().max(1) as f64;
        let mut parts: Vec<(Object, f64)> = Vec::new();
        for sample in &site.samples {
            let object = names.name(sample, code);
            match parts.iter_mut().find(|(known, _)| Rc::ptr_eq(known, &object)) {
                Some((_, lines)) => *lines += each,
                None => parts.push((object, each)),
            }
        }
        (site.at, Lines { parts, samples: site.samples.len(), complete: site.complete })
    };
    evidence.sites.iter().map(of_site).collect()
}

/// The shares of all `lines` by object.
pub fn shares<'a>(lines: impl Iterator<Item = &'a Lines>) -> MeasuredData {
    let (mut all, mut samples, mut complete, mut parts) = (0.0, 0, true, Vec::new());
    for of_site in lines {
        samples += of_site.samples;
        complete &= of_site.complete;
        for (object, lines) in &of_site.parts {
            all += lines;
            parts.push(Data { share: *lines, ..Data::clone(object) });
        }
    }
    if all <= 0.0 {
        return MeasuredData::default();
    }
    parts.iter_mut().for_each(|part| part.share /= all);
    let data = largest(parts);
    let share = data.first().map_or(1.0, |d| d.share);
    let error = (!complete).then(|| ((1.0 - share).max(0.0) / (share * samples as f64)).sqrt());
    MeasuredData { data, error }
}

/// Objects by key, so that each is looked up once.
struct Names<'e> {
    evidence: &'e DataEvidence,
    known: BTreeMap<(Option<u32>, u64), Object>,
    /// The code that requested each mapping, if known.
    askers: Vec<Option<String>>,
    /// Number of mappings that each of them requested.
    pieces: HashMap<String, u32>,
}

impl<'e> Names<'e> {
    fn new(evidence: &'e DataEvidence, code: &mut CodeMap) -> Self {
        let of_mapping = |mapping: &DataMapping| match &mapping.backing {
            Backing::Allocated { frames, stack: false } => asker(frames, code),
            _ => None,
        };
        let askers: Vec<Option<String>> = evidence.mappings.iter().map(of_mapping).collect();
        let mut pieces: HashMap<String, u32> = HashMap::new();
        askers.iter().flatten().for_each(|name| *pieces.entry(name.clone()).or_default() += 1);
        Names { evidence, known: BTreeMap::new(), askers, pieces }
    }

    fn name(&mut self, sample: &DataSample, code: &mut CodeMap) -> Object {
        let evidence = self.evidence;
        let number = sample.mapping.map_or(usize::MAX, |number| number as usize);
        let mapping = evidence.mappings.get(number);
        // Only modules hold several variables in one mapping.
        let in_module = matches!(mapping, Some(DataMapping { backing: Backing::Module { .. }, .. }));
        let key = (sample.mapping, if in_module { sample.address } else { 0 });
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let data = mapping.map_or_else(unmapped, |mapping| self.data((number, mapping), sample.address, code));
        let same = self.known.values().find(|known| ***known == data).cloned();
        let object = same.unwrap_or_else(|| Rc::new(data));
        self.known.insert(key, object.clone());
        object
    }

    fn data(&self, (number, mapping): (usize, &DataMapping), address: u64, code: &mut CodeMap) -> Data {
        let whole = |name: &str, kind| named(name, kind, Some(mapping.bytes));
        match &mapping.backing {
            Backing::Module { module, bias, behind } => {
                let Some(info) = self.evidence.modules.get(*module as usize) else { return unmapped() };
                match code.data(info, address.wrapping_sub(*bias)) {
                    DataAt::Variable { name, bytes } => named(&name, DataKind::Static, Some(bytes)),
                    DataAt::Outside if *behind => whole(ANONYMOUS, DataKind::Anonymous),
                    _ => whole(&format!("data of {}", info.file_name()), DataKind::Static),
                }
            }
            Backing::File(path) => whole(path.rsplit('/').next().unwrap_or(path), DataKind::File),
            Backing::Heap => whole("heap", DataKind::Heap),
            Backing::Stack => whole("stack", DataKind::Stack),
            Backing::Allocated { stack: true, .. } => whole("thread stack", DataKind::Stack),
            Backing::Allocated { .. } => match &self.askers[number] {
                Some(name) => Data { pieces: self.pieces[name], ..whole(name, DataKind::Allocated) },
                None => whole(ANONYMOUS, DataKind::Anonymous),
            },
            Backing::Anonymous => whole(ANONYMOUS, DataKind::Anonymous),
            Backing::Unread => named("memory of unknown mapping", DataKind::Unknown, None),
        }
    }
}

const ANONYMOUS: &str = "anonymous memory";

fn named(name: &str, kind: DataKind, bytes: Option<u64>) -> Data {
    Data { name: name.to_owned(), kind, share: 0.0, bytes, pieces: 1 }
}

fn unmapped() -> Data {
    named("memory unmapped since", DataKind::Unknown, None)
}

/// The code that used an allocator, as `function:line`, or the function alone.
fn asker(frames: &[CodeRef], code: &mut CodeMap) -> Option<String> {
    for frame in frames {
        let Some(place) = code.place(Pass::Counted, *frame) else { continue };
        let id = code.function(place);
        let known = code.known(id);
        if is_allocator(&known.module, &known.name) {
            continue;
        }
        let name = known.name.to_string();
        return Some(match code.host_line(place) {
            Some(line) => format!("{name}:{}", line.line),
            None => name,
        });
    }
    None
}

fn is_allocator(module: &str, function: &str) -> bool {
    let bare = function.split(['(', '<', '.']).next().unwrap_or(function);
    // `void* std::f` → `std::f`; `operator new` is one name.
    let bare = match bare.rsplit_once(' ') {
        Some((_, last)) if !bare.contains("operator") && !last.is_empty() => last,
        _ => bare,
    };
    ALLOCATORS.iter().any(|library| module.starts_with(library))
        || ALLOCATING.contains(&bare)
        || ALLOCATING_IN.iter().any(|prefix| bare.starts_with(prefix) || function.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_not_who_uses_the_memory() {
        for (module, function) in [
            ("libc.so.6", "libc.so.6+0x9e000"),
            ("app", "malloc"),
            ("app", "_int_malloc"),
            ("app", "sysmalloc_mmap.constprop.0"),
            ("app", "mremap_chunk.isra.0"),
            ("app", "operator new(unsigned long)"),
            ("app", "std::vector<double>::vector(unsigned long)"),
            ("app", "double* std::__uninitialized_fill<double>(double*)"),
            ("app", "<alloc::vec::Vec<f64> as core::clone::Clone>::clone"),
        ] {
            assert!(is_allocator(module, function), "{module} {function}");
        }
        for function in ["main", "make_grid(std::vector<double>&)", "app+0x1140", "Grid<double>::Grid(int)"] {
            assert!(!is_allocator("app", function), "{function}");
        }
    }

    #[test]
    fn shares_add_up_over_instructions() {
        let object = |name: &str| Rc::new(named(name, DataKind::Static, Some(64)));
        let (x, y) = (object("x"), object("y"));
        let line = |parts: Vec<(Object, f64)>, complete| Lines { parts, samples: 50, complete };
        let lines = [line(vec![(x.clone(), 30.0), (y.clone(), 10.0)], true), line(vec![(y, 40.0)], false)];
        let found = shares(lines.iter());
        let told: Vec<(&str, f64)> = found.data.iter().map(|d| (d.name.as_str(), d.share)).collect();
        assert_eq!(told, [("y", 0.625), ("x", 0.375)]);
        assert!(found.error.is_some_and(|e| (e - 0.0775).abs() < 1e-3));
        assert_eq!(shares(lines[..1].iter()).error, None);
        assert!(shares([].iter()).data.is_empty());
    }
}
