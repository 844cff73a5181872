//! Makes the steps in one rank.

use std::collections::HashMap;
use std::time::Instant;

use super::NetworkError;
use super::collective::Collective;
use super::hosts::Place;
use super::mpi::{Comm, Mpi};
use super::step::{Pair, Pattern, Step};
use super::team::{Stamps, Team};

/// Bytes that a rank's place has room in.
const PLACE: usize = 512;

/// One rank.
pub struct Rank {
    /// Its library.
    pub mpi: Mpi,
    /// Communicators by the number of their ranks.
    groups: HashMap<u32, Comm>,
    begun: Instant,
}

impl Rank {
    /// A rank with an initialised library.
    pub fn new(mpi: Mpi) -> Rank {
        Rank { mpi, groups: HashMap::new(), begun: Instant::now() }
    }

    /// The places of all ranks; empty in all but rank 0.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn places(&mut self) -> Result<Vec<Place>, NetworkError> {
        let mut own = rmp_serde::to_vec(&Place::own()).unwrap_or_default();
        own.resize(PLACE, 0);
        let all = self.mpi.gather(&own)?;
        all.iter().map(|bytes| rmp_serde::from_slice(bytes).map_err(|_| NetworkError::Step)).collect()
    }

    /// Rank 0's answer to a question, in all ranks.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn agree(&mut self, own: bool) -> Result<bool, NetworkError> {
        let answer = self.mpi.broadcast(&[u8::from(own)])?;
        Ok(answer.first() == Some(&1))
    }

    /// In the other ranks: makes the steps that rank 0 sends, until the last.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn follow(&mut self) -> Result<(), NetworkError> {
        loop {
            let bytes = self.mpi.broadcast(&[])?;
            let step: Step = rmp_serde::from_slice(&bytes).map_err(|_| NetworkError::Step)?;
            self.perform(&step)?;
            if step == Step::End {
                return Ok(());
            }
        }
    }

    fn perform(&mut self, step: &Step) -> Result<Stamps, NetworkError> {
        let (send, receive) = step.buffers();
        self.mpi.buffers(send, receive)?;
        let mut stamps = match step {
            Step::Messages { pairs, pattern, bytes, inner, rounds, expected_s } => {
                self.messages(pairs, *pattern, (*bytes, *inner, *rounds), *expected_s)?
            }
            Step::Stream { pairs, bytes, messages, expected_s } => {
                self.stream(pairs, *bytes, *messages, *expected_s)?
            }
            Step::Collective { call, members, bytes, rounds } => self.collective(*call, *members, *bytes, *rounds)?,
            Step::Rest(seconds) => {
                self.mpi.sleep(*seconds)?;
                Vec::new()
            }
            Step::End => Vec::new(),
        };
        if step.stamps() == 0 {
            return Ok(Vec::new());
        }
        stamps.resize(step.stamps(), 0);
        let bytes: Vec<u8> = stamps.iter().flat_map(|stamp| stamp.to_ne_bytes()).collect();
        let all = self.mpi.gather(&bytes)?;
        let words =
            |bytes: &Vec<u8>| bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect();
        Ok(all.iter().map(words).collect())
    }

    /// The other side of this rank, and whether this is the first side.
    fn partner(&self, pairs: &[Pair]) -> Option<(u32, bool)> {
        let own = self.mpi.rank;
        let (a, b) = *pairs.iter().find(|(a, b)| *a == own || *b == own)?;
        Some(if a == own { (b, true) } else { (a, false) })
    }

    fn messages(
        &mut self,
        pairs: &[Pair],
        pattern: Pattern,
        (bytes, inner, rounds): (u64, u32, u32),
        expected_s: f64,
    ) -> Result<Vec<u64>, NetworkError> {
        let partner = self.partner(pairs);
        self.mpi.barrier()?;
        let Some((other, is_first)) = partner else {
            self.mpi.sleep(expected_s)?;
            return Ok(Vec::new());
        };
        self.mpi.blocks(rounds, 2, |mpi, stamp| {
            let mut calls = Vec::new();
            let mut answer = bytes;
            if let Pattern::Drained(drain) = pattern {
                calls.push(mpi.exchange(drain, other)?);
                // The second has all of the first's bytes then: none of them are still under way.
                calls.push(if is_first { mpi.receive(0, other)? } else { mpi.send(0, other)? });
                answer = 0;
            }
            calls.push(mpi.stamp(stamp)?);
            for _ in 0..inner {
                match (pattern, is_first) {
                    (Pattern::Exchange, _) => calls.push(mpi.exchange(bytes, other)?),
                    (_, true) => calls.extend([mpi.send(bytes, other)?, mpi.receive(answer, other)?]),
                    (_, false) => calls.extend([mpi.receive(bytes, other)?, mpi.send(answer, other)?]),
                }
            }
            calls.push(mpi.stamp(stamp + 1)?);
            Ok(calls)
        })
    }

    fn stream(&mut self, pairs: &[Pair], bytes: u64, messages: u32, expected_s: f64) -> Result<Vec<u64>, NetworkError> {
        let partner = self.partner(pairs);
        self.mpi.barrier()?;
        match partner {
            None => {
                self.mpi.sleep(expected_s)?;
                Ok(Vec::new())
            }
            Some((to, true)) => {
                self.mpi.blocks(messages, 0, |mpi, _| Ok(vec![mpi.send(bytes, to)?]))?;
                // An empty answer: the receiver has all.
                self.mpi.blocks(1, 0, |mpi, _| Ok(vec![mpi.receive(0, to)?]))?;
                Ok(Vec::new())
            }
            Some((from, false)) => {
                let mut is_begun = false;
                let stamps = self.mpi.blocks(messages + 1, 1, |mpi, stamp| {
                    let mut calls = vec![mpi.stamp(stamp)?];
                    if is_begun {
                        calls.insert(0, mpi.receive(bytes, from)?);
                    }
                    is_begun = true;
                    Ok(calls)
                })?;
                self.mpi.blocks(1, 0, |mpi, _| Ok(vec![mpi.send(0, from)?]))?;
                Ok(stamps)
            }
        }
    }

    fn collective(
        &mut self,
        call: Collective,
        members: u32,
        bytes: u64,
        rounds: u32,
    ) -> Result<Vec<u64>, NetworkError> {
        let comm = if members == self.mpi.ranks { self.mpi.world() } else { self.group(members)? };
        let is_complete = self.mpi.rank / members < self.mpi.ranks / members;
        self.mpi
            .blocks(rounds, 2, |mpi, stamp| {
                let mut calls = Vec::new();
                if !call.synchronizes() {
                    calls.push(mpi.collective(Collective::Barrier, 0, 1, mpi.world())?);
                }
                if is_complete {
                    calls.push(mpi.stamp(stamp)?);
                    calls.push(mpi.collective(call, bytes, members, comm)?);
                    calls.push(mpi.stamp(stamp + 1)?);
                }
                Ok(calls)
            })
            .map(|stamps| if is_complete { stamps } else { Vec::new() })
    }

    fn group(&mut self, members: u32) -> Result<Comm, NetworkError> {
        if let Some(comm) = self.groups.get(&members) {
            return Ok(*comm);
        }
        let comm = self.mpi.split(self.mpi.rank / members)?;
        self.groups.insert(members, comm);
        Ok(comm)
    }
}

impl Team for Rank {
    fn lead(&mut self, step: &Step) -> Result<Stamps, NetworkError> {
        let bytes = rmp_serde::to_vec(step).map_err(|_| NetworkError::Step)?;
        self.mpi.broadcast(&bytes)?;
        self.perform(step)
    }

    fn elapsed_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}
