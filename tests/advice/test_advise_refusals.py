"""What no training can be advised for is refused before sources are read or a training begins."""

import pytest
from refusals import rows

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


HALF = pairs(200, lambda n: n % 2)


def advised(f, target="t.csv", given=HALF, *, reads=False, **settings):
    read_nothing = f.unread
    if not reads:
        read_nothing()
    f.monkeypatch.chdir(f.tmp_path)
    table(f.tmp_path / "t.csv", given)
    advise(target, report=lambda line: None, **settings)


ROWS = ((pairs(1, lambda n: 1) * 200, "different rows"), (pairs(200, lambda n: 0), "in every row"))
SETTINGS = [{"encoder": "bm25"}, {"learning_rate": -1}, {"learning_rate": 1e30}, {"minutes": float("nan")}]
REFUSED = {
    "rows by which no encoder is better": [
        (lambda f, given=given: advised(f, given=given, reads=True, sources=["demo_qmc"]), told)
        for given, told in ROWS
    ],
    "a setting": [
        (lambda f, settings=settings: advised(f, **settings), next(iter(settings)).replace("encoder", "bm25"))
        for settings in SETTINGS
    ],
    "a source that is the target": [
        (
            lambda f, target=target: advised(f, target, sources=["demo_qmc", f"./{target}"]),
            f"sources=./{target}: is the target",
        )
        for target in ("t.csv", "demo_sts")
    ],
}


@pytest.mark.parametrize(("call", "told"), rows(REFUSED))
def test_what_no_training_can_be_advised_for_is_refused(f, call, told):
    with pytest.raises(UserError, match=told):
        call(f)


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
