"""`%%rprof`: profiles a cell and shows the verdict and the page.

The cell runs in this kernel, with its variables, while rprof is attached to it (`--pid`) and counts in windows. `%%rprof --alone` runs the cell as a program of
its own, which has none of them, but whose counts are exact.
"""

import argparse
import ctypes
import html
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading

from IPython.core.error import UsageError
from IPython.display import HTML, display

from . import program
from .profile import read

ATTACHED = "profiles process"
LAST_PROFILE = "rprof_profile"
# Linux, prctl(2): which process may trace this one where Yama restricts it.
PR_SET_PTRACER = 0x59616D61


def register(shell):
    """Adds the magic to an IPython shell."""
    shell.register_magic_function(lambda line, cell: profile_cell(shell, line, cell), "cell", "rprof")


def _options(line):
    class Parser(argparse.ArgumentParser):
        def error(self, message):
            raise UsageError(f"%%rprof: {message}")

    parser = Parser(prog="%%rprof", add_help=False, allow_abbrev=False)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("-o", "--output")
    parser.add_argument("--height", type=int, default=600)
    return parser.parse_args(shlex.split(line))


def profile_cell(shell, line, cell):
    """Profiles `cell`, shows verdict and page, and leaves the profile in the variable `rprof_profile`."""
    options = _options(line)
    try:
        rprof = program.path()
    except FileNotFoundError as error:
        raise UsageError(f"%%rprof: {error}") from None
    folder = options.output or os.path.join(tempfile.mkdtemp(prefix="rprof-cell-"), "rprof.out")
    if options.alone:
        _run_alone(shell, rprof, folder, cell)
    else:
        _run_here(shell, rprof, folder, cell)
    if not os.path.exists(os.path.join(folder, "profile.json")):
        return
    verdict = subprocess.run([rprof, "query", folder, "verdict"], capture_output=True, text=True)
    print(verdict.stdout or verdict.stderr, end="")
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as page:
        text = html.escape(page.read(), quote=True)
    display(HTML(f'<iframe srcdoc="{text}" style="width: 100%; height: {options.height}px; border: 0"></iframe>'))
    shell.user_ns[LAST_PROFILE] = read(folder)


def _run_alone(shell, rprof, folder, cell):
    """Runs `cell` as a program."""
    with tempfile.TemporaryDirectory(prefix="rprof-cell-") as place:
        script = os.path.join(place, "cell.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(shell.transform_cell(cell))
        done = subprocess.run(
            [rprof, "--quiet", "-o", folder, "--", sys.executable, script], capture_output=True, text=True
        )
    print(done.stdout, end="")
    if done.returncode != 0:
        # The report stands behind what the program wrote.
        told = done.stderr.split("\nrprof: ")[0]
        print(told, file=sys.stderr)


def _run_here(shell, rprof, folder, cell):
    """Runs `cell` in this kernel while rprof is attached."""
    _may_be_traced()
    command = [rprof, "-o", folder, "--pid", str(os.getpid())]
    # In a group of its own: an interrupt of the kernel is the cell's.
    attached = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    told = []
    for line in attached.stderr:
        told.append(line)
        if ATTACHED in line:
            break
    # A thread reads on: rprof must not wait for its reader.
    rest = threading.Thread(target=lambda: told.extend(attached.stderr), daemon=True)
    rest.start()
    try:
        if attached.poll() is None:
            shell.run_cell(cell)
    finally:
        if attached.poll() is None:
            attached.send_signal(signal.SIGINT)
        status = attached.wait()
        rest.join()
    if status != 0:
        print("".join(told[-1:]), end="", file=sys.stderr)


def _may_be_traced():
    """Allows a child to trace this process. Kernels without Yama refuse the call and need none."""
    any_process = ctypes.c_ulong(-1)
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, any_process, 0, 0, 0)
