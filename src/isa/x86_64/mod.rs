//! x86-64: classification of decoded instructions and the emitter.
