//! Forked processes share translations until one of them has different text at an address that the others have translated or
//! could translate, or needs another arena, which the others would not have. Then it gets a code cache of its own.
//!
//! ```text
//!  learns text ─▶ do relatives have other bytes there? ─▶ hold its threads ─▶ new tables, regions, arenas
//!                                                              └▶ each goes on at its own program counter ◀┘
//! ```

use std::sync::Arc;

use nix::unistd::Pid;

use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::syscall_table::allow_rseq;
use crate::instrument::translator::kernel::prepare_image;
use crate::instrument::translator::program::image::ImageRef;
use crate::instrument::translator::sampling::access_buffer::enter;
use crate::instrument::translator::tracer::run::{Run, RunError};
use crate::instrument::translator::tracer::stop_the_world::Held;
use crate::instrument::translator::translate::text_ranges::Treatment;
use crate::tracee::address::Address;
use crate::tracee::memory::Memory;
use crate::tracee::restarts::restart_call;
use crate::tracee::thread::Stopped;

/// Bytes compared at once.
const PIECE: u64 = 1 << 16;
impl Run {
    /// Whether the new text of address space `space` at `from..to` differs from that of the processes that share its code cache.
    pub fn differs_from_relatives(&self, space: Pid, from: Address, to: Address, treatment: Treatment) -> bool {
        let Some(address_space) = self.address_spaces.get(&space) else { return false };
        if !address_space.image.is_shared() {
            return false;
        }
        let code = address_space.image.cache.borrow();
        if treatment != Treatment::Translate {
            return code.holds_blocks(from, to);
        }
        if code.foreign_block(&address_space.memory, from, to) {
            return true;
        }
        let relatives = self
            .address_spaces
            .iter()
            .filter(|&(&id, p)| id != space && Arc::ptr_eq(&p.image.cache, &address_space.image.cache));
        relatives.into_iter().any(|(_, relative)| {
            let overlapping = relative.text.iter().filter(|t| t.is_translated_in(from, to));
            overlapping
                .into_iter()
                .any(|t| differ(&address_space.memory, &relative.memory, t.start.max(from), t.end.min(to)))
        })
    }

    /// Whether other address spaces share the translations of that of `tid`.
    pub fn has_relatives(&self, tid: Pid) -> bool {
        let address_space = self.threads.get(&tid).and_then(|t| self.address_spaces.get(&t.address_space));
        address_space.is_some_and(|p| p.image.is_shared())
    }

    /// Gives the address space of `stopped` a code cache of its own. All its other threads continue in it; `stopped` is ready to
    /// continue.
    pub fn part(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let (space, pid) = self.threads.get(&tid).map(|t| (t.address_space, t.pid)).ok_or(RunError::Gone)?;
        self.ensure_room_allowed(pid)?;
        let mut ready = Vec::new();
        for held in self.hold(space, Some(tid)) {
            match self.leave_cache(held.stopped) {
                Ok(stopped) => ready.push(Held { stopped, ..held }),
                Err(RunError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        let first = self.leave_cache(stopped)?;
        let first = self.renew(space, first)?;
        for held in ready {
            match self.move_on(held) {
                Ok(()) | Err(RunError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        self.move_over(first)
    }

    /// New tables, regions and arenas; the old ones are unmapped there.
    fn renew(&mut self, space: Pid, stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let members: Vec<Pid> =
            self.threads.iter().filter(|(_, t)| t.address_space == space).map(|(&id, _)| id).collect();
        for &id in &members {
            self.end_burst(id);
            self.drain_buffer(id);
        }
        let polling = self.is_polling();
        let address_space = self.address_spaces.get_mut(&space).ok_or(RunError::Gone)?;
        let old = address_space.image.clone();
        let (image, stopped, signals) = prepare_image::renew(address_space, stopped)?;
        let mut code = image.0;
        code.has_sink = self.recording.drain.is_some();
        code.set_polling(polling);
        code.prepare_traces(&image.1);
        if self.visits {
            allow_rseq(&code.tables);
        }
        let new = ImageRef::new(code, image.1, self.looks.settings);
        address_space.image = new.clone();
        address_space.pages.borrow_mut().forget();
        for id in members {
            let Some(thread) = self.threads.get_mut(&id) else { continue };
            self.marks.moved(&mut old.cache.borrow_mut(), thread);
            let region = new.regions.borrow_mut().take()?;
            {
                let (from, to) = (old.regions.borrow(), new.regions.borrow());
                for offset in [layout::PROGRAM_GS, layout::SIGNAL_MASK] {
                    to.set(region, offset, from.get(thread.region, offset));
                }
                old.cache.borrow_mut().take_counters(&from, thread.region, thread.ordinal);
            }
            old.regions.borrow_mut().give_back(thread.region);
            (thread.region, thread.regions) = (region, new.regions.clone());
            enter(&mut self.recording.drain, &new.regions.borrow(), region, thread.ordinal, thread.version);
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            signals.into_iter().for_each(|(signal, info)| thread.defer(signal, info));
        }
        Ok(stopped)
    }

    fn move_on(&mut self, held: Held) -> Result<(), RunError> {
        let stopped = self.move_over(held.stopped)?;
        if let (Some((signal, info)), Some(thread)) = (held.signal, self.threads.get_mut(&stopped.tid())) {
            thread.defer(signal, info);
        }
        if held.job {
            stopped.listen()?;
            return Ok(());
        }
        self.go_on(stopped)
    }

    /// Moves a thread whose registers are the program's to the new code cache.
    fn move_over(&mut self, stopped: Stopped) -> Result<Stopped, RunError> {
        let thread = self.threads.get(&stopped.tid()).ok_or(RunError::Gone)?;
        let base = thread.regions.borrow().base(thread.region);
        let mut registers = stopped.registers()?;
        restart_call(&mut registers);
        registers.gs_base = base.get();
        let at = Address::new(registers.rip);
        self.redirect(stopped, registers, at)
    }
}

/// Whether two processes have different bytes at `from..to`.
fn differ(one: &Memory, other: &Memory, from: Address, to: Address) -> bool {
    let mut at = from;
    let (mut a, mut b) = (vec![0; PIECE as usize], vec![0; PIECE as usize]);
    while at < to {
        let size = (to - at).min(PIECE) as usize;
        if one.read(at, &mut a[..size]).is_err() || other.read(at, &mut b[..size]).is_err() || a[..size] != b[..size] {
            return true;
        }
        at = at + size as u64;
    }
    false
}
