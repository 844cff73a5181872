//! A superblock that is being written: code, exits, and links that are still missing.

use iced_x86::InstructionInfoFactory;

use crate::translator::code_cache::block::{BlockId, SiteId};
use crate::translator::code_cache::layout;
use crate::translator::code_cache::version::Version;
use crate::translator::translate::arrival::Arrival;
use crate::translator::translate::inlined_body::InlinedBody;
use crate::x86_64::emit::{Code, relative};
use crate::x86_64::rewrite::{NoRule, Slots};
use rprof_tracee::address::{Address, CacheAddress};

pub(crate) const SLOTS: Slots = Slots { lent: layout::SAVE_LENT, program_gs: layout::PROGRAM_GS };

/// Why nothing was translated.
#[derive(Debug, thiserror::Error)]
pub enum TranslateError {
    /// There is no text at that address.
    #[error("no text at {0}")]
    NoText(Address),
    /// The arenas are full.
    #[error("the code cache is full")]
    Full,
    /// An instruction cannot be translated.
    #[error(transparent)]
    NoRule(#[from] NoRule),
}

/// A comparison that a lookup leads to once its code is in place: a landing, or a hot block with the comparison before it.
#[derive(Debug)]
pub(crate) struct PendingBucket {
    pub(crate) arrival: Arrival,
    pub(crate) at: Address,
    pub(crate) head: CacheAddress,
    /// The rel32 of the jump for a different address.
    pub(crate) other: CacheAddress,
}

/// State that a block hands to the one behind it.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    /// That one has no counter in line: the block before it, and the counter of that block's exits to elsewhere.
    pub(crate) flow: Option<(BlockId, Option<u32>)>,
    /// That one begins with RCX in its slot.
    pub(crate) rcx_spilled: bool,
}

/// A superblock that is being written.
pub(crate) struct Superblock {
    pub(crate) arena: usize,
    pub(crate) version: Version,
    pub(crate) hot: Code,
    pub(crate) cold: Code,
    pub(crate) sites: Vec<SiteId>,
    pub(crate) blocks: Vec<BlockId>,
    /// Comparisons that lookups will lead to.
    pub(crate) heads: Vec<PendingBucket>,
    /// Number of the relayout that writes it; 0 if none does.
    pub(crate) places: u32,
    /// State that the block written last hands to the next one.
    pub(crate) handed: Handed,
    /// The inlined body that the present block belongs to.
    pub(crate) copy: Option<InlinedBody>,
    /// Blocks that were written before: (old copy, new copy).
    pub(crate) superseded: Vec<(BlockId, BlockId)>,
    pub(crate) factory: InstructionInfoFactory,
}

impl Superblock {
    /// An empty one, of `version`, that begins at the next free addresses of an arena.
    pub(crate) fn new(arena: usize, version: Version, hot: Code, cold: Code) -> Self {
        Superblock {
            arena,
            version,
            hot,
            cold,
            sites: vec![],
            blocks: vec![],
            heads: vec![],
            places: 0,
            handed: Handed::default(),
            copy: None,
            superseded: vec![],
            factory: InstructionInfoFactory::new(),
        }
    }

    /// Whether it has no blocks yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The block that was written last.
    pub(crate) fn last(&self) -> Option<BlockId> {
        self.blocks.last().copied()
    }

    /// The four bytes at `at`, if they belong to the superblock.
    pub(crate) fn word(&self, at: CacheAddress) -> Option<u32> {
        self.hot.word_at(at).or_else(|| self.cold.word_at(at))
    }

    /// Overwrites them.
    pub(crate) fn set_word(&mut self, at: CacheAddress, value: u32) {
        let code = if self.cold.holds(at) { &mut self.cold } else { &mut self.hot };
        code.set_word(at, value);
    }

    /// Sets the jump with its rel32 at `jump` to the next address of the cold part.
    pub(crate) fn lead_to_cold(&mut self, jump: CacheAddress) {
        let here = self.cold.here();
        self.set_word(jump, relative(jump, here));
    }
}
