"""Agreement between observers: over the frames both labelled, with intervals, and blind against ordered."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from reefcore.errors import ReefcoreError
from reefcore.figures import repeats
from reefcore.substrate import observers


def touch(folder, *names: str) -> None:
    """Make empty photos."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def table(**answers: str) -> pd.DataFrame:
    """Make observations from strings such as ``"DN-D"``: Deploy, No-Deploy, lacking, Deploy."""
    labels = {"D": "Deploy", "N": "No-Deploy"}
    rows = [
        (name, "unknown", f"f{place:03}", labels[letter])
        for name, text in answers.items()
        for place, letter in enumerate(text)
        if letter != "-"
    ]
    return pd.DataFrame(rows, columns=["observer", "order", "frame", "label"])


def test_class_folders_in_usual_spellings(tmp_path):
    touch(tmp_path, "Ana/blind/Deploy/s1/1.jpg", "Ana/blind/no_deploy/s1/2.JPG", "Ana/Ordered/s1/No Deploy/1.jpg")
    touch(tmp_path, "Ben/deploy/1.jpg", "Ben/NO-DEPLOY/2.jpg", "Ben/notes.txt")
    found = observers.read_folders(tmp_path)
    assert found.to_numpy().tolist() == [
        ["Ana", "blind", "s1/1.jpg", "Deploy"],
        ["Ana", "blind", "s1/2.JPG", "No-Deploy"],
        ["Ana", "ordered", "s1/1.jpg", "No-Deploy"],
        ["Ben", "unknown", "1.jpg", "Deploy"],
        ["Ben", "unknown", "2.jpg", "No-Deploy"],
    ]
    assert list(observers.answers(found)) == ["Ana, blind", "Ana, ordered", "Ben"]


@pytest.mark.parametrize(
    "names, problem",
    [
        (["A/Deploy/1.jpg", "A/No-Deploy/1.jpg"], "A has frame 1.jpg both as Deploy and as No-Deploy"),
        (["A/Deploy/s/1.jpg", "A/s/no deploy/1.jpg"], "A has frame s/1.jpg both as"),
        (["A/Deploy/1.jpg", "A/Maybe/2.jpg"], "Maybe: the folder of 2.jpg is no class folder"),
        (["A/1.jpg"], "the folder of 1.jpg is no class folder"),
        (["1.jpg"], "the folder of 1.jpg is no class folder"),
        (["A/Deploy/read me.txt"], "there is no photo in this folder"),
        (["x.txt"], "there is no photo in this folder"),
    ],
)
def test_folders_that_say_no_label_or_two(tmp_path, names, problem):
    touch(tmp_path, *names)
    with pytest.raises(ReefcoreError, match=problem):
        observers.read_folders(tmp_path)
    with pytest.raises(ReefcoreError, match="not a folder"):
        observers.read_folders(tmp_path / "none")


def test_a_table_of_labels(tmp_path, caplog):
    path = tmp_path / "labels.csv"
    path.write_text("observer,frame,label,position\nA,1,deploy,2\nA,2,No Deploy,1\nA,2,no_deploy,1\n")
    found = observers.read_table(path)
    assert found["label"].tolist() == ["Deploy", "No-Deploy"] and found["position"].tolist() == [2, 1]
    assert set(found["order"]) == {"unknown"} and "1 observations are there twice" in caplog.text
    for text, problem in {
        "observer,frame\nA,1\n": "labels.csv: the table lacks label",
        "observer,frame,label\nA,1,coral\n": "the label 'coral' is neither Deploy nor No-Deploy",
        "observer,frame,label\nA,1,Deploy\nA,1,No-Deploy\n": "A has frame 1 both as Deploy and as No-Deploy",
        "": "this is no table",
    }.items():
        path.write_text(text)
        with pytest.raises(ReefcoreError, match=problem):
            observers.read_table(path)
    with pytest.raises(ReefcoreError, match="this is no table"):
        observers.read_table(tmp_path / "none.csv")


def test_frames_that_one_lacks_are_listed_and_never_agreement():
    wide = observers.answers(table(A="DDNN--D", B="DNNN-D-"))
    found = observers.agreement(wide, "A", "B", n=50)
    assert (found.values["frames"], found.values["missing"]) == (4, 2)  # f004 nobody labelled
    assert found.values["agreement"] == 3 / 4
    assert found.values["faulty"] == 5 / 6  # the authors' fault, higher
    assert found.missing.to_numpy().tolist() == [["f005", "A"], ["f006", "B"]]
    assert found.confusion.to_numpy().tolist() == [[1, 1], [0, 2]]
    assert (found.values["first_deploys"], found.values["second_deploys"]) == (0.5, 0.25)


def test_kappa_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    for size in (3, 10, 200):
        both = rng.choice(["D", "N"], (2, size), p=[0.3, 0.7])
        both[0, :2], both[1, :2] = ["D", "N"], ["N", "D"]
        wide = observers.answers(table(A="".join(both[0]), B="".join(both[1])))
        values = observers.agreement(wide, "A", "B", n=20).values
        assert values["kappa"] == pytest.approx(cohen_kappa_score(*both))
        assert values["agreement"] == (both[0] == both[1]).mean()


def test_intervals_are_of_whole_groups_and_repeat_with_the_seed():
    rng = np.random.default_rng(1)
    same = np.repeat(rng.random(20) < 0.7, 10)  # ten frames of a sequence agree or disagree together
    first = rng.random(200) < 0.5
    text = ["".join(np.where(values, "D", "N")) for values in (first, np.where(same, first, ~first))]
    wide = observers.answers(table(A=text[0], B=text[1]))
    sequence = pd.Series(np.repeat(range(20), 10), wide.index)
    alone, together = (observers.agreement(wide, "A", "B", g, seed=3).values for g in (None, sequence))
    width = [found["agreement_high"] - found["agreement_low"] for found in (alone, together)]
    assert 2 < width[1] / width[0] < 4.5  # the square root of ten
    assert together == observers.agreement(wide, "A", "B", sequence, seed=3).values
    assert together["kappa_low"] < together["kappa"] < together["kappa_high"]
    with pytest.raises(ReefcoreError, match="frame f000 is in no group"):
        observers.agreement(wide, "A", "B", sequence[1:])


def test_kappa_is_undefined_where_both_know_one_label_only():
    wide = observers.answers(table(A="NNNN", B="NNNN", C="DDDD"))
    values = observers.agreement(wide, "A", "B", n=20).values
    assert values["agreement"] == 1 and np.isnan(values["kappa"]) and np.isnan(values["agreement_low"])
    assert values["note"] == "both gave every frame the label No-Deploy: kappa is not defined"
    assert observers.agreement(wide, "A", "C", n=20).values["kappa"] == 0  # chance agrees as little
    assert np.isnan(observers.fleiss(wide[["A", "B"]], n=20)["kappa"])


def test_who_cannot_be_compared():
    wide = observers.answers(table(A="DN--", B="--DN"))
    with pytest.raises(ReefcoreError, match="A and B have no frame in common"):
        observers.agreement(wide, "A", "B")
    with pytest.raises(ReefcoreError, match=r"no answers of 'C'; choose from A; B"):
        observers.agreement(wide, "A", "C")
    with pytest.raises(ReefcoreError, match="no frame was labelled by all"):
        observers.fleiss(wide)


def test_fleiss_kappa_of_the_worked_example():
    # https://en.wikipedia.org/wiki/Fleiss%27_kappa: 14 raters, 10 subjects, 5 categories, kappa 0.210
    counts = """0 0 0 0 14  0 2 6 4 2  0 0 3 5 6  0 3 9 2 0  2 2 8 1 1
                7 7 0 0 0   3 2 6 3 0  2 5 3 2 2  6 5 2 1 0  0 2 2 3 7"""
    assert observers.fleiss_kappa(np.array(counts.split(), int).reshape(10, 5)) == pytest.approx(0.20993, abs=5e-6)
    for wrong in ([[1, 2], [2, 2]], [[1, 0]], np.zeros((0, 2))):
        with pytest.raises(ReefcoreError, match="same number of raters"):
            observers.fleiss_kappa(wrong)


def test_fleiss_of_two_is_scotts_pi_over_the_frames_all_have():
    wide = observers.answers(table(A="DDDNNNNNN-", B="DDNNNNNND-", C="DDDDNNNN-D"))
    found = observers.fleiss(wide, ["A", "B"], n=100)
    deploys = 6 / 18
    chance = deploys**2 + (1 - deploys) ** 2
    assert found["kappa"] == pytest.approx((7 / 9 - chance) / (1 - chance))
    assert found["kappa_low"] < found["kappa"] < found["kappa_high"]
    assert {k: observers.fleiss(wide, n=9)[k] for k in ("raters", "frames", "missing")} == {
        "raters": 3,
        "frames": 8,
        "missing": 2,
    }


def test_pairs_and_the_difference_of_two():
    wide = observers.answers(table(A="DDNNDDNN" * 10, B="DDNNDDND" * 10, C="DNNNDNND" * 10))
    assert observers.pairs(wide, n=20)[["first", "second"]].agg("".join, axis=1).tolist() == ["AB", "AC", "BC"]
    gap = observers.difference(wide, ("A", "B"), ("A", "C"), n=300).set_index("measure")
    assert gap.loc["agreement", "value"] == pytest.approx(2 / 8)
    assert 0 < gap.loc["agreement", "ci_low"] < 0.25 < gap.loc["agreement", "ci_high"]
    alone = [observers.agreement(wide, "A", name).values["agreement_high"] for name in "BC"]
    assert gap.loc["agreement", "ci_high"] < alone[0] - alone[1] + 0.2  # paired: what both share cancels


def test_stickiness_finds_who_carries_answers_over_and_no_one_else():
    rng = np.random.default_rng(2)
    truth = np.repeat(rng.random(100) < 0.5, 4)
    frames = pd.DataFrame({"frame": [f"f{i:03}" for i in range(400)], "sequence": np.repeat(["a", "b"], 200)})
    frames["label"] = np.where(truth, "Deploy", "No-Deploy")
    wrong = rng.random(400) < 0.2
    honest = truth ^ wrong
    sticky = honest.copy()
    for i in range(1, 400):
        if rng.random() < 0.4:
            sticky[i] = sticky[i - 1]
    rows = [frames[["frame"]].assign(observer=name, order="ordered", position=range(1, 401),
                                     label=np.where(values, "Deploy", "No-Deploy"))
            for name, values in (("honest", honest), ("sticky", sticky))]  # fmt: skip
    shuffled = rows[0].sample(frac=1, random_state=0).assign(order="blind", position=range(1, 401))
    found = observers.stickiness(pd.concat([*rows, shuffled]), frames, n=200).set_index(["observer", "order"])
    assert found["pairs"].to_dict() == {
        ("honest", "blind"): 399,
        ("honest", "ordered"): 398,
        ("sticky", "ordered"): 398,
    }
    assert found.loc[("sticky", "ordered"), "p"] < 0.01 < 0.05 < found.loc[("honest", "ordered"), "p"]
    assert found.loc[("honest", "blind"), "p"] > 0.05
    assert found["expert"]["honest", "ordered"] == pytest.approx(
        (truth[1:] == truth[:-1])[np.arange(399) != 199].mean()
    )
    assert (found["low"] <= found["expected"]).all() and (found["expected"] <= found["high"]).all()
    axes = repeats(found.reset_index()).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "honest, blind",
        "honest, ordered",
        "sticky, ordered",
    ]


def test_hard_frames_that_lie_together_are_not_taken_for_answers_carried_over():
    rng = np.random.default_rng(0)
    sequence = np.repeat([f"s{i}" for i in range(20)], 30)
    frames = pd.DataFrame({"frame": [f"f{i:03}" for i in range(600)], "sequence": sequence})
    truth = np.repeat(rng.random(120) < 0.5, 5)
    frames["label"] = np.where(truth, "Deploy", "No-Deploy")
    hard = np.where(np.repeat(rng.random(120) < 0.3, 5), 0.5, 0.02)  # stretches, seen for themselves

    def seen(name: str, order: str, answers) -> pd.DataFrame:
        place = np.arange(600) if order == "ordered" else rng.permutation(600)
        label = np.where(answers, "Deploy", "No-Deploy")
        return frames[["frame"]].assign(observer=name, order=order, position=place + 1, label=label)

    honest, blind = (truth ^ (rng.random(600) < hard) for _ in range(2))
    sticky = honest.copy()
    for i in np.flatnonzero(rng.random(600) < 0.3):
        sticky[i] = sticky[i - 1]
    both = {"honest": honest, "sticky": sticky}
    rows = [seen(name, *of) for name, a in both.items() for of in (("ordered", a), ("blind", blind))]
    rows.append(seen("once", "ordered", honest))
    found = observers.carried(pd.concat(rows), frames, n=300).set_index("observer")
    assert found.index.to_list() == ["honest", "sticky"] and set(found["pairs"]) == {580}
    pairs = sequence[1:] == sequence[:-1]
    for name, answers in both.items():
        assert found.at[name, "ordered"] == pytest.approx((answers[1:] == answers[:-1])[pairs].mean())
        assert found.at[name, "blind"] == pytest.approx((blind[1:] == blind[:-1])[pairs].mean())
    assert found.at["honest", "ci_low"] < 0 < found.at["honest", "ci_high"] and found.at["sticky", "ci_low"] > 0
    whole = observers.stickiness(pd.concat(rows), frames, n=100)
    unlabelled = frames.assign(label=frames["label"].mask(sequence == "s0"))
    fewer = observers.stickiness(pd.concat(rows), unlabelled, n=100)
    assert (whole["pairs"] - fewer["pairs"]).tolist() == [30, 29, 29, 30, 29]  # not taken for No-Deploy


def test_without_positions_nothing_is_said_of_their_order():
    table = pd.DataFrame({"observer": ["a"], "order": ["ordered"], "frame": ["1"], "label": ["Deploy"]})
    frames = pd.DataFrame({"frame": ["1"], "sequence": ["s"], "label": ["Deploy"]})
    for ask in (observers.stickiness, observers.carried):
        with pytest.raises(ReefcoreError, match="in which order frames were seen; add the column position"):
            ask(table, frames)
