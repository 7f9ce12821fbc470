"""A papermill engine that runs a notebook in this very interpreter's Python, over a socket that cannot be taken."""

from __future__ import annotations

import logging
import sys

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from traitlets.config import Config

NAME = "reefcore"

logger = logging.getLogger(__name__)  # what goes wrong is raised, and said once
logger.addHandler(logging.NullHandler())
logger.propagate = False


class Kernel(AsyncKernelManager):
    """A kernel of the running interpreter, whatever kernels the user has installed under the name of python3."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "reefcore.warm", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="Python 3",
            language="python",
        )


class Engine(NBClientEngine):
    """Like papermill's own, with the kernel above; `ran` receives the notebook, which a failure would take away."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man, kernel_name, *, ran, connection_file, kernel, start_timeout=60, execution_timeout=None, **kwargs
    ):
        ran.append(nb_man.nb)
        config = Config()
        config.ConnectionFileMixin.connection_file = connection_file
        # A TCP port is chosen here and bound by the kernel later: another program can take it in between. The path of a
        # Unix socket may not be longer than 107 bytes, and the kernel adds a few to this one.
        config.ConnectionFileMixin.transport = "ipc" if len(connection_file.encode()) < 90 else "tcp"
        PapermillNotebookClient(
            nb_man,
            kernel_name="python3",
            kernel_manager_class=Kernel,
            timeout=execution_timeout,
            startup_timeout=start_timeout,
            record_timing=False,
            coalesce_streams=True,  # else how printed text is cut into pieces depends on timing
            log=logger,
            config=config,
        ).execute(**kernel)


papermill_engines.register(NAME, Engine)
