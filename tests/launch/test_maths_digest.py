"""What code means is told by a digest: comments change nothing, a number does."""

import pytest

from launch import digests
from launch.digests import DECIDING, ROOT, maths_digest, meaning, source_files

CODE = '''"""A module."""

LARGEST = 3
"""A constant."""


def scaled(value: float, *, by: float = 2.0) -> float:
    """The value, larger."""
    return value * by + LARGEST  # why
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # why", "  # for another reason"),
        ("A module.", "A module of one function."),
        ("A constant.", "The largest."),
        ('    """The value, larger."""\n', ""),
        ("value * by + LARGEST", "(value * by) + LARGEST"),
        ("\n\n\ndef", "\n\ndef"),
    ],
)
def test_words_and_line_breaks_mean_nothing(old, new):
    assert old in CODE
    assert meaning(CODE.replace(old, new)) == meaning(CODE)


@pytest.mark.parametrize(
    ("old", "new"), [("= 3", "= 4"), ("2.0", "2.1"), ("* by", "/ by"), ("value * by", "by")]
)
def test_another_number_or_sign_means_another_thing(old, new):
    assert old in CODE
    assert meaning(CODE.replace(old, new)) != meaning(CODE)


def test_what_decides_is_there_and_holds_the_maths():
    files = {path.relative_to(ROOT).as_posix() for path in source_files(ROOT, DECIDING)}
    assert {
        "juzhen/losses/order.py",
        "juzhen/metrics/correlation.py",
        "juzhen/encoders/pooling.py",
        "juzhen/data/sampler.py",
    } <= files
    with pytest.raises(FileNotFoundError):
        source_files(ROOT, ["losses", "gone.py"])


def test_the_digest_follows_code_and_libraries(tmp_path, monkeypatch):
    def digest():
        maths_digest.cache_clear()
        return maths_digest()

    monkeypatch.setattr(digests, "ROOT", tmp_path)
    monkeypatch.setattr(digests, "DECIDING", ("losses",))
    (tmp_path / "losses").mkdir()
    file = tmp_path / "losses" / "scaled.py"
    file.write_text(CODE)
    try:
        first = digest()
        file.write_text(CODE.replace("# why", "# because"))
        assert digest() == first
        file.write_text(CODE.replace("= 3", "= 4"))
        assert digest() != first
        file.write_text(CODE)
        monkeypatch.setattr(digests, "version", lambda library: "1.0+cpu")
        one = digest()
        monkeypatch.setattr(digests, "version", lambda library: "1.0+cu130")
        assert digest() == one, "a build for another device is the same maths"
        monkeypatch.setattr(digests, "version", lambda library: "1.1")
        assert digest() not in (first, one)
    finally:
        maths_digest.cache_clear()
