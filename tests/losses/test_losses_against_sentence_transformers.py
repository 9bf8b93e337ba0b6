"""Our losses and sentence-transformers' own, on the same embeddings, wherever the definition is the same."""

from dataclasses import replace

import pytest
import torch
from class_cases import NO_MIX
from loss_cases import DIM, encoded_rows, gradients, loss_of, seeded_head
from torch import nn

from juzhen import losses
from juzhen.core.examples import Kind
from juzhen.losses.scores import row_cosine

pytestmark = pytest.mark.oracle
theirs = pytest.importorskip("sentence_transformers.losses", reason="needs the extra `oracle`")

COUNT = 24


class GivenEmbeddings(nn.Module):
    """Stands in for their model: hands back the embeddings it is given."""

    device = torch.device("cpu")

    def forward(self, features: dict) -> dict:
        return features


MODEL = GivenEmbeddings()


def assert_same(loss, their_loss, rows, labels=None):
    """Equal values and equal gradients on the embeddings; our scores are the cosine of the two embeddings."""
    embeddings = list(rows.embeddings.values())
    scored = replace(rows, scores=row_cosine(*embeddings[:2]))
    ours = loss_of(loss, scored)[0]
    expected = their_loss([{"sentence_embedding": values} for values in embeddings], labels)
    assert ours.item() == pytest.approx(expected.item(), rel=1e-6)
    assert ours.item() > 1e-3
    for own, other in zip(gradients(ours, embeddings), gradients(expected, embeddings), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [Kind.SCORED_PAIR, Kind.LABELLED_PAIR])
def test_cosent(kind):
    rows = encoded_rows(kind, count=COUNT)
    assert_same(losses.CoSENT(temperature=0.05), theirs.CoSENTLoss(MODEL, scale=20.0), rows, rows.targets)


def test_cosine():
    rows = encoded_rows(Kind.SCORED_PAIR, count=COUNT)
    labels = rows.targets
    assert_same(
        losses.CosineSimilarity(target_range=[0, 1]), theirs.CosineSimilarityLoss(MODEL), rows, labels
    )
    assert_same(
        losses.CosineSimilarity(target_range=[-1, 1]),
        theirs.CosineSimilarityLoss(MODEL),
        rows,
        2 * labels - 1,
    )


def test_contrastive():
    rows = encoded_rows(Kind.LABELLED_PAIR, count=COUNT)
    assert_same(losses.Contrastive(margin=0.5), theirs.ContrastiveLoss(MODEL, margin=0.5), rows, rows.targets)


@pytest.mark.parametrize("seed", range(5))
def test_online_contrastive_as_a_sum(seed):
    rows = encoded_rows(Kind.LABELLED_PAIR, count=COUNT, seed=seed)
    ours = losses.OnlineContrastive(margin=0.5, reduction="sum")
    assert_same(ours, theirs.OnlineContrastiveLoss(MODEL, margin=0.5), rows, rows.targets)


@pytest.mark.parametrize("num_negatives", [0, 1, 3])
def test_info_nce(num_negatives):
    kind = Kind.TRIPLET if num_negatives else Kind.POSITIVE_PAIR
    rows = encoded_rows(kind, count=COUNT, num_negatives=num_negatives)
    ours = losses.InfoNCE(temperature=0.05, symmetric=False)
    assert_same(ours, theirs.MultipleNegativesRankingLoss(MODEL, scale=20.0), rows)


@pytest.mark.parametrize("num_negatives", [0, 2])
def test_info_nce_both_ways(num_negatives):
    kind = Kind.TRIPLET if num_negatives else Kind.POSITIVE_PAIR
    rows = encoded_rows(kind, count=COUNT, num_negatives=num_negatives)
    ours = losses.InfoNCE(temperature=0.05, symmetric=True)
    assert_same(ours, theirs.MultipleNegativesSymmetricRankingLoss(MODEL, scale=20.0), rows)


@pytest.mark.parametrize(("distance", "metric"), [("cosine", "COSINE"), ("euclidean", "EUCLIDEAN")])
def test_triplet(distance, metric):
    rows = encoded_rows(Kind.TRIPLET, count=COUNT)
    their_loss = theirs.TripletLoss(
        MODEL, distance_metric=getattr(theirs.TripletDistanceMetric, metric), triplet_margin=0.2
    )
    assert_same(losses.TripletMargin(margin=0.2, distance=distance), their_loss, rows)


@pytest.mark.parametrize(("difference", "product"), [(True, False), (True, True), (False, False)])
def test_softmax(difference, product):
    rows = encoded_rows(Kind.NLI_PAIR, count=COUNT)
    ours = seeded_head(3, use_difference=difference, use_product=product)
    their_loss = theirs.SoftmaxLoss(
        MODEL, DIM, 3, concatenation_sent_difference=difference, concatenation_sent_multiplication=product
    )
    their_loss.classifier.load_state_dict(ours.head.state_dict())
    assert_same(ours, their_loss.double(), rows, rows.targets.long())


@pytest.mark.parametrize("kind", [Kind.SCORED_PAIR, Kind.LABELLED_PAIR])
def test_angle(kind):
    rows = encoded_rows(kind, count=COUNT)
    ours = losses.AnglE(temperature=0.05, angle_temperature=0.05, **NO_MIX)
    assert_same(ours, theirs.AnglELoss(MODEL, scale=20.0), rows, rows.targets)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "distance", "numbers"),
    [
        ("BatchAllTripletLoss", "euclidean", {"margin": 1.0}),
        ("BatchAllTripletLoss", "cosine", {"margin": 0.2}),
        ("BatchHardSoftMarginTripletLoss", "euclidean", {"temperature": 1.0}),
        ("BatchHardSoftMarginTripletLoss", "cosine", {"temperature": 1.0}),
    ],
)
def test_triplets_of_classes(name, distance, numbers, seed):
    from sentence_transformers.losses import BatchHardTripletLossDistanceFunction as Distances

    rows = encoded_rows(Kind.LABELLED_TEXT, count=COUNT, seed=seed)
    margin = {"margin": numbers["margin"]} if "margin" in numbers else {}
    metric = Distances.cosine_distance if distance == "cosine" else Distances.eucledian_distance
    their_loss = getattr(theirs, name)(MODEL, distance_metric=metric, **margin)
    ours = losses.BatchAllTriplet if "margin" in numbers else losses.SoftMarginTriplet
    value = ours(distance=distance, **numbers)(rows.embeddings["text"], rows.targets)
    expected = their_loss([{"sentence_embedding": rows.embeddings["text"]}], rows.targets)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert value.item() > 1e-3


class GivenScores(nn.Module):
    """Stands in for their cross-encoder: a pair is a number, its score."""

    device, num_labels = torch.device("cpu"), 1

    def preprocess(self, pairs: list, **options: object) -> dict:
        return {"scores": torch.tensor([score for _, score in pairs], dtype=torch.float64)}

    def forward(self, features: dict) -> dict:
        return features


@pytest.mark.parametrize("documents", [2, 5])
def test_losses_of_lists(documents):
    from sentence_transformers.cross_encoder import losses as of_pairs

    scores, grades = torch.randn(2, 4, documents, dtype=torch.float64)
    inputs = [["q"] * 4, scores.tolist()]
    place = of_pairs.PListMLELoss(
        GivenScores(), lambda_weight=of_pairs.PListMLELambdaWeight(), respect_input_order=False
    )
    expected = place(inputs, list(grades))
    assert losses.position_list_mle(scores, grades).item() == pytest.approx(expected.item(), rel=1e-5)
    expected = of_pairs.RankNetLoss(GivenScores(), reduction_log="natural", eps=0)(inputs, list(grades))
    pairs = (grades[:, :, None] > grades[:, None, :]).sum().item()  # theirs is the mean over pairs
    assert losses.rank_net(scores, grades).item() * 4 / pairs == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("weighting", ["ndcg_loss2pp", "ndcg_loss2", "lambda_rank", "none"])
def test_lambda_loss(weighting, k):
    from sentence_transformers.cross_encoder.losses import lambda_loss as of_pairs

    schemes = {
        "ndcg_loss2pp": of_pairs.NDCGLoss2PPScheme(mu=10.0),
        "ndcg_loss2": of_pairs.NDCGLoss2Scheme(),
        "lambda_rank": of_pairs.LambdaRankScheme(),
        "none": of_pairs.NoWeightingScheme(),
    }
    scores = torch.randn(4, 5, dtype=torch.float64)
    grades = torch.randint(0, 4, (4, 5)).double()
    theirs = of_pairs.LambdaLoss(GivenScores(), weighting_scheme=schemes[weighting], k=k)
    expected = theirs([["q"] * 4, scores.tolist()], list(grades))
    ranks = scores.argsort(dim=1, descending=True).argsort(dim=1)
    is_top = ranks < (k or 5)
    counted = (grades[:, :, None] > grades[:, None, :]) & (is_top[:, :, None] | is_top[:, None, :])
    value = losses.lambda_loss(scores, grades, weighting_scheme=weighting, k=k)
    assert value.item() * 4 / counted.sum().item() == pytest.approx(expected.item(), rel=1e-5)


class GivenCopies(GivenEmbeddings):
    """As it is, with embeddings of DIM numbers; what a loss writes into an answer stays out of the next one."""

    def forward(self, features: dict) -> dict:
        return dict(features)

    def get_embedding_dimension(self) -> int:
        return DIM


def test_matryoshka():
    """Values and gradients to 1e-9: around CoSENT, InfoNCE with negatives and their MSELoss, with weights."""
    sizes, weights = [DIM, 3, 2], [1.0, 0.5, 2.0]
    model = GivenCopies()
    cases = [
        (losses.CoSENT(temperature=0.05), theirs.CoSENTLoss(model, scale=20.0), Kind.SCORED_PAIR),
        (losses.InfoNCE(), theirs.MultipleNegativesRankingLoss(model, scale=20.0), Kind.TRIPLET),
        (losses.Contrastive(margin=0.5), theirs.ContrastiveLoss(model, margin=0.5), Kind.LABELLED_PAIR),
    ]
    for ours, their_loss, kind in cases:
        rows = encoded_rows(kind, count=COUNT, num_negatives=2 if kind is Kind.TRIPLET else 1)
        embeddings = list(rows.embeddings.values())
        nested = losses.Nested(of=ours, dims=sizes, weights=weights)
        around = theirs.MatryoshkaLoss(model, their_loss, matryoshka_dims=sizes, matryoshka_weights=weights)
        value = loss_of(nested, rows)[0]
        expected = around([{"sentence_embedding": values} for values in embeddings], rows.targets)
        assert value.item() == pytest.approx(expected.item(), rel=1e-9)
        for own, other in zip(gradients(value, embeddings), gradients(expected, embeddings), strict=True):
            torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-9)


def test_matryoshka_at_several_layers(monkeypatch, project_root):
    """Their two-dimensional loss over a real encoder: the value, and the gradients of its weights."""
    import random

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    torch.manual_seed(0)
    transformer = Transformer(str(project_root / "juzhen" / "builtin" / "mini_zh@2"))
    model = (
        SentenceTransformer(modules=[transformer, Pooling(256, pooling_mode="mean")], device="cpu")
        .double()
        .eval()
    )
    targets = torch.tensor([1.0, 0.2, 0.6], dtype=torch.float64)
    columns = [["今天天气很好", "修改手机号", "苹果"], ["天气不错", "换绑手机", "香蕉和梨"]]
    features = [model.preprocess(column) for column in columns]
    around = theirs.Matryoshka2dLoss(
        model, theirs.CoSENTLoss(model, scale=20.0), [256, 64, 32], n_dims_per_step=-1, n_layers_per_step=1
    )
    monkeypatch.setattr(random, "sample", lambda numbers, count: [2])  # 0 is the layer of embeddings
    expected = around(features, targets)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    theirs_by_weight = gradients(expected, weights)

    def texts_at_layers(column: dict):
        states = transformer.auto_model(
            **{name: column[name] for name in ("input_ids", "attention_mask")}, output_hidden_states=True
        ).hidden_states
        shares = column["attention_mask"].double() / column["attention_mask"].sum(dim=1, keepdim=True)
        return torch.stack([(states[layer] * shares[..., None]).sum(dim=1) for layer in (2, 4)], dim=1)

    nested = losses.NestedLayers(
        of=losses.Nested(of=losses.CoSENT(), dims=[32, 64, 256], smaller_weight=1), depths=[0.5]
    )
    states = torch.stack([texts_at_layers(model.preprocess(column)) for column in columns], dim=1)
    value = nested(states, targets)
    assert value.item() == pytest.approx(expected.item(), rel=1e-9)
    for own, other in zip(gradients(value, weights), theirs_by_weight, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("documents", [2, 5])
@pytest.mark.parametrize("ties", [False, True])
def test_ranks_of_lists(documents, ties):
    from sentence_transformers.cross_encoder import losses as of_pairs

    scores, grades = torch.randn(2, 4, documents, dtype=torch.float64)
    grades = grades.round() if ties else grades
    expected = of_pairs.ADRMSELoss(GivenScores(), alpha=2.0)([["q"] * 4, scores.tolist()], list(grades))
    assert losses.adr_mse(scores * 2, grades).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("num_negatives", [1, 3])
@pytest.mark.parametrize(
    ("weighted", "mode"),
    [("own", "hard_negatives"), ("others", "in_batch_negatives"), ("all", "all_negatives")],
)
def test_hardness_of_negatives(weighted, mode, num_negatives):
    rows = encoded_rows(Kind.TRIPLET, count=COUNT, num_negatives=num_negatives)
    ours = losses.InfoNCEWeighted(temperature=0.05, hardness_strength=5.0, hardness_mode=weighted)
    peer = theirs.MultipleNegativesRankingLoss(MODEL, scale=20.0, hardness_mode=mode, hardness_strength=5.0)
    assert_same(ours, peer, rows)


def test_spread_out():
    rows = encoded_rows(Kind.TRIPLET, count=COUNT)
    embeddings = list(rows.embeddings.values())
    peer = theirs.GlobalOrthogonalRegularizationLoss(MODEL, mean_weight=2.0, second_moment_weight=3.0)
    expected = sum(peer.compute_loss_from_embeddings(embeddings).values())
    ours = losses.SpreadOut(of=losses.InfoNCE(), mean_weight=2.0, square_weight=3.0)
    added = loss_of(ours, rows)[0] - loss_of(losses.InfoNCE(), rows)[0]
    assert added.item() == pytest.approx(expected.item(), rel=1e-9)
    for own, other in zip(gradients(added, embeddings), gradients(expected, embeddings), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-10)


UNEQUAL = [5, 2, 3, 1, 4]


@pytest.fixture
def unequal():
    """Scores and grades of five rows with different numbers of documents: as we have them, and as lists."""
    scores, grades = torch.randn(5, 5, dtype=torch.float64), torch.randint(0, 4, (5, 5)).double()
    missing = torch.arange(5)[None] >= torch.tensor(UNEQUAL)[:, None]
    lists = [row[:count] for row, count in zip(scores.tolist(), UNEQUAL, strict=True)]
    labels = [row[:count] for row, count in zip(grades, UNEQUAL, strict=True)]
    return scores.masked_fill(missing, -torch.inf), grades, [["q"] * 5, lists], labels


@pytest.mark.parametrize("weighting", ["ndcg_loss2pp", "ndcg_loss2", "lambda_rank", "none"])
def test_lambda_loss_of_lists_of_unequal_length(unequal, weighting):
    from sentence_transformers.cross_encoder.losses import lambda_loss as of_pairs

    scores, grades, inputs, labels = unequal
    schemes = {
        "ndcg_loss2pp": of_pairs.NDCGLoss2PPScheme(mu=10.0),
        "ndcg_loss2": of_pairs.NDCGLoss2Scheme(),
        "lambda_rank": of_pairs.LambdaRankScheme(),
        "none": of_pairs.NoWeightingScheme(),
    }
    expected = of_pairs.LambdaLoss(GivenScores(), weighting_scheme=schemes[weighting])(inputs, labels)
    value = losses.lambda_loss(scores, grades, weighting_scheme=weighting)
    pairs = sum((row[:, None] > row[None]).sum().item() for row in labels)
    assert value.item() * 5 / pairs == pytest.approx(expected.item(), rel=1e-5)


def test_losses_of_lists_of_unequal_length(unequal):
    from sentence_transformers.cross_encoder import losses as of_pairs

    scores, _, inputs, _ = unequal
    grades = torch.randn(5, 5, dtype=torch.float64)
    labels = [row[:count] for row, count in zip(grades, UNEQUAL, strict=True)]
    expected = of_pairs.RankNetLoss(GivenScores(), reduction_log="natural", eps=0)(inputs, labels)
    pairs = sum(count * (count - 1) // 2 for count in UNEQUAL)
    assert losses.rank_net(scores, grades).item() * 5 / pairs == pytest.approx(expected.item(), rel=1e-5)
    options = {"respect_input_order": False}
    expected = of_pairs.ListMLELoss(GivenScores(), **options)(inputs, labels)
    assert losses.list_mle(scores, grades).item() == pytest.approx(expected.item(), rel=1e-5)
    place = of_pairs.PListMLELoss(GivenScores(), lambda_weight=of_pairs.PListMLELambdaWeight(), **options)
    value = losses.position_list_mle(scores, grades)
    assert value.item() == pytest.approx(place(inputs, labels).item(), rel=1e-5)
    expected = of_pairs.ADRMSELoss(GivenScores())(inputs, labels)
    rows = [losses.adr_mse(scores[row : row + 1], grades[row : row + 1]).item() for row in range(5)]
    of_documents = sum(value * count for value, count in zip(rows, UNEQUAL, strict=True)) / sum(UNEQUAL)
    assert of_documents == pytest.approx(expected.item(), rel=1e-5)


def guided_peer(**settings):
    """Their GISTEmbedLoss on given embeddings: its constructor asks two real models for their tokenizers."""
    peer = theirs.GISTEmbedLoss.__new__(theirs.GISTEmbedLoss)
    nn.Module.__init__(peer)
    peer.model, peer.guide = MODEL, lambda features: {"sentence_embedding": features["guide"]}
    peer.similarity_fct, peer.cross_entropy_loss = nn.CosineSimilarity(dim=-1), nn.CrossEntropyLoss()
    peer.must_retokenize = peer.gather_across_devices = False
    peer.contrast_anchors = peer.contrast_positives = True
    for name, value in settings.items():
        setattr(peer, name, value)
    return peer


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("strategy", ["absolute", "relative"])
@pytest.mark.parametrize("texts", [2, 3])
def test_guided_info_nce_with_either_margin(texts, strategy, margin):
    generator = torch.Generator().manual_seed(3)
    embeddings = [torch.randn(COUNT, DIM, generator=generator, requires_grad=True) for _ in range(texts)]
    guide = [torch.randn(COUNT, 4, generator=generator) for _ in range(2)]
    guide[1] += guide[0]
    guide += [-guide[0]] * (texts - 2)  # no negative of a row is likely a positive of it
    peer = guided_peer(temperature=0.05, margin_strategy=strategy, margin=margin)
    columns = zip(embeddings, guide, strict=True)
    expected = peer([{"sentence_embedding": text, "guide": by} for text, by in columns], None)
    margins = {"false_negative_margin": -margin} if strategy == "absolute" else {"relative_margin": margin}
    negatives = embeddings[2][:, None] if texts == 3 else None
    ours = losses.InfoNCEGuided(temperature=0.05, **margins)(
        *embeddings[:2], negatives, guide=torch.stack(guide, 1)
    )
    assert ours.item() == pytest.approx(expected.item(), rel=1e-5)
    unguided = losses.InfoNCEGuided(temperature=0.05, false_negative_margin=2.0)
    assert unguided(*embeddings[:2], negatives, guide=torch.stack(guide, 1)).item() > ours.item() + 0.01


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("negatives", [0, 2])
def test_info_nce_of_a_cross_encoder(negatives, cached, monkeypatch):
    """On the documents that theirs draws from the batch."""
    from sentence_transformers.cross_encoder import losses as of_pairs

    for module in ("multiple_negatives_ranking", "cached_multiple_negatives_ranking"):
        monkeypatch.setattr(f"{of_pairs.__name__}.{module}.CrossEncoder", nn.Module)
    scores, asked = torch.randn(COUNT, COUNT * (1 + negatives), dtype=torch.float64), []

    class OfNumbers(GivenScores):
        def preprocess(self, pairs, **options):
            asked.extend(pairs)
            return {
                "scores": torch.stack([scores[int(anchor), int(text)] for anchor, text in pairs])[:, None]
            }

    name = "CachedMultipleNegativesRankingLoss" if cached else "MultipleNegativesRankingLoss"
    model, anchors = OfNumbers(), [str(row) for row in range(COUNT)]
    columns = [[str(row + COUNT * place) for row in range(COUNT)] for place in range(1 + negatives)]
    with torch.no_grad():
        expected = getattr(of_pairs, name)(model, num_negatives=4)([anchors, *columns], None)
    lists = torch.stack([scores[int(anchor), int(text)] for anchor, text in asked]).reshape(-1, COUNT).T
    ours = losses.InfoNCEDrawn(num_drawn=4)(lists)
    assert ours.item() == pytest.approx(expected.item(), rel=1e-6)


DIRECTIONS = {
    "query_to_query": "other_anchors",
    "doc_to_query": "positive_to_anchors",
    "doc_to_doc": "other_positives",
}


@pytest.mark.parametrize("num_negatives", [0, 3])
@pytest.mark.parametrize("chosen", [(), ("query_to_query",), ("doc_to_query",), tuple(DIRECTIONS)])
def test_info_nce_over_the_sums_of_gte(chosen, num_negatives):
    """With negatives theirs has no sum over the passages of d_i that ours has, so all four are compared on pairs."""
    if "doc_to_doc" in chosen:
        num_negatives = 0
    kind = Kind.TRIPLET if num_negatives else Kind.POSITIVE_PAIR
    rows = encoded_rows(kind, count=COUNT, num_negatives=num_negatives)
    sums = {ours: direction in chosen for direction, ours in DIRECTIONS.items()}
    peer = theirs.MultipleNegativesRankingLoss(MODEL, scale=40.0, directions=("query_to_doc", *chosen))
    assert_same(losses.InfoNCEPool(temperature=1 / 40, **sums), peer, rows)
