"""The package mteb on an encoder: its scores are those of our own evaluation of the same rows."""

import json
from collections import Counter
from importlib.util import find_spec
from itertools import chain

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from juzhen.cli.main import main
from juzhen.core.examples import NLI_CLASSES
from juzhen.core.paths import DATASETS
from juzhen.data.rows import ConfiguredSets
from juzhen.encoders import SentenceEncoder

pytestmark = [
    pytest.mark.slow,  # to import mteb takes ten seconds
    pytest.mark.skipif(find_spec("mteb") is None, reason="needs the extra `mteb`"),
]


@pytest.fixture
def demo_sets(monkeypatch):
    sets = {"STSB": "demo_sts", "LCQMC": "demo_qmc", "Ocnli": "demo_nli"}
    monkeypatch.setattr("juzhen.evaluation.mteb_tasks.LOCAL_SETS", sets)


@pytest.mark.parametrize("dim", [None, 64])
def test_scores_of_mteb_are_our_own(demo_sets, tmp_path, dim):
    from juzhen.evaluation.run import evaluate
    from juzhen.metrics.threshold import average_precision

    words = ["builtin/mini_zh", "--tasks", "STSB,LCQMC", "Ocnli", "--out", str(tmp_path), "--split", "dev"]
    assert main(["mteb", *words, *(["--truncate-dim", str(dim)] if dim else [])]) == 0
    read = {path.stem: json.loads(path.read_text()) for path in tmp_path.rglob("*.json")}
    assert set(read) == {"STSB", "LCQMC", "Ocnli", "model_meta"}
    (scores,) = read["Ocnli"]["scores"]["validation"]
    encoder = SentenceEncoder.load("builtin/mini_zh", truncate_dim=dim)
    for task, name in (("STSB", "demo_sts"), ("LCQMC", "demo_qmc")):
        (found,) = read[task]["scores"]["validation"]
        if dim is None:
            ours = evaluate("builtin/mini_zh", [name]).scores
            assert found["cosine_spearman"] == pytest.approx(ours[f"dev/{name}/spearman"].value, abs=1e-6)
            assert found["cosine_pearson"] == pytest.approx(ours[f"dev/{name}/pearson"].value, abs=1e-6)
    rows = [line.split("\t") for line in demo_rows("demo_nli")]
    rows = [row for row in rows if row[2] in ("entailment", "contradiction")]
    vectors = [encoder.encode([row[side] for row in rows]) for side in (0, 1)]
    vectors = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in vectors]
    labels = np.array([row[2] == "entailment" for row in rows], dtype=np.float32)
    expected = average_precision((vectors[0] * vectors[1]).sum(axis=1), labels)
    assert scores["cosine_ap"] == pytest.approx(expected, abs=1e-6)


def test_other_settings_have_files_of_their_own_and_splits_share_one(
    demo_sets, tmp_path, capsys, monkeypatch
):
    import mteb

    encoder, out = SentenceEncoder.load("builtin/mini_zh").save(tmp_path / "mine"), tmp_path / "out"
    main_words = ["mteb", str(encoder), "--tasks", "STSB", "--out", str(out), "--split"]

    def values():
        return {
            path.parts[-3]: {
                split: scores[0]["main_score"] for split, scores in json.loads(text)["scores"].items()
            }
            for path in out.rglob("STSB.json")
            if (text := path.read_text())
        }

    assert main([*main_words, "dev"]) == 0
    alone = values()["juzhen__mine"]
    assert main([*main_words, "dev", "--truncate-dim", "16"]) == 0
    assert main([*main_words, "test"]) == 0
    found = values()
    assert found.keys() == {"juzhen__mine", "juzhen__mine-truncate_dim=16"}
    both = found["juzhen__mine"]
    assert both.keys() == {"validation", "test"}
    assert both["validation"] == alone["validation"] != both["test"]
    assert found["juzhen__mine-truncate_dim=16"]["validation"] < alone["validation"]
    settings = {
        path.parts[-3]: json.loads(path.read_text())["juzhen"]["truncate_dim"]
        for path in out.rglob("STSB.json")
    }
    assert settings == {"juzhen__mine": None, "juzhen__mine-truncate_dim=16": 16}
    read = mteb.ResultCache(out).load_results(tasks=["STSB"], include_remote=False)
    names = {model.model_name: model.task_results[0].scores.keys() for model in read.model_results}
    assert names.keys() == {"juzhen/mine", "juzhen/mine-truncate_dim=16"}
    assert set(names["juzhen/mine"]) == {"validation", "test"}

    monkeypatch.setattr(
        "juzhen.evaluation.mteb_tasks.LOCAL_SETS", {"STSB": "demo_qmc"}
    )  # as another --data-dir
    capsys.readouterr()
    assert main([*main_words, "dev"]) == 2
    assert "--out" in capsys.readouterr().err
    assert values() == found
    monkeypatch.setattr("juzhen.evaluation.mteb_tasks.LOCAL_SETS", {"STSB": "demo_sts"})

    other = SentenceEncoder.load(encoder)
    other.max_length, other.prompts = 8, {"query": "问："}
    other.save(encoder)  # the same weights
    assert main([*main_words, "dev"]) == 0
    revisions = sorted(path.parts[-2] for path in out.rglob("juzhen__mine/*/STSB.json"))
    assert len(revisions) == 2
    assert len({revision.partition("-")[0] for revision in revisions}) == 1


def demo_rows(name):
    from juzhen.core.paths import PACKAGE

    return (PACKAGE / "builtin" / "data" / name / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]


NLI = {"Ocnli": "ocnli", "Cmnli": "cmnli"}
NAMES = {"AFQMC": "afqmc", "ATEC": "atec", "BQ": "bq", "LCQMC": "lcqmc", "PAWSX": "pawsx_zh", "STSB": "csts"}
NAMES |= {"QBQTC": "qbqtc"}
LOCAL = NAMES | NLI | {"TNews": "tnews"}


MOST = {"train": 4000, "dev": 400, "test": 400}
"""Rows that are read of a real set."""


@pytest.fixture(scope="module")
def real_results(real_data, tmp_path_factory):
    """The first rows of the real sets, and mteb's scores of the encoder in the box on them, by task."""
    out, load = tmp_path_factory.mktemp("out"), ConfiguredSets.load

    def shortened(sets, name, split):
        examples = load(sets, name, split)
        return examples and examples.select(np.arange(min(len(examples), MOST[split])))

    words = ["--tasks", *LOCAL, "--data-dir", str(real_data), "--out", str(out)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ConfiguredSets, "load", shortened)
        assert main(["mteb", "builtin/mini_zh", *words]) == 0
        sets = ConfiguredSets(DATASETS, real_data)
        keys = [*((name, "dev") for name in (NAMES | NLI).values()), ("tnews", "train"), ("tnews", "test")]
        rows = {key: sets.load(*key) for key in keys}
    results = {path.stem: json.loads(path.read_text()) for path in out.rglob("*.json")}
    assert results.keys() == {*LOCAL, "model_meta"}
    return rows, {task: scores[0] for task in LOCAL for scores in results[task]["scores"].values()}


def test_scores_of_real_pairs_are_our_own(real_results):
    from juzhen.evaluation.run import evaluate

    rows, results = real_results
    ours = evaluate("builtin/mini_zh", [rows[name, "dev"] for name in NAMES.values()]).scores
    for task, name in NAMES.items():
        for measure in ("spearman", "pearson"):
            expected = ours[f"dev/{name}/{measure}"].value
            assert results[task][f"cosine_{measure}"] == pytest.approx(expected, abs=1e-6), (task, measure)


@pytest.mark.parametrize(("task", "name"), NLI.items())
def test_precision_and_accuracy_of_real_nli_pairs_are_our_own(real_results, task, name):
    """Of entailment against contradiction; mteb's accuracy is that of the best threshold on the same rows."""
    from juzhen.metrics.threshold import average_precision, decision_quality, fit_threshold

    sets, results = real_results
    examples = sets[name, "dev"]
    rows = np.flatnonzero(examples.targets != NLI_CLASSES.index("neutral"))
    labels = (examples.targets[rows] == NLI_CLASSES.index("entailment")).astype(np.float32)
    encoder = SentenceEncoder.load("builtin/mini_zh")
    texts = [texts_of(examples, side, rows) for side in (0, 1)]
    distinct = list(dict.fromkeys(texts[0] + texts[1]))
    vectors = dict(zip(distinct, encoder.encode(distinct).astype(float), strict=True))  # equal texts have one
    first, second = (np.stack([vectors[text] for text in side]) for side in texts)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    scores = ((first * second).sum(axis=1) / lengths).astype(np.float32)  # so that these pairs tie
    best = fit_threshold(scores, labels, objective="accuracy")
    assert results[task]["cosine_ap"] == pytest.approx(average_precision(scores, labels), abs=1e-6)
    assert results[task]["cosine_accuracy"] == pytest.approx(
        decision_quality(scores, labels, objective="accuracy", threshold=best), abs=1e-6
    )


def test_accuracy_of_real_classes_is_that_of_the_same_classifier_on_our_vectors(real_results):
    """mteb draws so many rows of each class, ten times, each time from the order of the time before."""
    import mteb

    sets, results = real_results
    texts, labels = {}, {}
    for split in ("train", "test"):
        examples = sets["tnews", split]
        texts[split] = texts_of(examples, 0, np.arange(len(examples)))
        labels[split] = examples.targets.astype(int)
    encoder, task = SentenceEncoder.load("builtin/mini_zh"), mteb.get_task("TNews")
    order, drawn = list(range(len(texts["train"]))), []
    for _ in range(task.n_experiments):
        np.random.RandomState(task.seed).shuffle(order)
        counts = Counter()
        counted = [
            (row, counts.update([labels["train"][row]]), counts[labels["train"][row]]) for row in order
        ]
        drawn.append([row for row, _, number in counted if number <= task.samples_per_label])
    vectors = {}
    for some in ([texts["train"][row] for row in sorted({*chain(*drawn)})], texts["test"]):
        fresh = [text for text in dict.fromkeys(some) if text not in vectors]
        vectors |= dict(zip(fresh, encoder.encode(fresh).astype(float), strict=True))
    judged, reached = np.stack([vectors[text] for text in texts["test"]]), []
    for rows in drawn:
        model = LogisticRegression(max_iter=100, random_state=task.seed)
        model.fit(np.stack([vectors[texts["train"][row]] for row in rows]), labels["train"][rows])
        reached.append((model.predict(judged) == labels["test"]).mean())
    assert results["TNews"]["accuracy"] == pytest.approx(np.mean(reached), abs=1e-6)


def texts_of(examples, side, rows):
    return [examples.sentences[number] for number in [*examples.columns.values()][side][rows].tolist()]


def test_a_task_of_the_hub_and_an_unknown_one_are_refused_before_the_encoder_is_read(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for task, words in (("T2Retrieval", "HF_HUB_OFFLINE is set"), ("AFQMK", "Did you mean AFQMC")):
        assert main(["mteb", "builtin/mini_zh", "--tasks", task, "--out", str(tmp_path / "out")]) != 0
        assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
