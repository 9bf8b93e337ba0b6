"""Plan what to encode → encode once → score: for pairs, rankings and classes, in a training or with a saved encoder.

The names here are loaded on first use, and torch with them.
"""

from typing import TYPE_CHECKING

from juzhen.core.lazy_names import lazily

if TYPE_CHECKING:
    from juzhen.evaluation.run import evaluate
    from juzhen.evaluation.scoring import Evaluation

__all__ = ["Evaluation", "evaluate"]

__getattr__ = lazily(__name__, {"Evaluation": "scoring", "evaluate": "run"})
