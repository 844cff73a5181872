//! Adds the calls of BLAS's matrix products up by call site and shape.
//!
//! A product within another one (`dgemm_` called by `cblas_dgemm`) is the outer call's work: only the outermost counts.

use std::collections::HashMap;

use nix::unistd::Pid;

use super::tally::Tally;
use crate::translator::calls::open_calls::{Open, OpenCalls};
use crate::translator::code_cache::blas_places::Entry;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::call_record::{CallRecord, ReturnRecord};
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use rprof_profile::blas::Dimensions;
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::blas::{BlasEvidence, BlasSite};
use rprof_tracee::address::Address;
use rprof_tracee::blas::functions::Element;
use rprof_tracee::blas::shape::{Shape, shape, values_behind};
use rprof_tracee::clock::TimeStamps;

/// The calls of a run.
#[derive(Debug, Default)]
pub struct BlasRecorder {
    sites: Vec<Site>,
    /// `None`: a call from memory that is in no module.
    by_place: HashMap<SiteKey, Option<u32>>,
    by_shape: HashMap<(u32, Shape), Option<u32>>,
    /// By thread.
    threads: HashMap<u32, OpenCalls<OpenCall>>,
    /// When each thread began to record addresses, or ended it: (time stamp, whether it does from then on).
    turns: HashMap<u32, Vec<(u64, bool)>>,
}

/// A call site of a thread.
#[derive(Debug)]
struct Site {
    at: CodeRef,
    callee: CodeRef,
    function: String,
    thread: u32,
    shapes: Vec<(Dimensions, Tally)>,
    others: Tally,
}

/// The key of a call site while the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SiteKey {
    address_space: Pid,
    thread: u32,
    place: u64,
    returns_to: u64,
}

/// A call that is going on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OpenCall {
    site: u32,
    /// `None`: its shape is one of those that are put together.
    shape: Option<u32>,
}

impl BlasRecorder {
    /// A thread records addresses from the time stamp `at` on, or no longer.
    pub fn turned(&mut self, thread: u32, at: u64, records: bool) {
        self.turns.entry(thread).or_default().push((at, records));
    }

    /// Whether a thread recorded addresses at some time of `from..to`; `now`: whether it does now.
    fn recorded(&self, thread: u32, from: u64, to: u64, now: bool) -> bool {
        let turns = self.turns.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = turns.partition_point(|(at, _)| *at <= from);
        let before = match first.checked_sub(1) {
            Some(last) => turns[last].1,
            None => turns.first().map_or(now, |(_, records)| !records),
        };
        before || turns[first..].iter().take_while(|(at, _)| *at < to).any(|(_, records)| *records)
    }

    /// A thread has got a signal.
    pub fn got_signal(&mut self, thread: u32) {
        self.threads.get_mut(&thread).map(OpenCalls::got_signal);
    }

    /// Notes a call, and watches its return.
    pub fn called(
        &mut self,
        (address_space, cache, thread): (&AddressSpace, &mut CodeCache, &Thread),
        entry: Entry,
        record: &CallRecord,
    ) {
        let CallRecord { place, stack, returns_to, executed, time, .. } = *record;
        let open = self.threads.entry(thread.ordinal).or_default();
        // A signal has put the thread back to the function's start: the same call once more.
        if open.repeats((place, stack, returns_to), executed) || open.is_jump(place, stack, returns_to) {
            return;
        }
        open.enter(stack);
        if open.innermost(|_| true).is_some() {
            return;
        }
        let (registers, behind) = record.arguments.split_at(6);
        let read;
        let behind = if entry.is_read_at_once() {
            let memory = |at: u64, buffer: &mut [u8]| address_space.memory.read(Address::new(at), buffer).is_ok();
            let Some(values) = values_behind(&entry.function, registers, &memory) else { return };
            read = values;
            &read[..]
        } else {
            behind
        };
        let Some(shape) = shape(&entry.function, registers, behind) else { return };
        let key = SiteKey { address_space: address_space.pid, thread: thread.ordinal, place, returns_to };
        let Some(site) = self.site(address_space, cache, entry, key) else { return };
        let shape = self.shape(site, shape, &entry);
        let what = OpenCall { site, shape };
        self.tally(what).calls += 1;
        let open = self.threads.entry(thread.ordinal).or_default();
        open.push(Open { place, stack, returns_to, time, executed, may_be_left: false, what });
        if cache.watched.watch_return(returns_to, false) {
            cache.invalidate(Address::new(returns_to), Address::new(returns_to + 1));
        }
    }

    /// Notes that a call has returned, if it is one of these.
    pub fn returned(&mut self, thread: &Thread, record: &ReturnRecord) {
        let Some(open) = self.threads.get_mut(&thread.ordinal) else { return };
        let Some(Open { what, time, .. }) = open.leave(record.place, record.stack) else { return };
        let is_slow = self.recorded(thread.ordinal, time, record.time, thread.version.collects());
        self.tally(what).returned(record.time.wrapping_sub(time), is_slow);
    }

    fn tally(&mut self, of: OpenCall) -> &mut Tally {
        let site = &mut self.sites[of.site as usize];
        match of.shape {
            Some(shape) => &mut site.shapes[shape as usize].1,
            None => &mut site.others,
        }
    }

    fn site(&mut self, address_space: &AddressSpace, cache: &CodeCache, entry: Entry, key: SiteKey) -> Option<u32> {
        if let Some(&site) = self.by_place.get(&key) {
            return site;
        }
        let caller = address_space.place(Address::new(key.returns_to.wrapping_sub(1)));
        let site = caller.zip(address_space.place(Address::new(key.place))).map(|(at, callee)| {
            let function = cache.watched.blas.name(entry).to_owned();
            let (shapes, others) = (Vec::new(), Tally::default());
            self.sites.push(Site { at, callee, function, thread: key.thread, shapes, others });
            self.sites.len() as u32 - 1
        });
        self.by_place.insert(key, site);
        site
    }

    /// The index of a shape among those of its site; `None` if the site has too many.
    fn shape(&mut self, site: u32, shape: Shape, entry: &Entry) -> Option<u32> {
        let shapes = &mut self.sites[site as usize].shapes;
        *self.by_shape.entry((site, shape)).or_insert_with(|| {
            if shapes.len() >= BlasEvidence::SHAPES {
                return None;
            }
            shapes.push((dimensions(shape, entry.function.element), Tally::default()));
            Some(shapes.len() as u32 - 1)
        })
    }

    /// Ends the run. `None`: no product was called.
    pub fn finish(self, clock: &TimeStamps) -> Option<BlasEvidence> {
        let ticks_per_s = clock.ticks_per_ns() * 1e9;
        let finished = |site: Site| {
            let finish = |(shape, tally): (Dimensions, Tally)| (shape, tally.finish(ticks_per_s));
            BlasSite {
                at: site.at,
                callee: site.callee,
                function: site.function,
                thread: site.thread,
                shapes: site.shapes.into_iter().map(finish).collect(),
                others: site.others.finish(ticks_per_s),
            }
        };
        (!self.sites.is_empty()).then(|| BlasEvidence { sites: self.sites.into_iter().map(finished).collect() })
    }
}

fn dimensions(shape: Shape, element: Element) -> Dimensions {
    let Shape { m, n, k, transposes, is_row_major } = shape;
    let transposes = transposes.iter().filter(|letter| **letter != 0).map(|letter| char::from(*letter)).collect();
    let (is_double, is_complex) = match element {
        Element::Single => (false, false),
        Element::Double => (true, false),
        Element::ComplexSingle => (false, true),
        Element::ComplexDouble => (true, true),
    };
    Dimensions { m, n, k, transposes, is_row_major, is_double, is_complex }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_slow_while_addresses_are_recorded() {
        let mut blas = BlasRecorder::default();
        assert!(blas.recorded(0, 1, 2, true) && !blas.recorded(0, 1, 2, false), "it never turned");
        [(100, false), (200, true), (300, false)].into_iter().for_each(|(at, records)| blas.turned(0, at, records));
        let slow = [(10, 20), (90, 110), (110, 190), (190, 210), (210, 290), (150, 350), (310, 320)]
            .map(|(from, to)| blas.recorded(0, from, to, false));
        assert_eq!(slow, [true, true, false, true, true, true, false]);
    }
}
