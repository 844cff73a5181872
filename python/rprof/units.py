"""Units of columns: SI units without prefixes, `count` for numbers of things, `ratio` for shares. Columns of text have none."""

COUNTS = {
    "instructions",
    "fp_instructions",
    "simd_instructions",
    "issue_slots",
    "calls",
    "timed_calls",
    "unknown_calls",
    "threads",
    "team",
    "bursts",
    "ranks",
}
RATIOS = {"share", "load_balance", "simd_use", "fma_balance", "roof_fraction", "spread", "error", "fp_fraction"}
OTHERS = {
    "flops": "flop",
    "int_ops": "op",
    "flop_rate": "flop/s",
    "bytes": "byte",
    "dram_bytes": "byte",
    "ilp": "op",
    "oi_dram": "flop/byte",
}


def unit(column):
    """The unit of `column`; None for text and line numbers, and where each row has its own (`ceilings`)."""
    if column in COUNTS:
        return "count"
    if column in RATIOS:
        return "ratio"
    if column in OTHERS:
        return OTHERS[column]
    if column.startswith("bytes_"):
        return "byte"
    if column.startswith("misses_"):
        return "count"
    if column == "seconds" or column.endswith("_s"):
        return "s"
    return "Hz" if column.endswith("_hz") else None
