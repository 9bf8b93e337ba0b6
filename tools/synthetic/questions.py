"""demo_qmc: two questions as people type them, and whether one answer serves both (1) or not (0)."""

from itertools import product

from tools.synthetic.grammar import SPLITS, Draw, Row, lexicon, spell

FINAL_PARTICLES = tuple("吗呢啊呀吧")
Meaning = tuple[str, int, int]
"""Domain, number of the intent, number of the thing."""
BLOCKS = ("dev", "test", "train", "train", "train")


class Questions:
    """Questions of many domains: an intent (what is asked) about a thing (of which it is asked)."""

    name = "demo_qmc"
    wishes = ("same", "other intent", "same", "other intent", "same", "other thing", "same", "other domain")
    rows_per_wish = 1

    def __init__(self) -> None:
        self._words = lexicon("questions")
        self._domains = sorted(self._words["domains"])
        self._meanings: dict[str, list[Meaning]] = {split: [] for split in SPLITS}
        for domain in self._domains:
            terms = self._words["domains"][domain]
            for meaning in product([domain], range(len(terms["asks"])), range(len(terms["things"]))):
                self._meanings[self._split(*meaning)].append(meaning)

    def propose(self, wish: str, split: str, draw: Draw) -> list[Row] | None:
        first = draw.pick(self._meanings[split])
        partners = [other for other in self._meanings[split] if _relation(first, other) == wish]
        if not partners:
            return None
        second = draw.pick(partners)
        forms = draw.distinct(range(5), 2)  # equal questions differ in their form, others may share one
        if wish == "other thing" and draw.chance(0.5):
            forms = [forms[0], forms[0]]
        pair = [
            self._asked(meaning, form, draw) for meaning, form in zip((first, second), forms, strict=True)
        ]
        return [(*pair, "1" if wish == "same" else "0")]

    def _split(self, domain: str, intent: int, thing: int) -> str:
        """Splits get blocks of two neighbouring intents × two neighbouring things: the easily confused ones
        meet in every split, and each intent and each thing is in train with other partners.
        """
        return BLOCKS[(self._domains.index(domain) + intent // 2 + thing // 2) % len(BLOCKS)]

    def _asked(self, meaning: Meaning, form: int, draw: Draw) -> str:
        domain, intent, thing = meaning
        terms = self._words["domains"][domain]
        question = spell(terms["asks"][intent][form], {"e": terms["things"][thing]}, draw)
        if not question.endswith(FINAL_PARTICLES) and draw.chance(0.12):
            question += draw.pick(self._words["particles"])
        return draw.pick(self._words["greetings"]) + question + draw.pick(self._words["endings"])


def _relation(first: Meaning, second: Meaning) -> str:
    """The wish that two meanings fulfil."""
    domain, intent, thing = (mine == other for mine, other in zip(first, second, strict=True))
    if not domain:
        return "other domain"
    return {(True, True): "same", (False, True): "other intent", (True, False): "other thing"}.get(
        (intent, thing), "other question"
    )
