"""Reading `profile.json`, strictly: what is no profile is an error of one line."""

import json
import os

from . import frames

KNOWN_SCHEMAS = ("rprof-profile/1", "rprof-profile/2")


class ProfileError(ValueError):
    """A profile that cannot be read. Its text is one line that names the file."""


class Profile:
    """A profile. Its frames are made when they are first asked for.

    Each frame has `attrs["units"]` (column to unit) and `attrs["sources"]` (column to row label to `{"how", "error", "reason"}`: `counted`,
    `sampled`, `simulated`, `estimated`, `pmu`, `measured` …, with the relative error where it is known). What was not measured is NaN, and its source has
    the reason.
    """

    def __init__(self, path, data):
        self.path = path
        """The file."""
        self.data = data
        """The whole of it, as docs/conventions.md defines it."""
        self._made = {}

    def _frame(self, name, make):
        if name not in self._made:
            frame = make(self.data)
            frame.attrs["command"] = list(self.data["run"]["command"])
            frame.attrs["schema"] = self.data["schema"]
            frame.attrs["model_version"] = self.data["model_version"]
            self._made[name] = frame
        return self._made[name]

    @property
    def functions(self):
        """A row per function, by descending share of the CPU time."""
        return self._frame("functions", frames.functions)

    @property
    def loops(self):
        """A row per loop, with the same columns and `function`, the row of the function that it is in."""
        return self._frame("loops", frames.loops)

    @property
    def lines(self):
        """A row per source line of a function."""
        return self._frame("lines", frames.lines)

    @property
    def accounts(self):
        """A row per function and cause: the seconds that the core model gives it."""
        return self._frame("accounts", frames.accounts)

    @property
    def ceilings(self):
        """A row per ceiling of the host and number of threads. `unit` is each row's own."""
        return self._frame("ceilings", frames.ceilings)

    @property
    def call_sites(self):
        """A row per call site of MPI, and of matrix products (GEMM, GEMV) per call site and shape."""
        return self._frame("call_sites", frames.call_sites)

    def __repr__(self):
        command = " ".join(self.data["run"]["command"])
        return f"<rprof profile of {command!r}: {len(self.data['functions'])} functions, {self.path}>"


def read(path):
    """The profile in `path`, a `profile.json` or the folder that holds it.

    Raises ProfileError: it cannot be read, or it is no profile of a known schema.
    """
    path = os.fspath(path)
    file = os.path.join(path, "profile.json") if os.path.isdir(path) else path
    try:
        with open(file, "rb") as opened:
            data = json.load(opened)
    except OSError as error:
        raise ProfileError(
            f"cannot read {file}: {error.strerror}; name a profile.json, or the folder that a run wrote it to"
        ) from None
    except ValueError as error:
        raise ProfileError(f"{file} is not JSON ({error}); name a profile.json") from None
    _check(file, data)
    return Profile(file, data)


def _check(file, data):
    """Raises ProfileError unless `data` has the schema and the lists that frames are made of."""
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema is None:
        raise ProfileError(f"{file} is no profile of rprof: it names no schema")
    if schema not in KNOWN_SCHEMAS:
        raise ProfileError(f"{file}: its schema is {schema}; this version reads {' and '.join(KNOWN_SCHEMAS)}")
    wanted = {"run": dict, "machine": dict, "functions": list, "frames": list, "stacks": list, "samples": list}
    for field, kind in wanted.items():
        if not isinstance(data.get(field), kind):
            raise ProfileError(f"{file}: {field} is missing or of another type")
