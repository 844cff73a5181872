"""Profiles of rprof as pandas frames.

>>> import rprof
>>> profile = rprof.read("rprof.out")
>>> profile.functions[["name", "cpu_s", "class", "bytes_dram"]]
>>> profile.functions.attrs["units"]["bytes_dram"]
'byte'

`%load_ext rprof` in a notebook adds the cell magic `%%rprof`; `rprof.hatchet` has a reader for Hatchet.
"""

from .profile import Profile, ProfileError, read

__all__ = ["Profile", "ProfileError", "read", "load_ipython_extension"]


def load_ipython_extension(shell):
    """Adds `%%rprof` to a notebook: `%load_ext rprof`."""
    from . import magic

    magic.register(shell)
