"""A process that has imported what the jobs of a build need, and forks one for each: most take longer to import it.

`reefcore.workflow.build` starts it for a build of many jobs. ``python -m reefcore job`` and the kernels of chapters
then ask it for a process with their own arguments, environment, folder and streams, wait for its end and end alike.
Without it, or where it cannot be reached, they run by themselves. Asking imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

PLACE = "REEFCORE_WARM"  # the environment variable with the path of the socket
WAIT = 0.05  # seconds between two looks at who has ended
#: Imported before the first job, and while no job is asked for: what nearly all need, and what models need.
FIRST = "reefcore.cli reefcore.workflow.build reefcore.figures reefcore.comparison papermill nbformat".split()
FIRST += ["ipykernel.ipkernel", "ipykernel.zmqshell"]  # not `kernelapp`, which asks on import whose kernel it is
THEN = "scipy.stats scipy.ndimage torch timm reefcore.fitting reefcore.learners reefcore.vision_language".split()
# Memory that was freed is kept for the next step of a training instead of going back to the system each time (glibc).
KEEP = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "2000000000"}
# Read at the start of an interpreter or on import, so that a fork comes too late for them: those of every kernel.
STEADY = {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore:IProgress not found", "OMP_NUM_THREADS": "1"}
STEADY |= {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "PYDEVD_DISABLE_FILE_VALIDATION": "1", **KEEP}


forked = False  # whether this process came from the warm one, and must not ask it for itself again


@contextlib.contextmanager
def server() -> Iterator[None]:
    """Have a warm process beside this one; on Linux, elsewhere forks are not safe after such imports."""
    if sys.platform != "linux" or PLACE in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="reef") as folder, socket.socket(socket.AF_UNIX) as listening:
        place = f"{folder}/warm"
        listening.bind(place)
        listening.listen(64)
        command = [sys.executable, "-m", "reefcore.warm", "--serve", str(listening.fileno())]
        process = subprocess.Popen(command, env=os.environ | STEADY, pass_fds=[listening.fileno()])
        listening.close()  # where the process is gone, nobody waits for an answer
        os.environ[PLACE] = place
        try:
            yield
        finally:
            del os.environ[PLACE]
            process.terminate()
            process.wait()


def ask(module: str, arguments: list[str]) -> int | None:
    """Run ``python -m module`` with arguments in a fork of the warm process.

    Returns
    -------
    int or None
        Its exit code; None where there is no warm process and nothing was run.
    """
    parent, place = os.getppid(), os.environ.get(PLACE)
    if forked or not place:
        return None
    request = json.dumps([module, arguments, dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid()]).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(place)
            socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
            connection.sendall(request)
        except OSError:
            return None
        while os.getppid() == parent:  # else this ends, and what was forked for it too
            if select.select([connection], [], [], 4 * WAIT)[0]:
                answer = connection.recv(8)
                return int(answer) if answer else 1
    return 1


def _serve(listening: socket.socket) -> tuple[str, list[str]]:
    """Fork for whoever asks; return only in a fork: what it is to run."""
    global forked
    parent, waiting = os.getppid(), [*THEN]
    running: dict[int, socket.socket] = {}
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build has heard it, and says what ends
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for name in FIRST:
        importlib.import_module(name)
    try:
        while os.getppid() == parent:
            asked = select.select([listening], [], [], 0 if waiting else WAIT)[0]
            for process, connection in list(running.items()):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    with contextlib.suppress(OSError):
                        connection.sendall(str(os.waitstatus_to_exitcode(status) % 256).encode())
                    running.pop(process).close()
            if asked:
                connection, _ = listening.accept()
                request = _request(connection)
                if request and not (process := os.fork()):
                    forked = True
                    for other in (listening, *running.values()):
                        other.close()
                    running.clear()
                    return _become(connection, *request)
                if request:
                    running[process] = connection
                    for stream in request[0]:
                        os.close(stream)
            elif waiting:
                importlib.import_module(waiting.pop(0))
    finally:
        for process in running:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    sys.exit(1)


def _request(connection: socket.socket) -> tuple | None:
    """Read what is asked for: streams, module, arguments, environment, folder, whether in a session of its own."""
    try:
        size, streams, _, _ = socket.recv_fds(connection, 8, 3)
        with connection.makefile("rb") as file:
            return streams, *json.loads(file.read(int.from_bytes(size, "big")))
    except (OSError, ValueError):  # of one that was killed while it asked
        return None


def _become(connection, streams: list[int], module: str, arguments, environment: dict, folder: str, alone: bool):
    """Make a fork what a new interpreter of the one who asked would be; it ends when that one is gone."""

    def watch():
        select.select([connection], [], [])  # nothing more is said
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if alone:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    return module, arguments


def _main() -> None:
    if sys.argv[1] == "--serve":
        module, sys.argv[1:] = _serve(socket.socket(fileno=int(sys.argv[2])))
    else:
        module, sys.argv = sys.argv[1], sys.argv[1:]
        if (code := ask(module, sys.argv[1:])) is not None:
            sys.exit(code)
    sys.path[0] = str(Path.cwd())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    from reefcore.warm import _main  # of the module that others import, which knows whether this is a fork

    _main()
