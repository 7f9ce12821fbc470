"""What the jobs of a build ask for: cores, memory, time and GPUs, of this machine or of a cluster."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from reefcore.errors import ReefcoreError
from reefcore.files import check_keys
from reefcore.profiles import Profile
from reefcore.workflow import keys, steps

ASKED = ("threads", "mem_mb", "runtime", "gpu")  # cores, megabytes, minutes, GPUs; Snakemake's own names
#: Kind of job -> what it is, and what it asks for: as the sample and one's own reef, and as the full profile.
#: They are limits, not measurements: a job that needs more is killed; its second try on a cluster has twice the memory.
KINDS = {
    "data": ("the tables of a survey, or the sample itself", (2, 4_000, 60, 0), (8, 32_000, 240, 0)),
    "tables": ("curation, splits, metrics and other work on tables", (1, 3_000, 30, 0), (1, 32_000, 240, 0)),
    "photos": ("what reads every photo: covariates, patches, frames", (2, 4_000, 60, 0), (16, 64_000, 2_880, 0)),
    "training": ("one training of a recipe on a training set", (1, 4_000, 120, 0), (8, 64_000, 2_880, 1)),
    "experiments": ("open sets, few-shot learning, encoders", (1, 4_000, 120, 0), (8, 64_000, 2_880, 1)),
    "encoding": ("asking models that were not trained on the classes", (1, 4_000, 120, 0), (8, 32_000, 1_440, 1)),
    "together": ("all trainings of a sample, where they share one machine", (2, 8_000, 720, 0), (2, 8_000, 720, 0)),
    "gathering": ("looking whether parts are there", (1, 2_000, 15, 0), (1, 4_000, 120, 0)),
    "chapter": ("running a notebook", (1, 4_000, 120, 0), (1, 32_000, 480, 0)),
}
_OF = dict.fromkeys(("data", "survey"), "data")
_OF |= dict.fromkeys(("covariates", "patches", "frame_patches", "whole_frames"), "photos")
_OF |= dict.fromkeys(("clip_sample", "few_shot"), "experiments")
_OF |= dict.fromkeys(("train", "zero_shot", "open_set", "substrate"), "gathering")
_OF |= {"pseudo_labels": "encoding"}


def kind(profile: Profile, step: str) -> str:
    """Say of which of `KINDS` a step is."""
    if profile.kind == "site":
        return "tables"
    if step in steps.runs(profile) or step.startswith("substrate-"):
        return "training"
    if step.startswith(("features-", "zero-")):
        return "encoding"
    if ".open-" in step:
        return "experiments"
    return "gathering" if steps.plan(profile)[step].external else _OF.get(step, "tables")


def of(profile: Profile, kind: str) -> dict[str, int | str]:
    """Give what a job of a kind asks for: `ASKED`, and what the profile says under ``resources``.

    There, a kind (or ``all``) has any of these numbers, or other resources that an executor of Snakemake knows, such as
    ``slurm_partition``, ``slurm_account``, ``gpu_model`` or ``gres``; they reach it as they are.

    Raises
    ------
    ReefcoreError
        Where the profile names a kind that there is not, or a value is no number or text.
    """
    asked = getattr(profile, "resources", {})  # a site has none
    check_keys(asked, ("all", *KINDS), (), profile.path)
    found = dict(zip(ASKED, KINDS[kind][1 + (profile.kind == "full")], strict=True))
    for name in ("all", kind):
        given = asked.get(name, {})
        if not isinstance(given, dict):
            raise ReefcoreError(f"resources: {name} must hold names with values, not {given!r}", profile.path)
        found |= given
    for name, value in found.items():
        least = {"threads": 1, "mem_mb": 1, "runtime": 1}.get(name, 0)
        number = isinstance(value, int) and not isinstance(value, bool)
        if not (value >= least if number else isinstance(value, str) and name not in ASKED):
            do = f"give a whole number, at least {least}" + ("" if name in ASKED else ", or a text")
            raise ReefcoreError(f"resources: {name} of {kind} cannot be {value!r}", profile.path, do)
    return found


def table() -> str:
    """Write `KINDS` as a table in Markdown, for the page of the book."""
    lines = ["| kind | what it does | as the sample | as the full profile |", "|---|---|---|---|"]
    for name, (what, *sizes) in KINDS.items():
        lines.append(f"| `{name}` | {what} | {' | '.join(map(_said, sizes))} |")
    return "\n".join(lines)


def _said(asked: tuple[int, ...]) -> str:
    threads, memory, minutes, gpus = asked
    duration = f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
    return f"{threads} core{'s' * (threads > 1)}, {memory / 1000:g} GB, {duration}" + f", {gpus} GPU" * (gpus > 0)


def gpus() -> list[str]:
    """List the GPUs of this machine that this process may use, as ``CUDA_VISIBLE_DEVICES`` writes them."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [one for one in visible.split(",") if one.strip() not in ("", "-1")]
    try:
        said = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(number) for number, line in enumerate(said.splitlines()) if line.startswith("GPU ")]


def claim(wanted: int) -> list[str]:
    """Wait for GPUs of this machine that no other job of a local build holds, and show this process no others.

    They are held until the process ends. A cluster does this itself. Where there are fewer than wanted, all are taken.
    """
    there, held = (gpus() if wanted else []), {}
    place, wanted = keys.root() / "build" / "locks", min(wanted, len(there))
    while len(held) < wanted:
        for one in there:
            if len(held) < wanted and (handle := keys.take(place / f"gpu-{socket.gethostname()}-{one}.lock", 0)):
                held[one] = handle
        if len(held) < wanted:  # not some of them, while another job holds the rest and waits for these
            while held:
                keys.release(held.popitem()[1])
            time.sleep(1)
    if held:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(held)
        for handle in held.values():
            os.set_inheritable(handle, True)  # by torchrun, which this process becomes
    return list(held)


def spread(count: int, arguments: list[str]) -> None:
    """Become torchrun with a process per GPU, each running reefcore with these arguments; it ends with its parent."""
    code = "import os; from reefcore.parallel import end_with_parent; end_with_parent(os.getppid()); "
    code += "from torch.distributed.run import main; main()"
    options = ["--standalone", "--nproc-per-node", str(count), "-m", "reefcore", "--with-parent", *arguments]
    os.execv(sys.executable, [sys.executable, "-c", code, *options])
