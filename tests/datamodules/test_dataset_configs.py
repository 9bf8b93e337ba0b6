"""Every dataset YAML holds what the code expects, reads a file of its own layout, and keeps its promises."""

import json
import os
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from juzhen.core.examples import JUDGED, TARGET_COLUMN, TEXT_COLUMNS, Kind
from juzhen.core.schema import validated
from juzhen.data.source import FIELDS, PARTS, kind_of_rows, load_examples
from juzhen.data.spec import DatasetConfig, Source
from tools.generated import users_files

CONF = Path(__file__).resolve().parents[2] / "conf"
SHIPPED = {*(CONF / "dataset").glob("*.yaml")} - users_files()
DATASETS = sorted(path.stem for path in SHIPPED if not path.stem.startswith("demo_"))
SUITES = sorted(path.stem for path in (CONF / "benchmark").glob("*.yaml") if path.stem != "demo")
REAL_DATA = os.environ.get("JUZHEN_DATA")


def config_of(name):
    node = OmegaConf.load(CONF / "dataset" / f"{name}.yaml")
    return validated(DatasetConfig, OmegaConf.to_container(node))


OFFICIAL_TEST_ROWS = {
    "atec": 20000,
    "bq": 10000,
    "csts": 1361,
    "lcqmc": 12500,
    "mrpc": 1725,
    "pawsx_zh": 2000,
    "sick": 4927,
    "snli": 9824,
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "stsb_en": 1379,
}
"""Of sets whose authors publish a labelled test split of one size; the YAML files say where it is from."""

LOADER = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # every worker reads all files when it collects the tests
FILES = {name: yaml.load((CONF / "dataset" / f"{name}.yaml").read_text("utf-8"), LOADER) for name in DATASETS}
LAYOUTS = [(name, layout) for name, file in FILES.items() for layout in file["layouts"]]
JUDGEMENTS = [name for name, file in FILES.items() if file["kind"] in JUDGED]


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.sampled(2)
def test_yaml_spells_every_key_out_and_fits_its_kind(name):
    path = CONF / "dataset" / f"{name}.yaml"
    assert path.read_text(encoding="utf-8").splitlines()[0] == f"# @package dataset.{name}"
    node, config = OmegaConf.load(path), config_of(name)
    assert set(node) == set(DatasetConfig.__dataclass_fields__)
    assert config.name == name
    assert config.language in ("zh", "en", "en-zh")
    assert config.source in (None, *Source)
    assert all([config.about, config.license, config.origin])
    kind = kind_of_rows(config.layouts[config.layout].columns) or Kind(config.kind)
    fields = {*TEXT_COLUMNS[kind], *filter(None, [TARGET_COLUMN.get(kind)])}
    fields |= {*FIELDS} if kind in JUDGED else set()
    hubs = [config.hub, *(one.hub for one in config.layouts.values())]
    maps = [*config.layouts.values(), *filter(None, hubs)]
    assert all(fields <= set(each.columns) for each in maps)
    assert (config.score_range is not None) == (kind is Kind.SCORED_PAIR)
    assert (config.labels is not None) == (TARGET_COLUMN.get(kind) == "label")
    assert set(config.layouts[config.layout].files) >= {"train", "dev", "test"}
    assert config.rows["test"] == OFFICIAL_TEST_ROWS.get(name.removesuffix("_retrieval"))


def fixture_text(config, layout, suffix):
    """Three good rows in the layout's columns, a stray column first where columns are named."""
    kind = Kind(config.kind)
    gold = {"score": [*(config.score_range or []), sum(config.score_range or [0]) / 2]}
    gold["label"] = ([*(config.labels or {})] * 3)[:3]
    gold |= {field: [0.9, 0.5, -1] for field in layout.columns if field.startswith("score_")}  # a teacher's
    records = [
        {field: gold[field][row] if field in gold else f"{field} {row}" for field in layout.columns}
        for row in range(3)
    ]
    if any(isinstance(column, int) for column in layout.columns.values()):
        fields = {place: field for field, place in layout.columns.items()}
        places = range(max(fields) + 1)
        rows = [[str(record.get(fields.get(place), "")) for place in places] for record in records]
    else:
        named = [
            {"id": row} | {layout.columns[f]: record[f] for f in record} for row, record in enumerate(records)
        ]
        if suffix == ".json":
            return "\n".join(map(json.dumps, named)), kind
        rows = [list(named[0]), *([str(value) for value in record.values()] for record in named)]
    return "\n".join(("," if suffix == ".csv" else "\t").join(row) for row in rows), kind


def as_parquet(path):
    """A table of tabs as what its name says, with numbers where all of a column are."""
    from pyarrow import csv, parquet

    table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="\t"))
    parquet.write_table(table, path)


@pytest.mark.parametrize(("name", "layout_name"), [one for one in LAYOUTS if one[0] not in JUDGEMENTS])
@pytest.mark.sampled(3)
def test_yaml_reads_a_file_of_its_layout(tmp_path, name, layout_name):
    config = config_of(name)
    config.layout, config.rows = layout_name, {"train": 3}
    layout = config.layouts[layout_name]
    layout.rows = None
    if isinstance(layout.files["train"], list):
        layout.files["train"] = layout.files["train"][:1]
    named = (
        Path(*layout.files["train"])
        if isinstance(layout.files["train"], list)
        else Path(layout.files["train"])
    )
    plain = named.with_suffix("") if named.suffix == ".zst" else named
    text, kind = fixture_text(config, layout, plain.suffix)
    (tmp_path / plain).parent.mkdir(parents=True)
    (tmp_path / plain).write_text(text, encoding="utf-8")
    if plain.suffix == ".parquet":
        as_parquet(tmp_path / plain)
    examples = load_examples(
        config, "train", source="local", data_dir=tmp_path, on_bad_row="error", required=True
    )
    assert len(examples) == 3
    assert (examples.teacher_scores is not None) == ("score_positive" in layout.columns)
    for column in TEXT_COLUMNS[kind]:
        assert examples.texts(column) == [f"{column} {row}" for row in range(3)]
    if kind is Kind.SCORED_PAIR:
        assert examples.targets.tolist() == [0, 1, 0.5]
    elif kind in TARGET_COLUMN:
        assert examples.targets.tolist() == ([*config.labels.values()] * 3)[:3]


@pytest.mark.parametrize("name", JUDGEMENTS)
def test_yaml_of_judgements_reads_files_of_its_layout(tmp_path, name):
    config = config_of(name)
    config.rows, layout = {}, config.layouts[config.layout]
    columns = layout.columns
    if kind_of_rows(columns) is None:
        texts = {"queries": ["q"], "corpus": ["d", "e"]}
        rows = [("q", "d", "1"), ("q", "e", "0")]
        for part, ids in texts.items():
            records = [{columns["id"]: one, columns["text"]: f"text {one}"} for one in ids]
            path = tmp_path / layout.files[part]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(map(json.dumps, records)))
        fields = ("query", "document", "gain")
    else:
        fields = [one for one in columns if one != "label"] + ["label"] * ("label" in columns)
        rows = [("text q", "text d", "1")[: len(fields)], ("text q", "text e", "0")[: len(fields)]]
    path = tmp_path / layout.files["dev"].removesuffix(".zst")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join("\t".join(one) for one in [[columns[field] for field in fields], *rows]))
    where = {"source": "local", "data_dir": tmp_path, "on_bad_row": "error"}
    found = load_examples(config, "dev", required=True, **where)
    assert found.kind is Kind(config.kind)
    assert "text q" in found.texts("query")
    assert {"text d", "text e"} <= set(found.sentences)


def sets_of(suite):
    """In order, those of another suite that it begins with included."""
    for entry in OmegaConf.load(CONF / "benchmark" / f"{suite}.yaml").get("defaults", []):
        yield from entry.values() if OmegaConf.is_dict(entry) else sets_of(entry) if entry != "_self_" else ()


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.sampled(4)
def test_suite_fills_evaluate_in_its_order(tmp_path, suite):
    (tmp_path / "job.yaml").write_text(
        "defaults:\n  - dataset: [csts]\n  - benchmark: none\n  - _self_\ndataset: {}\nevaluate: {}\n"
        f"hydra:\n  searchpath: ['file://{CONF}']\n"
    )
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        job = compose("job", overrides=["dataset=[afqmc,csts]", f"benchmark={suite}"])
    assert list(job.dataset) == ["afqmc", "csts"]
    listed = list(sets_of(suite))
    assert list(job.evaluate) == listed
    assert set(listed) <= set(DATASETS)
    assert all(job.evaluate[name].name == name for name in listed)


@pytest.mark.skipif(not REAL_DATA, reason="JUZHEN_DATA names no folder with the real sets")
@pytest.mark.parametrize(("name", "layout_name"), LAYOUTS)
def test_real_files_keep_the_promised_rows(name, layout_name):
    config = config_of(name)
    config.layout = layout_name
    found = {
        split: load_examples(config, split, source="local", data_dir=REAL_DATA, on_bad_row="error")
        for split in config.layouts[layout_name].files
        if split not in PARTS.values()
    }
    found = {split: examples for split, examples in found.items() if examples is not None}
    if not found:
        pytest.skip(f"no file of {name}/{layout_name} below JUZHEN_DATA")
    promised = config.layouts[layout_name].rows or config.rows
    for split, examples in found.items():
        if name not in JUDGEMENTS:  # a promise counts the pairs that these are made of
            assert promised.get(split) in (None, len(examples))
        assert examples.num_dropped == 0
