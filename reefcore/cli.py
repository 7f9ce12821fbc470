"""The command line: ``reefcore COMMAND``; ``--help`` says what each does.

Exit codes: 0 done, 1 something is not as it should be, 2 refused with one sentence, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import itertools
import json
import logging
import os
import sys
import textwrap
import time
from pathlib import Path

from reefcore import __version__
from reefcore.errors import ReefcoreError

AGAIN = "make room, then type the same command again"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    _log(logging.INFO if options.verbose else logging.WARNING)
    try:
        if options.with_parent:
            from reefcore.parallel import end_with_parent

            end_with_parent(os.getppid())
        return options.command(options) or 0
    except BrokenPipeError:  # `reefcore status | head`
        sys.stderr.close()
        return 1
    except (ReefcoreError, OSError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if options.debug or (isinstance(error, OSError) and error.filename is None and not full):
            raise
        if full and error.filename is None:  # a write knows no name
            error = ReefcoreError(f"there is no room on the disk ({os.strerror(error.errno)})", do=AGAIN)
        if isinstance(error, OSError):  # a folder that is read-only or full, a file in the place of a folder, ...
            do = "see that it may be written there, that there is room, and that no other program holds it open"
            place = error.filename if error.filename2 is None else error.filename2
            error = ReefcoreError(f"this cannot be read or written ({error.strerror})", place, do)
        print(f"reefcore: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _log(level: int) -> None:
    """Show what the library logs on standard error, and nothing of other libraries."""
    logger = logging.getLogger("reefcore")
    logger.setLevel(level)
    logger.handlers = [logging.StreamHandler()]
    logger.propagate = False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "reefcore", description="The ReefNet Companion: from point annotations to a rendered book."
    )
    parser.add_argument("--version", action="version", version=f"reefcore {__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")
    parser.add_argument("--verbose", action="store_true", help="say what is being made")
    parser.add_argument(
        "--with-parent", action="store_true", help="end when the calling program (make, Snakemake) ends"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(group, name: str, function, help: str, **options) -> argparse.ArgumentParser:
        one = group.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".", **options)
        one.set_defaults(command=function)
        return one

    def parameters(one) -> None:
        one.add_argument(
            "-p",
            dest="given",
            action="append",
            default=[],
            type=_pair,
            metavar="NAME=VALUE",
            help="a parameter of the notebook",
        )

    one = command(commands, "run", _run, "run chapters of the book, and the steps they need, where something changed")
    one.add_argument(
        "chapters", nargs="+", metavar="CHAPTER", help="such as splits, 30_splits, or all; or a notebook file"
    )
    one.add_argument("--profile", help="sample (the notebooks' own), smoke, full, or a YAML file")
    parameters(one)
    one.add_argument("--cores", type=int, default=2, help="processes at a time (2)")
    one.add_argument("--output", metavar="DIR", help="where the executed notebooks go (book/chapters)")
    one.add_argument("--train", action="store_true", help="start trainings of full size on a machine without a GPU too")
    one.add_argument("--executor", default="", metavar="NAME", help="of Snakemake, for a cluster: slurm, ... (none)")
    one.add_argument("--jobs", type=_processes, metavar="N", help="with --executor: jobs submitted at a time")
    help = "with --executor: a folder whose config.yaml has settings of Snakemake: account, partition, ..."
    one.add_argument("--workflow-profile", metavar="DIR", help=help)

    one = command(commands, "sample", _sample, "make the sample, a miniature ReefNet, in a folder")
    one.add_argument("folder", nargs="?", default="build/sample-only", help="a new or empty folder (build/sample-only)")
    one.add_argument("--seed", type=int, default=0, help="another seed, another survey (0)")
    one.add_argument("--scale", type=float, default=1.0, help="how large: 1 is the sample of the book")
    one.add_argument("--workers", type=_processes, default=2, help="processes (2)")

    group = commands.add_parser("annotations", help="work with annotation files").add_subparsers(
        required=True, metavar="COMMAND"
    )
    one = command(
        group, "check", _annotations_check, "read annotation files and say what is in them, and what is wrong"
    )
    one.add_argument("files", nargs="+", metavar="FILE", help="files, or folders of files of one format")
    one.add_argument("--columns", metavar="FILE", help="a column map (YAML), for a table of no known format")
    one.add_argument("--size", metavar="WxH", help="the size of the photos, for positions that are fractions of it")
    one.add_argument("--json", action="store_true", help="for programs")
    one.add_argument("--folder", metavar="DIR", help="where long lists of problems go (beside the files)")
    one = command(group, "convert", _annotations_convert, "read annotation files and write them for another program")
    one.add_argument("files", nargs="+", metavar="FILE", help="files or folders of any format that can be read")
    one.add_argument(
        "--to", required=True, metavar="FORMAT", help="coralnet, reefcloud, mermaid, darwin-core, croissant"
    )
    one.add_argument("--output", required=True, metavar="FILE", help="a CSV; of croissant a .parquet")
    one.add_argument("--source", help="the name of the source (what a file says, or its name)")
    one.add_argument("--base", type=int, choices=(0, 1), help="what rows and columns count from (0)")
    one.add_argument("--unmangle", action="store_true", help="undo what R made of labels")
    one.add_argument("--names", action="store_true", help="keep the names of people (pseudonyms)")
    one.add_argument("--columns", metavar="FILE", help="a column map (YAML), for a table of no known format")
    one.add_argument("--size", metavar="WxH", help="the size of the photos, for positions that are fractions of it")
    one.add_argument("--sample", type=int, metavar="N", help="draw N points over each photo that has regions")
    one.add_argument("--positions", choices=("exact", "rounded", "none"), default="exact", help="rounded: 0.1 degree")
    for name in ("name", "licence", "cite"):
        one.add_argument(f"--{name}", help="for croissant")
    one.add_argument("--json", action="store_true", help="for programs")

    one = command(
        commands,
        "select",
        _select,
        "select annotations for a purpose, with their attribution and a Croissant description",
    )
    one.add_argument("folder", help="where the selection goes; what an earlier one left there is replaced")
    one.add_argument("--profile", default="sample")
    for name, help in {
        "ecoregion": "a marine ecoregion (may be given again, as all names)",
        "realm": "a marine realm",
        "genus": "a taxon: a genus, or Fungiidae",
        "source": "a source",
        "layout": "how points were laid out: simple random, stratified random, uniform grid",
    }.items():
        one.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=help)
    one.add_argument(
        "--min-agreement", type=float, metavar="SHARE", help="least expert agreement of a source and taxon"
    )
    one.add_argument("--megapixels", type=float, nargs=2, metavar=("LEAST", "MOST"), help="size of the photos")
    one.add_argument("--points", type=int, nargs=2, metavar=("LEAST", "MOST"), help="points per image")
    one.add_argument("--like", metavar="SOURCE", help="a source, or a folder of photos, to resemble in colour")
    one.add_argument("--max-colour-distance", type=float, default=20.0, metavar="LEVELS", help="how nearly (20 of 255)")
    one.add_argument("--json", action="store_true", help="for programs")

    group = commands.add_parser("recipes", help="look at recipes: how each row of a published table is trained")
    group = group.add_subparsers(required=True, metavar="COMMAND")
    one = command(group, "list", _recipes_list, "list the recipes with their row, tables, training sets and models")
    one.add_argument("--json", action="store_true", help="for programs")
    one = command(group, "show", _recipes_show, "show the settings of a recipe and where each value comes from")
    one.add_argument("name", help="such as vit_mae, or a YAML file")
    one.add_argument("--size", choices=["full", "sample"], default="full", help="as the paper trains, or its sibling")
    one.add_argument("--json", action="store_true", help="for programs")

    one = command(commands, "prepare", _prepare, "make what training needs: by default the patches")
    one.add_argument("steps", nargs="*", default=["patches"], metavar="STEP", help="such as splits (patches)")
    one.add_argument("--profile", default="sample")
    one.add_argument("--workers", type=_processes, default=2, help="processes (2)")
    one.add_argument("--slice", type=_processes, metavar="N", help="only measure N photos of each source, for patches")
    one.add_argument("--source", action="append", help="only the patches of this source, as a job of a cluster; again")
    one.add_argument("--anyway", action="store_true", help="also where the disk seems too small for the patches")
    one.add_argument("--json", action="store_true", help="with --slice: for programs")

    one = command(
        commands,
        "train",
        _train,
        "train recipes on training sets, or everything of a profile",
        epilog="Several GPUs: torchrun --standalone --nproc-per-node 8 -m reefcore train RECIPE --scheme S2; "
        "--commands prints the whole line, and one for SLURM. A training that was killed goes on where it was.",
    )
    one.add_argument(
        "recipes", nargs="*", metavar="RECIPE", help="a name of `reefcore recipes list`, or a YAML file; all by default"
    )
    one.add_argument("--scheme", action="append", metavar="SET", help="S1, S2, S3, S4; again for more (the recipe's)")
    one.add_argument("--seed", type=int, default=0, help="of the training; the data stay as they are (0)")
    one.add_argument("--profile", default="sample")
    one.add_argument("--workers", type=_processes, default=2, help="processes, each of one thread (2)")
    one.add_argument("--commands", action="store_true", help="print how to start it on one GPU, on eight, and by SLURM")

    one = command(
        commands,
        "zero-shot",
        _zero_shot,
        "ask models that were not trained on the classes, and write their predictions",
        epilog="A language model is asked where REEFCORE_CHAT_URL says (an OpenAI-compatible address, as vLLM and "
        "Ollama have), with the key in REEFCORE_CHAT_KEY if it wants one; REEFCORE_CHAT_BUDGET=requests=9 is a limit.",
    )
    one.add_argument(
        "recipes", nargs="*", metavar="RECIPE", help="a zero-shot recipe or a YAML file; all of the profile by default"
    )
    one.add_argument("--profile", default="sample")
    one.add_argument(
        "--list", action="store_true", help="list the recipes, the published rows they stand for, and models"
    )

    one = command(
        commands,
        "describe",
        _describe,
        "have a language model describe taxa: from its memory, or from reference texts of yours",
        epilog="Asks where REEFCORE_CHAT_URL says. A profile names the table under descriptions:.",
    )
    one.add_argument("model", metavar="MODEL", help="the name by which the server knows it")
    one.add_argument(
        "--texts", nargs="+", metavar="PATH", help="text files or folders of them (set book); else Figure 14"
    )
    one.add_argument("--taxa", nargs="+", metavar="TAXON", help="genera (those of the profile)")
    one.add_argument("--profile", default="sample")
    one.add_argument("--output", default="descriptions.csv", metavar="FILE", help="rows are added (descriptions.csv)")

    one = command(commands, "results", _results, "list the runs: how each stands and what it scored")
    one.add_argument("--profile", default="sample")
    one.add_argument("--json", action="store_true", help="for programs")

    one = command(commands, "evaluate", _evaluate, "compute metrics with intervals from predictions of any program")
    one.add_argument("predictions", metavar="FILE", help="Parquet or CSV: run_id, annotation_id, y_true, y_pred")
    one.add_argument(
        "--annotations", metavar="FILE", help="the annotations, Parquet or a file that can be read (the profile's)"
    )
    one.add_argument("--profile", default="sample")
    one.add_argument("--scheme", help="the test set, where run_id does not end in it: S1, S2, S3, S4, W")
    one.add_argument(
        "--over", choices=["truth", "truth_or_prediction"], default="truth", help="the classes of macro averages"
    )
    one.add_argument("--resamples", type=int, default=1000)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--json", action="store_true", help="for programs")
    one.add_argument("--output", metavar="FILE", help="write the metrics table there, as Parquet")

    one = command(commands, "reproduced", _reproduced, "say which published tables a set of results reproduces")
    one.add_argument("file", nargs="?", metavar="FILE", help="what `evaluate --output` wrote (what the profile has)")
    one.add_argument("--profile", help="of the results: full, sample, a YAML file (sample; with FILE it must be said)")
    one.add_argument("--json", action="store_true", help="for programs")

    one = command(commands, "audit", _audit, "say whether tables of results can be right: the paper's, or your own")
    one.add_argument("files", nargs="*", metavar="FILE", help="CSV or xlsx: precision, recall, F1, accuracy, n, ...")
    one.add_argument("--json", action="store_true", help="for programs")
    sure = ["impossible", "inconsistent", "ask"]
    one.add_argument("--certainty", choices=sure, default="ask", help="only findings as sure as this (ask: all)")

    one = command(commands, "predict", _predict, "predict annotated points, or points laid on photos, with a model")
    one.add_argument("checkpoint", metavar="CHECKPOINT", help="a trained model")
    one.add_argument("given", metavar="INPUT", help="annotations (with --photos), a folder of photos, or one photo")
    one.add_argument("--photos", metavar="DIR", help="where the photos of the annotations are: DIR/<source>/<image>")
    one.add_argument("--points", type=int, default=25, metavar="N", help="laid on each photo (25)")
    one.add_argument("--layout", choices=["grid", "random"], default="grid", help="of these points (grid)")
    one.add_argument("--seed", type=int, default=0, help="of random points (0)")
    one.add_argument("--output", default="predictions.csv", metavar="FILE", help="CSV or Parquet (predictions.csv)")
    one.add_argument("--force", action="store_true", help="replace FILE where it is there")
    one.add_argument("--json", action="store_true", help="for programs")

    group = commands.add_parser("substrate", help="decide from frames of the seabed where to deploy devices")
    _substrate(group.add_subparsers(required=True, metavar="COMMAND"), command)

    from reefcore.workflow import full

    full.add(commands, command)

    group = commands.add_parser("site", help="work with annotations and photos of one's own reef")
    _site(group.add_subparsers(required=True, metavar="COMMAND"), command, parameters)

    help = "tell how each table and figure of the papers, each chapter and each step stands, and what changed"
    one = command(commands, "status", _status, help)
    one.add_argument("--profile", help="by default the one that most chapters were run in, or sample")
    one.add_argument("--output", metavar="DIR", help="where the executed notebooks are (book/chapters)")
    one.add_argument("--steps", action="store_true", help="also a line for each step")
    one.add_argument("--json", action="store_true", help="for programs")

    group = commands.add_parser("book", help="build and check the book").add_subparsers(
        required=True, metavar="COMMAND"
    )
    command(group, "build", _book_build, "render the executed chapters with Jupyter Book, where something changed")
    one = command(group, "archive", _book_archive, "pack the rendered book into one file with a checksum (build/)")
    one.add_argument("--output", metavar="DIR", help="where it goes (build)")
    one.add_argument("--json", action="store_true", help="for programs")
    one = command(group, "check", _book_check, "check the rendered book: links, images, addresses, provenance")
    one.add_argument("folder", nargs="?", help="the rendered book (book/_build/html)")
    one.add_argument("--json", action="store_true", help="for programs")
    one = command(group, "pdf", _book_pdf, "print the rendered book into one PDF, with an installed Chromium")
    one.add_argument("folder", nargs="?", help="the rendered book (book/_build/html)")
    one.add_argument("--output", metavar="FILE", help="the PDF (build/reefnet-companion-VERSION-PROFILE.pdf)")

    from reefcore.workflow import fetching

    fetching.add(commands, command)
    one = command(commands, "job", _job, "do one job of a build, as Snakemake calls it")
    one.add_argument("kind", choices=["step", "chapter"])
    one.add_argument("name")
    one.add_argument("--profile", default="sample")
    one.add_argument("--seed", type=int)
    one.add_argument("--output", type=Path)
    parameters(one)
    one.add_argument("--key", required=True)
    one.add_argument("--marker", type=Path, required=True)
    one.add_argument("--workers", type=int, default=1)
    one.add_argument("--attempt", type=int, default=1)
    one.add_argument("--gpus", type=int, default=0)
    one.add_argument("--claim", action="store_true", help="take the GPUs of this machine from other jobs of the build")
    return parser


def _substrate(group, command) -> None:
    """Add the commands of `reefcore substrate`."""
    model = "a checkpoint (.safetensors) or an exported model (.onnx)"
    one = command(group, "run", _substrate_run, "decide each frame of a folder, a video or a stream, as they come")
    one.add_argument(
        "frames", metavar="FRAMES", help="a folder of photos, a video, an address, or - for JPEGs by a pipe"
    )
    one.add_argument("--checkpoint", required=True, metavar="FILE", help=model)
    one.add_argument("--alpha", type=float, metavar="A", help="deploy where more patches are Deploy (the model's own)")
    one.add_argument("--output", default="decisions.csv", metavar="FILE", help="CSV; an earlier run of it goes on")
    one.add_argument("--threads", type=int, default=1, help="of the network (1)")
    one.add_argument(
        "--live", action="store_true", help="take the newest frame, drop those that cannot be kept up with"
    )
    one.add_argument("--rate", type=float, metavar="FPS", help="with --live: at which photos and videos are played")
    one.add_argument("--json", action="store_true", help="for programs")

    one = command(group, "export", _substrate_export, "write a checkpoint as ONNX, with the decision in the graph")
    one.add_argument("checkpoint", metavar="CHECKPOINT", help="a trained classifier of patches (.safetensors)")
    one.add_argument("output", metavar="OUTPUT.onnx")
    one.add_argument("--alpha", type=float, metavar="A", help="the operating point it carries (the checkpoint's)")
    one.add_argument("--int8", action="store_true", help="8-bit numbers: smaller, perhaps faster, a little less right")
    one.add_argument("--frames", metavar="DIR", help="with --int8: training or validation frames, to measure ranges on")

    one = command(
        group,
        "train",
        _substrate_train,
        "train a classifier of patches on labels of one's own",
        epilog="Sequences are divided whole into training, validation and test, as neighbouring frames look alike.",
    )
    one.add_argument("frames", metavar="FRAMES", help="the folder that holds the frames")
    columns = "frame, row and column (from 0), label; decision may be there"
    one.add_argument("--labels", required=True, metavar="CSV", help=columns)
    one.add_argument(
        "--sequences", default="", metavar="RULE", help="a column of it, or a regular expression on frames"
    )
    known = "(mobilenetv3_small), mobilenetv3_large, resnet18, efficientnet_b0, a file"
    one.add_argument("--recipe", default="mobilenetv3_small", help=known)
    one.add_argument("--size", choices=["full", "sample"], default="full", help="as the paper, or its small sibling")
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--threads", type=int, default=1)
    one.add_argument("--output", required=True, metavar="FILE", help="the checkpoint (.safetensors)")

    one = command(group, "agreement", _substrate_agreement, "say how far observers agree on frames")
    one.add_argument("given", metavar="INPUT", help="a folder OBSERVER/Deploy/FRAME, or a CSV: observer, frame, label")
    one.add_argument("--json", action="store_true", help="for programs")

    one = command(group, "track", _substrate_track, "write the track of frames, with their decisions, as GeoJSON")
    one.add_argument("frames", metavar="FRAMES", help="a folder of photos; positions and times are in their headers")
    one.add_argument("--decisions", metavar="CSV", help="what `reefcore substrate run` wrote")
    one.add_argument("--track", metavar="FILE", help="GPX or CSV for frames without a position, or a folder of them")
    one.add_argument("--timezone", metavar="ZONE", help="of times that say none: +10:00, or Australia/Brisbane")
    one.add_argument(
        "--output", required=True, metavar="DIR", help="for track.geojson and, with decisions, summary.csv"
    )


def _site(group, command, parameters) -> None:
    """Add the commands of `reefcore site`."""
    one = command(
        group,
        "new",
        _site_new,
        "make sites/NAME/site.yaml from an export, photos and metadata, and say what is there and what lacks",
    )
    one.add_argument("name", metavar="NAME", help="of the reef or survey; may have blanks")
    many = "an export or a folder of them: CoralNet, CPCe, ReefCloud, ..."
    one.add_argument("--annotations", nargs="+", required=True, metavar="PATH", help=many)
    one.add_argument("--photos", metavar="DIR", help="the folder of photos; its subfolders are looked through")
    one.add_argument("--metadata", nargs="+", default=[], metavar="FILE", help="CSV or xlsx with a row per image")
    one.add_argument("--format", metavar="FORMAT", help="of the annotations, where it is not recognised")
    one.add_argument("--columns", metavar="FILE.yaml", help="which column of a table of one's own is what")
    one.add_argument("--size", metavar="WxH", help="of the photos, for an export with fractions and without photos")
    one.add_argument("--folder", default="sites", metavar="DIR", help="where the folder of the site goes (sites)")
    one.add_argument("--force", action="store_true", help="write site.yaml anew; labels.csv stays")
    one.add_argument("--json", action="store_true", help="for programs")

    one = command(
        group, "report", _site_report, "run the chapters of a site and write its report: one page, tables, notebooks"
    )
    one.add_argument("name", metavar="SITE", help="the name of a site, its folder, or a site.yaml")
    one.add_argument("--cores", type=_processes, default=2, help="chapters at a time (2)")
    one.add_argument("--only", metavar="CHAPTER,...", default="", help="such as cover,labels (all)")
    parameters(one)
    one.add_argument("--json", action="store_true", help="for programs")

    one = command(group, "check", _site_check, "read everything again and say what is there, what lacks, what is wrong")
    one.add_argument("name", metavar="SITE", help="the name of a site, its folder, or a site.yaml")
    one.add_argument("--json", action="store_true", help="for programs")


def _processes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes, at least 1")
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _run(options) -> int:
    from reefcore.workflow import build, full, launch

    if options.cores < 1:
        raise ReefcoreError(f"nothing can be run on {options.cores} cores", do="give --cores 1 or more")
    if bool(options.executor) != bool(options.jobs) or (options.workflow_profile and not options.executor):
        do = "give both, such as --executor slurm --jobs 20" if options.executor else "give --executor, such as slurm"
        raise ReefcoreError("--executor, --jobs and --workflow-profile are of a cluster and go together", do=do)
    given = dict(options.given) | ({"profile": options.profile} if options.profile else {})
    began = time.perf_counter()
    if options.train:
        os.environ[launch.TRAIN] = "1"
    cluster = {"executor": options.executor, "at_once": options.jobs, "settings": options.workflow_profile}
    if not build.run(options.chapters, given, options.output, options.cores, **cluster):
        print("reefcore: the build is not complete; see above, and .snakemake/log for more", file=sys.stderr)
        return 1
    told, took = full.told(options.chapters, given), time.perf_counter() - began
    print("\n".join([*told, f"Everything{' else' * bool(told)} is up to date ({took:.1f} s)."]), file=sys.stderr)
    return 0


def _job(options) -> None:
    from concurrent.futures import BrokenExecutor

    from reefcore.workflow import build

    said = build.refusal(options.marker)
    if options.attempt > 1 and said.exists():
        raise ReefcoreError(said.read_text(encoding="utf-8").strip())
    said.unlink(missing_ok=True)
    try:
        _one_job(options)
    except Exception as error:
        killed = isinstance(error, OSError | MemoryError | BrokenExecutor) or build.KERNEL_DIED in str(error)
        if not killed:  # else another try can succeed
            said.parent.mkdir(parents=True, exist_ok=True)
            text = str(error) if isinstance(error, ReefcoreError) else f"{type(error).__name__}: {error}"
            said.write_text(text, encoding="utf-8")
        raise


def _one_job(options) -> None:
    from reefcore import workflow
    from reefcore.workflow import build, keys, resources, steps

    began = time.perf_counter()
    if options.kind == "step":
        project = workflow.open(options.profile, options.seed)
        key = steps.key(project.profile, project.folder, options.name)
    else:
        (chapter,) = build.chapters([options.name], dict(options.given))
        key = build.key_of(chapter)
    if key != options.key:
        raise ReefcoreError(
            "the sources changed while the build was running", options.name, "type the same command again"
        )
    if options.gpus and steps.rank() is None:
        given = resources.claim(options.gpus) if options.claim else resources.gpus()[: options.gpus]
        if len(given) > 1 and options.kind == "step" and options.name in steps.runs(project.profile):
            resources.spread(len(given), sys.argv[sys.argv.index("job") :])
    if options.kind == "step":
        steps.ensure(project.profile, project.folder, options.name, options.workers)
    else:
        build.ensure(chapter, options.output, options.workers)
    if steps.rank():
        return
    marker = keys.root() / options.marker
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    name = Path(options.name).stem
    print(f"{options.kind:8}{name:24}{time.perf_counter() - began:7.1f} s", file=sys.stderr)


def _sample(options) -> None:
    from reefcore import sample

    folder = Path(options.folder)
    if folder.exists() and any(folder.iterdir()):
        raise ReefcoreError("this folder is not empty", folder, "name a new one")
    sample.generate(folder, options.seed, options.scale, options.workers)
    print(folder)


def _annotations_check(options) -> int:
    from reefcore import annotations

    reports = annotations.check(options.files, options.columns, options.size)
    if options.json:
        print(json.dumps(reports, indent=2, ensure_ascii=False, default=str))
    else:
        print(annotations.check_text(reports, folder=options.folder))
    return 2 if any(report["refused"] for report in reports) else 0


def _annotations_convert(options) -> None:
    from reefcore import annotations, taxonomy
    from reefcore.annotations import export

    given = {name: getattr(options, name) for name in ("source", "base", "unmangle", "names", "columns", "size")}
    given |= {"points": "sample", "sample": options.sample} if options.sample else {}
    if Path(options.output).resolve() in [Path(file).resolve() for file in options.files]:
        raise ReefcoreError("this is one of the files to convert", options.output, "name another file")
    frame = export.together([annotations.read(file, **given) for file in options.files])
    if options.to == "darwin-core" and frame["aphia_id"].isna().all():
        frame = taxonomy.map_labels(frame)[0]
    about = {name: getattr(options, name) for name in ("name", "licence", "cite") if getattr(options, name)}
    done = export.write(frame, options.output, options.to, positions=options.positions, **about)
    for name in ("rows", "read", "left_out"):
        done[f"input_{name}"] = frame.attrs[name]
    print(json.dumps(done, indent=2, ensure_ascii=False) if options.json else export.said(done))


def _recipes_list(options) -> None:
    from reefcore import recipes

    rows = []
    for name in recipes.names() + recipes.names("substrate"):
        full, sample = recipes.load(name, "full"), recipes.load(name, "sample")
        rows.append(
            {"name": name, "row": full.row, "tables": full.tables, "schemes": full.schemes}
            | {"full": full.model, "sample": sample.model}
        )
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    lines = [("name", "row", "tables", "schemes", "full", "sample")]
    lines += [[",".join(map(str, v)) if isinstance(v, tuple) else v for v in row.values()] for row in rows]
    for line in lines:
        print("".join(f"{text:{width}}" for text, width in zip(line, (29, 29, 13, 13, 46, 0), strict=True)))


def _recipes_show(options) -> None:
    from reefcore import recipes

    recipe, full = (recipes.load(options.name, size) for size in (options.size, "full"))
    said, rows = recipes.sources(options.name), []
    for key in recipes.KEYS:
        value, published = getattr(recipe, key), getattr(full, key)
        source = said.get(key, "") if value == published else f"sample; full: {published}"
        rows.append({"key": key, "value": value, "source": source})
    if options.json:
        print(json.dumps({"name": recipe.name, "size": recipe.size, "settings": rows}, indent=2))
        return
    print(f"{recipe.name} ({recipe.size})")
    for row in rows:
        value, source = (textwrap.wrap(str(row[column]), width) for column, width in (("value", 30), ("source", 50)))
        for key, left, right in itertools.zip_longest([row["key"]], value, source, fillvalue=""):
            print(f"{key:17}{left:32}{right}".rstrip())


def _select(options) -> None:
    from reefcore import covariates, images, selection, workflow

    project = workflow.open(options.profile)
    _log(logging.INFO)  # where the data are not made yet, that takes a while
    like, measured = options.like, None
    if like is not None or options.megapixels:
        measured = project.table("covariates")
    if like is not None and Path(like).is_dir():
        names = images.photos_in(like)
        like, skipped = covariates.table(names, like)
        if len(skipped):
            print(f"reefcore: {len(skipped)} of {len(names)} photos in {options.like} cannot be read", file=sys.stderr)
    sources = project.table("sources")
    selected, steps = selection.select(
        project.table("annotations"),
        ecoregion=options.ecoregion,
        realm=options.realm,
        genus=options.genus,
        source=options.source,
        layout=options.layout,
        min_agreement=options.min_agreement,
        megapixels=options.megapixels,
        points=options.points,
        like=like,
        max_colour_distance=options.max_colour_distance,
        sources=sources,
        images=measured,
        reviews=project.table("reviews") if options.min_agreement is not None else None,
    )
    files = selection.write(selected, steps, options.folder, sources, project.notice)
    if options.json:
        print(json.dumps({"steps": steps.to_dict("records"), "files": [str(file) for file in files]}, indent=2))
    else:
        print(steps.to_string(index=False))
        print("\n".join(str(file) for file in files))


def _prepare(options) -> None:
    from reefcore import workflow
    from reefcore.workflow import steps

    project = workflow.open(options.profile)
    plan, trainings = steps.plan(project.profile), steps.runs(project.profile)
    if unknown := [name for name in options.steps if name not in plan]:
        known = [name for name in plan if name not in trainings]
        raise ReefcoreError(f"there is no step {unknown[0]!r}", do=f"choose from {', '.join(known)}")
    _log(logging.WARNING if options.json else logging.INFO)
    if options.slice or options.source:
        _prepare_patches(project, options)
        return
    if options.anyway:
        os.environ[steps.ANYWAY] = "1"
    for name in options.steps:
        steps.ensure(project.profile, project.folder, name, options.workers)
        for output in plan[name].outputs:
            print(project.folder / output)


def _prepare_patches(project, options) -> None:
    """Measure what the patches take, or make those of single sources; the step itself gathers them."""
    from reefcore import cutting
    from reefcore.workflow import steps

    if not project.profile.shards or options.steps != ["patches"]:
        what = f"--slice and --source are about patches in shards, and the profile {project.profile.name} has "
        what += "no shards" if not project.profile.shards else "other steps"
        raise ReefcoreError(what, do="leave them out, or prepare patches of a profile with shards, such as full")
    steps.ensure(project.profile, project.folder, "splits", options.workers)
    points, shards = steps.cut_points(project.folder), project.folder / "shards"
    if unknown := sorted(set(options.source or ()) - (known := set(points["source"]))):
        near = difflib.get_close_matches(unknown[0], known, 3, 0.3) or sorted(known)[:3]
        raise ReefcoreError(f"no scheme uses a point of the source {unknown[0]!r}", do=f"there is {', '.join(near)}")
    points = points[points["source"].isin(options.source or known)]
    where = points, project.folder / "photos", project.profile.crop, shards, options.workers
    found = cutting.plan(*where, each=options.slice or 2)
    print(json.dumps(found, indent=2) if options.json else "\n".join(cutting.said(found)))
    if options.slice:
        return
    cutting.check(found, shards, options.anyway)
    skipped = cutting.make(*where)
    print(
        f"{len(points) - len(skipped):,} of {len(points):,} points have their patch in {shards}; once all sources are"
    )
    print(f"made, `reefcore prepare patches --profile {options.profile}` gathers them.")


def _train(options) -> None:
    from reefcore import workflow
    from reefcore.workflow import launch, steps
    from reefcore.workflow.project import find_profile

    if options.seed < 0:
        raise ReefcoreError(f"the seed {options.seed} is negative", do="choose 0 or more")
    profile = find_profile(options.profile)
    profile, names = steps.asked(profile, options.recipes, options.scheme, options.seed)
    if options.commands:  # the data may be on the other machine only
        print(launch.commands(options.recipes, options.scheme or [], options.profile, options.seed))
        return
    project = workflow.open(options.profile)
    first = not steps.rank()  # of several processes, one speaks
    _log(logging.INFO if first else logging.WARNING)
    for name in names:
        record = steps.ensure(profile, project.folder, name, options.workers)
        for output in record["outputs"] if first else ():
            print(project.folder / output)


def _zero_shot(options) -> None:
    from reefcore import workflow
    from reefcore.recipes import zero_shot
    from reefcore.workflow import experiments, steps

    if options.list:
        for recipe in map(zero_shot.load, zero_shot.names()):
            print(f"{recipe.name:14}{', '.join(dict.fromkeys(recipe.rows.values())):32}{recipe.model}")
        return
    project = workflow.open(options.profile)
    profile = experiments.asked_of(project.profile, options.recipes)
    _log(logging.INFO)
    for recipe in profile.zero_shot:
        made = steps.ensure(profile, project.folder, f"zero-{Path(recipe).stem}")
        for output in made["outputs"]:
            print(project.folder / output)


def _describe(options) -> None:
    import pandas as pd

    from reefcore import chat, descriptions, workflow
    from reefcore.files import atomic

    output = Path(options.output)
    taxa = options.taxa
    if not taxa:
        project = workflow.open(options.profile)
        split, labels = (
            project.table("splits", ["annotation_id"]),
            project.table("annotations", ["annotation_id", "label"]),
        )
        taxa = sorted(labels.merge(split, on="annotation_id")["label"].dropna().unique())
    _log(logging.INFO)
    client, answers = chat.client(options.model), output.with_suffix(".answers.jsonl")
    if options.texts:
        table = descriptions.from_texts(options.texts, taxa, client, answers, budget=chat.budget())
    else:
        table = descriptions.generate(taxa, client, answers, budget=chat.budget())
    for taxon, why in table.attrs.pop("missing", {}).items():
        print(f"reefcore: {taxon} has no description: {why}", file=sys.stderr)
    if output.exists():
        had = descriptions.read(output)
        twice = had.set_index(["taxon", "set"]).index.isin(table.set_index(["taxon", "set"]).index)
        table = pd.concat([had[~twice], table], ignore_index=True)
    with atomic(output) as temporary:
        table.to_csv(temporary, index=False)
    print(f"{output}: {len(table)} descriptions; every answer is kept in {answers}")


def _results(options) -> None:
    from reefcore import workflow
    from reefcore.workflow import steps

    project = workflow.open(options.profile)
    table = steps.results(project.profile, project.folder)
    if options.json:
        print(table.to_json(orient="records", indent=2))
    else:
        print(project.notice)
        shown = table.round({"macro_recall": 3, "accuracy": 3, "seconds": 1}).astype(object).where(table.notna(), "")
        print(shown.to_string(index=False) if len(shown) else "The profile trains nothing.")


def _predict(options) -> None:
    from reefcore import inference

    given = (options.photos, options.points, options.layout, options.seed, options.force)
    report = inference.run(options.checkpoint, options.given, options.output, *given)
    print(f"reefcore: {report['model']}; it knows reefs like those it was trained on", file=sys.stderr)
    if report["size"] == "sample":
        print("reefcore: a model trained on the sample profile knows synthetic reefs only", file=sys.stderr)
    if report["skipped"]:
        print(f"reefcore: {report['skipped']:,} without an answer, listed in {report['skipped_list']}", file=sys.stderr)
    print(json.dumps(report, indent=2, ensure_ascii=False) if options.json else report["output"])


def _substrate_run(options) -> None:
    from reefcore.substrate import stream

    given = options.frames, options.checkpoint, options.output, options.alpha, options.threads, options.live
    report = stream.run(*given, options.rate)
    if options.json:
        print(json.dumps({key: None if value != value else value for key, value in report.items()}, indent=2))
        return
    parts = [f"{report['frames']:,} frames", f"{report['deployments']:,} deployments at alpha {report['alpha']:g}"]
    parts += [f"{report['dropped']:,} dropped", f"{report['problems']:,} problems"]
    parts += [f"{report['portrait']:,} higher than wide, most likely stored turned"] if report["portrait"] else []
    parts += [f"{report['earlier']:,} were there before"] if report["earlier"] else []
    print(f"{report['output']}: {', '.join(parts)}; {report['frames_per_second']:.1f} frames/s")


def _substrate_export(options) -> None:
    import tempfile

    from reefcore import fitting
    from reefcore.substrate import export, own

    if options.int8 != (options.frames is not None):
        raise ReefcoreError("--int8 and --frames belong together", do="give both, or neither")
    fitted = fitting.load(options.checkpoint)
    if options.int8:
        with tempfile.TemporaryDirectory() as folder:  # what fails leaves no other model under the name asked for
            whole = export.write(fitted, Path(folder) / "float32.onnx", options.alpha)
            path = export.quantise(whole, options.output, own.some_patches(options.frames, whole))
    else:
        path = export.write(fitted, options.output, options.alpha)
    print(path)


def _substrate_train(options) -> None:
    from reefcore.substrate import own

    _log(logging.INFO)
    given = options.frames, options.labels, options.output, options.sequences, options.recipe, options.size
    report = own.train(*given, options.seed, options.threads)
    print(f"{report['output']}: {report['patches']:,} labelled patches, {report['skipped']} frames skipped")
    for part, number in report["sequences"].items():
        print(f"{part}: {number} sequences, {report['frames'][part]} frames")
    print(f"test: macro F1 {report['macro_f1']:.3f}, accuracy {report['accuracy']:.3f} over patches")
    alpha = report["alpha"]
    print("give --alpha: no frame has a decision" if alpha is None else f"alpha {alpha:g}, chosen on validation frames")


def _substrate_agreement(options) -> None:
    from reefcore.substrate import observers, own

    given = Path(options.given)
    seen = observers.read_folders(given) if given.is_dir() else observers.read_table(given)
    wide = observers.answers(seen)
    sequence = own.sequences(wide.index.to_series())
    # Neighbours of a sequence resemble each other, but of a few whole ones no interval can be had (see chapter 63).
    groups = sequence if sequence.nunique() > 5 else None
    pairs, several = observers.pairs(wide, groups=groups), []
    for order, here in seen.groupby("order"):  # one person in two orders is not two raters
        if here["observer"].nunique() > 2:
            several.append({"order": order} | observers.fleiss(observers.answers(here), groups=groups))
    if options.json:
        print(json.dumps({"pairs": json.loads(pairs.to_json(orient="records")), "fleiss": several}, indent=2))
        return
    print(pairs.drop(columns="faulty").round(3).to_string(index=False))
    units = f"frames of {sequence.nunique()} folders, each drawn whole" if groups is not None else "single frames"
    print(f"Intervals (95 %) resample {units}.")
    gaps = wide[wide.isna().any(axis=1)]
    for frame, row in gaps.head(20).iterrows():
        print(f"{frame}: no answer of {'; '.join(row.index[row.isna()])}", file=sys.stderr)
    if len(gaps) > 20:
        print(f"and {len(gaps) - 20:,} more frames that not all have labelled", file=sys.stderr)
    for one in several:
        interval = f"{one['kappa_low']:.3f} to {one['kappa_high']:.3f}"
        over = f"{one['raters']} raters, {one['frames']} frames ({one['missing']} are lacking to one)"
        print(f"Fleiss' kappa ({one['order']} order) {one['kappa']:.3f} ({interval}), {over}")


def _substrate_track(options) -> None:
    from reefcore import images, spreadsheets
    from reefcore.files import atomic
    from reefcore.substrate import own, tracks

    points = own.located(options.frames, options.decisions, options.track, options.timezone)
    lost = points[points["latitude"].isna()]
    print(tracks.write_geojson(points, Path(options.output) / "track.geojson"))
    if options.decisions:
        summary = tracks.summary(points)
        with atomic(Path(options.output) / "summary.csv") as temporary:
            spreadsheets.inert(summary).to_csv(temporary, index=False)
        print(summary.round(1).to_string(index=False))
        taken = len(images.photos_in(options.frames))
        print(f"{taken - len(points)} of {taken} frames have no decision, and are left out", file=sys.stderr)
    print(f"{len(lost)} of {len(points)} frames have no position", file=sys.stderr)
    for row in lost.head(20).itertuples():
        print(f"{row.frame}: {row.problem}", file=sys.stderr)
    if len(lost) > 20:
        print(f"and {len(lost) - 20:,} more; all are in track.geojson, without a geometry", file=sys.stderr)


def _site_new(options) -> None:
    from reefcore import site

    given = {name: getattr(options, name) for name in "photos metadata format columns size folder force".split()}
    made, tables = site.new(options.name, options.annotations, **given)
    _site_said(made, tables, "", options.json)  # it is made, whatever there is to mend: exit code 0


def _site_check(options) -> int:
    from reefcore import site
    from reefcore.workflow import keys, steps

    found, root = site.load(options.name), keys.root()  # paths of a site of one's own do not depend on the root
    if found.is_made_up:
        steps.ensure(found, found.folder(root), "raw")  # its files are made where they are not there
    return _site_said(found, site.make(found, root), root, options.json)


def _site_report(options) -> int:
    from reefcore.workflow import report

    began, only = time.perf_counter(), [name.strip() for name in options.only.split(",") if name.strip()]

    def say(text: str) -> None:
        print(f"{time.perf_counter() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    made = report.make(options.name, only, dict(options.given), options.cores, say)
    failed = {name: why for name, why in made.chapters.items() if why}
    if options.json:
        files = [str(path) for path in made.files]
        print(
            json.dumps({"report": str(made.page), "chapters": made.chapters, "ran": made.ran, "files": files}, indent=2)
        )
    else:
        print(
            f"{made.page}\n{len(made.chapters) - len(failed)} of {len(made.chapters)} chapters are in it, "
            f"{len(made.ran)} were run now; {len(made.files)} tables are in csv and exports beside it."
        )
    return int(bool(failed))


def _site_said(found, tables, root, as_json: bool) -> int:
    """Print the checks of a site, with those of its labels, and write the lists they speak of."""
    from reefcore import site

    labels, _, problems = site.label(found, tables["points"], root, covers=tables["covers"])
    said = site.checks.of_labels(labels, problems)
    tables["checks"] = site.checks.table([*tables["checks"].itertuples(index=False, name=None), *said])
    folder = site.write_lists(found, tables, root)
    if as_json:
        rows = json.loads(tables["checks"].to_json(orient="records"))
        print(json.dumps({"site": str(found.path), "checks": rows}, indent=2, ensure_ascii=False))
    else:
        print(site.checks.text(tables["checks"], f"{found.name} ({found.path})"))
        print(f"The lists are in {folder}; labels to decide on are in {found.at(found.labels, root)}.")
    return int(tables["checks"]["state"].eq("wrong").any())


def _evaluate(options) -> None:
    from reefcore import annotations, metrics, predictions, workflow
    from reefcore.errors import problems_text
    from reefcore.files import read_parquet, write_parquet

    given = predictions.read(options.predictions)
    problems = given.attrs.pop("problems")  # pandas cannot handle a table there
    if len(problems):
        bad = problems["line"].nunique()
        print(problems_text(problems, options.predictions, len(given), len(given) + bad), file=sys.stderr)
    if options.annotations and Path(options.annotations).suffix != ".parquet":
        known = annotations.read(options.annotations)
    elif options.annotations:
        known = read_parquet(options.annotations)
    else:
        known = workflow.open(options.profile).table("annotations", ["annotation_id", "source", "image", "label"])
    if "label" in known:
        for doubt in metrics.doubts(given, known):
            print(f"reefcore: {doubt}; the metrics take the table as it is", file=sys.stderr)
    table = metrics.evaluate(given, known, options.scheme, options.resamples, options.seed, options.over)
    if options.output:
        write_parquet(table, options.output)
    print(table.to_json(orient="records", indent=2) if options.json else table.round(4).to_string(index=False))


def _audit(options) -> int:
    from reefcore import audit
    from reefcore.audit.read import read

    found = audit.run({file: read(file) for file in options.files} or None)
    looked, sure = found.attrs["checked"], list(audit.CERTAINTY)
    every = len(found)
    found = found[found["certainty"].isin(sure[: sure.index(options.certainty) + 1])].reset_index(drop=True)
    if options.json:
        rows = {"findings": found.to_dict("records"), "checked": looked.to_dict("records")}
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        print(audit.report(found, every - len(found)))
    return int(len(found) > 0)


def _reproduced(options) -> int:
    from reefcore import reproduction
    from reefcore.workflow import project, steps

    if options.file:
        found = reproduction.read(options.file, options.profile)
        profile, tables = project.find_profile(found.attrs["profile"]), {"metrics": found}
    else:
        opened = project.open(options.profile or "sample")
        profile, tables = opened.profile, {}
        for name in reproduction.TABLES:
            step = steps.maker(profile, name if name in steps.SEVERAL else f"{name}.parquet")
            if step and steps.is_fresh(profile, opened.folder, step):  # nothing is trained to answer a question
                tables[name] = opened.table(name)
    results = reproduction.gather(tables)
    told = reproduction.verdicts(results, profile.kind)
    values, pairs = reproduction.values(results), reproduction.pairs(results)
    values = values[values["verdict"].isin([reproduction.DIFFERS, reproduction.OTHER])]
    pairs = pairs[pairs["verdict"] == reproduction.BEYOND]
    if options.json:
        parts = {"tables": told, "values": values, "pairs": pairs}
        parts = {name: json.loads(table.to_json(orient="records")) for name, table in parts.items()}
        print(json.dumps({"profile": profile.name, **parts}, indent=2))
    else:
        print(profile.notice)
        shown = told.loc[:, (told != 0).any()].round(1)
        print(shown.to_string(index=False))
        columns = ["place", "published", "value", "ci_low", "ci_high", "difference"]
        for title, table in (("Values that differ", values[columns]), ("Pairs that are opposite", pairs.iloc[:, :-3])):
            print(f"\n{title}: {len(table)}{', the first 20' if len(table) > 20 else ''}")
            print(table.head(20).round(4).to_string(index=False) if len(table) else "")
    return int(profile.kind == "full" and bool(told["fails"].any()))


def _status(options) -> int:
    from reefcore.workflow import status

    if options.output and Path(options.output).is_file():
        raise ReefcoreError("this is a file", options.output, "name the folder of the executed notebooks")
    found = status.index(options.profile, options.output)
    print(json.dumps(found, indent=2, ensure_ascii=False) if options.json else status.report(found, options.steps))
    return int(bool(status.late(found)))


def _book_build(options) -> None:
    from reefcore.workflow import book

    folder = book.build()
    print("\n".join(book.times()))
    print(f"Open {folder / 'index.html'}")


def _book_archive(options) -> None:
    from reefcore.workflow import archive

    made = archive.write(options.output)
    if options.json:
        print(json.dumps(made, indent=2, default=str))
    else:
        print(f"{made['path']}\n  {made['files']:,} files, {made['bytes'] / 1e6:.1f} MB, SHA-256 {made['sha256']}")
        print(f"  checksum in {made['checksum']}")


def _book_check(options) -> int:
    from reefcore.workflow import book

    report = book.check(options.folder)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print("\n".join(report["problems"] + [report["summary"]]))
    return int(bool(report["problems"]))


def _book_pdf(options) -> None:
    from reefcore.workflow import pdf

    path = pdf.write(options.folder, options.output)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
