"""Queries and documents behind prompts of their own: in rankings, mining, search and training; and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from jobs import compose_job, module_of, run_job, tiny_encoder, typed_job
from omegaconf import open_dict

import juzhen
from callbacks.mining import MinedRows
from juzhen.core.examples import Examples, Kind, Side
from juzhen.core.result import Result
from juzhen.data.convert import convert_rows
from juzhen.data.rankings import RankingSet, as_ranking, as_retrieval
from juzhen.data.source import load_examples
from juzhen.data.spec import configured_set
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.augmentation import Augmentation
from juzhen.encoders.chunks import truncated_sentences
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.evaluation import evaluate
from juzhen.evaluation.encoding_plan import CosinePlan, EmbeddingEvaluator
from juzhen.evaluation.run import EvaluationRun
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.identity import deciding_set
from juzhen.mining import MiningOptions
from juzhen.mining.candidates import DenseRetriever
from launch.job import run_key
from launch.stage_store import examples_digest, start_digest

PROMPTS = {"query": "问：", "passage": "答案在这：", "other": "又"}
QUERIES = ["怎么还花呗", "今天天气好吗", "python怎么学"]
CORPUS = ["花呗如何还款", "怎么还花呗", "今天天气很好", "python很好学", "明天下雨吗"]
RELEVANT = [{0: 1.0}, {2: 1.0}, {3: 1.0}]
ONE_SORT, TWO_SORTS, NOBODY_ASKS = True, False, None
READ = {ONE_SORT: ("query", "query"), TWO_SORTS: ("query", "passage"), NOBODY_ASKS: (None, None)}
DEFAULTS = (None, "query", "other")


@pytest.fixture(scope="module")
def prompted(tiny_backbone):
    """default_prompt_name, include_prompt → an encoder that has prompts for queries and for documents."""
    made = {}

    def build(default="query", include=True):
        key = default, include
        if key not in made:
            made[key] = tiny_encoder(
                tiny_backbone, prompts=PROMPTS, default_prompt_name=default, include_prompt=include
            ).eval()
        return made[key]

    return build


def ranking(symmetric=TWO_SORTS, **more) -> RankingSet:
    return RankingSet("some", "test", QUERIES, CORPUS, RELEVANT, symmetric=symmetric, **more)


def expected(encoder, symmetric) -> np.ndarray:
    """Scores of all queries with all documents, each encoded by the name of its prompt."""
    query, document = READ[symmetric]
    first = encoder.encode(QUERIES, prompt_name=query, normalize=True)
    return first @ encoder.encode(CORPUS, prompt_name=document, normalize=True).T


def lists(scores: np.ndarray) -> list[list[int]]:
    return np.argsort(-scores, axis=1, kind="stable").tolist()


def test_names_are_those_of_sentence_transformers(tiny_backbone):
    def sides(prompts, default=None):
        encoder = tiny_encoder(tiny_backbone, prompts=prompts, default_prompt_name=default)
        return [encoder.reading(side).prompt for side in Side]

    assert sides({"query": "a", "passage": "b"}, "query") == ["a", "a", "b", "a"]
    assert sides({"query": "a", "passage": "b", "document": "c", "corpus": "d"}) == ["", "a", "c", "a"]
    assert sides({"query": "a", "corpus": "d"}) == ["", "a", "d", "a"]
    assert sides({"query": "a"}, "query") == ["a"] * 4  # as encode_document: its default, there is no other
    assert sides({"query": "a"}) == [
        "",
        "a",
        "",
        "",
    ]  # as bge: an instruction for those that look for documents
    assert sides({"Query": "a", "sts": "b"}, "sts") == ["b"] * 4
    assert sides({}) == [""] * 4


def test_a_prompt_that_was_given_stands_before_everything(prompted):
    for given in (prompted().with_prompt("passage"), prompted().with_prompt(prompt="又一")):
        assert not given.sides.any()
        assert given.reading(Side.QUERY) is given.reading(Side.DOCUMENT) is given


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("symmetric", READ)
@pytest.mark.sampled(2)
def test_a_ranking_is_scored_behind_its_prompts(prompted, default, include, symmetric):
    encoder = prompted(default, include)
    run = EvaluationRun(encoder, EvaluationSettings())
    found, _ = run.lists(ranking(symmetric), depth=len(CORPUS))
    assert found.documents.tolist() == lists(expected(encoder, symmetric))


@pytest.mark.parametrize("default", DEFAULTS)
def test_pairs_beside_a_ranking_keep_the_prompt_of_every_sentence(prompted, default):
    """The same texts in a set of pairs and in a ranking, and so behind up to three prompts in one pass."""
    encoder = prompted(default)
    texts = {"text_a": QUERIES, "text_b": CORPUS[:3]}
    pairs = Examples.from_texts(
        "pairs", "test", kind=Kind.SCORED_PAIR, texts=texts, targets=np.array([1.0, 0.2, 0.0])
    )
    alone = evaluate(encoder, [pairs]).per_row["test/pairs"]
    sets = [pairs, ranking(), replace(ranking(ONE_SORT), name="alike")]
    both = evaluate(encoder, sets)
    np.testing.assert_allclose(both.per_row["test/pairs"], alone, atol=1e-6)
    np.testing.assert_allclose(alone, encoder.score(list(zip(QUERIES, CORPUS, strict=False))), atol=1e-6)
    for one in sets[1:]:
        for key, values in evaluate(encoder, [one]).per_query.items():
            assert both.per_query[key].tolist() == values.tolist()


@pytest.mark.parametrize("symmetric", READ)
def test_an_encoder_without_such_prompts_is_left_alone(tiny_backbone, symmetric):
    """One table of distinct sentences, in one order, and the same bytes as with a set that nobody asks in."""
    for settings in ({}, {"prompts": {"sts": "又"}, "default_prompt_name": "sts"}):
        encoder = tiny_encoder(tiny_backbone, **settings).eval()
        plan, before = (CosinePlan([ranking(one)], sides=encoder.sides) for one in (symmetric, None))
        assert (
            plan.examples.sentences == before.examples.sentences == list(dict.fromkeys([*QUERIES, *CORPUS]))
        )
        assert plan.examples.sides is None
        found, then = (evaluate(encoder, [ranking(one)]) for one in (symmetric, None))
        assert found.scores == then.scores
        one, other = (DenseRetriever(encoder, ranking(kind))._vectors for kind in (symmetric, None))
        assert all((left == right).all() for left, right in zip(one, other, strict=True))
        assert encoder.search(QUERIES, CORPUS, 3) == encoder.search(QUERIES, encoder.encode(CORPUS), 3)


def test_embeddings_of_two_prompts_are_kept_apart(prompted, tmp_path, monkeypatch):
    settings = EvaluationSettings()
    settings.evaluation.cache_embeddings = True
    encoder, set_ = prompted(), ranking()
    first = evaluate(encoder, [set_], settings=settings, cache_dir=str(tmp_path))
    assert len(list((tmp_path / "embeddings").glob("[!.]*"))) == 2
    again = evaluate(encoder, [set_, replace(ranking(ONE_SORT), name="alike")])
    monkeypatch.setattr(SentenceEncoder, "forward", lambda *given: pytest.fail("encoded again"))
    kept = evaluate(encoder, [set_], settings=settings, cache_dir=str(tmp_path))
    assert kept.scores == first.scores
    assert {key: again.scores[key].value for key in kept.scores} == pytest.approx(
        {key: one.value for key, one in kept.scores.items()}
    )


def test_a_part_of_the_embeddings_may_be_known(prompted, tmp_path):
    """Of a text that is both, what is known as a query is not known as a document."""
    settings = EvaluationSettings()
    settings.evaluation.cache_embeddings = True
    encoder, cache = prompted(), EmbeddingCache(tmp_path)
    encoder.encode_query(CORPUS, cache=cache)
    encoder.encode_document(QUERIES, cache=cache)
    found = evaluate(encoder, [ranking()], settings=settings, cache_dir=str(tmp_path))
    assert found.scores == evaluate(encoder, [ranking()]).scores


@pytest.mark.parametrize("symmetric", READ)
def test_mining_looks_behind_the_prompts(prompted, symmetric, tmp_path):
    encoder = prompted("other")
    wanted = expected(encoder, symmetric)
    source = DenseRetriever(encoder, ranking(symmetric), cache=EmbeddingCache(tmp_path))
    rows, columns = np.indices(wanted.shape).reshape(2, -1)
    np.testing.assert_allclose(source.score(rows, columns), wanted.ravel(), atol=1e-6)
    named = DenseRetriever(encoder, ranking(symmetric), query_prompt="passage", document_prompt="query")
    first = encoder.encode(QUERIES, prompt_name="passage", normalize=True)
    other = first @ encoder.encode(CORPUS, prompt_name="query", normalize=True).T
    np.testing.assert_allclose(named.score(rows, columns), other.ravel(), atol=1e-6)


@pytest.mark.slow
def test_a_mined_set_says_how_it_was_read(prompted, tmp_path):
    config = configured_set("demo_qmc")
    where = {"source": "builtin", "data_dir": ".", "on_bad_row": "error"}
    duplicates = as_ranking(load_examples(config, "dev", **where))
    assert duplicates.symmetric is True
    options = MiningOptions(range_max=20, num_negatives=2, relative_margin=None)
    for symmetric in READ:
        set_, folder = replace(duplicates, symmetric=symmetric), tmp_path / str(symmetric)
        mined = juzhen.mine(set_, [prompted("other")], options, folder=folder / "portions")
        mined.write(folder / "hard.tsv", like=config)
        made = configured_set("hard", folder=folder / "conf" / "dataset")
        assert made.symmetric is symmetric
        assert load_examples(made, "train", **where | {"source": "local"}).symmetric is symmetric


def test_search_encodes_queries_and_documents(prompted):
    encoder = prompted("other")
    for found, symmetric in (
        (encoder.search(QUERIES, CORPUS, 5), TWO_SORTS),
        (encoder.search(QUERIES, encoder.encode_document(CORPUS), 5), TWO_SORTS),
        (encoder.search(QUERIES, CORPUS, 5, document_prompt="query"), ONE_SORT),
        (encoder.with_prompt("other").search(QUERIES, CORPUS, 5), NOBODY_ASKS),
    ):
        wanted = lists(expected(encoder, symmetric))
        assert [[hit.corpus_id for hit in hits] for hits in found] == wanted
    np.testing.assert_array_equal(
        encoder.encode_query(QUERIES, prompt_name="passage"), encoder.encode(QUERIES, prompt_name="passage")
    )


def test_which_sets_are_symmetric():
    where = {"source": "builtin", "data_dir": ".", "on_bad_row": "error"}

    def read(name, **changed):
        return load_examples(replace(configured_set(name), **changed), "dev", **where)

    assert read("demo_retrieval").symmetric is read("demo_reranking").symmetric is True  # made of 0/1 pairs
    assert read("demo_retrieval", symmetric=False).symmetric is False
    pairs = read("demo_qmc")
    assert pairs.symmetric is None
    assert as_retrieval(pairs).symmetric is as_ranking(pairs).symmetric is True
    assert as_ranking(convert_rows(pairs, Kind.POSITIVE_PAIR)).symmetric is None
    judged = replace(as_retrieval(pairs), symmetric=None)
    assert as_ranking(judged).symmetric is False
    for kind in (Kind.POSITIVE_PAIR, Kind.SENTENCE):
        viewed = convert_rows(read("demo_retrieval"), kind)
        assert viewed.symmetric is (True if kind is Kind.POSITIVE_PAIR else None)
    assert configured_set("quora_retrieval").symmetric is True
    assert configured_set("msmarco").symmetric is configured_set("dureader").symmetric is False
    assert configured_set("cmrc2018_retrieval").symmetric is None


ASKING = Examples.from_texts(
    "asking",
    "train",
    kind=Kind.TRIPLET,
    texts={"anchor": QUERIES, "positive": CORPUS[:3], "negative": [CORPUS[3], QUERIES[0], QUERIES[1]]},
    symmetric=False,
)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("symmetric", READ)
@pytest.mark.sampled(3)
def test_a_batch_reads_anchors_as_queries_and_the_others_as_documents(tiny_backbone, symmetric, include):
    examples = replace(ASKING, symmetric=symmetric)
    words = (
        f"backbone.prompts={{query: '{PROMPTS['query']}', passage: '{PROMPTS['passage']}'}}",
        f"backbone.include_prompt={str(include).lower()}",
        "backbone.default_prompt_name=none",
    )
    module = module_of(tiny_backbone, *words, "backbone.max_length=32").eval()
    encoder = module.encoder
    batch = module.collate.training_batch(examples, np.arange(3), index=0)
    with torch.no_grad():
        embeddings = encoder(batch.tokens)
        pieces = torch.cat([encoder._packed_order(one) for one in batch.tokens.micro_batches(8)])
    np.testing.assert_allclose(pieces[batch.tokens.inverse_permutation], embeddings, atol=1e-5)
    for column, places in batch.columns.items():
        name = READ[symmetric][column != "anchor"]
        wanted = encoder.encode(examples.texts(column), prompt_name=name)
        np.testing.assert_allclose(embeddings[places], wanted, atol=1e-5)
        assert batch.sentence_ids[places].tolist() == examples.columns[column].tolist()
    lengths = module.collate.row_lengths(examples)
    assert len(lengths) == 3
    assert lengths.max() == max(batch.tokens.lengths)
    # A part of the rows is asked for first, then others, then negatives that were mined.
    other = module_of(tiny_backbone, *words, "backbone.max_length=32").eval().collate
    other.token_lists(examples.select(np.arange(1)))
    batches = [one.training_batch(examples, np.arange(1, 3), index=0) for one in (module.collate, other)]
    assert batches[0].tokens.input_ids.tolist() == batches[1].tokens.input_ids.tolist()


def test_augmentation_spares_each_prompt(tiny_backbone):
    words = [f"backbone.prompts={{query: '{PROMPTS['query']}', passage: '{PROMPTS['passage']}'}}"]
    words += ["augmentation=noise", "augmentation.views=[delete]", "augmentation.delete=0.9"]
    module = module_of(tiny_backbone, *words, "augmentation.probability=1", "backbone.max_length=32")
    tokenizer = module.encoder.tokenizer
    assert isinstance(module.collate._augmentation, Augmentation)
    batch = module.collate.training_batch(ASKING, np.arange(3), index=0)
    texts = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    for column, places in batch.columns.items():
        prompt = tokenizer(PROMPTS["query" if column == "anchor" else "passage"])["input_ids"][:-1]
        for place in batch.tokens.inverse_permutation[places].tolist():
            assert texts[place][: len(prompt)].tolist() == prompt
            assert len(texts[place]) < len(prompt) + 8


@pytest.mark.parametrize("symmetric", READ)
def test_negatives_are_mined_as_the_rows_are_read(prompted, symmetric, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "callbacks.mining.DenseRetriever",
        lambda encoder, ranking, **how: (
            seen.append(ranking.symmetric) or DenseRetriever(encoder, ranking, **how)
        ),
    )
    rows = MinedRows(replace(ASKING, symmetric=symmetric))
    found = rows.mined(
        prompted(), MiningOptions(range_max=4, num_negatives=1, relative_margin=None), batch_tokens=512
    )
    assert seen == [symmetric]
    assert rows.with_negatives(found).symmetric is symmetric


def test_texts_that_a_longer_prompt_cuts_are_counted(tiny_backbone):
    encoder = tiny_encoder(tiny_backbone, prompts=PROMPTS, default_prompt_name="query", max_length=12)
    texts = {"anchor": ["今天天气很好"], "positive": ["今天天气很好"]}
    rows = Examples.from_texts("some", "train", kind=Kind.POSITIVE_PAIR, texts=texts)
    assert [truncated_sentences(encoder, replace(rows, symmetric=one)).cut for one in READ] == [0, 1, 0]
    ((table, _),) = EmbeddingEvaluator(encoder).plan([ranking()]).tables()
    assert truncated_sentences(encoder, table).looked_at == len(QUERIES) + len(CORPUS)


def test_keys_know_it_where_a_set_says_it_and_only_there(tiny_backbone):
    config = compose_job("dataset=[demo_retrieval]", "benchmark=none")
    assert config.dataset.demo_retrieval.get("symmetric") is None
    told = {value: dict(config.dataset.demo_retrieval) | {"symmetric": value} for value in READ}
    assert deciding_set(told[None]) == deciding_set(dict(config.dataset.demo_retrieval))
    assert len({str(deciding_set(one)) for one in told.values()}) == 3
    words = ("dataset=[demo_retrieval]", "benchmark=none")
    keys = [
        run_key(compose_job(*words, f"dataset.demo_retrieval.symmetric={one}")) for one in ("true", "false")
    ]
    assert len({run_key(config), *keys}) == 3
    with open_dict(config):
        config.dataset.demo_retrieval.pop("symmetric")
    assert run_key(config) == run_key(compose_job(*words))
    assert len({examples_digest(replace(ASKING, symmetric=one)) for one in READ}) == 3


def test_what_the_starting_weights_are_knows_all_prompts(prompted, tiny_backbone):
    job = typed_job("dataset=[demo_retrieval]", "benchmark=none")
    others = tiny_encoder(tiny_backbone, prompts=PROMPTS | {"passage": "答："}, default_prompt_name="query")
    plain = tiny_encoder(tiny_backbone, prompts={"query": PROMPTS["query"]}, default_prompt_name="query")
    assert len({start_digest(one, job) for one in (prompted(), others, plain)}) == 3


@pytest.mark.slow
def test_a_job_learns_and_is_scored_by_prompts_as_its_saved_encoder_is(tmp_path, tiny_backbone):
    words = (
        "dataset=[demo_retrieval]",
        "loss=info_nce",
        "debug_rows=24",
        "training.duration=4 steps",
        "backbone.prompts={query: '问：', passage: '答案在这：'}",
        "backbone.default_prompt_name=query",
        "mining=dynamic",
        "callbacks.mining.range_max=20",
    )
    folders = {
        one: run_job(tmp_path / str(one), tiny_backbone, *words, f"dataset.demo_retrieval.symmetric={one}")
        for one in ("true", "false")
    }
    weights = {one: (run / "encoder" / "model.safetensors").read_bytes() for one, run in folders.items()}
    assert weights["true"] != weights["false"]
    for one, run in folders.items():
        result = Result.read(run)
        settings = EvaluationSettings.of(result.config | {"dataset": {}, "evaluate": {}})
        set_ = replace(configured_set("demo_retrieval"), symmetric=one == "true")
        found = evaluate(run, [set_], settings=settings)
        for key, score in result.scores.items():
            assert score.value == pytest.approx(found.scores[key].value, abs=1e-6)
