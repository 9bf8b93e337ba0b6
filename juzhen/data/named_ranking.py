"""A set by its name as something to look through."""

from pathlib import Path

from juzhen.data.configured import configured_set
from juzhen.data.rankings import RankingSet
from juzhen.data.retrieval import as_ranking
from juzhen.data.source import load_examples
from juzhen.data.spec import Source


def load_ranking(
    name: str,
    split: str = "test",
    *,
    data_dir: str | Path = "data",
    config_dir: str | Path | None = None,
    on_bad_row: str = "error",
) -> RankingSet:
    """Queries, documents, and which answers which: of a set of retrieval or reranking, or of pairs or triplets.

    name        of conf/dataset
    data_dir    where sets lie that are not built in
    config_dir  a further folder of dataset/ files; None: there is none
    on_bad_row  error: the first faulty row is a UserError · drop: such rows are left out

    Raises UserError for an unknown set, for one without that split, and for rows that do not say what answers what.
    """
    found = load_examples(
        configured_set(name, config_dir=None if config_dir is None else Path(config_dir)),
        split,
        source=Source.LOCAL,
        data_dir=data_dir,
        on_bad_row=on_bad_row,
        required=True,
    )
    assert found is not None  # or it is a UserError
    return as_ranking(found)
