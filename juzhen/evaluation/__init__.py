"""Plan what to encode → encode once → score: for pairs, rankings and classes, in a training or with a saved encoder.

What is named here is loaded, and torch with it, when it is first asked for.
"""

from typing import TYPE_CHECKING

from juzhen.core.lazy_names import lazily

if TYPE_CHECKING:
    from juzhen.evaluation.run import evaluate
    from juzhen.evaluation.scoring import Evaluation

__all__ = ["Evaluation", "evaluate"]

__getattr__ = lazily(__name__, {"Evaluation": "scoring", "evaluate": "run"})
