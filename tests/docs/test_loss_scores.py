"""Scores of losses stand in the pages as the results say."""

import pytest

from tools.archives import unpacked
from tools.loss_scores import BASELINES, COLUMNS, PAGES, PLACE, filled, scores, shown
from tools.loss_table import options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_a_page_says_what_the_results_and_the_code_say(page):
    text = page.read_text(encoding="utf-8")
    is_chinese = page.name.endswith(".zh.md")
    assert filled(text, in_chinese=is_chinese) == text, "write it again: python -m tools.loss_scores"


@pytest.mark.parametrize("page", PAGES[:2], ids=lambda page: page.name)
def test_every_run_has_its_place(page):
    concepts = page.read_text(encoding="utf-8")
    found = list(scores())
    assert len(found) == len(list((unpacked() / "losses" / "runs").iterdir())) > 30
    for one, loss, by_set in found:
        if loss not in BASELINES:
            section = concepts.split(f"### `{loss}`\n")[1].split("\n### ")[0]
            assert f"{COLUMNS.get(one, one)} {shown(by_set[one])}" in section
    for name, loss in options("loss").items():
        assert f"<!-- facts:{name} -->" in concepts or "_target_" not in loss


def test_a_table_has_the_best_loss_first_and_the_baselines_in_it():
    text = filled("<!-- score:csts -->old<!-- /score -->")
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    values = [float(line.split("|")[2].split("[")[0]) for line in lines]
    assert values == sorted(values, reverse=True)
    assert "| untrained | " in text
    assert "old" not in text
    assert PLACE.search(text)


def test_a_place_for_nothing_is_refused():
    with pytest.raises(
        ValueError, match="score:cosnet: results/losses has neither such a loss nor such a set"
    ):
        filled("<!-- score:cosnet --><!-- /score -->")
