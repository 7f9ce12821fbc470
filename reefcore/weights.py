"""Weights: pretrained ones from the Hugging Face hub or a file, and checkpoints of our own as safetensors.

Nothing falls back to random weights in silence: only ``weights: scratch`` trains from scratch. Imports torch.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path

import torch

from reefcore.errors import ReefcoreError
from reefcore.files import atomic

SCRATCH = "to train from scratch, say weights: scratch"
TIMM_FILES = ("model.safetensors", "pytorch_model.bin")
CLIP_CONFIG = "open_clip_config.json"
CLIP_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
RESAMPLED, RESIZED = ("bicubic", "bilinear"), ("shortest", "longest", "squash")  # all that open_clip knows
VOCABULARY = 49408  # of the tokenizer that open_clip brings


def save(state: dict[str, torch.Tensor], path: str | Path, metadata: dict | None = None) -> Path:
    """Write tensors and what is known about them to a safetensors file, whole or not at all.

    Parameters
    ----------
    state : dict of tensors
        As of ``state_dict()``; tensors that share memory are written apart.
    path : path
    metadata : dict, optional
        Anything JSON can hold.
    """
    from safetensors.torch import save_file

    apart = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in state.items()}
    with atomic(path) as temporary:
        save_file(apart, temporary, {"reefcore": json.dumps(metadata or {})})
    return Path(path)


def read(path: str | Path) -> tuple[dict[str, torch.Tensor], dict]:
    """Read a safetensors file: its tensors, on the CPU, and the metadata that `save` wrote (none in a foreign file).

    Raises
    ------
    ReefcoreError
        Where the file is missing, cut off or no safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = json.loads((file.metadata() or {}).get("reefcore", "{}"))
            return {key: file.get_tensor(key) for key in file.keys()}, metadata  # noqa: SIM118 - it is no mapping
    except (OSError, SafetensorError, ValueError) as error:
        raise ReefcoreError(
            f"these weights cannot be read ({short(error)})", path, "give a whole safetensors file, or make it again"
        ) from None


def timm_model(model: str, classes: int, source: str | Path = "scratch", **options) -> torch.nn.Module:
    """Build a model of timm with a head of its own, from pretrained weights or from scratch.

    Parameters
    ----------
    model : str
        A name of timm, with or without the tag of its weights.
    classes : int
        Outputs of the new head; 0 leaves it out.
    source : {'scratch', 'hub'} or path
        Where the weights come from; a file is safetensors or PyTorch's own, with a head of any size or with none.
    **options
        Passed to ``timm.create_model``.

    Raises
    ------
    ReefcoreError
        Where timm cannot build the model, its weights cannot be had, or they are those of another architecture.
    """
    import timm

    try:
        if source == "scratch":
            return timm.create_model(model, num_classes=classes, **options)
        config = timm.get_pretrained_cfg(model)
    except Exception as error:  # timm raises whatever the model's code raises: what was asked for is wrong
        raise ReefcoreError(f"timm cannot build {model} ({short(error)})", do="check model and model_args") from error
    if config is None or (source == "hub" and not config.hf_hub_id):
        raise ReefcoreError(f"timm knows no pretrained weights of {model}", do=f"name their tag or a file; {SCRATCH}")
    if fetched := source == "hub":
        names = [config.hf_hub_filename] if config.hf_hub_filename else TIMM_FILES
        source = fetch(config.hf_hub_id, names, f"{config.architecture or model}.{config.tag}")
    state = _state(source)
    head = config.classifier or "head"
    head = head if isinstance(head, str) else head[0]  # distilled models have two
    keys = (f"{head}.weight", f"{head.rpartition('.')[0]}.weight")  # files older than timm's head.fc say head
    size = config.num_classes if fetched else next((len(state[key]) for key in keys if key in state), 0)
    # With the file's own number of classes timm loads strictly, after its own conversion of names and positions.
    overlay = {"state_dict": state, "num_classes": size}
    try:
        built = timm.create_model(model, pretrained=True, num_classes=size, pretrained_cfg_overlay=overlay, **options)
    except Exception as error:
        raise ReefcoreError(f"these are no weights of {model} ({short(error)})", source, SCRATCH) from error
    del built.pretrained_cfg["state_dict"]
    built.reset_classifier(classes)
    return built


def clip_model(model: str, source: str | Path, options: dict) -> tuple[torch.nn.Module, dict]:
    """Build a CLIP model of open_clip, from pretrained weights together with their own preprocessing or from scratch.

    Parameters
    ----------
    model : str
        ``hf-hub:`` and a repository on the hub; not looked at for another source.
    source : {'scratch', 'hub'} or path
        A weights file has its ``open_clip_config.json`` beside it, as a repository on the hub has.
    options : dict
        Arguments of ``open_clip.CLIP``; ``preprocess_cfg`` (mean, std) stands in for the weights' own.

    Returns
    -------
    clip : open_clip.CLIP
    options : dict
        All options, from which the same model is built with `source` 'scratch'. Its ``preprocess_cfg`` says how pixels
        in 0..1 are normalised: by CLIP's mean and std where the configuration leaves them out, as BioCLIP's does; from
        scratch it is there only if given.

    Raises
    ------
    ReefcoreError
        Where the weights cannot be had, come without their configuration or are those of another architecture.
    """
    import open_clip

    if source != "scratch":
        if source == "hub":
            repository = model.removeprefix("hf-hub:")
            config, source = (fetch(repository, names, model) for names in ([CLIP_CONFIG], CLIP_FILES))
        else:
            config = Path(source).with_name(CLIP_CONFIG)
        usual = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
        own, prepared = clip_configuration(config, usual)
        options = {**own, "preprocess_cfg": {key: list(prepared[key]) for key in ("mean", "std")}, **options}
    try:
        clip = open_clip.CLIP(**{key: value for key, value in options.items() if key != "preprocess_cfg"})
    except Exception as error:  # of whatever the options mean to torch
        raise ReefcoreError(f"open_clip cannot build {model} ({short(error)})", do="check model_args") from error
    if clip.vocab_size != VOCABULARY:
        raise ReefcoreError(f"{model} has a vocabulary of its own", do=f"use a model of CLIP's, {VOCABULARY} tokens")
    if source != "scratch":
        try:
            open_clip.load_checkpoint(clip, str(source))
        except Exception as error:
            raise ReefcoreError(f"these are no weights of {model} ({short(error)})", source, SCRATCH) from error
    return clip, options


def clip_configuration(path: str | Path, stated: dict | None = None) -> tuple[dict, dict]:
    """Read how a CLIP model is built and how its images are prepared; weights without that are refused.

    Parameters
    ----------
    path : path
        ``open_clip_config.json``, as repositories of open_clip on the hub have it.
    stated : dict, optional
        Stands in for what its ``preprocess_cfg`` leaves out.

    Returns
    -------
    model_cfg : dict
    preprocess_cfg : dict
        ``mean`` and ``std`` (three numbers each, of pixels in 0..1), ``interpolation`` and ``resize_mode`` (bicubic and
        shortest where left out, which is what open_clip means by that), and ``size`` where it is stated.

    Raises
    ------
    ReefcoreError
        Where the file, ``preprocess_cfg`` or a part of it is missing or makes no sense.
    """
    try:
        known = json.loads(Path(path).read_text(encoding="utf-8"))
        given = {key: value for key, value in known["preprocess_cfg"].items() if value is not None}
        prepared = {"interpolation": "bicubic", "resize_mode": "shortest", **(stated or {}), **given}
        for key, allowed in {"interpolation": RESAMPLED, "resize_mode": RESIZED}.items():
            if prepared[key] not in allowed:
                raise ValueError(f"{key} may be {', '.join(allowed)}, not {prepared[key]!r}")
        for key in ("mean", "std"):
            if [isinstance(value, int | float) for value in prepared[key]] != [True] * 3:
                raise ValueError(f"{key} must be three numbers, not {prepared[key]!r}")
        if min(prepared["std"]) <= 0:
            raise ValueError(f"std must be above zero, not {prepared['std']!r}")
        return known["model_cfg"], prepared
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"no {error.args[0]}" if isinstance(error, KeyError) else short(error)
        raise ReefcoreError(
            f"CLIP weights need their preprocessing, which is not here ({said})",
            path,
            f"put the configuration of their hub repository there, with model_cfg and preprocess_cfg; {SCRATCH}",
        ) from None


def fetch(repository: str, names: Sequence[str], model: str) -> Path:
    """Get a file of a repository on the Hugging Face hub: from its cache, else over the network.

    Parameters
    ----------
    repository : str
        As ``timm/resnet101.a1h_in1k``.
    names : sequence of str
        The first one that the repository has is taken.
    model : str
        What the weights are called in errors.

    Raises
    ------
    ReefcoreError
        Saying what to fetch and where it is looked for.
    """
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    cause = None
    for name in names:
        unreachable = isinstance(cause, LocalEntryNotFoundError)  # so that only the cache can have the others
        try:
            return Path(hf_hub_download(repository, name, local_files_only=unreachable))
        except EntryNotFoundError as error:
            cause = cause if unreachable else error
        except Exception as error:  # of the hub, the network, the disk
            cause = error
            break
    raise ReefcoreError(
        f"the weights of {model} cannot be fetched ({short(cause.__cause__ or cause)})",
        do=f"where there is a network, run `hf download {repository}`, which puts them into "
        f"{constants.HF_HUB_CACHE} (HF_HOME moves it, and with HF_HUB_OFFLINE=1 only it is looked at), or name a file "
        f"under weights; {SCRATCH}",
    ) from cause


def _state(path: str | Path) -> dict[str, torch.Tensor]:
    import timm

    try:
        state = timm.models.load_state_dict(str(path))
    except Exception as error:
        raise ReefcoreError(
            f"these weights cannot be read ({short(error) or 'no such file'})", path, f"give another file; {SCRATCH}"
        ) from None
    ours = {key.removeprefix("model."): tensor for key, tensor in state.items() if key.startswith("model.")}
    return ours or state  # checkpoints of a learner hold more than the model


def short(error: Exception) -> str:
    """Give what an error of another library says, on one line of at most 240 characters."""
    return textwrap.shorten(str(error), 240, placeholder=" ...")
