"""`evaluation.limit`: the same few rows in every run, told apart from the whole split."""

import numpy as np
from omegaconf import OmegaConf

from juzhen.data.loading import load_job_data
from juzhen.data.rankings import as_ranking
from juzhen.data.spec import configured_set
from juzhen.evaluation.settings import EvaluationSettings
from launch.job import run_key


def read(name, limit, seed=0, debug_rows=None):
    settings = EvaluationSettings(seed=seed, debug_rows=debug_rows, evaluate={name: configured_set(name)})
    settings.evaluation.limit = limit
    settings.evaluation.splits = ["dev"]
    (found,) = load_job_data(settings, {}).evaluation
    return found


def test_every_seed_scores_the_same_rows_of_the_split():
    whole, few, again = read("demo_sts", None), read("demo_sts", 40), read("demo_sts", 40, seed=7)
    assert len(few) == 40 < len(whole)
    assert few.texts("text_a") == again.texts("text_a")
    assert few.texts("text_a") == [
        whole.texts("text_a")[row] for row in np.isin(whole.lines, few.lines).nonzero()[0]
    ]
    assert few.fingerprint == again.fingerprint != whole.fingerprint
    assert len(read("demo_sts", 40, debug_rows=8)) == 8


def test_a_limit_that_all_rows_meet_changes_nothing():
    whole, same = read("demo_sts", None), read("demo_sts", 10**6)
    assert (same.fingerprint, len(same)) == (whole.fingerprint, len(whole))


def test_fewer_queries_look_through_the_whole_corpus():
    whole, few = (as_ranking(read("demo_retrieval", limit)) for limit in (None, 9))
    assert len(few.queries) == 9 < len(whole.queries)
    assert few.corpus == whole.corpus


def test_runs_without_a_limit_keep_their_key():
    job = {"model": {"name": "biencoder"}, "evaluation": {"splits": ["dev"]}}
    keys = [
        run_key(OmegaConf.create(OmegaConf.merge(job, {"evaluation": more})))
        for more in ({}, {"limit": None}, {"limit": 5})
    ]
    assert keys[0] == keys[1] != keys[2]
