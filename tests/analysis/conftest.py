import pytest

from juzhen.data import rows


@pytest.fixture
def without_promised_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small files of these tests have not the rows that the real sets promise."""
    load = rows.load_examples

    def without_promise(config, split, **more):
        config.rows[split] = None
        return load(config, split, **more)

    monkeypatch.setattr(rows, "load_examples", without_promise)
