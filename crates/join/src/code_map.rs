//! The functions of a program, each address range resolved once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::modules::{Modules, Pass, Place};
use super::resolver::{DataAt, InlinedAt, Resolver, SourceLine};
use rprof_profile::code::{CodeRef, ModuleInfo, ModuleKind};
use rprof_profile::evidence::ThreadInfo;

/// Index of a function in the [`CodeMap`].
pub type FunctionId = u32;

/// A function with evidence.
#[derive(Debug, Clone, Default)]
pub struct KnownFunction {
    /// Full demangled name.
    pub name: Arc<str>,
    /// Whether a symbol names it.
    pub named: bool,
    /// Displayed name of the module.
    pub module: Arc<str>,
    /// Its first instruction; `None` for stand-ins such as `[kernel]`.
    pub place: Option<Place>,
    /// Its code was made at run time.
    pub made_at_run_time: bool,
    /// Its code ranges with evidence, in the joint module.
    pub parts: Vec<(u64, u64)>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Place(Place),
    /// Code made at run time moves from pass to pass; its symbol stays.
    Name(Arc<str>),
    /// All code without symbols that the process of this number made at run time, if both passes have some.
    Made(u32),
}

/// Interns functions and asks the resolver once per code range.
pub struct CodeMap<'r> {
    resolver: &'r mut dyn Resolver,
    modules: Modules,
    parts: Vec<BTreeMap<u64, (u64, FunctionId)>>,
    functions: Vec<KnownFunction>,
    by_key: HashMap<Key, FunctionId>,
    /// The program has one thread, and no other rank: nothing else changes its memory.
    pub is_alone: bool,
}

impl<'r> CodeMap<'r> {
    /// An empty map over `modules` of a program with these `threads`, by pass.
    pub fn new(modules: Modules, threads: [&[ThreadInfo]; 2], resolver: &'r mut dyn Resolver) -> Self {
        let parts = modules.joint().iter().map(|_| BTreeMap::new()).collect();
        let is_rank = modules.joint().iter().any(|module| module.file_name().starts_with("libmpi"));
        let is_alone = !is_rank && threads.iter().all(|of_pass| of_pass.len() <= 1);
        CodeMap { resolver, modules, parts, functions: Vec::new(), by_key: HashMap::new(), is_alone }
    }

    /// The place of `code` of `pass`.
    pub fn place(&self, pass: Pass, code: CodeRef) -> Option<Place> {
        self.modules.place(pass, code)
    }

    /// Passes the targets of executed calls on to the resolver.
    pub fn call_targets(&mut self, targets: &mut [Place]) {
        targets.sort_unstable();
        for of_module in targets.chunk_by(|a, b| a.module == b.module) {
            let addresses: Vec<u64> = of_module.iter().map(|p| p.offset).collect();
            self.resolver.call_targets(&self.modules.joint()[of_module[0].module as usize], &addresses);
        }
    }

    /// The function at `place`.
    pub fn function(&mut self, place: Place) -> FunctionId {
        self.part(place).1
    }

    /// End of the code range around `place`, and its function.
    pub fn part(&mut self, place: Place) -> (u64, FunctionId) {
        let parts = &self.parts[place.module as usize];
        if let Some((_, (end, function))) = parts.range(..=place.offset).next_back()
            && place.offset < *end
        {
            return (*end, *function);
        }
        self.resolve(place)
    }

    /// A function without code that evidence is attributed to, such as `[kernel]`.
    pub fn stand_in(&mut self, name: &str) -> FunctionId {
        let name: Arc<str> = name.into();
        let function = KnownFunction { name: name.clone(), module: name.clone(), ..KnownFunction::default() };
        self.intern(Key::Name(name), function)
    }

    /// The known function with this id.
    pub fn known(&self, function: FunctionId) -> &KnownFunction {
        &self.functions[function as usize]
    }

    /// Number of known functions.
    pub fn count(&self) -> usize {
        self.functions.len()
    }

    /// Source line at `place`.
    pub fn line(&mut self, place: Place) -> Option<SourceLine> {
        self.resolver.line(&self.modules.joint()[place.module as usize], place.offset)
    }

    /// Source line at `place` in the function that holds it, not in functions inlined there.
    pub fn host_line(&mut self, place: Place) -> Option<SourceLine> {
        self.resolver.host_line(&self.modules.joint()[place.module as usize], place.offset)
    }

    /// Source line at `place` in `file`: of the innermost function inlined there with its line in `file`, or of its host after them. A
    /// line of another file if there is none.
    pub fn line_in(&mut self, place: Place, file: Option<&str>) -> Option<SourceLine> {
        let frames = self.inlined(place).into_iter().map(|frame| frame.line).chain([self.host_line(place)]);
        let own = frames.flatten().find(|line| Some(&*line.file) == file);
        own.or_else(|| self.line(place))
    }

    /// The line of the loop with its first instruction at `header` and its jump back at `latch`; `function`: file and line of the
    /// function that it is in. The jump's, if the header has no line, or one of what is called in the loop, or that of the function,
    /// which compilers give what they move.
    pub fn line_of_loop(
        &mut self,
        (header, latch): (Place, Place),
        function: (Option<&str>, Option<u32>),
    ) -> Option<SourceLine> {
        let at_header = self.line_in(header, function.0);
        let is_own = self.inlined(header).len() <= self.inlined(latch).len();
        let is_function = |line: &SourceLine| Some(&*line.file) == function.0 && Some(line.line) == function.1;
        let known = at_header.clone().filter(|line| is_own && !is_function(line));
        known.or_else(|| self.line_in(latch, function.0)).or(at_header)
    }

    /// Inlined functions at `place`, innermost first.
    pub fn inlined(&mut self, place: Place) -> Vec<InlinedAt> {
        self.resolver.inlined(&self.modules.joint()[place.module as usize], place.offset)
    }

    /// The object that the memory at `offset` of a module belongs to.
    pub fn data(&mut self, module: &ModuleInfo, offset: u64) -> DataAt {
        self.resolver.data(module, offset)
    }

    /// Code from `place` to `end`.
    pub fn code(&mut self, place: Place, end: u64) -> Option<Vec<u8>> {
        self.resolver.code(&self.modules.joint()[place.module as usize], place.offset, end)
    }

    /// The modules of all passes.
    pub fn modules(&self) -> &[ModuleInfo] {
        self.modules.joint()
    }

    /// The resolver, for its doubts.
    pub fn resolver(&self) -> &dyn Resolver {
        self.resolver
    }

    fn resolve(&mut self, place: Place) -> (u64, FunctionId) {
        let module = &self.modules.joint()[place.module as usize];
        let found = self.resolver.function(module, place.offset);
        let made_at_run_time = module.kind == ModuleKind::Anonymous;
        let start = Place { offset: found.start, ..place };
        let maker = (made_at_run_time && !found.named).then(|| self.modules.maker(place.module));
        let (key, name) = match maker.flatten() {
            Some(maker) => (Key::Made(maker), format!("{}+0x0", found.module).into()),
            None if made_at_run_time && found.named => (Key::Name(found.name.clone()), found.name),
            None => (Key::Place(start), found.name),
        };
        let known = KnownFunction {
            name,
            named: found.named,
            module: found.module,
            place: Some(start),
            made_at_run_time,
            parts: Vec::new(),
        };
        let id = self.intern(key, known);
        // A resolver that returns a range without the address would make every look-up a new one.
        let (from, to) = (found.part_start.min(place.offset), found.part_end.max(place.offset.saturating_add(1)));
        self.parts[place.module as usize].insert(from, (to, id));
        self.functions[id as usize].parts.push((from, to));
        (to, id)
    }

    fn intern(&mut self, key: Key, function: KnownFunction) -> FunctionId {
        let functions = &mut self.functions;
        *self.by_key.entry(key).or_insert_with(|| {
            functions.push(function);
            functions.len() as u32 - 1
        })
    }
}
