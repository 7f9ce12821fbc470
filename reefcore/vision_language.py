"""Vision-language models of open_clip: frozen, asked zero-shot (sections 5.3, A.6), or fine-tuned. Imports torch.

A patch is scored by how near its image features come to the text features of each class. Fine-tuning (BioCLIP-FT,
section A.3.1) takes the ranks of a class as its text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import open_clip
import torch
from torch import Tensor, distributed
from torchvision.transforms.functional import InterpolationMode, resize

from reefcore import weights
from reefcore.errors import ReefcoreError
from reefcore.learners import Learner
from reefcore.prompts import taxonomy_strings
from reefcore.recipes import Recipe


class Encoder:
    """A frozen model of open_clip that turns patches and texts into unit vectors of one space.

    Attributes
    ----------
    side : int
        Of the patches that the model sees, in pixels; others are resized.
    scale : float
        What cosines are multiplied by. A model that was trained with a sigmoid (SigLIP) has a bias too, which drops out
        where classes are compared: they rank alike, only the probabilities are those of a softmax.
    encoded : int
        Texts that went through the model so far; each distinct one does so once.
    """

    def __init__(self, clip, tokenizer, preprocess: dict):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.clip, self.tokenizer, self.preprocess = clip.eval().to(self.device), tokenizer, preprocess
        self.side = preprocess["size"]
        self.scale = float(clip.logit_scale.detach().exp())
        self.encoded = 0
        self._known: dict[str, np.ndarray] = {}
        mean, std = (torch.tensor(preprocess[key], device=self.device).view(3, 1, 1) * 255 for key in ("mean", "std"))
        self._mean, self._std = mean, std

    def prepared(self, patches: np.ndarray) -> Tensor:
        """Resize and normalise patches as the weights want them: uint8 (n, s, s, 3) -> float (n, 3, side, side).

        For square patches and models open_clip's three ways to resize (shortest, longest, squash) are one.
        """
        x = torch.from_numpy(np.ascontiguousarray(patches)).permute(0, 3, 1, 2)
        if x.shape[-1] != self.side:
            how = InterpolationMode(self.preprocess["interpolation"])
            x = resize(x, [self.side, self.side], how, antialias=True)
        return x.to(self.device).float().sub_(self._mean).div_(self._std)

    @torch.inference_mode()
    def images(self, patches: np.ndarray, batch: int = 256) -> np.ndarray:
        """Encode patches: uint8 (n, s, s, 3) -> unit vectors, float32 (n, dim)."""
        half = torch.autocast("cuda", torch.float16, enabled=self.device.type == "cuda")
        parts = []
        for start in range(0, len(patches), batch):
            with half:
                found = self.clip.encode_image(self.prepared(patches[start : start + batch]), normalize=True)
            parts.append(found.float().cpu().numpy())
        return np.concatenate(parts)

    @torch.inference_mode()
    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts: unit vectors, float32 (n, dim); one that was encoded before is not encoded again."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in range(0, len(fresh), 256):
            part = fresh[start : start + 256]
            found = self.clip.encode_text(self.tokenizer(part).to(self.device), normalize=True)
            self._known |= dict(zip(part, found.float().cpu().numpy(), strict=True))
            self.encoded += len(part)
        return np.stack([self._known[text] for text in texts])


def load(model: str, source: str | Path = "hub") -> Encoder:
    """Load a vision-language model with its own preprocessing and its own way to cut text into words.

    Parameters
    ----------
    model : str
        The repository on the hub; only a name in errors for another source.
    source : 'hub' or path
        A folder has what a repository of open_clip has: ``open_clip_config.json``, the weights, and the files of the
        tokenizer where the configuration names one (SigLIP).

    Raises
    ------
    ReefcoreError
        Where something cannot be had, the configuration does not say how images are prepared, or the weights are those
        of another model. Nothing is replaced by a default of another model.
    """
    if source == "hub":
        config = weights.fetch(model, ["open_clip_config.json"], model)
        weights.fetch(model, weights.CLIP_FILES, model)
        folder = config.parent
    else:
        folder = Path(source)
        config = folder / "open_clip_config.json"
    known = _configuration(config)
    text = known["model_cfg"].get("text_cfg", {})
    tokenizer = open_clip.SimpleTokenizer(context_length=text.get("context_length", 77))
    if owner := text.get("hf_tokenizer_name"):
        tokenizer = _tokenizer(owner, folder if source != "hub" else None, text, model)
    if not any((folder / name).exists() for name in weights.CLIP_FILES):
        raise ReefcoreError(f"there are no weights of {model}", folder, f"put {weights.CLIP_FILES[0]} there")
    try:  # strict: weights of another model, or with a gap, are refused
        clip = open_clip.create_model(f"local-dir:{folder}", require_pretrained=True)
    except Exception as error:  # whatever the model's code and the file raise
        said = " ".join(str(error).split())[:240]
        raise ReefcoreError(f"these are no weights of {model} ({said})", folder, "fetch them again") from error
    size = clip.visual.image_size
    size = size if isinstance(size, int) else size[0] if len(set(size)) == 1 else None
    if size is None:
        raise ReefcoreError(f"{model} takes images that are not square", config, "use another model")
    return Encoder(clip, tokenizer, {**known["preprocess_cfg"], "size": size})


def _configuration(config: Path) -> dict:
    """Read how a model is built and how its images are prepared; weights without that are useless."""
    try:
        known = json.loads(config.read_text(encoding="utf-8"))
        model_cfg, given = known["model_cfg"], known["preprocess_cfg"]
        prepared = {"interpolation": "bicubic", "resize_mode": "shortest"} | {k: v for k, v in given.items() if v}
        if not all(len(prepared[key]) == 3 for key in ("mean", "std")):
            raise ValueError("mean and std must have three numbers")
        if prepared["interpolation"] not in ("bicubic", "bilinear"):
            raise ValueError(f"the interpolation {prepared['interpolation']!r} is not known")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())[:200]
        raise ReefcoreError(
            f"weights need their preprocessing, which is not here ({said})",
            config,
            "put the configuration of their hub repository there, with model_cfg and preprocess_cfg (mean, std)",
        ) from None
    return {"model_cfg": model_cfg, "preprocess_cfg": prepared}


def _tokenizer(owner: str, folder: Path | None, text: dict, model: str):
    """Load the tokenizer that a configuration names, from its repository or from the folder of the weights."""
    try:
        import transformers  # noqa: F401 - open_clip imports it only when it is too late to say so
    except ImportError:
        do = "pip install 'reefcore[language]'"
        raise ReefcoreError(f"{model} has words of its own, which the package transformers reads", do=do) from None
    if folder is None:
        folder = weights.fetch(owner, ["tokenizer_config.json"], f"the tokenizer of {model}").parent
        for name in (["tokenizer.json", "spiece.model"], ["special_tokens_map.json", "tokenizer_config.json"]):
            weights.fetch(owner, name, f"the tokenizer of {model}")
    options = text.get("tokenizer_kwargs", {})
    mode = text.get("tokenizer_mode")
    try:
        return open_clip.tokenizer.HFTokenizer(
            str(folder), context_length=text.get("context_length", 77), tokenizer_mode=mode, **options
        )
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise ReefcoreError(
            f"the tokenizer of {model} cannot be read ({said})", folder, "put its files there"
        ) from error


def class_features(encoder: Encoder, texts: dict[str, list[str]]) -> np.ndarray:
    """Encode classes, each by the mean of the unit vectors of its texts, scaled to unit length.

    Parameters
    ----------
    encoder : Encoder
    texts : dict of list of str
        From `reefcore.prompts.texts`.

    Returns
    -------
    ndarray of float32, shape (classes, dim)
    """
    found = encoder.texts([text for of_class in texts.values() for text in of_class])
    ends = np.cumsum([len(of_class) for of_class in texts.values()])
    means = np.stack([part.mean(axis=0) for part in np.split(found, ends[:-1])])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def classify(images: np.ndarray, classes: np.ndarray, scale: float) -> np.ndarray:
    """Score images for classes: the softmax of their cosines times `scale`.

    Parameters
    ----------
    images : ndarray of float32, shape (n, dim)
        Unit vectors of `Encoder.images`.
    classes : ndarray of float32, shape (classes, dim)
        Of `class_features`.
    scale : float
        The encoder's.

    Returns
    -------
    ndarray of float32, shape (n, classes)
    """
    logits = np.float32(scale) * (images @ classes.T)
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    return logits / logits.sum(axis=1, keepdims=True)


class TaxonomyClip(Learner):
    """A CLIP model that learns to match patches with the taxonomy strings of their classes.

    Patches arrive normalised by the recipe; pretrained weights see them normalised by their own mean and std, which
    travel with them, unless ``model_args: {preprocess_cfg: {mean: .., std: ..}}`` states others.

    Attributes
    ----------
    prompts : list of str
        The text of each class.

    Raises
    ------
    ReefcoreError
        Where the model cannot be had or takes another input size than the recipe's, or a class is no known taxon.
    """

    def __init__(self, recipe: Recipe, classes: list[str]):
        super().__init__(recipe, classes)
        self.clip, options = weights.clip_model(recipe.model, recipe.weights, recipe.model_args)
        self.recipe = replace(self.recipe, model_args=options)
        side = self.clip.visual.image_size  # a number for a ResNet, a pair for a ViT
        side = side[0] if isinstance(side, tuple) else side
        if side != recipe.input_size:
            what = f"{recipe.model} takes images of {side} pixels, not of {recipe.input_size}"
            raise ReefcoreError(what, f"recipe {recipe.name}", f"set input_size to {side}")
        given = torch.tensor([recipe.mean, recipe.std])
        own = options.get("preprocess_cfg", {})
        wanted = torch.tensor([own.get("mean", recipe.mean), own.get("std", recipe.std)])
        self.register_buffer("scale", (given[1] / wanted[1]).view(3, 1, 1), persistent=False)
        self.register_buffer("shift", ((given[0] - wanted[0]) / wanted[1]).view(3, 1, 1), persistent=False)
        self.prompts = list(taxonomy_strings(classes).values())
        self.register_buffer("tokens", open_clip.tokenize(self.prompts, self.clip.context_length), persistent=False)
        self._known: tuple = (None, None)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Give the contrastive loss of a batch, as ``open_clip.ClipLoss``, over all processes where there are several.

        Patches of one class have one text, yet count as each other's negatives, as in the original: the loss cannot
        reach 0, and a common genus pushes its own patches apart. Every process needs a batch of the same size.
        """
        if target.is_floating_point():
            raise ReefcoreError(
                "patches of mixed classes have no text", f"recipe {self.recipe.name}", "set mixup and cutmix to 0"
            )
        present, back = target.unique(return_inverse=True)
        several = distributed.is_available() and distributed.is_initialized()
        loss = open_clip.ClipLoss(
            **self.recipe.task_args,
            rank=distributed.get_rank() if several else 0,
            world_size=distributed.get_world_size() if several else 1,
        )
        return loss(self.features(x), self._encode(self.tokens[present])[back], self._scale())

    def scored(self, features: Tensor) -> Tensor:
        return self._scale() * features @ self._class_features().T

    def features(self, x: Tensor) -> Tensor:
        """Encode normalised patches: (n, 3, side, side) -> unit vectors (n, dim)."""
        return self.clip.encode_image(x * self.scale + self.shift, normalize=True)

    def _encode(self, tokens: Tensor) -> Tensor:
        return self.clip.encode_text(tokens, normalize=True)

    def _class_features(self) -> Tensor:
        """Encode the classes' texts; for evaluation once, until a weight changes (by a step, a load, an average)."""
        if self.training:
            self._known = (None, None)
            return self._encode(self.tokens)
        state = [(p._version, p.data_ptr()) for p in self.clip.parameters()]
        if self._known[0] != state:
            with torch.no_grad():
                self._known = (state, self._encode(self.tokens).float())
        return self._known[1]

    def _scale(self) -> Tensor:
        """Give what cosines are multiplied by, at most 100 as in the original."""
        return self.clip.logit_scale.clamp(0, math.log(100)).exp()
