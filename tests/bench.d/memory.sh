#!/bin/bash
# The memory model: known kernels against arithmetic and against themselves in full, its cost, and data misses beside
# cachegrind's at the same geometry. What the counted pass costs with it is a column of the part "counted".
set -u
cargo run --release --quiet --example memory_table || exit 1
echo
cargo run --release --quiet --example memory_speed || exit 1
echo
echo "data misses beside cachegrind's (D1 32 KiB 8 ways, LL 64 KiB 16 ways):"
cargo test --quiet --test memory -- --nocapture cachegrind 2>/dev/null | grep -E 'misses:|SKIPPED|FAILED'
