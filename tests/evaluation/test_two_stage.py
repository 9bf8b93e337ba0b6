"""Two stages against a plain loop over their scores; the verb that measures them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from jobs import tiny_encoder

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.data.loading import load_job_data
from juzhen.data.rankings import as_ranking
from juzhen.data.spec import configured_set
from juzhen.encoders import save_encoder
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.evaluation import evaluate
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.evaluation.two_stage import TIMED, some_queries, two_stage
from juzhen.metrics.ranking import query_numbers


@pytest.fixture(scope="module")
def ranking():
    settings = EvaluationSettings(
        debug_rows=24, evaluate={"demo_retrieval": configured_set("demo_retrieval")}
    )
    return as_ranking(load_job_data(settings, {}).evaluation[-1])


@pytest.fixture(scope="module")
def encoder(tiny_backbone):
    return tiny_encoder(tiny_backbone, max_length=None).eval()


@pytest.fixture(scope="module")
def reader(tiny_backbone):
    inner = tiny_encoder(tiny_backbone, max_length=None)
    return CrossEncoder(inner, outputs=1, segments=True, symmetric=False, seed=0).eval()


@pytest.mark.slow
def test_each_depth_is_what_a_plain_loop_gives(ranking, encoder, reader):
    found = two_stage(encoder, reader, ranking, depths=[3, 12])
    cosines = encoder.similarity(ranking.queries, ranking.corpus).round(6)
    for one in found:
        lists = np.full((len(ranking.queries), len(ranking.corpus)), -1)
        for query, text in enumerate(ranking.queries):
            order = np.argsort(-cosines[query], kind="stable")
            order = order[order != ranking.own[query]]
            head = order[: one.depth]
            scores = reader.score([(text, ranking.corpus[place]) for place in head]) if len(head) else head
            head = head[np.lexsort((head, -scores.round(6)))]
            lists[query, : len(order)] = [*head, *order[one.depth :]]
        expected = query_numbers(lists, ranking.relevant)
        for metric, values in expected.items():
            assert one.scores[metric].value == pytest.approx(values.mean(), abs=1e-6), (one.depth, metric)
            assert one.scores[metric].low <= one.scores[metric].value <= one.scores[metric].high
        assert one.milliseconds.shape == (min(TIMED, len(ranking.queries)),)
        assert (one.milliseconds > 0).all()
    alone = evaluate(encoder, [ranking]).scores
    assert found[0].scores["ndcg_at_10"] == alone[f"{ranking.column}/ndcg_at_10"]
    assert found[0].scores["recall_at_100"] == found[-1].scores["recall_at_100"]


def test_bm25_may_be_the_first_stage(ranking, reader):
    found = two_stage("bm25", reader, ranking, depths=[5])
    alone = evaluate("bm25", [ranking]).scores
    assert found[0].scores["map_at_100"] == alone[f"{ranking.column}/map_at_100"]


def test_a_part_of_the_queries_keeps_the_corpus(ranking):
    part = some_queries(ranking, 5, seed=1)
    assert (len(part.queries), part.corpus) == (5, ranking.corpus)
    for query, text in enumerate(part.queries):
        place = list(ranking.queries).index(text)
        assert part.relevant[query] == ranking.relevant[place]
        assert part.own[query] == ranking.own[place]
    assert some_queries(ranking, None, seed=1) is ranking


def test_what_two_stages_cannot_do_is_refused(ranking, encoder, reader):
    few = replace(ranking, candidates=[np.array([*gains]) for gains in ranking.relevant])
    with pytest.raises(UserError, match=r"its queries have candidates already. Choose a retrieval set"):
        two_stage(encoder, reader, few)
    with pytest.raises(UserError, match=rf"Expected 1 to {len(ranking.corpus)}"):
        two_stage(encoder, reader, ranking, depths=[10, len(ranking.corpus) + 1])
    with pytest.raises(UserError, match=r"^rerank: got a SentenceEncoder.*CrossEncoder.load"):
        two_stage(encoder, encoder, ranking, depths=[2])
    with pytest.raises(UserError, match="a cross-encoder would read each"):
        two_stage(reader, reader, ranking, depths=[3])


@pytest.mark.slow
def test_the_verb_prints_a_table_and_writes_its_numbers(encoder, reader, tmp_path, capsys):
    save_encoder(encoder, tmp_path / "one", card={})
    save_encoder(reader, tmp_path / "two", card={})
    words = ["evaluate", "--retrieve", str(tmp_path / "one"), "--rerank", str(tmp_path / "two")]
    out, over = ["--out", str(tmp_path / "out")], ["--dataset", "demo_retrieval"]
    assert main([*words, *out, *over, "--top", "20", "--limit", "4", "--metric", "R@3"]) == 0
    shown = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in shown.splitlines() if line.startswith("| ")] == [
        *("| reread", "| --:", "| –", "| 10", "| 20") * 2
    ]
    (place,) = (tmp_path / "out").glob("two_stage-demo_retrieval-dev-*.json")
    written = json.loads(place.read_text(encoding="utf-8"))
    assert written["queries"] == 4
    assert written["documents"] > 1000
    assert [one["depth"] for one in written["depths"]] == [0, 10, 20]
    assert all("recall_at_3" in one["scores"] for one in written["depths"])
    assert "R@3" in shown
    assert written["retrieve"]["weights"] != written["rerank"]["weights"] != ""
    first = place.read_bytes()
    assert (
        main(["evaluate", "--retrieve", "bm25", *words[3:], *out, *over, "--top", "20", "--limit", "4"]) == 0
    )
    assert place.read_bytes() == first
    assert len([*(tmp_path / "out").glob("two_stage-demo_retrieval-dev-*.json")]) == 2
    assert (
        main([*words, *out, *over, "--top", "20", "--limit", "4"]) == 0
    )  # the same again takes its own place
    assert len([*(tmp_path / "out").glob("two_stage-demo_retrieval-dev-*.json")]) == 2
    short = ["--top", "20", "--limit", "4", "--hardware", "cpu_bf16", "--on-bad-row", "drop"]
    assert main([*words, *out, *over, *short]) == 0  # other numbers take no place of these
    assert len([*(tmp_path / "out").glob("two_stage-demo_retrieval-dev-*.json")]) == 3
    capsys.readouterr()
    for more, told in (
        ([*words, *over], "Type --out <folder>"),
        ([*words, *out], "two stages are measured on a set: --dataset"),
        (
            [*words, *out, "--dataset", "demo_qmc"],
            "demo_qmc is of kind labelled_pair. Two stages look through a corpus",
        ),
        ([*words[:3], *over], "two stages need --retrieve <run> and --rerank <run>"),
        (
            ["evaluate", "runs", *words[1:]],
            "runs: with --retrieve only --retrieve and --rerank name encoders. Leave it out",
        ),
        (["evaluate"], "missing: runs, or --retrieve and --rerank"),
        ([*words, *out, *over, "--top", "99999"], "Expected 1 to 1,0"),
        ([*words[:4], words[2], *out, *over], "run of a cross-encoder"),
    ):
        assert main(more) == 2
        assert told in capsys.readouterr().err
