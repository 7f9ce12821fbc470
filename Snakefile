# What depends on what. `reefcore run all`, `make book` and a plain `snakemake --cores 2` all come through here; an executor
# plugin (`--executor slurm`, `kubernetes`, ...) takes the same jobs to a cluster with a shared folder.
#
# Every job is known by a marker whose name holds its key (reefcore/workflow/keys.py): it exists if and only if what the
# job makes is there and was made from exactly these sources, settings and inputs. Times of files decide nothing, so
# inputs are `ancient` and nothing else is looked at.
#
#   snakemake --cores 2 --config profile=smoke seed=3 chapters=splits
#   snakemake --executor slurm --jobs 20 --retries 1 --config profile=full
#
# What each job asks for (threads, mem_mb, runtime, gpu, ...) is said in reefcore/workflow/resources.py and, where a
# profile wants something else, under `resources` there.
import json
import sys
import time
from pathlib import Path

options = config.get("reefcore") or {
    "chapters": str(config.get("chapters", "all")).split(","),
    "given": {name: config[name] for name in ("profile", "seed") if name in config} | config.get("params", {}),
    "output": config.get("output", ""),
}

if workflow.is_main_process:
    from reefcore.errors import ReefcoreError
    from reefcore.workflow import build

    began = time.time()
    # With an executor, --jobs is a number of nodes, and each training is a job; `--config apart=1` has that here too.
    apart = workflow.resource_settings.nodes is not None or bool(config.get("apart", False))
    if "lock" not in options:
        build_lock = build.lock()  # a name of its own: the lock lasts as long as this process
    planned = build.jobs(options["chapters"], options["given"], options["output"] or None, apart)
    plan = build.keep(planned)
else:  # a job on a node of a cluster, which takes the plan as it is and touches no marker but its own
    plan = json.loads(Path("build", "plan.json").read_text())


def command(job, threads, resources):
    """Write the line of a job, with what it was given."""
    gpus = resources.get("gpu", 0)
    words = f" --gpus {gpus}{' --claim' * workflow.is_main_process}" if gpus else ""
    return f"{job['command']} --workers {threads} --attempt {resources['attempt']}{words}"


rule all:
    input:
        [job["marker"] for job in plan],


for job in plan:
    asked = {name: value for name, value in job["resources"].items() if name != "threads"}
    memory = asked.pop("mem_mb")

    rule:
        name:
            job["rule"]
        input:
            [ancient(need) for need in job["needs"]],
        output:
            job["marker"],
        threads: job["resources"]["threads"]
        priority: job["priority"]
        resources:
            attempt=lambda wildcards, attempt: attempt,
            mem_mb=lambda wildcards, attempt, least=memory: least * attempt,
            **asked,
        params:
            # A function's result is taken as it is; in plain text, braces of a parameter would be wildcards.
            command=lambda wildcards, threads, resources, job=job: command(job, threads, resources),
        shell:
            "{params.command}"


onerror:
    if workflow.is_main_process and apart:
        for line in build.failures(planned, began):
            print(f"reefcore: {line}", file=sys.stderr)
