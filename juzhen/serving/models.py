"""The models that are served between two loads, and the names by which requests choose them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from juzhen.core.errors import nearest
from juzhen.core.text import short
from juzhen.serving.engines import Embedder, Reranker, ServedThreshold
from juzhen.serving.errors import RequestError
from juzhen.serving.searching import Corpus


@dataclass(frozen=True)
class ServedModels:
    """What is served between two loads.

    adapters  further encoders, each under its name: adapters beside the weights of `embedder`, or a run to compare
    corpora   name of a further encoder → the texts of `corpus`, encoded by it
    """

    embedder: Embedder
    reranker: Reranker | None = None
    corpus: Corpus | None = None
    created: int = 0
    adapters: tuple[Embedder, ...] = ()
    corpora: Mapping[str, Corpus] = field(default_factory=dict)

    @property
    def embedders(self) -> dict[str, Embedder]:
        return {embedder.name: embedder for embedder in (self.embedder, *self.adapters)}

    @property
    def thresholds(self) -> dict[str, ServedThreshold]:
        """By the names of all models."""
        judges: list[Embedder | Reranker] = [*self.embedders.values()]
        judges += [] if self.reranker is None else [self.reranker]
        return {each.name: each.threshold for each in judges}


def require_model(name: str | None, served: Sequence[str]) -> None:
    """Raises RequestError for the name of a model that is not served. None: whichever is served."""
    if name is not None and name not in served:
        hint = nearest(name, served) if len(name) < 200 else f"known: {', '.join(served)}"
        raise RequestError(
            404, f"model {short(name)} is not served here; {hint}", param="model", code="model_not_found"
        )
