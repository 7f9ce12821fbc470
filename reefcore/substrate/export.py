"""A patch classifier as one ONNX file that takes raw patches and says whether to deploy. Imports torch.

The authors' exported graph has softmax, argmax, ratio and ``ratio > 0.6`` inside, and normalisation outside; here the
normalisation is inside too, and alpha is an input, so that a boat's program needs no arithmetic of its own.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from reefcore.errors import ReefcoreError
from reefcore.files import atomic
from reefcore.fitting import Fitted
from reefcore.substrate import stream
from reefcore.tables import SUBSTRATES

INPUTS, OUTPUTS = ("patches", "alpha"), ("class", "probability", "ratio", "coral", "deploy")
OPSET, BATCH = 18, 28
#: What int8 arithmetic is used for; what comes before the first and after the last of these stays in float.
QUANTISED = ("Conv", "Gemm", "MatMul", "Add", "Mul", "GlobalAveragePool", "ReduceMean", "HardSigmoid", "Relu")


class Decision(nn.Module):
    """A classifier with everything around it: raw patches and alpha in, classes, probabilities and the decision out.

    Parameters
    ----------
    fitted : Fitted
        Of the classes `reefcore.tables.SUBSTRATES`, in their order.

    Raises
    ------
    ReefcoreError
        Where it has other classes.
    """

    def __init__(self, fitted: Fitted):
        super().__init__()
        if tuple(fitted.classes) != SUBSTRATES:
            known = ", ".join(fitted.classes[:5]) + (" and others" if len(fitted.classes) > 5 else "")
            raise ReefcoreError(
                f"this model knows {known}, and a decision is made of {', '.join(SUBSTRATES)}",
                do="give a classifier of patches, such as `reefcore substrate train` makes",
            )
        self.learner = fitted.learner.eval()
        mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (fitted.recipe.mean, fitted.recipe.std))
        self.register_buffer("scale", 1 / (255 * std), persistent=False)
        self.register_buffer("shift", -mean / std, persistent=False)

    def forward(self, patches: Tensor, alpha: Tensor) -> tuple[Tensor, ...]:
        """Decide: uint8 (n, side, side, 3) and a float32 scalar -> the `OUTPUTS`, in their order."""
        x = patches.permute(0, 3, 1, 2).float() * self.scale + self.shift
        probability = self.learner.logits(x).softmax(dim=1)
        label = probability.argmax(dim=1)
        # A count divided by n in float32 is the float32 nearest to the share, and so is alpha the one nearest to what
        # was meant: 0.6 and 15 of 25 are then the same number, and not more. Comparing counts with alpha * n would
        # round once more (0.6 * 25 is above 15).
        n = torch.ones_like(label).sum().float()
        ratio, coral = ((label == SUBSTRATES.index(name)).sum().float() / n for name in ("Deploy", "Coral"))
        return label, probability, ratio, coral, ratio > alpha


def write(fitted: Fitted, path: str | Path, alpha: float | None = None) -> Path:
    """Export a patch classifier with the decision inside.

    Inputs: ``patches`` (uint8, (n, side, side, 3): the patches of one frame, any number, so any grid) and ``alpha``
    (float32 scalar). Outputs: ``class`` (int64, (n,), positions in `SUBSTRATES`), ``probability`` (float32, (n, 3)),
    ``ratio`` and ``coral`` (float32 scalars: shares of patches that are Deploy, and Coral) and ``deploy`` (bool:
    ratio > alpha, strictly). The file says as metadata: ``classes``, ``side``, ``rows``, ``columns``, ``alpha`` (the
    operating point, empty where there is none), ``run``, ``notice`` and ``precision``.

    Parameters
    ----------
    fitted : Fitted
        Its ``about`` may have rows, columns, alpha, run and notice; without rows and columns the grid is 4 x 7.
    path : path
        Ends in ``.onnx``.
    alpha : float, optional
        The operating point; by default the one chosen on validation frames, in ``about``.

    Raises
    ------
    ReefcoreError
        Where alpha lies outside [0, 1], the classes are not the substrates, or the extra ``realtime`` is missing.
    """
    onnx = stream.needs("onnx")
    _check_name(path)
    about = stream.about_of(fitted, alpha)
    example, parts = torch.zeros((2, about["side"], about["side"], 3), dtype=torch.uint8), io.BytesIO()
    with _quiet():
        torch.onnx.export(
            Decision(fitted),
            (example, torch.tensor(0.5)),
            parts,
            dynamo=False,  # torch's newer exporter takes ten times as long for the same graph
            dynamic_axes={name: {0: "n"} for name in ("patches", "class", "probability")},
            input_names=INPUTS,
            output_names=OUTPUTS,
            opset_version=OPSET,
        )
    model = onnx.load_from_string(parts.getvalue())
    return _save(onnx, model, path, about | {"precision": "float32"})


def check(fitted: Fitted, path: str | Path, frames: Iterable) -> dict:
    """Compare an exported file with PyTorch on frames.

    Parameters
    ----------
    fitted : Fitted
    path : path
        What `write` made of it.
    frames : iterable of path or ndarray of uint8, shape (height, width, 3)

    Returns
    -------
    dict
        ``frames``, ``patches`` (numbers), ``difference`` (largest absolute difference of a probability), ``classes``
        and ``decisions`` (bool: the same for every patch, and every frame).
    """
    runner, module = stream.Runner(path), Decision(fitted)
    found = {"frames": 0, "patches": 0, "difference": 0.0, "classes": True, "decisions": True}
    for frame in frames:
        patches = runner.patches(frame)
        theirs = runner.answer(patches)
        with torch.inference_mode():
            ours = [out.numpy() for out in module(torch.from_numpy(patches), torch.tensor(runner.alpha))]
        found["frames"] += 1
        found["patches"] += len(patches)
        found["difference"] = max(found["difference"], float(np.abs(ours[1] - theirs.probability).max()))
        found["classes"] &= bool((ours[0] == theirs.classes).all())
        found["decisions"] &= bool(ours[4] == theirs.deploy)
    return found


def quantise(path: str | Path, output: str | Path, patches: np.ndarray) -> Path:
    """Write an exported model with 8-bit weights and activations: smaller, and on some processors faster.

    Weights are rounded per channel; the ranges of activations are those met on the given patches. Normalisation,
    softmax and the decision stay in floating point. What it loses must be measured on patches that are not these.

    Parameters
    ----------
    path : path
        What `write` made.
    output : path
    patches : ndarray of uint8, shape (n, side, side, 3)
        Of training or validation frames; a hundred or so.

    Raises
    ------
    ReefcoreError
        Where there is no patch, `output` does not end in ``.onnx``, or the extra ``realtime`` is missing.
    """
    onnx = stream.needs("onnx")
    stream.needs("onnxruntime")
    _check_name(output)
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    if not len(patches):
        raise ReefcoreError("there is no patch to calibrate on", path, "give patches of training or validation frames")
    batches = [
        {"patches": part, "alpha": np.array(0.5, np.float32)}
        for part in np.array_split(patches, -(-len(patches) // 28))
    ]
    turn = iter(batches)

    class Reader(quantization.CalibrationDataReader):
        def get_next(self):
            return next(turn, None)

    with tempfile.TemporaryDirectory() as folder, _quiet():
        prepared, made = Path(folder) / "prepared.onnx", Path(folder) / "int8.onnx"
        quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(prepared),
            str(made),
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            weight_type=quantization.QuantType.QInt8,
            activation_type=quantization.QuantType.QUInt8,
            op_types_to_quantize=list(QUANTISED),
            nodes_to_exclude=_outside(onnx.load(prepared).graph),
        )
        known = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
        return _save(onnx, onnx.load(made), output, known | {"precision": "int8"})


def described(path: str | Path) -> pd.DataFrame:
    """List the inputs and outputs of an exported model: ``name``, ``is`` (input, output), ``type``, ``shape``."""
    onnx, rows = stream.needs("onnx"), []
    graph = onnx.load(path).graph
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            number = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
            shape = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
            rows.append((value.name, kind, number, " x ".join(map(str, shape)) or "one number"))
    return pd.DataFrame(rows, columns=["name", "is", "type", "shape"])


def tail(path: str | Path) -> bytes:
    """Cut the decision out of an exported model, from the logits to the outputs: what its own time is measured on."""
    onnx = stream.needs("onnx")
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    logits = next(node.input[0] for node in model.graph.node if node.op_type == "Softmax")
    return onnx.utils.Extractor(model).extract_model([logits, "alpha"], list(OUTPUTS)).SerializeToString()


def _outside(graph) -> list[str]:
    """Name the nodes before the first convolution and after the last matrix product."""
    nodes = list(graph.node)
    first = next(i for i, node in enumerate(nodes) if node.op_type == "Conv")
    last = max(i for i, node in enumerate(nodes) if node.op_type in ("Gemm", "MatMul"))
    return [node.name for node in (*nodes[:first], *nodes[last + 1 :])]


def _check_name(path: str | Path) -> None:
    if Path(path).suffix != ".onnx":
        raise ReefcoreError("an exported model is an ONNX file", path, "end its name in .onnx")


def _save(onnx, model, path: str | Path, known: dict) -> Path:
    onnx.helper.set_model_props(model, {key: str(value) for key, value in sorted(known.items())})
    model.producer_name, model.producer_version = "reefcore", ""
    with atomic(path) as temporary:
        onnx.save(model, temporary)
    return Path(path)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what exporters say of themselves from the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
