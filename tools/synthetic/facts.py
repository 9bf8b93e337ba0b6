"""demo_nli: a premise, a hypothesis, and whether it follows (entailment), is left open (neutral) or cannot be
(contradiction).

Rows come twelve at a time, four premises × four hypotheses about one subject: two values of two aspects. Every
premise and every hypothesis occurs once with each label. Neither alone can therefore tell the label.
"""

from tools.synthetic.grammar import Draw, Row, lexicon, split_of

PARTNERS = {"entailment": 0, "contradiction": 1, "neutral": 2}
"""Label → what the hypothesis has another of, as bits: 1 the value, 2 the aspect."""


class Facts:
    """Subjects of several domains and the independent aspects of each."""

    name = "demo_nli"
    wishes = ("square",)
    rows_per_wish = 12

    def __init__(self) -> None:
        self._domains = lexicon("facts")["domains"]

    def propose(self, wish: str, split: str, draw: Draw) -> list[Row] | None:
        name = draw.pick(sorted(self._domains))
        domain = self._domains[name]
        modifier, head = draw.pick(domain["modifiers"]), draw.pick(domain["heads"])
        subject = modifier + head
        if split_of(name, modifier, head) != split or subject in domain.get("except", []):
            return None
        aspects = draw.distinct(sorted(domain["aspects"]), 2)
        values = [value for aspect in aspects for value in draw.distinct(domain["aspects"][aspect], 2)]
        premises = [f"{subject}{draw.pick(value['said'])}。" for value in values]
        hypotheses = [f"{subject}{draw.pick(value['heard'])}。" for value in values]
        return [
            (premise, hypotheses[number ^ partner], label)
            for number, premise in enumerate(premises)
            for label, partner in PARTNERS.items()
        ]
