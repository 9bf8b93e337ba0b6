import numpy as np
import pandas as pd
import pytest

from tools.decide_mixtures import regressed, section


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
    lines = [
        line.split(" | ") for line in section(mixed, singles).splitlines() if line.startswith("| mixture")
    ]
    errors = {line[1]: line[3].strip() for line in lines}
    assert errors["mean of the gains of its sets"] == "0.00"
    assert errors["ridge regression on shares (RegMix), each left out once"] == "1.00"
