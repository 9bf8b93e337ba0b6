"""The seven English STS sets as one: all their pairs together, and the mean of the seven."""

from collections.abc import Mapping, Sequence

import numpy as np

from juzhen.core.examples import Examples
from juzhen.core.result import Score
from juzhen.metrics.correlation import bootstrap_interval, spearman
from juzhen.metrics.scoring import CONFIDENCE

STS_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb_en", "sick")


def score_together(
    sets: Sequence[Examples],
    scores: Sequence[np.ndarray],
    found: Mapping[str, Score],
    *,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, Score]:
    """`<split>/sts_all/spearman` and `<split>/sts_mean/spearman`, for splits in which all seven sets were scored.

    all   Spearman over the pairs of all sets together, their gold scores brought to the range from 0 to 1 first;
          what papers on unsupervised embeddings call "all" (Gao et al. 2021, appendix B)
    mean  the mean of the seven correlations; None where one of them is undefined

    found  metric key → Score of each set
    """
    together: dict[str, Score] = {}
    for split in dict.fromkeys(one.split for one in sets):
        chosen = {
            one.name: (values, one) for one, values in zip(sets, scores, strict=True) if one.split == split
        }
        if not set(STS_SETS) <= set(chosen):
            continue
        values = np.concatenate([chosen[name][0] for name in STS_SETS])
        grades = np.concatenate([chosen[name][1].grades() for name in STS_SETS])
        low, high = bootstrap_interval(
            values, grades, samples=bootstrap_samples, confidence=CONFIDENCE, seed=seed
        )
        each = [found[f"{split}/{name}/spearman"].value for name in STS_SETS]
        defined = [value for value in each if value is not None]
        mean = float(np.mean(defined)) if len(defined) == len(each) else None
        together[f"{split}/sts_all/spearman"] = Score(spearman(values, grades), low, high, count=len(grades))
        together[f"{split}/sts_mean/spearman"] = Score(mean, count=len(grades))
    return together
