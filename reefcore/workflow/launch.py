"""Where trainings are started: whether on this machine, and on others, as lines to copy."""

from __future__ import annotations

import os
import shlex

from reefcore.profiles import Profile
from reefcore.workflow import resources

TRAIN = "REEFCORE_TRAIN"  # 1: trainings of full size may be started, 0: they may not; unset: where there is a GPU

SLURM = """#!/bin/bash
#SBATCH --job-name=reefcore
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --cpus-per-task={cpus}
#SBATCH --time=24:00:00
#SBATCH --requeue
# A training that was killed goes on where it was: submit the same file again.
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --cpus-per-task {cpus} torchrun --nnodes {nodes} --nproc-per-node {gpus} \\
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$head:29500" -m {train}"""


def may_train(profile: Profile) -> bool:
    """Tell whether a build may start the trainings of a profile: those of full size only on a GPU, or where asked."""
    asked = os.environ.get(TRAIN, "")
    return profile.kind != "full" or (asked != "0" if asked else bool(resources.gpus()))


def lines(
    recipes: list[str], schemes: list[str], profile: str, seed: int = 0, gpus: int = 8, nodes: int = 2, cpus: int = 64
) -> dict:
    """Give the commands that train recipes.

    Parameters
    ----------
    recipes, schemes : list of str
        Of ``reefcore train``; empty for all.
    profile : str
    seed : int
    gpus, nodes, cpus : int
        GPUs per node, nodes, and CPU cores per node.

    Returns
    -------
    dict
        ``prepare`` (once, before any other), ``one GPU``, ``one node`` and ``SLURM`` (a file for ``sbatch``).
    """
    options = [*recipes, *(word for scheme in schemes for word in ("--scheme", scheme)), "--profile", profile]
    train = shlex.join(["reefcore", "train", *options, *(("--seed", str(seed)) if seed else ())])
    return {
        "prepare": shlex.join(["reefcore", "prepare", "patches", "--profile", profile]),
        "one GPU": train,
        "one node": f"torchrun --standalone --nproc-per-node {gpus} -m {train}",
        "SLURM": SLURM.format(nodes=nodes, gpus=gpus, cpus=cpus, train=train),
    }


def commands(recipes: list[str], schemes: list[str], profile: str, seed: int = 0) -> str:
    """Give `lines` as one text, each under what it is for."""
    return "\n\n".join(f"# {name}\n{line}" for name, line in lines(recipes, schemes, profile, seed).items())
