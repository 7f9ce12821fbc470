"""Worker processes that neither hang with their threads nor outlive the build that started them."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def pool(workers: int) -> ProcessPoolExecutor:
    """Make a pool of fresh interpreters.

    Forking a process in which torch, or the threads of a kernel, already run can hang; a worker left by a killed parent
    would go on writing. So workers are spawned, and stop soon after their parent is gone.
    """
    return ProcessPoolExecutor(workers, get_context("spawn"), end_with_parent, (os.getpid(),))


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent is gone, however the parent went."""

    def watch():
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
