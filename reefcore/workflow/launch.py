"""How to start a training on other machines, as lines to copy."""

from __future__ import annotations

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
srun torchrun --nnodes {nodes} --nproc-per-node {gpus} --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d \\
  --rdzv-endpoint "$head:29500" -m {train}"""


def lines(recipes: list[str], schemes: list[str], profile: str, gpus: int = 8, nodes: int = 2, cpus: int = 64) -> dict:
    """Give the commands that train recipes.

    Parameters
    ----------
    recipes, schemes : list of str
        Of ``reefcore train``; empty for all.
    profile : str
    gpus, nodes, cpus : int
        GPUs per node, nodes, and CPU cores per node.

    Returns
    -------
    dict
        ``prepare`` (once, before any other), ``one GPU``, ``one node`` and ``SLURM`` (a file for ``sbatch``).
    """
    options = [*recipes, *(f"--scheme {scheme}" for scheme in schemes), f"--profile {profile}"]
    train = f"reefcore train {' '.join(options)}"
    return {
        "prepare": f"reefcore prepare patches --profile {profile}",
        "one GPU": train,
        "one node": f"torchrun --standalone --nproc-per-node {gpus} -m {train}",
        "SLURM": SLURM.format(nodes=nodes, gpus=gpus, cpus=cpus, train=train),
    }


def commands(recipes: list[str], schemes: list[str], profile: str) -> str:
    """Give `lines` as one text, each under what it is for."""
    return "\n\n".join(f"# {name}\n{line}" for name, line in lines(recipes, schemes, profile).items())
