# What depends on what. `reefcore run all`, `make book` and a plain `snakemake --cores 2` all come through here; an executor
# plugin (`--executor slurm`, `kubernetes`, ...) takes the same jobs to a cluster with a shared folder.
#
# Every job is known by a marker whose name holds its key (reefcore/workflow/keys.py): it exists if and only if what the
# job makes is there and was made from exactly these sources, settings and inputs. Times of files decide nothing, so
# inputs are `ancient` and nothing else is looked at.
#
#   snakemake --cores 2 --config profile=smoke seed=3 chapters=splits
from reefcore.errors import ReefcoreError
from reefcore.workflow import build

options = config.get("reefcore") or {
    "chapters": str(config.get("chapters", "all")).split(","),
    "given": {name: config[name] for name in ("profile", "seed") if name in config} | config.get("params", {}),
    "output": config.get("output", ""),
}

if workflow.is_main_process and not workflow.dryrun and "lock" not in options:
    build_lock = build.lock()  # a name of its own: the lock lasts as long as this process

jobs = build.jobs(options["chapters"], options["given"], options["output"] or None)


rule all:
    input:
        [str(job.marker) for job in jobs],


for job in jobs:

    rule:
        name:
            job.name.replace(" ", "_")
        input:
            [ancient(str(need)) for need in job.needs],
        output:
            str(job.marker),
        threads: job.threads
        priority: job.priority
        params:
            # A function's result is taken as it is; in plain text, braces of a parameter would be wildcards.
            command=lambda wildcards, command=job.command: command,
        shell:
            "{params.command} --workers {threads}"
