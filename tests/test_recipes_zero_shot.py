"""Zero-shot recipes: they cover the published rows, say where values come from, and are checked before use."""

import pytest
import yaml

from reefcore import prompts, published
from reefcore.errors import ReefcoreError
from reefcore.recipes import zero_shot

ASKED = {"max_tokens": 32, "temperature": 0.0, "side": 512}
ALL = [zero_shot.load(name) for name in zero_shot.names()]


def values(name="clip", **changes):
    file = yaml.safe_load((zero_shot.FOLDER / f"{name}.yaml").read_text()) | changes
    return {key: value for key, value in file.items() if value != "left out"}


def written(path, values):
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.mark.parametrize(("number", "kinds"), [(5, {"clip", "chat"}), (12, {"clip"})])
def test_every_published_row_has_one_recipe_and_one_prompt_set(number, kinds):
    table = published.wide(number)
    rows = list(table.iloc[:, 0]) if number == 5 else list(table.columns[1:])
    assert sorted(row for recipe in ALL if recipe.kind in kinds for row in recipe.rows.values()) == sorted(rows)


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.name)
def test_recipes_ask_known_prompt_sets_and_say_where_their_model_comes_from(recipe):
    assert set(recipe.prompts) <= set(prompts.SETS)
    assert {"model"} | {key for key in ("rows", "settings") if getattr(recipe, key)} <= set(recipe.sources)
    assert recipe.about.endswith(".")


def test_the_sets_of_tables_5_and_12_are_asked():
    for recipe in ALL:
        assert {"S2", "S3"} | ({"S1", "U"} if recipe.kind == "clip" else set()) <= set(recipe.tests)


def test_a_recipe_of_one_s_own_is_read_with_what_it_leaves_out(tmp_path):
    given = {"about": "Mine.", "kind": "clip", "model": "mine", "weights": "somewhere", "prompts": ["name"]}
    recipe = zero_shot.load(written(tmp_path / "mine.yaml", given | {"tests": ["S3"]}))
    assert (recipe.name, recipe.prompts, recipe.tests) == ("mine", ("name",), ("S3",))
    assert (recipe.rows, recipe.points, recipe.settings, recipe.sources) == ({}, 0, {}, {})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"promts": ["name"]}, "unknown key 'promts'; the keys are about, kind, model"),
        ({"model": "left out"}, "the key 'model' is missing"),
        ({"points": "all"}, "points must be of type int, not 'all'"),
        ({"points": True}, "points must be of type int"),
        ({"points": -1}, "points must be at least 0"),
        ({"prompts": "name"}, "prompts must be of type list"),
        ({"prompts": [], "rows": {}}, "prompts may not be empty"),
        ({"prompts": [["name"]], "rows": {}}, "prompts must hold names"),
        ({"tests": ["S9"]}, "tests may hold S1"),
        ({"tests": []}, "tests may hold S1"),
        ({"kind": "clap"}, "kind must be one of clip, chat"),
        ({"weights": "left out"}, "weights is for models of the kind clip, which need it"),
        ({"rows": {"mine": "CLIP"}}, "rows may only name prompt sets of prompts"),
        ({"settings": {"mean": [0.5, 0.5, 0.5]}}, "settings may be mean and std"),
        ({"settings": {"mean": [0.5], "std": [0.5]}}, "settings may be mean and std"),
        ({"settings": {"side": 512}}, "settings may be mean and std"),
    ],
)
def test_a_recipe_that_cannot_be_is_one_sentence_that_names_file_and_key(tmp_path, changes, said):
    with pytest.raises(ReefcoreError, match=rf"odd\.yaml: {said}"):
        zero_shot.load(written(tmp_path / "odd.yaml", values(**changes)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"max_tokens": 32}}, "settings must be max_tokens, temperature, side"),
        (
            {"settings": {"max_tokens": 0, "temperature": 0.0, "side": 512}},
            "settings must have a max_tokens that makes sense",
        ),
        ({"settings": {"max_tokens": 32, "temperature": "cold", "side": 512}}, "settings must have a temperature that"),
        ({"settings": ASKED | {"shuffle": "no"}}, "settings must have a shuffle that makes sense"),
        ({"settings": ASKED | {"top_p": 1}}, "settings must be max_tokens, temperature, side, and may be instruction"),
        ({"weights": "hub"}, "weights is for models of the kind clip"),
    ],
)
def test_a_chat_recipe_says_how_it_is_asked(tmp_path, changes, said):
    with pytest.raises(ReefcoreError, match=rf"odd\.yaml: {said}"):
        zero_shot.load(written(tmp_path / "odd.yaml", values("qwen2_5_vl", **changes)))


def test_a_chat_recipe_may_name_its_question(tmp_path):
    settings = ASKED | {"instruction": "mine", "shuffle": False}
    assert zero_shot.load(written(tmp_path / "mine.yaml", values("qwen2_5_vl", settings=settings))).settings == settings


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ReefcoreError, match="bioclip, bioclip2, clip, clip_sample, openclip, qwen2_5_vl, siglip"):
        zero_shot.load("blip")
