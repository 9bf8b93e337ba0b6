"""Plan what to encode → encode once → score: for pairs, rankings and classes, in a training or with a saved encoder.

What is named here is loaded, and torch with it, when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from juzhen.evaluation.run import evaluate
    from juzhen.evaluation.scoring import Evaluation

__all__ = ["Evaluation", "evaluate"]


def __getattr__(name: str) -> Any:
    if name == "evaluate":
        from juzhen.evaluation.run import evaluate

        return evaluate
    if name == "Evaluation":
        from juzhen.evaluation.scoring import Evaluation

        return Evaluation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
