"""The program `rprof`: the one that was installed with this module, else that of PATH."""

import os
import shutil
import sysconfig


def path():
    """Its path.

    Raises FileNotFoundError where there is none.
    """
    beside = os.path.join(sysconfig.get_path("scripts"), "rprof")
    found = beside if os.access(beside, os.X_OK) else shutil.which("rprof")
    if found is None:
        raise FileNotFoundError("there is no program rprof: install it, or add its folder to PATH")
    return found
