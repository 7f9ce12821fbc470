"""AUROC of open-set scores with intervals: photos resampled over scores sorted once, or scikit-learn for each draw."""

import numpy as np
import pandas as pd

from benchmarks import Row, seconds

POINTS, CLASSES, PHOTOS, DRAWS, PLAIN_DRAWS = 34_000, 38, 1_400, 1_000, 20


def rows():
    from sklearn.metrics import roc_auc_score

    from reefcore import open_set

    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (POINTS, CLASSES)).astype(np.float32)
    known = rng.random(POINTS) < 0.945
    photo = rng.integers(PHOTOS, size=POINTS)
    ids = pd.Series(np.arange(POINTS)).astype("str")
    names = [f"genus {i}" for i in range(CLASSES)]
    annotations = pd.DataFrame({"annotation_id": ids, "source": "s", "image": photo.astype("str")})
    truth = np.where(known, rng.choice(names, POINTS), "another")
    table = pd.DataFrame({"run_id": "m-S4-S4", "annotation_id": ids, "y_true": truth, "y_pred": names[0]})
    table = table.join(pd.DataFrame(1 / CLASSES, index=table.index, columns=[f"score:{name}" for name in names]))

    def ours():
        scored = {f"known:{name}": score for name, score in open_set.scores(logits).items()}
        open_set.bootstrap(table.assign(**scored), annotations, DRAWS)

    def plain():
        scores, groups = open_set.scores(logits), [np.flatnonzero(photo == g) for g in range(PHOTOS)]
        for score in scores.values():
            for _ in range(PLAIN_DRAWS):
                drawn = np.concatenate([groups[g] for g in rng.integers(PHOTOS, size=PHOTOS)])
                roc_auc_score(known[drawn], score[drawn])

    plain_s = seconds(plain, 1) * DRAWS / PLAIN_DRAWS
    return [
        Row(
            "open-set scores, 1,000 resamples",
            f"roc_auc_score ({PLAIN_DRAWS} draws timed)",
            plain_s,
            "open_set.bootstrap, 3 measures",
            seconds(ours, 1),
        )
    ]
