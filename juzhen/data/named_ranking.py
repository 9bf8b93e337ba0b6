"""A set by its name as something to look through."""

from pathlib import Path

from juzhen.data.configured import configured_set
from juzhen.data.rankings import RankingSet
from juzhen.data.retrieval import as_ranking
from juzhen.data.source import load_examples
from juzhen.data.spec import Source


def load_ranking(name: str, split: str = "test", *, data_dir: str | Path = "data") -> RankingSet:
    """Queries, documents, and which answers which: of a set of retrieval or reranking, or of pairs or triplets.

    name      of conf/dataset
    data_dir  where sets lie that are not built in

    Raises UserError for an unknown set, for one without that split, and for rows that do not say what answers what.
    """
    found = load_examples(
        configured_set(name),
        split,
        source=Source.LOCAL,
        data_dir=data_dir,
        on_bad_row="error",
        required=True,
    )
    assert found is not None  # or it is a UserError
    return as_ranking(found)
