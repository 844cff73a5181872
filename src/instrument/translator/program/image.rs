//! The code cache and the regions of one program image.

use std::sync::Arc;

use atomic_refcell::AtomicRefCell;

use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::regions::Regions;
use crate::instrument::translator::relayout::hot_code::{Placing, PlacingSettings};

/// The code cache and regions that all processes with one program image share.
#[derive(Debug, Clone)]
pub struct ImageRef {
    /// Translations.
    pub cache: Arc<AtomicRefCell<CodeCache>>,
    /// The relayout of its hot blocks.
    pub placing: Arc<AtomicRefCell<Placing>>,
    /// Threads' regions.
    pub regions: Arc<AtomicRefCell<Regions>>,
}

impl ImageRef {
    /// Wraps a new code cache and new regions; hot blocks are relaid out with these settings.
    pub fn new(mut cache: CodeCache, regions: Regions, settings: PlacingSettings) -> Self {
        let placing = Placing::new(settings);
        cache.style = placing.style();
        ImageRef {
            cache: Arc::new(AtomicRefCell::new(cache)),
            placing: Arc::new(AtomicRefCell::new(placing)),
            regions: Arc::new(AtomicRefCell::new(regions)),
        }
    }

    /// Whether another process shares it.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.cache) > 1
    }
}
