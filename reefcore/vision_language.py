"""Vision-language models of open_clip: frozen, asked zero-shot (sections 5.3, A.6), or fine-tuned. Imports torch.

A patch is scored by how near its image features come to the text features of each class. Fine-tuning (BioCLIP-FT,
section A.3.1) takes the ranks of a class as its text.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import open_clip
import torch
from torch import Tensor, distributed
from torch.nn.functional import interpolate

from reefcore import taxonomy, weights
from reefcore.augment import normalised
from reefcore.errors import ReefcoreError
from reefcore.learners import Learner
from reefcore.recipes import Recipe

logger = logging.getLogger(__name__)

POSITIONS = {"visual.positional_embedding", "positional_embedding", "text.positional_embedding"}


class Encoder:
    """A frozen model of open_clip that turns patches and texts into unit vectors of one space; see `load`.

    It runs on the GPU where there is one, in 16 bits; on one CPU thread the same patches give the same bytes.

    Attributes
    ----------
    side : int
        Of the patches that the model sees, in pixels; others are resized.
    scale : float
        What cosines are multiplied by. A model that was trained with a sigmoid (SigLIP) has a bias too, the same for
        every class: it drops out where classes are compared.
    encoded : int
        Texts that went through the model so far; each distinct one does so once.
    cut : list of str
        Texts of which the model read only the beginning, for they are longer than it can read.
    """

    def __init__(self, clip, tokenizer, preprocess: dict):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.clip = clip.eval().to(self.device, memory_format=torch.channels_last)
        self.tokenizer, self.side = tokenizer, preprocess["size"]
        self.interpolation = preprocess["interpolation"]
        self.normalisation = SimpleNamespace(mean=preprocess["mean"], std=preprocess["std"], channels_last=True)
        self.scale = float(clip.logit_scale.detach().exp())
        self.encoded, self.cut = 0, []
        self._known: dict[str, np.ndarray] = {}

    def prepared(self, patches: np.ndarray) -> Tensor:
        """Resize and normalise patches as the weights want them: uint8 (n, s, s, 3) -> float (n, 3, side, side).

        For square patches and models open_clip's three ways to resize (shortest, longest, squash) are one.
        """
        x = torch.from_numpy(np.array(patches)).permute(0, 3, 1, 2)
        if x.shape[-1] != self.side:  # in 8 bits and on the CPU, as Pillow: in floats it is up to 29 levels off
            x = interpolate(x, (self.side, self.side), mode=self.interpolation, antialias=True)
        if self.device.type == "cuda":  # while the model is busy with the patches before
            x = x.pin_memory().to(self.device, non_blocking=True)
        return normalised(x, self.normalisation)

    @torch.inference_mode()
    def images(self, patches: np.ndarray, batch: int = 256) -> np.ndarray:
        """Encode patches.

        Parameters
        ----------
        patches : ndarray of uint8, shape (n, s, s, 3)
            Of any size; colours in 0..255.
        batch : int
            How many at a time.

        Returns
        -------
        ndarray of float32, shape (n, dim)
            Unit vectors.

        Raises
        ------
        ReefcoreError
            Where there are none, or they are not 8-bit, square and in colour.
        """
        shape = patches.shape
        if patches.dtype != np.uint8 or len(shape) != 4 or not shape[0] or shape[1] != shape[2] or shape[3] != 3:
            what = f"patches must be 8-bit of shape (n, s, s, 3), not {patches.dtype} {shape}"
            raise ReefcoreError(what, do="cut them with reefcore.patches")
        half = torch.autocast("cuda", torch.float16, enabled=self.device.type == "cuda")
        found = []
        for start in range(0, len(patches), batch):
            with half:
                part = self.clip.encode_image(self.prepared(patches[start : start + batch]), normalize=True)
            found.append(part.float())
        return torch.cat(found).cpu().numpy()

    @torch.inference_mode()
    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts: unit vectors, float32 (n, dim); one that was encoded before is not encoded again."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if not fresh:
            return np.stack([self._known[text] for text in texts])
        length = self.tokenizer.context_length
        blank, *whole = self.tokenizer(
            ["", *fresh], context_length=8 * length
        )  # what follows a text that is read whole
        cut = [text for text, tokens in zip(fresh, whole, strict=True) if (tokens != blank)[length:].any()]
        if cut:
            logger.warning(
                "%d texts are longer than the model reads (%d tokens); their ends count for nothing: %s",
                len(cut),
                length,
                "; ".join(cut),
            )
            self.cut += cut
        for start in range(0, len(fresh), 256):
            part = fresh[start : start + 256]
            found = self.clip.encode_text(self.tokenizer(part).to(self.device), normalize=True)
            self._known |= dict(zip(part, found.float().cpu().numpy(), strict=True))
            self.encoded += len(part)
        return np.stack([self._known[text] for text in texts])


def load(model: str, source: str | Path = "hub", stated: dict | None = None) -> Encoder:
    """Load a vision-language model with its own preprocessing and its own way to cut text into words.

    Parameters
    ----------
    model : str
        The repository on the hub; only a name in errors for another source.
    source : 'hub' or path
        A folder has what a repository of open_clip has: ``open_clip_config.json``, the weights, and the files of the
        tokenizer where the configuration names one (SigLIP).
    stated : dict, optional
        ``mean`` and ``std`` for weights whose configuration leaves them out (BioCLIP).

    Raises
    ------
    ReefcoreError
        Where something cannot be had, the configuration does not say how images are prepared, or the weights are those
        of another model. Nothing is replaced by a default of another model.
    """
    if source == "hub":
        folder = weights.fetch(model, [weights.CLIP_CONFIG], model).parent
        weights.fetch(model, weights.CLIP_FILES, model)
    else:
        folder = Path(source)
    config = folder / weights.CLIP_CONFIG
    built, prepared = weights.clip_configuration(config, stated)
    file = next((folder / name for name in weights.CLIP_FILES if (folder / name).is_file()), None)
    if file is None:
        raise ReefcoreError(f"there are no weights of {model}", folder, f"put {weights.CLIP_FILES[0]} there")
    try:  # strict: weights of another model, or with a gap, are refused
        clip = open_clip.create_model(f"local-dir:{folder}", require_pretrained=True)
        own, held = clip.state_dict(), open_clip.factory.load_state_dict(str(file))
        for key in POSITIONS & own.keys() & held.keys():  # which open_clip would stretch without a word
            if own[key].shape != held[key].shape:
                raise ValueError(f"{key} is {tuple(held[key].shape)} in the file, {tuple(own[key].shape)} in model_cfg")
    except Exception as error:  # whatever the model's code and the file raise
        said = weights.short(error)
        raise ReefcoreError(f"these are no weights of {model} ({said})", file, "fetch them again") from error
    sizes = {*_pair(clip.visual.image_size), *_pair(prepared.get("size", clip.visual.image_size))}
    if len(sizes) > 1:
        what = f"{model} must take square images of one size, not {', '.join(map(str, sorted(sizes)))} pixels"
        raise ReefcoreError(what, config, "mend image_size or size, or use another model")
    return Encoder(
        clip, _tokenizer(model, built["text_cfg"], folder, source == "hub"), prepared | {"size": sizes.pop()}
    )


def _pair(size: int | Sequence[int]) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


def _tokenizer(model: str, text: dict, folder: Path, fetched: bool):
    """Load what cuts text into words: CLIP's, or what a configuration names, from its repository or the folder."""
    length = text.get("context_length", 77)
    if not (owner := text.get("hf_tokenizer_name")):
        if text.get("vocab_size", weights.VOCABULARY) != weights.VOCABULARY:
            do = f"use a model of CLIP's {weights.VOCABULARY} tokens, or name hf_tokenizer_name"
            raise ReefcoreError(f"{model} has a vocabulary of its own and names no tokenizer", folder, do)
        return open_clip.SimpleTokenizer(context_length=length)
    try:
        import transformers  # noqa: F401 - open_clip imports it only when it is too late to say so
    except ImportError:
        do = "pip install 'reefcore[language]'"
        raise ReefcoreError(f"{model} has words of its own, which the package transformers reads", do=do) from None
    if fetched:
        for names in (["tokenizer.json", "spiece.model"], ["special_tokens_map.json", "tokenizer_config.json"]):
            weights.fetch(owner, names, f"the tokenizer of {model}")
        folder = weights.fetch(owner, ["tokenizer_config.json"], f"the tokenizer of {model}").parent
    try:
        return open_clip.tokenizer.HFTokenizer(
            str(folder),
            context_length=length,
            tokenizer_mode=text.get("tokenizer_mode"),
            local_files_only=True,
            **text.get("tokenizer_kwargs") or {},
        )
    except Exception as error:  # whatever transformers raises
        said = weights.short(error)
        raise ReefcoreError(
            f"the tokenizer of {model} cannot be read ({said})", folder, "put the files of its repository there"
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

    Of a model trained with a sigmoid (SigLIP) classes rank as by its own scores, for its bias is the same for all; the
    probabilities are shares among the classes, not its own chances of each class by itself.

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
        self.prompts = list(taxonomy.strings(classes).values())
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
