"""A .png has Chinese words in a font that has them, or a warning says that there is none."""

import warnings

import pytest

pytest.importorskip("matplotlib")
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.figure import Figure

from juzhen.report import picture


def chinese_font(path, name):
    """A font in which each sign is a triangle."""
    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    pen.lineTo((900, 0))
    pen.lineTo((500, 900))
    pen.closePath()
    glyph = pen.glyph()
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", "sign"])
    font.setupCharacterMap(dict.fromkeys(map(ord, "的训练集中文"), "sign"))
    font.setupGlyf({".notdef": glyph, "sign": glyph})
    font.setupHorizontalMetrics({".notdef": (1000, 0), "sign": (1000, 0)})
    font.setupHorizontalHeader(ascent=900, descent=-100)
    font.setupNameTable({"familyName": name, "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)


def drawn(path, words):
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, words)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        picture.save_picture(figure, path)
    return [str(each.message) for each in told]


@pytest.fixture
def fonts(monkeypatch):
    """The fonts that come with matplotlib, which are not Chinese."""
    without = [entry for entry in font_manager.fontManager.ttflist if "matplotlib" in entry.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", without)
    picture._chinese_fonts.cache_clear()
    yield font_manager.fontManager
    picture._chinese_fonts.cache_clear()


def test_boxes_are_named_and_an_svg_has_none(fonts, tmp_path):
    (line,) = drawn(tmp_path / "a.png", "训练集 a")
    assert "训" in line
    assert ".svg" in line
    assert not drawn(tmp_path / "a.svg", "训练集 a")
    assert not drawn(tmp_path / "b.png", "training set")


@pytest.mark.parametrize("name", ["SimHei", "A Font That Nobody Knows"])
def test_an_installed_font_is_used(name, fonts, tmp_path):
    drawn(tmp_path / "boxes.png", "训练集")
    chinese_font(tmp_path / "font.ttf", name)
    fonts.addfont(tmp_path / "font.ttf")
    picture._chinese_fonts.cache_clear()
    assert not drawn(tmp_path / "signs.png", "训练集")
    assert (tmp_path / "signs.png").read_bytes() != (tmp_path / "boxes.png").read_bytes()
    (line,) = drawn(tmp_path / "rare.png", "训练集龘")
    assert "龘" in line
    assert "训" not in line
