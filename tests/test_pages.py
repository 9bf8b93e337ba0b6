"""The pages of the site are true: their programs run, and the Chinese ones say what the English ones say."""

import importlib.util
import io
import os
import re
import shutil
from contextlib import redirect_stdout
from itertools import pairwise

import pandas as pd
import pytest
from forks import ROOT, in_a_fork
from pages import (
    WORKED_CHANGES,
    Block,
    blocks,
    chinese,
    commands,
    page,
    programs,
    site_pages,
    translated_pages,
)

from juzhen import CrossEncoder, MultiVectorEncoder, SparseEncoder
from juzhen.core.row_scores import ROWS_FILE
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.save import save_encoder
from juzhen.families.late.folder import MultiVectorSettings
from tools.docs import site
from tools.docs.site import pages as generated_pages
from tools.generated import users_files

OPENED = re.compile(r"(?:\b(\w+)\.load\(\s*)?\"runs/([\w-]+)")
"""A run that a program opens, and the class that reads it."""
FENCES = re.compile(r"^ *```.*?^ *```$", flags=re.MULTILINE | re.DOTALL)


def with_programs():
    pages = [name for name in site_pages() if name != WORKED_CHANGES]
    return [name for name in pages if any(one.language == "python" for one in blocks(name))]


def stand_in(kind, run, backbone):
    """Writes a run: scores of a row, and an encoder of that class, with random weights unless of sentences."""
    folder = run / "encoder"
    run.mkdir(parents=True)
    pd.DataFrame({"set": ["lcqmc"], "gold": [1.0], "score": [0.9]}).to_parquet(run / ROWS_FILE)
    if kind not in ("CrossEncoder", "MultiVectorEncoder", "SparseEncoder"):
        shutil.copytree(ROOT / "juzhen" / "builtin" / "mini_zh@2", folder)
        return
    inner = load_backbone(BackboneConfig(path=str(backbone), initialize="random"), seed=0)
    if kind == "CrossEncoder":
        encoder = CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0)
    elif kind == "SparseEncoder":
        encoder = SparseEncoder.around(inner)
    else:
        lengths = MultiVectorSettings(query_length=16, document_length=40, expand_to=16)
        encoder = MultiVectorEncoder.around(inner, dim=16, reading=lengths)
    save_encoder(encoder, folder, card={})


def without_numbers(text):
    """The words that a program prints: its numbers depend on the machine, and on the run that stands in for one."""
    return re.sub(r"[-\d.,\s]+", " ", text).split()


def run_blocks(name, folder, backbone):
    """The programs of a page one after another, in a folder with the runs that they open."""
    os.chdir(folder)
    programs = "".join(block.body for block in blocks(name) if block.language == "python")
    kinds = {run: kind for kind, run in sorted(OPENED.findall(programs))}
    for run, kind in kinds.items():
        stand_in(kind, folder / "runs" / run, backbone)
    known = {"__name__": "__main__"}
    for number, (block, after) in enumerate(pairwise([*blocks(name), Block("", "")]), start=1):
        if block.language == "python" and (block.needs is None or importlib.util.find_spec(block.needs)):
            with redirect_stdout(io.StringIO()) as printed:
                exec(compile(block.body, f"{name}, program {number}", "exec"), known)
            # its output, behind what libraries say of what they load
            if (after.language, after.heading) == ("text", block.heading):
                shown = without_numbers(after.body)
                assert without_numbers(printed.getvalue())[-len(shown) :] == shown, f"{name}: {after.body}"


@pytest.mark.parametrize("name", with_programs())
@pytest.mark.slow
def test_the_programs_of_a_page_run_in_order(name, tiny_backbone, tmp_path):
    assert in_a_fork(run_blocks, name, tmp_path, tiny_backbone) == 0


def outline(name):
    """Levels of the headings of a page, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", FENCES.sub("", page(name)), flags=re.MULTILINE)]


@pytest.mark.parametrize("name", translated_pages())
def test_a_chinese_page_has_what_the_english_one_has(name):
    other = chinese(name)
    assert (ROOT / other).is_file(), f"{other} is missing"
    assert outline(other) == outline(name)
    assert [one.language for one in blocks(other)] == [one.language for one in blocks(name)]
    assert commands(other) == commands(name)


@pytest.mark.parametrize("name", site_pages())
def test_headings_are_in_order_and_pictures_have_texts(name):
    levels = outline(name)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert not re.findall(r"!\[\s*\]\(", page(name))


@pytest.mark.slow
def test_every_key_of_the_configuration_is_in_the_reference_and_explained():
    from conf.job import JobConfig
    from tools.docs.keys import key_rows, sections, shown_values

    text = generated_pages()["reference/keys.md"]
    rows = [row for place, kind in sections(JobConfig) for row in key_rows(place, kind, *shown_values())]
    assert {"`training.batch_size`", "`dataset.<set>.layouts.<layout>.window`"} <= {row[0] for row in rows}
    assert all(row[0] in text for row in rows)
    assert [row[0] for row in rows if not row[-1]] == []
    entry = "### `training.batch_size` { #training.batch_size }\n\nrows per batch, over all devices"
    assert entry in text
    assert "whole number, ≥ 1 · default `64`" in text
    assert "### `loss.temperature` " in text


def test_a_renamed_key_is_renamed_in_the_reference():
    from pydantic import Field
    from pydantic.dataclasses import dataclass

    from tools.docs.keys import key_rows

    @dataclass
    class Renamed:
        size_of_batches: int | None = Field(None, ge=1, description="rows that a loss sees")

    assert list(key_rows("training", Renamed, {}, {})) == [
        ("`training.size_of_batches`", "whole number or null, ≥ 1", "`null`", "rows that a loss sees")
    ]


@pytest.mark.slow
def test_the_reference_has_every_option_verb_and_public_name():
    from juzhen.cli.verbs import VERBS
    from juzhen.losses import __all__ as losses

    written = generated_pages()
    for path in {*(ROOT / "conf").glob("*/*.yaml")} - users_files():
        group, name = path.parent.name, path.stem
        heading = f"\n| `{name}` |" if group == "dataset" else f"\n### {group}={name}\n"
        assert heading in written["reference/groups.md"], path
    assert all(f"\n### juzhen {verb}\n" in written["reference/commands.md"] for verb in VERBS)
    assert all(f"`{name}`" in written["reference/api/losses.md"] for name in losses)


def test_docstrings_in_columns_become_lists_or_sections():
    from tools.docs.keys import as_markdown

    assert as_markdown("first, second  two texts", ["first", "second"]) == (
        "Args:\n    first: two texts\n    second: two texts"
    )

    columns = "first, second  two texts\nthird          one that\n               goes on"
    text = f"What it gives: a < b.\n\n{columns}\n\n>>> 1 + 1\n2"
    assert as_markdown(text) == (
        "What it gives: a &lt; b.\n\n- `first`, `second`: two texts\n- `third`: one that goes on\n\n"
        "```python\n>>> 1 + 1\n2\n```"
    )


def test_results_link_to_what_the_site_has():
    texts = {f"results/{path}": text for path, text in site.result_pages()}
    for path, text in texts.items():
        if isinstance(text, str):
            for target in re.findall(r"\]\(([^)#\s:]+)\)", text):
                place = os.path.normpath(os.path.join(os.path.dirname(path), target))
                assert place in texts, f"{path}: {target}"
    assert not [path for path, text in texts.items() if isinstance(text, str) and "](runs" in text]


def test_commands_are_read_as_a_shell_reads_them(tmp_path, monkeypatch):
    import pages

    lines = [
        "A=1 python train.py \\",
        "  x=1  # why",
        "",
        "    # alone",
        "juzhen table runs | head && make test > out",
    ]
    text = "\n".join(["```bash", *lines, "```", ""])
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    told = [("python", ["train.py", "x=1"]), ("juzhen", ["table", "runs"]), ("make", ["test"])]
    assert programs("a.md") == told
