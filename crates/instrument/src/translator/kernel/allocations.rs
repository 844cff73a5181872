//! Large allocations that the program requests from the kernel, and their callers: the calls on the stack at the system call.
//!
//! Memory allocators pass requests of this size on to the kernel one by one, so that the first caller outside of them is the user
//! of the memory. rprof finds callers as the timed pass does: by the unwind tables of the mapped files.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder as _, UnwinderNative,
};
use nix::unistd::Pid;

use crate::translator::program::address_space::AddressSpace;
use crate::translator::translate::text_ranges::find_text;
use rprof_profile::code::CodeRef;
use rprof_tracee::address::Address;
use rprof_tracee::image::Image;
use rprof_tracee::thread::Registers;

/// Most calls that are reported for one allocation.
const MOST_FRAMES: usize = 24;

type Tables = UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>;

/// Unwind tables of the program's files.
#[derive(Default)]
pub struct AllocationCallers {
    images: HashMap<String, Option<Arc<Image>>>,
}

impl AllocationCallers {
    /// The calls on the stack of a thread of `address_space` at `ip`, innermost first.
    pub(crate) fn frames(&mut self, address_space: &AddressSpace, ip: Address, registers: &Registers) -> Vec<CodeRef> {
        let tables = self.tables(address_space);
        let mut read = |at| address_space.memory.read_u64(Address::new(at)).map_err(|_| ());
        let registers = UnwindRegsNative::new(ip.get(), registers.rsp, registers.rbp);
        let mut rules = CacheNative::<MayAllocateDuringUnwind>::new();
        let mut frames = tables.iter_frames(ip.get(), registers, &mut rules, &mut read);
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next()
            && found.len() < MOST_FRAMES
        {
            let at = Address::new(match frame {
                FrameAddress::InstructionPointer(ip) => ip,
                FrameAddress::ReturnAddress(to) => to.get() - 1,
            });
            let located = find_text(&address_space.text, at).and_then(|text| text.located);
            found.extend(located.map(|located| located.code_ref(at)));
        }
        found
    }

    /// Unwind tables of the executed text.
    fn tables(&mut self, address_space: &AddressSpace) -> Tables {
        let mut tables = Tables::new();
        let modules = address_space.modules.lock();
        for text in &address_space.text {
            let Some(located) = text.located else { continue };
            let Some(path) = modules.file(located.module) else { continue };
            if let Some(image) = self.image(address_space.pid, path) {
                let range = text.start.get()..text.end.get();
                tables.add_module(Module::new(String::new(), range, located.bias, image.unwind_sections()));
            }
        }
        tables
    }

    fn image(&mut self, pid: Pid, path: &str) -> Option<Arc<Image>> {
        if let Some(known) = self.images.get(path) {
            return known.clone();
        }
        let inside = PathBuf::from(format!("/proc/{pid}/root{path}"));
        let image = Image::read(&inside).ok().map(Arc::new);
        self.images.insert(path.to_owned(), image.clone());
        image
    }
}
