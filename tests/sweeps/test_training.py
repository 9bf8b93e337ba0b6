"""What a result has learnt from, as a published figure names it, and what stood in for more."""

import copy

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from juzhen.report.row_identity import identify
from juzhen.report.training import BY_KIND, CUSTOMARY, stand_ins, training_of, whole_rows

TABLE = {kind: {"_target_": f"losses.{loss}.Loss"} for kind, loss in CUSTOMARY.items()}


def loss(name):
    return {"_target_": f"losses.{name}.Loss"}


def schedule(order=None, stages=None, sets=None, name="serial"):
    return {"name": name, "order": order, "stages": stages or {}, "sets": sets or {}} | {
        "sample_by": "size",
        "temperature": 1.0,
    }


def described(kind, *, convert_to=None, limit=None, rows=None, **more):
    return {"kind": kind, "convert_to": convert_to, "limit": limit, "rows": {"train": rows}, **more}


@pytest.fixture
def learnt(make_result):
    """A result of those sets, by the losses of their kind unless another is given."""

    def make(trained_on, dataset, **config):
        return make_result(trained_on, {}, dataset=dataset, **({"loss": TABLE} | config))

    return make


PAIRS = {"simclue": described("labelled_pair")}
RANKED = {"simclue_rank": described("triplet")}
POSITIVE = {"simclue": described("labelled_pair", convert_to="positive_pair")}


@pytest.mark.parametrize(
    ("dataset", "node", "sets", "by"),
    [
        (PAIRS, TABLE, "simclue", BY_KIND),
        (PAIRS, loss("online_contrastive"), "simclue", BY_KIND),
        (PAIRS, loss("cosent"), "simclue", "cosent"),
        (POSITIVE, TABLE, "simclue[positive_pair]", BY_KIND),
        ({"simclue_positive": described("positive_pair")}, TABLE, "simclue[positive_pair]", BY_KIND),
        (RANKED, TABLE, "simclue[triplet]", BY_KIND),
        (RANKED, loss("triplet"), "simclue[triplet]", "triplet"),
    ],
)
def test_the_readings_of_one_set(learnt, dataset, node, sets, by):
    found = training_of(learnt(list(dataset), dataset, loss=node))
    assert (found.family, found.sets, found.loss, found.start) == ("biencoder", sets, by, "")


def test_the_kind_that_was_read_counts_where_the_result_says_it(learnt):
    result = learnt(["nli"], {"nli": described("nli_pair")}, loss=loss("info_nce"))
    result.data["train/nli"] = {"rows": 5, "kind": "triplet"}
    assert (training_of(result).sets, training_of(result).loss) == ("nli[triplet]", BY_KIND)


def test_stages_in_order_and_the_sets_of_a_stage_by_name(learnt):
    dataset = {
        "nli": described("nli_pair", convert_to="positive_pair"),
        "paraphrases": described("positive_pair"),
        "csts": described("scored_pair"),
    }
    stages = {"all": {"dataset": ["paraphrases", "nli"]}}
    result = learnt(["paraphrases+nli", "csts"], dataset, stage=1, schedule=schedule(["all", "csts"], stages))
    assert training_of(result).sets == "nli[positive_pair]+paraphrases>csts"
    alone = learnt(
        ["paraphrases", "nli"], dataset, schedule=schedule(["all"], stages)
    )  # one stage names its sets one by one
    assert training_of(alone).sets == "nli[positive_pair]+paraphrases"


def test_losses_of_sets_and_of_stages_are_their_own(learnt):
    dataset = {"a": described("labelled_pair"), "b": described("labelled_pair")}
    own = schedule(sets={"a": {"loss": loss("cosent")}}, name="mix")
    assert training_of(learnt(["a", "b"], dataset, schedule=own)).loss == "cosent+online_contrastive"
    staged = schedule(stages={"a": {"loss": loss("ce")}})
    assert training_of(learnt(["a", "b"], dataset, stage=1, schedule=staged)).loss == "ce+online_contrastive"


def test_a_loss_that_the_result_does_not_hold_is_not_guessed(learnt):
    """The last stage's own loss stands where the job's was, which the first stage had."""
    dataset = {"a": described("labelled_pair"), "b": described("labelled_pair")}
    staged = schedule(stages={"b": {"loss": loss("online_contrastive")}})
    result = learnt(["a", "b"], dataset, stage=1, schedule=staged, loss=loss("online_contrastive"))
    assert training_of(result).loss == "unknown+online_contrastive"
    result.config["earlier"] = {"loss": loss("cosent")}
    assert training_of(result).loss == "cosent+online_contrastive"
    other = copy.deepcopy(result)
    other.config["earlier"] = {"loss": loss("angle")}
    assert identify(result, before_training=False) != identify(other, before_training=False)


def test_what_a_set_says_of_how_it_is_learnt_from_is_told(learnt):
    plain = learnt(["a"], {"a": described("triplet")}, loss=loss("info_nce"))
    silent = {"num_negatives": None, "in_batch": None, "temperature": None}
    none, own = (
        learnt(["a"], {"a": described("triplet") | {"learning": silent | said}}, loss=loss("info_nce"))
        for said in ({}, {"in_batch": False, "num_negatives": 2})
    )
    rows = [identify(one, before_training=False) for one in (plain, none, own)]
    assert rows[0] == rows[1] != rows[2]
    assert (training_of(none).loss, training_of(own).loss) == ("by_kind", "info_nce_own")
    assert stand_ins(none) == []
    assert stand_ins(own) == ["a: at most 2 negatives of a row"]


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ({"_target_": "lightning_modules.crossencoder.CrossEncoderModule"}, "crossencoder"),
        ({"_target_": "lightning_modules.cot.CotEncoder", "read": "last"}, "cot"),
        ({"_target_": "lightning_modules.cot.CotEncoder", "read": "pooling"}, "biencoder"),
    ],
)
def test_the_family_of_a_model(learnt, model, family):
    result = learnt(["a"], {"a": described("sentence")})
    result.config["model"] = model
    assert training_of(result).family == family


LAYOUTS = {
    "tsv": {"files": {"train": ["ocnli/train.tsv", "csnli/train.tsv", "cmnli/train.tsv"]}},
    "without_translations": {"files": {"train": "ocnli/train.tsv"}},
}


@pytest.mark.parametrize(
    ("described_as", "data", "told"),
    [
        (described("labelled_pair", rows=238766), {"rows": 238766}, []),
        (described("labelled_pair", rows=238766, limit=15000), {"rows": 15000}, ["15,000 of 238,766 rows"]),
        (described("labelled_pair", rows=238766, limit=15000), None, ["15,000 of 238,766 rows"]),
        (described("labelled_pair", rows=100, limit=15000), {"rows": 100}, []),
        (described("labelled_pair", rows=100), {"rows": 90}, ["90 of 100 rows"]),
        (described("labelled_pair", limit=15000), {"rows": 15000}, ["at most 15,000 rows"]),
        (
            described("labelled_pair", rows=100, limit=7, convert_to="positive_pair"),
            {"rows": 7},
            ["at most 7 rows"],
        ),
        (described("nli_pair", layouts=LAYOUTS, layout="tsv"), {"rows": 9}, []),
        (
            described("nli_pair", layouts=LAYOUTS, layout="without_translations", limit=15000),
            {"rows": 15000},
            ["ocnli without csnli and cmnli, at most 15,000 rows"],
        ),
    ],
)
def test_less_than_the_name_of_a_set_says(learnt, described_as, data, told):
    result = learnt(["a"], {"a": described_as})
    if data is not None:
        result.data["train/a"] = data | {"kind": described_as["convert_to"] or described_as["kind"]}
    assert stand_ins(result) == [f"a: {one}" for one in told]


def test_a_trial_run_says_that_it_is_scored_on_few_rows(learnt):
    trial = learnt(["a"], {"a": described("labelled_pair", rows=100)}, debug_rows=48)
    assert stand_ins(trial) == ["a: 48 of 100 rows", "scored on at most 48 rows of a split"]


def test_a_sample_and_rows_that_were_left_out(learnt):
    sample = learnt(["simclue"], {"simclue": described("labelled_pair", rows=10000)}, filter_leaks=True)
    assert stand_ins(sample) == [
        "simclue: 10,000 of 2,678,728 rows",
        "without the rows that an evaluation set has too",
    ]
    of_positives = learnt(
        ["simclue"], POSITIVE | {"simclue": POSITIVE["simclue"] | {"rows": {"train": 10000}}}
    )
    assert stand_ins(of_positives) == ["simclue: made of 10,000 of 2,678,728 rows"]
    assert whole_rows("simclue_rank", {}) == 389370


def test_the_customary_losses_are_those_of_by_kind(project_root):
    with initialize_config_dir(str(project_root / "conf"), version_base="1.3"):
        table = OmegaConf.to_container(compose("loss/by_kind")["loss"])
    given = {kind: node["name"] for kind, node in table.items()}
    assert CUSTOMARY.items() <= given.items()
