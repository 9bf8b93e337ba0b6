"""demo_order: two sentences of nearly the same characters that say the same (1) or not (0).

Both labels draw from the same forms, so that which characters occur tells next to nothing: only who stands
where does.
"""

from dataclasses import dataclass

from tools.synthetic.grammar import Draw, Row, lexicon, spell, split_of

FRONT, MIDDLE = "^", "_"
SAME_FORM_SHARE = {"same": 0.35, "exchanged": 0.35}  # so that overlap of characters is alike for both labels


@dataclass(frozen=True)
class Relation:
    """Two role fillers in order, the other slots, and an adverbial or none."""

    roles: tuple[str, str]
    slots: dict[str, str]
    when: str


class Roles:
    """Relations of families such as comparison, transfer, cause, sequence and place."""

    name = "demo_order"
    wishes = ("same", "exchanged")
    rows_per_wish = 1

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
        forms, places = self._surfaces(wish, family["forms"], relation.when, draw)
        orders = [relation.roles, relation.roles if wish == "same" else relation.roles[::-1]]
        pair = [
            _told(form, order, place, relation, draw)
            for form, place, order in zip(forms, places, orders, strict=True)
        ]
        return [(*pair, "1" if wish == "same" else "0")]

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

    def _surfaces(self, wish: str, forms: list[str], when: str, draw: Draw) -> tuple[list[str], list[str]]:
        """Two forms, and where each has the adverbial. Equal meanings in one form differ in that place."""
        movable = [form for form in forms if FRONT in form and MIDDLE in form]
        if draw.chance(SAME_FORM_SHARE[wish]) and (wish == "exchanged" or (when and movable)):
            form = draw.pick(movable if wish == "same" else forms)
            places = draw.order([FRONT, MIDDLE])
            if wish == "exchanged" and draw.chance(0.5):
                places = [places[0], places[0]]
            return [form, form], places
        return draw.distinct(forms, 2), [draw.pick([FRONT, MIDDLE]), draw.pick([FRONT, MIDDLE])]


def _told(form: str, roles: tuple[str, str], place: str, relation: Relation, draw: Draw) -> str:
    """The form with its roles in this order and the adverbial at its place, or at the only one it has."""
    place = place if place in form else FRONT if FRONT in form else MIDDLE
    comma = "，" if relation.when and place == FRONT and form.startswith(FRONT) and draw.chance(0.5) else ""
    form = form.replace(place, relation.when + comma).replace(FRONT, "").replace(MIDDLE, "")
    return spell(f"{form}。", {"x": roles[0], "y": roles[1], **relation.slots}, draw)
