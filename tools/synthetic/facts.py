"""demo_nli: a premise, a hypothesis, and whether it follows (entailment), is left open (neutral) or cannot be
(contradiction).

Rows come nine at a time, three premises × three hypotheses about one subject, arranged as a Latin square:
every premise and every hypothesis occurs once with each label. Neither alone can therefore tell the label.
"""

from tools.synthetic.grammar import Draw, Row, lexicon, split_of

LABELS = ("entailment", "contradiction", "neutral")
CONNECTORS = {"alike": ["，", "，", "，而且"], "unlike": ["，不过", "，但是", "，可是"], "open": ["，"]}


class Facts:
    """Subjects of several domains and the independent aspects of each."""

    name = "demo_nli"
    wishes = ("square",)
    rows_per_wish = 9

    def __init__(self) -> None:
        self._domains = lexicon("facts")["domains"]

    def propose(self, wish: str, split: str, draw: Draw) -> list[Row] | None:
        name = draw.pick(sorted(self._domains))
        domain = self._domains[name]
        modifier, head = draw.pick(domain["modifiers"]), draw.pick(domain["heads"])
        subject = modifier + head
        if split_of(name, modifier, head) != split or subject in domain.get("except", []):
            return None
        aspects = [
            draw.distinct(domain["aspects"][key], 2) for key in draw.distinct(sorted(domain["aspects"]), 3)
        ]
        true, false = zip(*aspects, strict=True)
        hypotheses = [f"{subject}{draw.pick(value['heard'])}。" for value in true]
        # Premise i says aspect i as the hypotheses do, aspect i + 1 otherwise, and nothing of aspect i + 2.
        premises = [_premise(subject, draw.order([true[i], false[(i + 1) % 3]]), draw) for i in range(3)]
        return [
            (premises[i], hypotheses[(i + offset) % 3], label)
            for i in range(3)
            for offset, label in enumerate(LABELS)
        ]


def _premise(subject: str, values: list[dict], draw: Draw) -> str:
    """Two facts about the subject in one sentence."""
    moods = [value.get("mood") for value in values]
    fit = "open" if None in moods else "alike" if moods[0] == moods[1] else "unlike"
    first, second = (draw.pick(value["said"]) for value in values)
    return f"{subject}{first}{draw.pick(CONNECTORS[fit])}{second}。"
