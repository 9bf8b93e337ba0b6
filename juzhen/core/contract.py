"""What a loss says it needs, what a dataset gives, and the one view that may lead from one to the other.

A loss declares its `input_kinds`. A dataset of another kind is turned into one of them by at most one
view, and no view guesses: a threshold on graded scores, for instance, is not among them.
"""

from collections.abc import Mapping, Sequence

from juzhen.core.errors import UserError
from juzhen.core.kinds import VIEWS as VIEWS
from juzhen.core.kinds import Kind


def choose_view(
    dataset: str,
    kind: Kind,
    loss: str,
    input_kinds: Sequence[Kind],
    *,
    wanted: str | None = None,
    alternatives: Mapping[str, Sequence[Kind]] | None = None,
    chooser: str = "loss",
) -> Kind:
    """The kind of examples that `loss` is fed from `dataset`: its own kind, or the first that one view reaches.

    wanted        the dataset's `view` key: take this kind or fail
    chooser       the configuration key that `loss` is a value of, for messages: a model may ask for a kind, too
    alternatives  loss name → kinds it takes, to suggest losses that would fit

    Raises UserError naming the losses that take the dataset's kind.
    """
    reachable = (kind, *VIEWS[kind])
    if wanted is not None:
        if wanted not in reachable:
            raise UserError(
                f"{dataset}: view={wanted}: no view leads there from a {kind}; "
                f"possible: {', '.join(VIEWS[kind])}"
            )
        reachable = (Kind(wanted),)
    for candidate in reachable:
        if candidate in input_kinds:
            return candidate
    fitting = sorted(
        name for name, kinds in (alternatives or {}).items() if any(reached in kinds for reached in reachable)
    )
    raise UserError(
        f"{chooser}={loss} needs {_spoken(input_kinds)}; {dataset} gives {_spoken(reachable[:1])} and no view leads "
        "there." + (f" Losses that take {dataset}: {', '.join(fitting)}." if fitting else "")
    )


def _spoken(kinds: Sequence[Kind]) -> str:
    """Kinds as words of a sentence: `NLI pairs or triplets`."""
    return " or ".join(f"{kind}s".replace("_", " ").replace("nli", "NLI") for kind in kinds)


def sorts_of_texts(kind: Kind | None, symmetric: bool | None) -> str | None:
    """What the two sides of a row are, where they may not be exchanged; None where they may.

    kind       of a set, None of a ranking
    symmetric  see `Examples.symmetric`
    """
    if kind is Kind.NLI_PAIR:
        return "premise and hypothesis"
    return "query and document" if symmetric is False else None
