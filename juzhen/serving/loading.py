"""From what was typed to what is served: runs, their names, and the texts that are searched."""

import time
from pathlib import Path
from typing import Any, cast

from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.locate import ENCODER_FOLDER
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.index import Index, index_in_memory, read_rows
from juzhen.index.qdrant import QdrantIndex, is_address
from juzhen.serving.engines import Embedder, Reranker
from juzhen.serving.searching import Corpus
from juzhen.serving.service import Models


def load_models(
    encoder: str, rerank: str | None, index: str | Path | None, *, name: str | None, device: str, backend: str
) -> Models:
    """The models of runs or folders, as their files are now. Raises UserError where there is none."""
    embedder = Embedder(SentenceEncoder.load(encoder, device=device), name or model_name(encoder), backend)
    reranker = None
    if rerank is not None:
        reranker = Reranker(CrossEncoder.load(rerank, device=device), model_name(rerank))
    corpus = None if index is None else open_corpus(index, embedder.encoder)
    return Models(embedder, reranker, corpus, int(time.time()))


def model_name(source: str) -> str:
    """Of a run or a folder its name; what lies in `encoder/` of a run has the name of the run."""
    path = Path(source)
    return (path.parent if path.name == ENCODER_FOLDER else path).name or source


def open_corpus(source: str | Path, encoder: SentenceEncoder) -> Corpus:
    """What is searched: an index in a folder, a collection of Qdrant, or the rows of a file, held in memory.

    Raises UserError where there is none, and for an index that was built with other weights.
    """
    path, index = Path(source), cast(Any, None)
    if is_address(str(source)):
        index = QdrantIndex.open(str(source), encoder)
    elif path.is_dir():
        index = Index.open(path, encoder)
    else:
        index = index_in_memory(encoder, read_rows(path))
    index.warm()
    return Corpus(index, path.resolve().name)
