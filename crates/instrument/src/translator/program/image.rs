//! The code cache and the contexts of one program image.

use std::sync::Arc;

use atomic_refcell::AtomicRefCell;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::relayout::hot_code::{Placing, PlacingSettings};

/// The code cache and contexts that all processes with one program image share.
#[derive(Debug, Clone)]
pub struct ImageRef {
    /// Translations.
    pub cache: Arc<AtomicRefCell<CodeCache>>,
    /// The relayout of its hot blocks.
    pub placing: Arc<AtomicRefCell<Placing>>,
    /// Threads' contexts.
    pub contexts: Arc<AtomicRefCell<Contexts>>,
}

impl ImageRef {
    /// Wraps a new code cache and new contexts; hot blocks are relaid out with these settings.
    pub fn new(mut cache: CodeCache, contexts: Contexts, settings: PlacingSettings) -> Self {
        let placing = Placing::new(settings);
        cache.style = placing.style();
        ImageRef {
            cache: Arc::new(AtomicRefCell::new(cache)),
            placing: Arc::new(AtomicRefCell::new(placing)),
            contexts: Arc::new(AtomicRefCell::new(contexts)),
        }
    }

    /// Whether another process shares it.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.cache) > 1
    }
}
