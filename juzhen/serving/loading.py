"""From what was typed to what is served: runs, their names, and the texts that are searched."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from juzhen.core.errors import UserError
from juzhen.data.tables import TableReading, typed
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.frozen import base_of, has_adapter
from juzhen.encoders.locate import ENCODER_FOLDER
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.index import Index, index_in_memory, read_rows
from juzhen.index.qdrant import QdrantIndex, is_address
from juzhen.serving.engines import Embedder, Reranker
from juzhen.serving.models import ServedModels
from juzhen.serving.searching import Corpus


def load_models(
    encoder: str,
    rerank: str | None,
    index: str | Path | None,
    *,
    adapters: Sequence[str] = (),
    compare: str | None = None,
    name: str | None,
    device: str,
    backend: str,
    threshold: str | None = None,
) -> ServedModels:
    """The models of runs or folders, as their files are now. Raises UserError where there is none.

    threshold  of the encoder: a score, or a set; None: its own
    adapters  runs whose adapters stand beside the weights that the encoder's adapter stands beside
    compare   a run of other weights, which searches the same texts; `index` is a file of texts then
    """
    if compare is not None and (index is None or is_address(str(index)) or Path(index).is_dir()):
        raise UserError(
            "--compare: give --index FILE, whose texts are encoded by both; an index holds vectors of one run"
        )
    loaded = SentenceEncoder.load(encoder, device=device)
    embedder = Embedder(loaded, name or model_name(encoder), backend, threshold=threshold)
    further = tuple(_beside(source, embedder, device, backend) for source in adapters)
    if compare is not None:
        further += (Embedder(SentenceEncoder.load(compare, device=device), model_name(compare), backend),)
    names = [embedder.name, *(each.name for each in further)]
    if repeated := sorted({each for each in names if names.count(each) > 1}):
        raise UserError(f"several are called {', '.join(repeated)}; rename the folders, or give --name")
    reranker = None
    if rerank is not None:
        reranker = Reranker(CrossEncoder.load(rerank, device=device), model_name(rerank))
    corpus = None if index is None else open_corpus(index, embedder.encoder)
    corpora = {}
    if compare is not None:
        corpora = {further[-1].name: open_corpus(cast(str, index), further[-1].encoder)}
    return ServedModels(embedder, reranker, corpus, int(time.time()), further, corpora)


def _beside(source: str, first: Embedder, device: str, backend: str) -> Embedder:
    """The encoder of a further adapter. Raises UserError for weights that would be in memory a second time."""
    encoder = SentenceEncoder.load(source, device=device)
    backbones = encoder.backbone, first.encoder.backbone
    if not all(map(has_adapter, backbones)) or len({base_of(backbone).digest for backbone in backbones}) > 1:
        raise UserError(
            f"--adapter {source}: {first.name} and it are not adapters of one base; start a server of its own for it"
        )
    return Embedder(encoder, model_name(source), backend)


def model_name(source: str) -> str:
    """Of a run or a folder its name; what lies in `encoder/` of a run has the name of the run."""
    path = Path(source)
    return (path.parent if path.name == ENCODER_FOLDER else path).name or source


def _by_build(option: str, value: object) -> str:
    """An option of a table as the verb has it that makes an index of the table."""
    return f"juzhen index build … {typed(option, value)}, and --index that folder"


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
        index = index_in_memory(encoder, read_rows(path, TableReading(spell=_by_build)))
    index.warm()
    return Corpus(index, path.resolve().name, index.facts()["dimension"])
