"""What no training can be advised for is refused before sources are read or a training begins."""

import pytest

import juzhen.advice.advise
from juzhen.advice.advise import advise
from juzhen.cli.main import main
from juzhen.core.errors import UserError


def table(path, rows):
    path.write_text("text_a,text_b,label\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows))
    return path


@pytest.fixture
def unread(monkeypatch):
    """Sources that nobody may read, and trainings that nobody may begin."""

    def never(*arguments, **options):
        raise AssertionError("too late")

    monkeypatch.setattr(juzhen.advice.advise, "Trials", never)
    return lambda: monkeypatch.setattr(juzhen.advice.advise, "read_sources", never)


def pairs(count, label):
    return [(f"怎么退货{number}", f"如何退货{number}", label(number)) for number in range(count)]


@pytest.mark.parametrize(
    ("rows", "told"),
    [(pairs(1, lambda n: 1) * 200, "different rows"), (pairs(200, lambda n: 0), "in every row")],
)
def test_rows_by_which_no_encoder_is_better_are_refused(rows, told, unread, tmp_path):
    with pytest.raises(UserError, match=told):
        advise(table(tmp_path / "t.csv", rows), sources=["demo_qmc"], report=lambda line: None)


@pytest.mark.parametrize(
    "settings",
    [{"encoder": "bm25"}, {"learning_rate": -1}, {"learning_rate": 1e30}, {"minutes": float("nan")}],
)
def test_an_encoder_without_embeddings_and_odd_numbers_cost_no_reading(settings, unread, tmp_path):
    unread()
    with pytest.raises(UserError, match=next(iter(settings)).replace("encoder", "bm25")):
        advise(table(tmp_path / "t.csv", pairs(200, lambda n: n % 2)), **settings)


@pytest.mark.parametrize("target", ["t.csv", "demo_sts"])
def test_a_source_that_is_the_target_is_said(target, unread, tmp_path, monkeypatch):
    unread()
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "t.csv", pairs(200, lambda n: n % 2))
    with pytest.raises(UserError, match=f"sources=./{target}: is the target"):
        advise(target, sources=["demo_qmc", f"./{target}"])


def test_its_trainings_are_not_read_as_runs_of_the_user(monkeypatch):
    """`juzhen table runs` reads all results below runs/."""
    places = []

    def stop(target, *, out, **options):
        places.append(out)
        raise UserError("stopped")

    monkeypatch.setattr(juzhen.advice.advise, "advise", stop)
    main(["advise", "faq.csv"])
    assert places[0].name == "faq"
    assert "runs" not in places[0].parts
