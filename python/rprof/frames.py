"""From the JSON of a profile to pandas frames."""

try:
    import pandas
except ImportError:
    raise ImportError("rprof.read makes pandas frames: pip install 'rprof[data]'") from None

from .units import unit

TEXT = ("name", "module", "file", "class", "binding", "nearest", "axis", "confidence")
PLAIN = (
    "time_s",
    "time_ci95_s",
    "cpu_s",
    "inclusive_s",
    "waiting_s",
    "kernel_s",
    "share",
    "team",
    "clock_hz",
    "instructions",
    "fp_instructions",
    "simd_instructions",
    "int_ops",
    "flop_rate",
    "simd_use",
    "fma_balance",
    "ilp",
    "fp_fraction",
    "load_balance",
    "roof_fraction",
)
LEVELS = ("l1", "l2", "l3", "dram")


def functions(data):
    """A row per function."""
    return _table(data["functions"], [{} for _ in data["functions"]], ())


def loops(data):
    """A row per loop, outer ones before those in them."""
    found, owners = [], []

    def add(function, within):
        for loop in within.get("loops") or []:
            found.append(loop)
            owners.append({"function": function})
            add(function, loop)

    for index, function in enumerate(data["functions"]):
        add(index, function)
    return _table(found, owners, ("function",))


def lines(data):
    """A row per source line."""
    columns = ("function", "name", "file", "line", "cpu_s", "instructions", "flops", "dram_bytes")
    rows, sources = [], {}
    as_function = {"cpu_s": "time_s", "instructions": "instructions", "flops": "flops", "dram_bytes": "bytes.dram"}
    for index, function in enumerate(data["functions"]):
        for line in function.get("lines") or []:
            for column, key in as_function.items():
                _note(sources, column, len(rows), function["source"].get(key))
            own = {"function": index, "name": function["name"], "file": line.get("file") or function["file"]}
            rows.append({**line, **own})
    return _frame(rows, columns, sources)


def accounts(data):
    """A row per function and cause."""
    columns = ("function", "name", "module", "cause", "seconds", "share", "bursts")
    rows, sources = [], {}
    for index, function in enumerate(data["functions"]):
        account = function.get("account")
        if not account:
            continue
        for cause, seconds in account["parts"].items():
            source = {"how": "modelled", "error": account.get("error"), "reason": None}
            _note(sources, "seconds", len(rows), source)
            share = seconds / account["model_s"] if account["model_s"] > 0 else None
            own = {"function": index, "name": function["name"], "module": function["module"]}
            rows.append({**own, "cause": cause, "seconds": seconds, "share": share, "bursts": account["bursts"]})
    return _frame(rows, columns, sources)


def ceilings(data):
    """A row per ceiling and number of threads."""
    columns = ("id", "threads", "value", "unit", "spread", "quality", "clock_hz", "device")
    rows, sources = [], {}
    for ceiling in data["machine"]["ceilings"]:
        source = {"how": ceiling["how"], "error": ceiling["spread"], "reason": ceiling["reason"]}
        _note(sources, "value", len(rows), source)
        quality = ceiling.get("quality")
        quality = next(iter(quality)) if isinstance(quality, dict) else quality
        rows.append({**ceiling, "quality": quality})
    return _frame(rows, columns, sources)


def call_sites(data):
    """A row per call site."""
    columns = ("kind", "call", "caller", "module", "file", "line", "site", "rank", "shape", "calls", "bytes", "time_s")
    columns += ("waiting_s", "transfer_s", "timed_calls", "threads")
    rows, sources = [], {}
    for site in (data.get("mpi") or {}).get("sites", []):
        for column in ("calls", "bytes", "time_s", "waiting_s"):
            _note(sources, column, len(rows), site.get("source", {}).get(column, _counted()))
        rows.append({**site, "kind": "mpi"})
    for product in (data.get("blas") or {}).get("products", []):
        for column in ("calls", "time_s"):
            _note(sources, column, len(rows), _counted())
        rows.append({**product, "kind": "product", "shape": _shape(product["shape"])})
    return _frame(rows, columns, sources)


def _counted():
    return {"how": "counted", "error": None, "reason": None}


def _shape(shape):
    """`128 × 50 × 784 NT`; None where a row has several."""
    if shape is None:
        return None
    sizes = [shape["m"], shape["n"], shape.get("k")]
    return " × ".join(str(size) for size in sizes if size is not None) + " " + shape["transposes"]


def _table(functions, owners, first):
    """The frame of functions or loops."""
    rows, sources = [], {}
    for function, owner in zip(functions, owners):
        row = {column: function.get(column) for column in PLAIN}
        row.update({column: function.get(column) for column in (*TEXT, "line")}, **owner)
        row["confidence"] = (function.get("confidence") or {}).get("level")
        row["flops"] = (function.get("flops") or {}).get("total")
        row["oi_dram"] = (function.get("oi") or {}).get("dram")
        for level in LEVELS:
            row[f"bytes_{level}"] = (function.get("bytes") or {}).get(level)
        for level in LEVELS[:3]:
            row[f"misses_{level}"] = (function.get("cache_misses") or {}).get(level)
        savings = function.get("savings") or []
        row["best_saving_s"] = savings[0]["seconds"] if savings else None
        row["advice"] = savings[0]["advice"] if savings else None
        for key, source in function["source"].items():
            _note(sources, _column(key), len(rows), source)
        rows.append(row)
    bytes_columns = tuple(f"bytes_{level}" for level in LEVELS)
    misses = tuple(f"misses_{level}" for level in LEVELS[:3])
    columns = (*first, *TEXT[:3], "line", *PLAIN[:13], "flops", *bytes_columns, *misses, *PLAIN[13:], "oi_dram", *TEXT[3:])
    frame = _frame(rows, (*columns, "best_saving_s", "advice"), sources)
    kept = {column: of_rows for column, of_rows in frame.attrs["sources"].items() if column in frame.columns}
    frame.attrs["sources"] = kept
    return frame


def _column(key):
    """The column of a key of `source`: `bytes.dram` is `bytes_dram`."""
    level = key.removeprefix("bytes.")
    return f"bytes_{level}" if level != key else key


def _note(sources, column, row, source):
    if source is not None:
        whole = {"how": source.get("how"), "error": source.get("error"), "reason": source.get("reason")}
        sources.setdefault(column, {})[row] = whole


def _frame(rows, columns, sources):
    """The rows as a frame. Columns with a unit are floats: NaN where nothing was measured."""
    frame = pandas.DataFrame([[row.get(column) for column in columns] for row in rows], columns=list(columns))
    units = {column: unit(column) for column in columns if unit(column) is not None}
    for column in [*units, *(name for name in ("value",) if name in columns)]:
        frame[column] = frame[column].astype(float)
    frame.attrs["units"] = units
    frame.attrs["sources"] = sources
    return frame
