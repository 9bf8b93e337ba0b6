"""demo_order: two sentences of nearly the same characters that say the same (1) or not (0).

Both labels draw from the same forms, so that which characters occur tells next to nothing: only who stands
where does.
"""

import re
from dataclasses import dataclass

from tools.synthetic.grammar import Draw, Row, bigrams, lexicon, spell, split_of

FRONT, MIDDLE = "^", "_"
CONVERSE_SHARE = 0.1  # of the relations: the partners tell it from its other end, 被 for 把, 收到 for 送
SAME_FORM_SHARE = {"1": 0.2, "0": 0.4}  # of the partners; by which TF-IDF finds either label alike


@dataclass(frozen=True)
class Relation:
    """Two role fillers in order, the other slots, and an adverbial or none."""

    roles: tuple[str, str]
    slots: dict[str, str]
    when: str


class Roles:
    """Relations of families such as comparison, transfer, cause, sequence and place."""

    name = "demo_order"
    wishes = ("relation",)
    rows_per_wish = 2

    def __init__(self) -> None:
        self._words = lexicon("roles")
        self._families = sorted(self._words["families"])

    def propose(self, wish: str, split: str, draw: Draw) -> list[Row] | None:
        name = draw.pick(self._families)
        family = self._words["families"][name]
        relation = self._relation(family, draw)
        if relation is None:
            return None
        if split_of(name, *sorted(relation.roles), relation.slots.get(family.get("split_with"), "")) != split:
            return None
        form, *partners = draw.order(family["forms"])
        spot, elsewhere = draw.order([FRONT, MIDDLE])
        other = min(partners, key=lambda other: _telling(form, other))
        if "converse" in family and draw.chance(CONVERSE_SHARE):
            other = draw.pick(family["converse"])
        sentence = _told(form, relation.roles, spot, relation, draw)
        rows = []
        for label, roles in (("1", relation.roles), ("0", relation.roles[::-1])):
            moves = label == "0" or (relation.when and FRONT in form and MIDDLE in form)
            partner = form if moves and draw.chance(SAME_FORM_SHARE[label]) else other
            rows.append((sentence, _told(partner, roles, elsewhere, relation, draw), label))
        return rows

    def _relation(self, family: dict, draw: Draw) -> Relation | None:
        if family["roles"] == "pairs":
            roles = draw.pick(family["pairs"]).split("/")
            roles = draw.order(roles)
        else:
            roles = draw.distinct(self._words[family["roles"]], 2)
        slots: dict[str, str] = {}
        for name, choices in family.get("extras", {}).items():
            entry = draw.pick(self._words[choices] if isinstance(choices, str) else choices)
            fields = entry.split("/")
            slots |= {name: entry} if len(fields) == 1 else {f"{name}{i}": f for i, f in enumerate(fields, 1)}
        if set(roles) & set(slots.values()):
            return None
        when = draw.pick(self._words[family["when"]]) if "when" in family and draw.chance(0.75) else ""
        return Relation(tuple(roles), slots, when)


def _telling(form: str, other: str) -> int:
    """How many more character pairs two forms share in one order of the roles than in the exchanged one."""
    plain, same = (re.sub("[<>_^]", "", each) for each in (form, other))
    exchanged = same.translate(str.maketrans("xy", "yx"))
    return len(bigrams(plain) & bigrams(same)) - len(bigrams(plain) & bigrams(exchanged))


def _told(form: str, roles: tuple[str, str], spot: str, relation: Relation, draw: Draw) -> str:
    """The form with its roles in this order and the adverbial at its place, or at the only one it has."""
    spot = spot if spot in form else FRONT if FRONT in form else MIDDLE
    comma = "，" if relation.when and spot == FRONT and form.startswith(FRONT) and draw.chance(0.5) else ""
    form = form.replace(spot, relation.when + comma).replace(FRONT, "").replace(MIDDLE, "")
    return spell(f"{form}。", {"x": roles[0], "y": roles[1], **relation.slots}, draw)
