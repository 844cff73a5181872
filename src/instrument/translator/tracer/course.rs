//! Reports executions to the access sink.

use std::time::Instant;

use crate::instrument::translator::counts::execution_deltas::Told;
use crate::instrument::translator::tracer::run::Run;

impl Run {
    /// Reports the executions since the previous window to the access sink, unless that takes too long.
    pub fn tell_course(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        // The deferred work belongs to earlier windows, and rprof has to do it anyway.
        drain.catch_up();
        let begin = Instant::now();
        if self.told.is_too_soon(begin) {
            return;
        }
        let mut seen = Vec::new();
        for process in self.processes.values() {
            let space = &process.image.space;
            if seen.contains(&space.as_ptr()) {
                continue;
            }
            seen.push(space.as_ptr());
            let of_space = |id| self.processes.get(id).is_some_and(|p| p.image.space.as_ptr() == space.as_ptr());
            let live = self.threads.values().filter(|thread| of_space(&thread.process));
            let live = live.map(|thread| (thread.regions.borrow(), thread.region));
            // Otherwise the cache is in use: the next report includes it.
            if let Ok(mut space) = space.try_borrow_mut() {
                space.tell_course(live, drain);
            }
        }
        drain.tell_course();
        self.told = Told::since(begin);
    }
}
