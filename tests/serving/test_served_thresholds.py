"""The server knows from which score two texts are the same, and leaves out what scores less than it is asked for."""

import json

import numpy as np
import pytest

httpx = pytest.importorskip("httpx")
for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from jobs import tiny_encoder  # noqa: E402
from running import serving  # noqa: E402  # needs those packages

from juzhen.encoders import CrossEncoder, SentenceEncoder, save_encoder  # noqa: E402
from juzhen.serving.models import ServedThreshold, load_models  # noqa: E402

TEXTS = ["今天天气很好", "怎么退货", "什么时候发货", "东西想退掉怎么办", "明天天气怎么样", "好"]
PAIRS = [[TEXTS[0], text] for text in TEXTS[1:]]


def middle(scores):
    """A threshold between the third and the fourth of them."""
    return float(np.sort(scores)[2:4].mean())


@pytest.fixture(scope="module")
def folders(tiny_backbone, tmp_path_factory):
    """An encoder and a cross-encoder, each with a threshold in the middle of its scores."""
    encoder = tiny_encoder(tiny_backbone)
    encoder.prompts = {"query": "问题：", "document": "段落："}
    inner = tiny_encoder(tiny_backbone)
    inner.pooling = "cls"
    judge = CrossEncoder(inner, outputs=1, segments=False, symmetric=False, seed=0)
    places = []
    for name, model in (("bi", encoder.eval()), ("judge", judge.eval())):
        sets = {"demo": middle(model.score(PAIRS)), "other": 0.25}
        card = {"thresholds": sets, "trained_on": ["demo"]}
        places.append(save_encoder(model, tmp_path_factory.mktemp("decides") / name, card=card))
    return places


@pytest.fixture(scope="module")
def models(folders):
    return SentenceEncoder.load(folders[0]), CrossEncoder.load(folders[1])


@pytest.fixture(scope="module")
def address(folders, tmp_path_factory):
    (texts := tmp_path_factory.mktemp("found") / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    with serving(folders[0], folders[1], texts) as found:
        yield found


def post(address, path, **body):
    reply = httpx.post(f"{address}{path}", json=body, timeout=30)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_pairs_are_judged_as_the_library_judges_them(address, models):
    encoder, judge = models
    reply = post(address, "/score", pairs=PAIRS)
    assert reply["same"] == encoder.is_same(PAIRS).tolist()
    assert sum(reply["same"]) == 2
    assert reply["threshold"] == encoder.threshold()
    reply = post(address, "/score", pairs=PAIRS, model="judge")
    assert reply["same"] == judge.is_same(PAIRS).tolist()
    assert reply["threshold"] == pytest.approx(1 / (1 + np.exp(-judge.threshold())))
    reply = post(address, "/similarity", first=TEXTS[0], second=TEXTS[1:])
    assert reply["same"] == [encoder.is_same(PAIRS).tolist()]


def test_a_score_below_the_least_is_null(address):
    scores = post(address, "/score", pairs=PAIRS)["scores"]
    least = sorted(scores)[2]
    expected = [score if score >= least else None for score in scores]
    assert expected.count(None) == 2
    assert post(address, "/score", pairs=PAIRS, min_score=least)["scores"] == expected
    reply = post(address, "/similarity", first=TEXTS[:1], second=TEXTS[1:], min_score=least)
    assert [score is None for score in reply["scores"][0]] == [score is None for score in expected]
    assert post(address, "/score", pairs=PAIRS, min_score=None)["scores"] == scores


@pytest.mark.parametrize("rerank", [False, True])
def test_hits_are_judged_by_what_has_scored_them(address, models, rerank):
    reply = post(address, "/search", query=TEXTS[0], top_k=6, rerank=rerank)
    (hits,) = reply["results"]
    assert [hit["same"] for hit in hits] == [hit["score"] >= reply["threshold"] for hit in hits]
    if rerank:
        assert [hit["same"] for hit in hits] == models[1].is_same(
            [(TEXTS[0], hit["text"]) for hit in hits]
        ).tolist()
    least = hits[2]["score"]
    assert post(address, "/search", query=TEXTS[0], top_k=6, rerank=rerank, min_score=least)["results"] == [
        hits[:3]
    ]
    assert post(address, "/search", query=TEXTS[0], rerank=rerank, min_score=1)["results"] == [[]]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/score", {"pairs": PAIRS}),
        ("/score", {"pairs": PAIRS, "model": "judge"}),
        ("/similarity", {"first": TEXTS[0], "second": TEXTS[1]}),
        ("/search", {"query": TEXTS[0]}),
        ("/search", {"query": TEXTS[0], "rerank": True, "mode": "bm25"}),
        ("/v1/rerank", {"query": TEXTS[0], "documents": TEXTS}),
        ("/v2/rerank", {"query": TEXTS[0], "documents": TEXTS}),
    ],
)
def test_a_least_score_that_no_score_reaches_is_refused(address, path, asked):
    for least in (7, -1.5):
        reply = httpx.post(f"{address}{path}", json={**asked, "min_score": least})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "min_score"), reply.text


def test_scores_without_a_threshold_have_no_same(address):
    (hits,) = post(address, "/search", query="天气", mode="bm25", min_score=0.01)["results"]
    assert hits
    assert all("same" not in hit for hit in hits)
    reply = httpx.post(f"{address}/search", json={"query": "天气", "mode": "hybrid", "min_score": 0.5})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "min_score")
    assert "same" not in post(address, "/search", query="天气", mode="hybrid")["results"][0][0]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_documents_are_judged_and_left_out(address, models, version):
    asked = {"query": TEXTS[0], "documents": TEXTS[1:]}
    reply = post(address, f"/{version}/rerank", **asked)
    same = models[1].is_same(PAIRS)
    assert [hit["same"] for hit in reply["results"]] == [bool(same[hit["index"]]) for hit in reply["results"]]
    assert reply["meta"]["threshold"] == pytest.approx(1 / (1 + np.exp(-models[1].threshold())))
    least = reply["results"][1]["relevance_score"]
    assert post(address, f"/{version}/rerank", **asked, min_score=least)["results"] == reply["results"][:2]
    assert (
        post(address, f"/{version}/rerank", **asked, min_score=least, top_n=1)["results"]
        == reply["results"][:1]
    )


def test_a_run_without_a_cross_encoder_judges_documents_by_its_cosines(folders, models):
    with serving(folders[0]) as address:
        reply = post(address, "/v2/rerank", query=TEXTS[0], documents=TEXTS[1:])
        assert reply["meta"]["threshold"] == pytest.approx((1 + models[0].threshold()) / 2)
        assert [hit["same"] for hit in reply["results"]] == [
            hit["relevance_score"] >= reply["meta"]["threshold"] for hit in reply["results"]
        ]


def test_the_server_says_which_threshold_it_uses(folders, models, prompted_folder, capfd):
    with serving(*folders) as address:
        cards = httpx.get(f"{address}/v1/models").json()["data"]
        info = httpx.get(f"{address}/info").json()
    (event,) = [
        line for line in map(json.loads, capfd.readouterr().err.splitlines()) if line["event"] == "serving"
    ]
    values = {"bi": models[0].threshold(), "judge": models[1].threshold()}
    expected = {name: {"threshold": value, "set": "demo"} for name, value in values.items()}
    assert info["thresholds"] == event["thresholds"] == expected
    assert cards[0]["threshold"] == values["bi"]
    with serving(prompted_folder) as address:
        assert "same" not in post(address, "/score", pairs=PAIRS)
        assert httpx.get(f"{address}/info").json()["thresholds"]["small"]["threshold"] is None
    said = capfd.readouterr().err
    assert "no threshold" in said.partition("\n")[0]


def test_a_threshold_is_chosen_by_a_set_or_a_number(folders):
    options = {"name": None, "device": "cpu", "backend": "torch"}
    for word, threshold in (
        ("other", ServedThreshold(0.25, "other")),
        ("0.5", ServedThreshold(0.5)),
        ("-1", ServedThreshold(-1.0)),
    ):
        assert (
            load_models(str(folders[0]), None, None, threshold=word, **options).embedder.threshold
            == threshold
        )


def test_the_threshold_of_other_weights_is_not_used(folders, tmp_path):
    import shutil

    shutil.copytree(folders[0], place := tmp_path / "changed")
    (place / "thresholds.json").write_text(
        (place / "thresholds.json").read_text(encoding="utf-8").replace('"weights": "', '"weights": "0'),
        encoding="utf-8",
    )
    models = load_models(str(place), None, None, name=None, device="cpu", backend="torch")
    assert models.embedder.threshold.value is None
    assert "other weights" in models.embedder.threshold.reason


def test_a_missing_threshold_is_given_by_the_option_of_the_verb(prompted_folder):
    encoder = SentenceEncoder.load(prompted_folder)
    assert " --threshold 0." in (served := ServedThreshold.of_encoder(encoder)).reason
    assert served.value is None
