"""From what was typed to what is served: runs, their names, and the texts that are searched."""

import time
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.texts import text_fault
from juzhen.data.audit.sources import text_lines
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.locate import ENCODER_FOLDER
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.serving.engines import Embedder, Lines, Reranker
from juzhen.serving.service import Models


def load_models(
    encoder: str, rerank: str | None, index: Path | None, *, name: str | None, device: str, backend: str
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


def open_corpus(path: Path, encoder: SentenceEncoder) -> Lines:
    """What is searched: the lines of a text. Raises UserError where it holds none, or an empty one."""
    if path.is_dir():
        raise UserError(f"--index {path}: a folder; expected a text with a line for each document")
    texts = text_lines(path, option="--index")
    for number, text in enumerate(texts, start=1):
        if fault := text_fault(text):
            raise UserError(f"{path}:{number}: the line {fault}")
    return Lines(encoder, texts)
