//! The modules of all passes as one list.

use std::collections::{HashMap, HashSet};

use rprof_profile::code::{CodeRef, ModuleInfo, ModuleKind};
use rprof_profile::evidence::ThreadInfo;
use rprof_profile::run::Module;
use rprof_profile::{Frame, Function};

/// Kind, identity, and what distinguishes modules with the same identity.
type Key = (ModuleKind, String, u32);

/// Which pass a [`CodeRef`] belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Indexes the timed evidence's modules.
    Timed,
    /// Indexes the counted evidence's modules.
    Counted,
}

/// A place in the joint modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Index into the joint modules.
    pub module: u32,
    /// ELF virtual address for files and the vdso, run-time address otherwise.
    pub offset: u64,
}

/// The joint modules and how each pass's modules map to them.
#[derive(Debug, Default)]
pub struct Modules {
    joint: Vec<ModuleInfo>,
    timed: Vec<u32>,
    counted: Vec<u32>,
    /// Processes of each pass that made code at run time, in the order of their creation.
    makers: [Vec<u32>; 2],
}

impl Modules {
    /// Joins the modules of both passes. A file is the same by build id; without one by path and by its number among the files that
    /// the pass saw there. The vdso is one; code made at run time belongs to its process.
    /// `threads` are those of both passes, in the order of their creation.
    pub fn new(timed: &[ModuleInfo], counted: &[ModuleInfo], threads: [&[ThreadInfo]; 2]) -> Self {
        let makers = [makers(timed, threads[0]), makers(counted, threads[1])];
        let mut modules = Modules { makers, ..Modules::default() };
        let mut known = HashMap::new();
        modules.timed = modules.add_all(timed, &mut known);
        modules.counted = modules.add_all(counted, &mut known);
        modules
    }

    /// The joint modules.
    pub fn joint(&self) -> &[ModuleInfo] {
        &self.joint
    }

    /// The place of `code` of `pass`; `None` if its module index is out of range.
    pub fn place(&self, pass: Pass, code: CodeRef) -> Option<Place> {
        let modules = match pass {
            Pass::Timed => &self.timed,
            Pass::Counted => &self.counted,
        };
        Some(Place { module: *modules.get(code.module as usize)?, offset: code.offset })
    }

    /// The number of the process that made the code of the joint module `module` at run time, among those of its pass; `None`
    /// unless both passes have such processes.
    pub fn maker(&self, module: u32) -> Option<u32> {
        if self.makers.iter().any(Vec::is_empty) {
            return None;
        }
        let pid = self.joint[module as usize].pid;
        let number = self.makers.iter().find_map(|pids| pids.iter().position(|&p| p == pid))?;
        Some(number as u32)
    }

    /// Adds those of a pass; returns their numbers among the joint ones.
    fn add_all(&mut self, infos: &[ModuleInfo], known: &mut HashMap<Key, u32>) -> Vec<u32> {
        let mut at_path: HashMap<&str, u32> = HashMap::new();
        let mut joint = Vec::new();
        for info in infos {
            let distinction = match info.kind {
                ModuleKind::Anonymous => info.pid,
                ModuleKind::File if info.build_id.is_none() => {
                    let seen = at_path.entry(&info.path).or_default();
                    std::mem::replace(seen, *seen + 1)
                }
                _ => 0,
            };
            let number = known.entry((info.kind, info.identity().to_owned(), distinction)).or_insert_with(|| {
                self.joint.push(info.clone());
                self.joint.len() as u32 - 1
            });
            joint.push(*number);
        }
        joint
    }
}

/// The files among `modules` that `frames` or `functions` are in.
pub fn of_functions(modules: &[ModuleInfo], frames: &[Frame], functions: &[Function]) -> Vec<Module> {
    let names = frames.iter().map(|frame| &*frame.module).chain(functions.iter().map(|f| &*f.module));
    let names: HashSet<&str> = names.collect();
    let mut files: Vec<Module> = Vec::new();
    for info in modules.iter().filter(|info| matches!(info.kind, ModuleKind::File | ModuleKind::Vdso)) {
        let file =
            Module { name: info.file_name().to_owned(), path: info.path.clone(), build_id: info.build_id.clone() };
        if names.contains(&*file.name) && !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The processes with anonymous code in `modules`.
fn makers(modules: &[ModuleInfo], threads: &[ThreadInfo]) -> Vec<u32> {
    let is_maker = |pid: u32| modules.iter().any(|m| m.kind == ModuleKind::Anonymous && m.pid == pid);
    let mut makers: Vec<u32> = Vec::new();
    for pid in threads.iter().map(|thread| thread.pid).filter(|&pid| is_maker(pid)) {
        if !makers.contains(&pid) {
            makers.push(pid);
        }
    }
    makers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(pid: u32) -> ThreadInfo {
        let (start_s, end_s, cpu_s) = (0.0, 0.0, 0.0);
        ThreadInfo { ordinal: 0, pid, tid: pid, name: None, start_s, end_s, cpu_s, allowed_cpus: None }
    }

    fn module(kind: ModuleKind, path: &str, build_id: Option<&str>, pid: u32, bias: u64) -> ModuleInfo {
        ModuleInfo { kind, path: path.into(), build_id: build_id.map(str::to_owned), pid, bias }
    }

    #[test]
    fn identity_joins_and_the_vdso_is_one_wherever_it_lies() {
        let timed = [
            module(ModuleKind::File, "/a", Some("1f"), 1, 0x1000),
            module(ModuleKind::Vdso, "[vdso]", None, 1, 0x7000),
            module(ModuleKind::Anonymous, "[anon]", None, 1, 0),
        ];
        let counted = [
            module(ModuleKind::Vdso, "[vdso]", None, 2, 0x9000),
            module(ModuleKind::File, "/moved/a", Some("1f"), 2, 0x2000),
            module(ModuleKind::Anonymous, "[anon]", None, 2, 0),
            module(ModuleKind::File, "/a", None, 2, 0),
        ];
        let threads = [[thread(1)], [thread(2)]];
        let modules = Modules::new(&timed, &counted, [&threads[0], &threads[1]]);
        let place = |pass, module, offset| modules.place(pass, CodeRef { module, offset });
        assert_eq!(place(Pass::Timed, 0, 5), place(Pass::Counted, 1, 5));
        assert_eq!(place(Pass::Timed, 1, 0x123), place(Pass::Counted, 0, 0x123));
        assert_eq!(place(Pass::Timed, 1, 0x123).map(|p| p.offset), Some(0x123), "its offsets count from its start");
        assert_ne!(place(Pass::Timed, 2, 5), place(Pass::Counted, 2, 5));
        assert_ne!(place(Pass::Timed, 0, 5), place(Pass::Counted, 3, 5));
        assert_eq!(place(Pass::Timed, 3, 5), None);
        let maker = |pass, module| modules.maker(modules.place(pass, CodeRef { module, offset: 0 }).unwrap().module);
        assert_eq!((maker(Pass::Timed, 2), maker(Pass::Counted, 2)), (Some(0), Some(0)));
        assert_eq!(Modules::new(&timed, &counted[..2], [&threads[0], &threads[1]]).maker(2), None);
    }

    #[test]
    fn a_profile_names_the_files_that_its_functions_are_in_once() {
        let modules = [
            module(ModuleKind::File, "/lib/libm.so.6 (deleted)", Some("2e"), 1, 0),
            module(ModuleKind::File, "/lib/unused.so", None, 1, 0),
            module(ModuleKind::Anonymous, "[anon]", None, 1, 0),
        ];
        let within = |module: &str| Function { module: module.into(), ..Function::default() };
        let files = of_functions(&modules, &[], &[within("libm.so.6"), within("libm.so.6"), within("[anon]")]);
        let path = "/lib/libm.so.6 (deleted)".into();
        assert_eq!(files, [Module { name: "libm.so.6".into(), path, build_id: Some("2e".into()) }]);
    }

    /// A library that a program writes anew has one path.
    #[test]
    fn files_of_one_path_without_build_id_are_joined_in_their_order() {
        let seen = || [1, 2].map(|pid| module(ModuleKind::File, "/a", None, pid, 0));
        let modules = Modules::new(&seen(), &seen(), [&[], &[]]);
        let place = |pass, module| modules.place(pass, CodeRef { module, offset: 5 });
        assert_eq!(modules.joint().len(), 2);
        assert_eq!(place(Pass::Timed, 0), place(Pass::Counted, 0));
        assert_eq!(place(Pass::Timed, 1), place(Pass::Counted, 1));
    }
}
