import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from juzhen.core.result import Result, Score
from tools.decide_mixtures import drawn, error, gains_of, rank_correlation, regressed, section

pytestmark = pytest.mark.slow


@pytest.fixture
def singles():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        rng.normal(scale=5, size=(6, 3)), index=list("abcdef"), columns=["one", "two", "three"]
    )


def recipes(singles, weights, way):
    """Gains of all pairs that are a weighted sum of what both sources gain alone."""
    lines = []
    for first in singles.index:
        for second in singles.index.drop(first):
            for target in singles:
                parts = singles.loc[[first, second], target].to_numpy()
                line = {
                    "recipe": f"{first}-{second}",
                    "way": way,
                    "sets": f"{first} {second}",
                    "shares": "0.5 0.5",
                    "target": target,
                }
                guesses = {"mean": parts.mean(), "best": parts.max(), "last": parts[-1], "sum": parts.sum()}
                lines.append(line | guesses | {"gain": float(parts @ weights)})
    return pd.DataFrame(lines)


def test_a_regression_finds_shares_that_add_up(singles):
    mixed = recipes(singles, [0.5, 0.5], "mixture")
    assert np.abs(regressed(mixed, singles) - mixed["gain"]).max() < 0.5
    staged = recipes(singles, [0.1, 0.5], "curriculum")
    assert np.abs(regressed(staged, singles) - staged["gain"]).max() < 1.0
    assert np.abs(staged["mean"] - staged["gain"]).max() > 2


def test_a_recipe_does_not_predict_itself(singles):
    mixed = recipes(singles, [0.5, 0.5], "mixture")
    before = regressed(mixed, singles)
    mixed.loc[0, "gain"] += 100
    assert regressed(mixed, singles)[0] == pytest.approx(before[0])


def test_the_page_has_the_error_of_each_prediction(singles):
    mixed = recipes(singles, [0.5, 0.5], "mixture")
    mixed["regression"] = mixed["mean"] + 1
    page = section(mixed, singles, 20.0)
    lines = [line.split(" | ") for line in page.splitlines() if line.startswith("| mixture")]
    errors = {line[1]: line[2:4] for line in lines}
    assert errors["mean of the gains of its sets"] == ["0.00 [0.00, 0.00]", "–"]
    shifted = errors["ridge regression on shares (RegMix), each left out once"]
    assert shifted == ["1.00 [1.00, 1.00]", "+1.00 [+1.00, +1.00]"]


def test_intervals_are_of_recipes_and_targets_drawn_anew():
    rng = np.random.default_rng(1)
    gains = pd.DataFrame(rng.normal(size=(9, 4)))
    guesses = gains + rng.normal(size=(9, 4))
    gains.iloc[2, 1] = guesses.iloc[2, 1] = np.nan
    of_targets = [spearmanr(guesses[each], gains[each], nan_policy="omit").statistic for each in gains]
    correlations = rank_correlation(drawn(guesses), drawn(gains))
    assert correlations[0] == pytest.approx(np.mean(of_targets))
    assert correlations[1:].std() > 0.05
    assert error(drawn(guesses), drawn(gains))[0] == pytest.approx(
        np.sqrt(((guesses - gains) ** 2).stack().mean())
    )
    assert rank_correlation(drawn(gains), drawn(2 * gains)) == pytest.approx(1.0)


def test_a_merged_model_predicts_the_recipes_of_its_sets(tmp_path, singles):
    """Whatever their order, and it is no recipe itself."""
    for name, sets, serial, score in (
        ("mix", "ab", False, 0.6),
        ("then", "ba", True, 0.5),
        ("", "ab", False, 0.7),
        ("75a", "ab", False, 0.8),
    ):
        schedule = {"name": "serial" if serial else "mix", "sets": {}, "sample_by": "uniform"}
        if name == "75a":
            schedule |= {"sets": {"a": {"weight": 3.0}}, "sample_by": "weight"}
        config = {"dataset": {each: {} for each in sets}, "schedule": schedule}
        config |= {"sweep_row": name} if name else {"merge": {"method": "linear", "parents": []}}
        scores = {"dev/one/spearman": Score(score), "dev/one/ks": Score(0.1)}
        result = Result(
            name or "merged", "k", [], scores, config, data={}, training={}, environment={}, seed=42
        )
        (tmp_path / result.name).mkdir()
        result.write(tmp_path / result.name)
    frame = gains_of(tmp_path, singles, 2 * singles, pd.Series({"one": 40.0}), set()).set_index("recipe")
    assert frame["gain"].to_dict() == pytest.approx({"mix": 20.0, "then": 10.0, "75a": 40.0})
    assert frame["merged"].drop("75a").to_list() == pytest.approx([30.0, 30.0])
    assert frame["one_seed"].to_list() == pytest.approx([2 * singles.loc[["a", "b"], "one"].mean()] * 3)
    assert frame.loc["75a", "equal"] == pytest.approx(20.0)
    first, second = singles.loc[["a", "b"], "one"]
    assert frame.loc["75a", "weighted"] == pytest.approx(0.75 * first + 0.25 * second)


def test_a_regression_reads_unequal_shares(singles):
    mixed = recipes(singles, [0.75, 0.25], "unequal mixture").assign(shares="0.75 0.25")
    assert np.abs(regressed(mixed, singles) - mixed["gain"]).max() < 0.5
