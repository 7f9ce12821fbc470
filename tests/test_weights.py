"""Pretrained weights from a hub (a server on this machine stands in for it) and from files; checkpoints of our own."""

import http.server
import json
import os
import subprocess
import sys
import threading
from io import BytesIO
from types import SimpleNamespace

import huggingface_hub.constants
import huggingface_hub.utils._http
import numpy as np
import open_clip
import pytest
import timm
import torch
from safetensors.torch import save as to_bytes

from reefcore import vision_language, weights
from reefcore.errors import ReefcoreError

REPOSITORY = "timm/test_vit.r160_in1k"
CLIP = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "patch_size": 16, "width": 16, "layers": 1, "head_width": 8},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub with `files` (path -> bytes), which answers `trouble` to everything, or cuts bodies off for 'cut'."""
    here = SimpleNamespace(files={}, trouble=None)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def answer(self, status, **headers):
            self.send_response(status)
            for name, value in {"Content_Length": "0", **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()

        def do_HEAD(self):
            data = here.files.get(self.path.removeprefix("/cdn/").removeprefix("/").replace("/resolve/main", ""))
            if isinstance(here.trouble, int):
                self.answer(here.trouble)
            elif data is None:
                known = any(self.path.startswith("/" + name.rpartition("/")[0]) for name in here.files)
                self.answer(404, X_Error_Code="EntryNotFound" if known else "RepoNotFound")
            elif self.path.startswith("/cdn"):
                self.answer(200, Content_Length=str(len(data)))
                if self.command == "GET":
                    self.wfile.write(data[: len(data) // 2] if here.trouble == "cut" else data)
                    self.close_connection = True
            else:  # as the hub does for large files: what they are here, the bytes elsewhere
                there = f"http://localhost:{server.server_port}/cdn{self.path}"
                etag = f'"{hash(data):x}"'
                self.answer(302, Location=there, ETag=etag, X_Linked_Size=str(len(data)), X_Repo_Commit="a" * 40)

        do_GET = do_HEAD

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.utils._http.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    yield here
    server.shutdown()
    server.server_close()


def pickled(state):
    buffer = BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(("name", "write"), [("model.safetensors", to_bytes), ("pytorch_model.bin", pickled)])
def test_the_hub_s_weights_are_loaded_under_a_new_head_and_kept(hub, monkeypatch, name, write):
    original = timm.create_model("test_vit")
    hub.files[f"{REPOSITORY}/{name}"] = write(original.state_dict())
    model = weights.timm_model("test_vit", 3, "hub")
    assert torch.equal(model.blocks[0].attn.qkv.weight, original.blocks[0].attn.qkv.weight)
    assert model.head.out_features == 3
    hub.trouble = 503
    again = weights.timm_model("test_vit", 3, "hub")
    assert torch.equal(again.pos_embed, original.pos_embed)


@pytest.mark.parametrize(
    ("trouble", "said"), [(None, "404"), (500, "500"), (429, "429"), (403, "403"), ("cut", "closed connection")]
)
def test_weights_that_cannot_be_fetched_are_never_random_and_the_error_says_how_to_get_them(
    hub, tmp_path, trouble, said
):
    hub.trouble = trouble
    if trouble:
        hub.files[f"{REPOSITORY}/model.safetensors"] = to_bytes(timm.create_model("test_vit").state_dict())
    with pytest.raises(ReefcoreError) as error:
        weights.timm_model("test_vit", 3, "hub")
    for part in (said, "test_vit.r160_in1k", f"hf download {REPOSITORY}", str(tmp_path / "cache"), "weights: scratch"):
        assert part in str(error.value)


def test_offline_with_an_empty_cache_says_where_it_looked(tmp_path):
    code = "from reefcore import weights; weights.fetch('timm/x', ['model.safetensors'], 'x')"
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert "ReefcoreError" in last and str(tmp_path / "hub") in last and "HF_HUB_OFFLINE=1" in last


@pytest.mark.parametrize(
    ("model", "source", "said"),
    [
        ("no_such_model", "scratch", "Unknown model"),
        ("test_vit.no_such_tag", "hub", "Invalid pretrained tag"),
        ("convnextv2_small", "hub", "knows no pretrained weights of convnextv2_small"),
    ],
)
def test_what_timm_does_not_know_is_refused(model, source, said):
    with pytest.raises(ReefcoreError, match=said):
        weights.timm_model(model, 3, source)


def test_a_file_fits_another_grid_another_head_and_none(tmp_path):
    small = timm.create_model("test_vit", img_size=32, patch_size=8, num_classes=5)
    for state in (small.state_dict(), {k: v for k, v in small.state_dict().items() if not k.startswith("head")}):
        path = weights.save(state, tmp_path / "small.safetensors")
        large = weights.timm_model("test_vit", 3, path, img_size=64, patch_size=8)
        assert large.pos_embed.shape[1] == 65 and large(torch.zeros(1, 3, 64, 64)).shape == (1, 3)
        assert torch.equal(large.blocks[1].mlp.fc1.weight, small.blocks[1].mlp.fc1.weight)


def test_a_file_with_older_names_is_converted_by_timm(tmp_path):
    options = {"img_size": 32, "embed_dim": 12, "depths": (1, 1), "num_heads": (1, 2), "window_size": 4}
    swin = timm.create_model("swin_tiny_patch4_window7_224", num_classes=5, **options)
    old = {
        key.replace("head.fc", "head").replace("layers.1.down", "layers.0.down"): value
        for key, value in swin.state_dict().items()
    }
    path = weights.save(old, tmp_path / "swin.safetensors")
    model = weights.timm_model("swin_tiny_patch4_window7_224", 3, path, **options)
    assert torch.equal(model.layers[1].downsample.norm.weight, swin.layers[1].downsample.norm.weight)
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 3)


def test_a_checkpoint_of_a_learner_is_a_start(tmp_path):
    model = timm.create_model("test_resnet", num_classes=4)
    state = {f"model.{key}": value for key, value in model.state_dict().items()} | {"family_head.bias": torch.ones(2)}
    path = weights.save(state, tmp_path / "mine.safetensors")
    assert torch.equal(weights.timm_model("test_resnet", 4, path).layer1[0].conv1.weight, model.layer1[0].conv1.weight)


def test_a_file_of_another_model_or_with_a_gap_is_refused_with_the_first_keys(tmp_path):
    state = timm.create_model("test_vit").state_dict()
    path = weights.save(state, tmp_path / "vit.safetensors")
    with pytest.raises(ReefcoreError, match=r'vit.safetensors: these are no weights of test_resnet .*"conv1.0.weight"'):
        weights.timm_model("test_resnet", 3, path)
    del state["blocks.0.norm1.weight"]
    with pytest.raises(ReefcoreError, match=r"blocks\.0\.norm1\.weight"):
        weights.timm_model("test_vit", 3, weights.save(state, path))


@pytest.mark.parametrize("content", [None, b"", b"no weights", to_bytes({"a": torch.ones(99)})[:-7]])
def test_a_file_that_is_missing_cut_off_or_foreign_is_one_sentence(tmp_path, content):
    path = tmp_path / "odd.safetensors"
    if content is not None:
        path.write_bytes(content)
    for use in (weights.read, lambda path: weights.timm_model("test_vit", 3, path)):
        with pytest.raises(ReefcoreError, match=r"odd.safetensors: these weights cannot be read \(.+\)"):
            use(path)


def test_a_checkpoint_keeps_tensors_and_metadata(tmp_path):
    whole = torch.arange(12.0)
    state = {
        "a": whole[:6],
        "b": whole,
        "c": torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last),
        "n": torch.tensor(3),
    }
    path = weights.save(state, tmp_path / "new" / "x.safetensors", {"classes": ["Porites"], "lr": 0.1})
    read, metadata = weights.read(path)
    assert metadata == {"classes": ["Porites"], "lr": 0.1}
    assert read.keys() == state.keys() and all(torch.equal(read[key], state[key]) for key in state)
    path.write_bytes(to_bytes({"a": torch.ones(2)}))
    assert weights.read(path)[1] == {}


def clip_files(state, preprocess_cfg):
    config = json.dumps({"model_cfg": CLIP, "preprocess_cfg": preprocess_cfg}).encode()
    return {"r/c/open_clip_config.json": config, "r/c/open_clip_pytorch_model.bin": pickled(state)}


def test_clip_weights_bring_their_preprocessing_or_open_clip_s_default(hub):
    clip = open_clip.CLIP(**CLIP)
    hub.files |= clip_files(clip.state_dict(), {"hf_hub": "as BioCLIP has it"})
    model, options = weights.clip_model("hf-hub:r/c", "hub", {})
    assert torch.equal(model.text_projection, clip.text_projection)
    assert options["preprocess_cfg"] == {
        "mean": list(open_clip.OPENAI_DATASET_MEAN),
        "std": list(open_clip.OPENAI_DATASET_STD),
    }
    rebuilt, same = weights.clip_model("hf-hub:r/c", "scratch", options)
    rebuilt.load_state_dict(model.state_dict())
    assert same == options
    stated = {"preprocess_cfg": {"mean": [0.4, 0.4, 0.4], "std": [0.1, 0.1, 0.1]}}
    assert weights.clip_model("hf-hub:r/c", "hub", stated)[1] == {**CLIP, **stated}


def test_clip_weights_are_refused_without_configuration_of_another_shape_and_with_other_words(hub, tmp_path):
    path = weights.save(open_clip.CLIP(**CLIP).state_dict(), tmp_path / "clip.safetensors")
    with pytest.raises(ReefcoreError, match=r"open_clip_config.json: CLIP weights need their preprocessing"):
        weights.clip_model("mine", path, {})
    (tmp_path / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": {**CLIP, "embed_dim": 8}, "preprocess_cfg": {}})
    )
    with pytest.raises(ReefcoreError, match=r"these are no weights of mine .*size mismatch"):
        weights.clip_model("mine", path, {})
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": CLIP}))
    with pytest.raises(ReefcoreError, match=r"CLIP weights need their preprocessing.*no preprocess_cfg"):
        weights.clip_model("mine", path, {})
    with pytest.raises(ReefcoreError, match=r"cannot be fetched .*404.*hf download r/none"):
        weights.clip_model("hf-hub:r/none", "hub", {})
    with pytest.raises(ReefcoreError, match="open_clip cannot build mine"):
        weights.clip_model("mine", "scratch", {"depth": 3})
    other = {**CLIP, "text_cfg": {**CLIP["text_cfg"], "vocab_size": 100}}
    with pytest.raises(ReefcoreError, match="vocabulary of its own"):
        weights.clip_model("mine", "scratch", other)


def words():
    """Write a tokenizer of a few words, as transformers keeps it: file -> bytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    known = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", "porites", "acropora", "a", "photo", "of"])}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 6, **special}
    return {
        "tokenizer.json": tokenizer.to_str().encode(),
        "tokenizer_config.json": json.dumps(config).encode(),
        "special_tokens_map.json": json.dumps(special).encode(),
    }


SIGLIP = {
    "embed_dim": 64,
    "init_logit_bias": -10,
    "custom_text": True,
    "vision_cfg": {
        "image_size": 160,
        "timm_model_name": "test_vit",
        "timm_model_pretrained": False,
        "timm_pool": "avg",
    },
    "text_cfg": CLIP["text_cfg"]
    | {
        "vocab_size": 8,
        "context_length": 6,
        "hf_tokenizer_name": "r/words",
        "tokenizer_kwargs": {"clean": "canonicalize"},
    }
    | {"no_causal_mask": True, "proj_bias": True, "pool_type": "last"},
}


def siglip():
    """Give a small model built as SigLIP is, and the files of its repository: (model, file -> bytes)."""
    config = {key: value for key, value in SIGLIP.items() if key != "custom_text"}
    model = open_clip.CustomTextCLIP(**config).eval()
    prepared = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"}
    known = json.dumps({"model_cfg": SIGLIP, "preprocess_cfg": prepared}).encode()
    return model, {"open_clip_config.json": known, "open_clip_model.safetensors": to_bytes(model.state_dict())}


def on_the_hub(hub):
    model, files = siglip()
    hub.files |= {f"r/siglip/{name}": data for name, data in files.items()}
    hub.files |= {f"r/words/{name}": data for name, data in words().items()}
    return model


def test_a_model_as_siglip_is_loaded_from_the_hub_with_its_own_words_and_then_without_it(hub, tmp_path):
    model = on_the_hub(hub)
    patches = np.random.default_rng(0).integers(0, 256, (3, 160, 160, 3), dtype=np.uint8)
    encoder = vision_language.load("r/siglip")
    pixels = torch.from_numpy(patches).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        images = model.encode_image(pixels / 127.5 - 1, normalize=True)
        texts = model.encode_text(torch.tensor([[5, 6, 7, 3, 1, 0]]), normalize=True)
    assert np.allclose(encoder.images(patches), images, atol=1e-5)
    assert np.allclose(encoder.texts(["A photo of Porites!"]), texts, atol=1e-5)
    assert encoder.texts(["a a a a a", "a a a a a a"]).shape == (2, 64) and encoder.cut == ["a a a a a a"]
    hub.trouble = 503
    again = vision_language.load("r/siglip")
    assert np.array_equal(again.texts(["Porites"]), encoder.texts(["Porites"]))
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, data in (siglip()[1] | words()).items():
        (folder / name).write_bytes(data)
    assert vision_language.load("mine", folder).images(patches).shape == (3, 64)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("r/siglip/open_clip_config.json", "weights of r/siglip cannot be fetched .*404.*hf download r/siglip"),
        ("r/siglip/open_clip_model.safetensors", "weights of r/siglip cannot be fetched .*404.*hf download r/siglip"),
        ("r/words/tokenizer.json", "the tokenizer of r/siglip cannot be fetched .*404.*hf download r/words"),
        ("r/words/tokenizer_config.json", "the tokenizer of r/siglip cannot be fetched .*404.*hf download r/words"),
    ],
)
def test_an_encoder_of_which_a_file_cannot_be_fetched_is_refused(hub, lost, said):
    on_the_hub(hub)
    del hub.files[lost]
    with pytest.raises(ReefcoreError, match=said):
        vision_language.load("r/siglip")


def test_a_folder_whose_tokenizer_is_missing_is_refused_and_none_is_fetched(hub, tmp_path):
    hub.files |= {f"r/words/{name}": data for name, data in words().items()}
    for name, data in siglip()[1].items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(
        ReefcoreError, match=r"the tokenizer of mine cannot be read .*put the files of its repository there"
    ):
        vision_language.load("mine", tmp_path)
