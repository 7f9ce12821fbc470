"""The trainer learns every family, goes on after a kill to the same bytes, and shares its work among processes."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from reefcore import fitting, patches, recipes, shards, training, weights
from reefcore.errors import ReefcoreError

GENERA = ["Acropora", "Montipora", "Pavona", "Porites"]
FAMILIES = dict(zip(GENERA, ["Acroporidae", "Acroporidae", "Agariciidae", "Poritidae"], strict=True))
NO_VAL = (np.zeros(0, "int64"),) * 2
STILL = {"horizontal_flip": 0.0, "vertical_flip": 0.0, "quarter_turns": False}
HARD = {
    "ema": 0.9,
    "mixup": 0.4,
    "cutmix": 0.5,
    "randaugment": "rand-m7-mstd0.5-inc1",
    "colour_jitter": 0.2,
    "random_erasing": 0.3,
    "drop_path": 0.2,
    "layer_decay": 0.75,
    "label_smoothing": 0.1,
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def small(name="vit", **changes):
    """Change a sample recipe for a test: few epochs, small batches; the smallest ViT where it has one of its own."""
    recipe = recipes.load(name)
    args = recipe.model_args | ({"depth": 2} if "depth" in recipe.model_args else {})
    options = {"epochs": 3, "batch_size": 16, "min_per_class": 0, "model_args": args}
    return dataclasses.replace(recipe, **options | changes)


def stripes(y, size=32, seed=0):
    """Draw patches of stripes whose direction and colour say the class, under noise."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:size, :size]
    directions = np.stack([np.sin(row), np.sin(column), np.sin((row + column) * 0.5), np.sin(row) * np.sin(column)])
    x = 128 + 50 * directions[y][..., None] + rng.normal(0, 25, (len(y), size, size, 3))
    x[..., 0] += 12 * (y[:, None, None] - 1.5)
    return x.clip(0, 255).astype(np.uint8)


def labels(n):
    return np.arange(n) % 4


def array(n, seed=0):
    return patches.ArrayPatches(stripes(labels(n), seed=seed), [f"{i:04x}" for i in range(n)])


def fit(recipe, n=96, val=32, **options):
    """Fit to the first `n` of some patches, with the next `val` to choose by."""
    train, held = np.arange(n), np.arange(n, n + val)
    given = {"patches": array(n + val), "classes": GENERA} | options
    y = labels(n + val)
    return fitting.fit(recipe, given.pop("patches"), (train, y[:n]), (held, y[n:]), given.pop("classes"), **given)


def pretrained(folder, **changes):
    """Pretrain a masked autoencoder for a moment; give the file that fine-tuning starts from."""
    recipe = small("mae_pretraining", **{"epochs": 2, "train_per_class": 0} | changes)
    splits = pd.DataFrame({"annotation_id": array(128).ids[96:], "scheme": "S1", "part": "test"})
    done = training.pretrain(recipe, array(128), splits)
    assert done.facts["train_patches"].item() == 96 and done.predictions.empty
    assert done.history["loss"].iat[-1] < done.history["loss"].iat[0] and done.history["val_macro_recall"].isna().all()
    assert done.fitted.best_epoch == recipe.epochs
    return weights.save(done.fitted.learner.encoder_state(), folder / "mae.safetensors")


def child(folder, name, changes, val):
    """Train slowly, as the process that is killed."""
    from reefcore.augment import Augmentation

    batch = Augmentation.batch
    Augmentation.batch = lambda *given: time.sleep(0.1) or batch(*given)
    torch.set_num_threads(1)
    fit(small(name, **json.loads(changes)), val=int(val), seed=5, resume=Path(folder) / "resume")


def rank(folder):
    """Train as one process of several, and leave what it has."""
    saved, save = [], weights.save
    weights.save = lambda *given: saved.append(1) or save(*given)
    results = {}
    for name, options in DISTRIBUTED.items():
        fitted = fit(small(**options, batch_size=8), resume=Path(folder) / name)
        results[f"{name}.scores"] = fitting.predict(fitted, array(33, seed=2).array)
        state = fitted.learner.state_dict().values()
        results[f"{name}.state"] = torch.cat([tensor.float().flatten() for tensor in state]).numpy()
        results[f"{name}.loss"] = fitted.history["loss"].to_numpy()
        results[f"{name}.recall"] = fitted.history["val_macro_recall"].to_numpy()
    np.savez(Path(folder) / f"rank{os.environ['RANK']}.npz", saved=len(saved), **results)


DISTRIBUTED = {"vit": {"name": "vit", **STILL}, "resnet": {"name": "resnet101", "epochs": 1, "warmup_epochs": 0}}


def python(*arguments):
    """Write the command that calls a function of this file in a process of its own."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_fitting as t; getattr(t, sys.argv[2])(*sys.argv[3:])"
    )
    return [sys.executable, "-c", code, str(Path(__file__).parent), *arguments]


TABLE_3 = [name for name in recipes.names() if 3 in recipes.load(name).tables]


@pytest.mark.parametrize("name", TABLE_3)
def test_every_family_learns(name, tmp_path):
    recipe = small(name, epochs=10, lr=0.004, batch_size=32 if name == "bioclip_ft" else 16)
    start = pretrained(tmp_path) if recipe.weights.startswith("recipe:") else None
    fitted = fit(recipe, start=start)
    scores = fitting.predict(fitted, stripes(labels(80), seed=2))
    assert scores.shape == (80, 4) and scores.dtype == np.float32 and np.allclose(scores.sum(axis=1), 1, atol=1e-5)
    assert (scores.argmax(axis=1) == labels(80)).mean() > 0.7
    history = fitted.history
    assert list(history) == fitting.HISTORY and len(history) == 10 and history["loss"].iat[-1] < history["loss"].iat[0]
    assert fitted.best_epoch == history["val_macro_recall"].idxmax() + 1 and fitted.crop == 32
    assert history["lr"].iat[0] > history["lr"].iat[-1] and history["lr"].iat[-1] < recipe.lr / 10


KILLED = {"resnet101": ({}, 32), "vit": (HARD, 0)}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Start both trainings in processes of their own, and kill each in its second epoch."""
    folders = {name: tmp_path_factory.mktemp(name) for name in KILLED}
    processes = {
        name: subprocess.Popen(python("child", str(folders[name]), name, json.dumps(changes), str(val)))
        for name, (changes, val) in KILLED.items()
    }
    at_work, until = dict(processes), time.monotonic() + 300
    while at_work and time.monotonic() < until:
        for name in [name for name in at_work if (folders[name] / "resume").exists()]:
            time.sleep(0.12)  # some steps into the second of three epochs, each of 0.6 s
            at_work.pop(name).send_signal(signal.SIGKILL)
        time.sleep(0.01)
    for process in processes.values():
        process.kill()
        assert process.wait() == -signal.SIGKILL
    return folders


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_training_goes_on_to_the_same_bytes(name, killed, tmp_path):
    (changes, val), resume = KILLED[name], killed[name] / "resume"
    recipe = small(name, **changes)
    assert len(weights.read(resume)[1]["history"]) == 1
    left, options = resume.read_bytes(), {"val": val, "seed": 5}
    whole = fit(recipe, **options)
    assert whole.best_epoch > 1  # so that what was chosen was learnt after the kill
    expected = whole.save(tmp_path / "whole").read_bytes()
    gone_on = fit(recipe, **options, resume=resume)
    assert gone_on.save(tmp_path / "gone_on").read_bytes() == expected
    x = stripes(labels(8), seed=3)
    assert fitting.predict(gone_on, x).tobytes() == fitting.predict(whole, x).tobytes()
    ready = fit(recipe, **options, resume=resume)  # nothing is left to do
    assert ready.save(tmp_path / "ready").read_bytes() == expected
    os.truncate(resume, 1000)
    assert fit(recipe, **options, resume=resume).save(tmp_path / "afresh").read_bytes() == expected
    resume.write_bytes(left)
    other = fit(recipe, **options | {"seed": 6}, resume=resume)
    assert other.save(tmp_path / "other").read_bytes() != expected


def test_the_resume_file_of_another_training_is_not_used(tmp_path, caplog):
    resume, recipe = tmp_path / "resume", small(epochs=2)
    fit(recipe, resume=resume)
    mine = resume.read_bytes()
    other = patches.ArrayPatches(array(128).array, [f"other{i}" for i in range(128)])
    start = weights.save(fit(recipe, n=8).learner.state_dict(), tmp_path / "start.safetensors")
    for options in (
        {"seed": 1},
        {"recipe": dataclasses.replace(recipe, lr=0.001)},
        {"patches": other},
        {"classes": ["Favia", *GENERA[1:]]},
        {"start": start},
    ):
        resume.write_bytes(mine)
        caplog.clear()
        fit(**{"recipe": recipe, "resume": resume} | options)
        assert "is of another training: this one starts from the beginning" in caplog.text, options
    resume.write_bytes(mine[:500])
    fit(recipe, resume=resume)
    assert "cannot be read" in caplog.text and "starts from the beginning" in caplog.text


def test_two_processes_train_as_one_with_the_double_batch(tmp_path):
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    subprocess.run([*run, *python("rank", str(tmp_path))], check=True, capture_output=True, timeout=120)
    first, second = (np.load(tmp_path / f"rank{i}.npz") for i in range(2))
    epochs = 3 + 1
    assert first["saved"] == epochs and second["saved"] == 0  # only the first writes
    for key in set(first) - {"saved"}:
        assert np.array_equal(first[key], second[key]), key  # both have all answers, of the same weights
    alone = fit(small(**DISTRIBUTED["vit"]))  # batches of 16 are the two processes' batches of 8 side by side
    scores = fitting.predict(alone, array(33, seed=2).array)
    assert first["resnet.scores"].shape == scores.shape == (33, 4)
    # the same sums in another order: 1e-7 a step, which Adam may blow up where a gradient is nearly 0
    assert np.allclose(first["vit.loss"], alone.history["loss"], rtol=1e-3)
    assert np.allclose(first["vit.scores"], scores, atol=5e-3)
    assert np.allclose(first["vit.recall"], alone.history["val_macro_recall"], atol=0.07)  # two of 32 at a threshold


def test_a_loss_that_is_not_finite_stops_with_its_epoch_batch_and_patches():
    wild = small("resnet101", optimiser="sgd", lr=1e9, schedule="constant", warmup_epochs=0, clip_grad=0.0)
    with pytest.raises(ReefcoreError, match=r"of resnet101 is not finite in epoch 1, batch \d \(patches 00\w\w, 0"):
        fit(wild)


def test_too_little_to_train_on_stops_with_a_sentence():
    for options in ({"n": 1}, {"classes": ["Porites"]}):
        with pytest.raises(ReefcoreError, match="are not enough for vit"):
            fit(small(), **options)


def test_random_states_and_threads_are_as_they_were():
    def state():
        return torch.random.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

    before = state()
    fitted = fit(small(epochs=1, warmup_epochs=0), threads=2, seed=9)
    fitting.predict(fitted, stripes(labels(4)), threads=2)
    with pytest.raises(ReefcoreError):
        fit(small(), n=1, threads=2)
    assert state() == before and torch.get_num_threads() == 1 and not torch.are_deterministic_algorithms_enabled()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Give the same patches of synthetic photos in shards and as an array, with their labels."""
    folder, points = tmp_path_factory.mktemp("shards"), []
    (folder / "photos" / "reef").mkdir(parents=True)
    for k in range(8):
        tiles = stripes(labels(16), seed=k).reshape(4, 4, 32, 32, 3).swapaxes(1, 2).reshape(128, 128, 3)
        Image.fromarray(tiles).save(folder / "photos" / "reef" / f"{k}.png")
        points += [("reef", f"{k}.png", 32 * (i // 4) + 16, 32 * (i % 4) + 16, GENERA[i % 4]) for i in range(16)]
    points = pd.DataFrame(points, columns=["source", "image", "row", "column", "label"])
    points["annotation_id"] = [f"{i:04x}" for i in range(len(points))]
    shards.write(points, folder / "photos", 32, folder / "shards", per_shard=50)
    cut, _ = patches.cut(points, folder / "photos", 32)
    on_disk = shards.ShardPatches(folder / "shards")
    assert on_disk.ids == points["annotation_id"].tolist()
    return on_disk, patches.ArrayPatches(cut, on_disk.ids), labels(len(points))


def test_shards_and_an_array_train_alike(stored):
    on_disk, in_memory, y = stored
    fitted = [fit(small(epochs=6, **STILL), val=0, patches=p) for p in (on_disk, in_memory)]
    scores = [fitting.predict(f, (p, np.arange(128))) for f, p in zip(fitted, (on_disk, in_memory), strict=True)]
    assert (scores[1].argmax(axis=1) == y).mean() > 0.9
    assert np.abs(scores[0] - scores[1]).mean() < 0.02 and (scores[0].argmax(1) == scores[1].argmax(1)).mean() > 0.97
    assert np.allclose(scores[0], fitting.predict(fitted[0], on_disk.read(range(128), 32)), atol=1e-6)


def batches(stored, recipe, cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    where = np.arange(100)
    order = np.concatenate([np.random.default_rng(0).permutation(100), [7, 7]])  # a rare class's patch comes again
    feed = fitting._Feed(stored, where, labels(100), recipe, fitting.Augmentation(recipe, 4))
    return [(x.numpy(), y.numpy(), chosen) for x, y, chosen in feed.batches(order, 17, 6, (0, 1, 0))]


def test_the_number_of_readers_does_not_change_a_batch(stored, monkeypatch):
    recipe = small(randaugment="rand-m7-mstd0.5-inc1", colour_jitter=0.2)
    one, two = (batches(stored[0], recipe, cores, monkeypatch) for cores in (1, 3))
    for a, b in zip(one, two, strict=True):
        assert all(np.array_equal(u, v) for u, v in zip(a, b, strict=True))
    last, chosen = one[-1][0], one[-1][2]
    assert chosen[-1] == chosen[-2] == 7 and not np.array_equal(last[-1], last[-2])
    for a, b in zip(*(batches(p, small(), 3, monkeypatch) for p in stored[:2]), strict=True):
        assert np.array_equal(a[2], b[2]) and np.array_equal(a[1], b[1])
        assert np.abs(a[0].astype(int) - b[0]).mean() < 6  # JPEG of noise


def test_a_damaged_shard_is_said_in_a_sentence(stored, tmp_path):
    lame = shards.ShardPatches(stored[0].folder)
    lame.folder = tmp_path
    with pytest.raises(ReefcoreError, match=r"^/\S*\.tar: the patch of the annotation \w+ cannot be read") as caught:
        fit(small(), patches=lame)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("name", ["resnet101", "vit", "vit_family", "vit_two_heads", "bioclip_ft", "vit_scratch"])
def test_a_checkpoint_gives_back_what_was_trained(name, tmp_path):
    families = {"vit_family": None, "vit_two_heads": FAMILIES}.get(name)
    changes = {"ema": 0.9} if name == "vit_scratch" else {}
    recipe = small(name, epochs=1, warmup_epochs=0, **changes)
    fitted = fit(recipe, families=families, about={"run": "x"})
    again = fitting.load(fitted.save(tmp_path / "c.safetensors"))
    x = stripes(labels(9), seed=4)
    assert np.array_equal(fitting.predict(fitted, x), fitting.predict(again, x))
    assert again.recipe == recipe and again.classes == GENERA and again.about == {"run": "x"}
    assert (again.crop, again.best_epoch, len(again.history)) == (32, 1, 1)
    logits, features = fitting.outputs(fitted, x)
    likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(likely, fitting.predict(fitted, x), atol=1e-5)
    assert np.array_equal(features, fitting.features(again, x)) and len(np.unique(features, axis=0)) == 9
    assert fitting.predict(fitted, x[:0]).shape == (0, logits.shape[1])
    if name == "vit_two_heads":
        both = [fitting.predict(f, x, family=True) for f in (fitted, again)]
        assert np.array_equal(*both) and both[0].shape == (9, 3)
    assert fitted.save(tmp_path / "d").read_bytes() == (tmp_path / "c.safetensors").read_bytes()


def test_a_clip_model_from_published_weights_keeps_its_shape_and_preprocessing(tmp_path):
    recipe = small("bioclip_ft", epochs=1, warmup_epochs=0)
    clip, options = weights.clip_model(recipe.model, "scratch", recipe.model_args)
    file = weights.save(clip.state_dict(), tmp_path / "open_clip_model.safetensors")
    known = {"model_cfg": options, "preprocess_cfg": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.2]}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(known))
    fitted = fit(dataclasses.replace(recipe, model_args={}, weights=str(file)))
    again = fitting.load(fitted.save(tmp_path / "c"))
    x = stripes(labels(5))
    assert np.array_equal(fitting.predict(fitted, x), fitting.predict(again, x))


def test_what_is_no_checkpoint_is_refused(tmp_path):
    foreign = weights.save({"a": torch.zeros(2)}, tmp_path / "foreign")
    with pytest.raises(ReefcoreError, match="not a checkpoint of a trained model"):
        fitting.load(foreign)
    with pytest.raises(ReefcoreError, match="cannot be read"):
        fitting.load(tmp_path / "missing")
    fitted = fit(small(epochs=1, warmup_epochs=0), n=8, val=0)
    state, known = weights.read(fitted.save(tmp_path / "right"))
    for key, value in (("recipe", known["recipe"] | {"new": 1}), ("classes", GENERA[:2])):
        with pytest.raises(ReefcoreError, match="another version"):
            fitting.load(weights.save(state, tmp_path / "other", known | {key: value}))


def test_without_validation_the_last_epoch_is_kept():
    fitted = fit(small(epochs=2), val=0)
    assert fitted.best_epoch == 2 and fitted.history["val_macro_recall"].isna().all()
    assert fitting.predict(fitted, stripes(labels(4))[:0]).shape == (0, 4)


def test_mixed_precision_works_and_fp16_is_plain_on_a_cpu():
    plain, half, brain = (fit(small(amp=amp), n=32) for amp in ("off", "fp16", "bf16"))
    x = stripes(labels(16))
    a, b, c = (fitting.predict(f, x) for f in (plain, half, brain))
    assert np.allclose(a, b, atol=1e-3) and not np.allclose(a, c, atol=1e-3)
    assert c.dtype == np.float32 and np.abs(a - c).mean() < 0.1


def test_rare_classes_are_repeated_each_epoch_anew():
    y = np.repeat([0, 1, 2], [50, 3, 1])
    first, second = (fitting._epoch(y, small(min_per_class=10), 0, epoch) for epoch in (1, 2))
    assert np.bincount(y[first]).tolist() == [50, 10, 10] and set(first) == set(range(54))
    assert not np.array_equal(first, second)


def test_the_inverse_sampler_draws_every_class_equally_often():
    y = np.repeat([0, 1, 3], [4000, 900, 100])
    first, second = (fitting._epoch(y, small(sampler="inverse"), 0, epoch) for epoch in (1, 2))
    assert len(first) == len(y) and not np.array_equal(first, second)
    shares = np.bincount(y[first], minlength=4) / len(y)
    assert np.allclose(shares, [1 / 3, 1 / 3, 0, 1 / 3], atol=0.03)  # four standard errors
    assert len(set(first[y[first] == 3])) == 100 and len(set(first)) < 3000  # with replacement


def test_the_plateau_halves_after_four_epochs_without_a_better_value_down_to_its_floor():
    assert fitting.plateau([], 1e-4) == fitting.plateau([0.5, 0.4, 0.5, 0.3], 1e-4) == 1e-4
    assert fitting.plateau([0.5] * 5, 1e-4) == 5e-5 and fitting.plateau([0.5] * 9, 1e-4) == 3e-5
    assert fitting.plateau([0.5] * 40, 1e-4) == 3e-5 and fitting.plateau([0.5] * 9, 1e-5) == 1e-5
    assert fitting.plateau([0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2], 1e-4) == 1e-4


def test_a_resumed_training_has_the_learning_rates_of_one_that_was_not_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "PATIENCE", 0)
    recipe = small("resnet101", schedule="plateau", epochs=8, warmup_epochs=0, sampler="inverse", loss="ce")
    whole = fit(recipe, n=32, val=4)
    saved = fitting._Progress.save

    def stop(progress, *rest):
        saved(progress, *rest)
        if progress.epoch == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(fitting._Progress, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        fit(recipe, n=32, val=4, resume=tmp_path / "resume")
    monkeypatch.undo()
    monkeypatch.setattr(fitting, "PATIENCE", 0)
    gone_on = fit(recipe, n=32, val=4, resume=tmp_path / "resume")
    assert gone_on.save(tmp_path / "gone_on").read_bytes() == whole.save(tmp_path / "whole").read_bytes()
    lr = whole.history["lr"].to_numpy()
    assert lr[0] == recipe.lr and lr[4] < lr[0] and lr[-1] < lr[4]  # lowered before the stop, and after it
    with pytest.raises(ReefcoreError, match="the schedule plateau of resnet101 waits for validation patches"):
        fit(recipe, val=0)


def test_patches_of_another_size_are_resized():
    recipe = small(epochs=1, warmup_epochs=0)
    large = patches.ArrayPatches(stripes(labels(24), 48), [str(i) for i in range(24)])
    fitted = fit(recipe, n=16, val=8, patches=large)
    assert fitted.crop == 48 and fitting.predict(fitted, large.array).shape == (24, 4)
