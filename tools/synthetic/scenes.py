"""demo_sts: two descriptions of everyday scenes, and how close they are on a scale of 0 to 5.

The score is not drawn but follows from the two scenes, see `closeness`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from tools.synthetic.grammar import SPLITS, Draw, Row, bigrams, lexicon, spell, split_of


@dataclass(frozen=True)
class Scene:
    """Who does what, and the details; a detail that is not told is empty."""

    topic: str
    verb: str
    object: str
    person: str
    count: str = "一"
    look: str = ""
    place: str = ""
    manner: str = ""
    time: str = ""


CLOSE = 4.0  # scores from here on are always worded differently
DETAILS = ("look", "place", "manner", "time")
WISHES = (
    "paraphrase dropped object activity+person paraphrase person activity dropped object+person unrelated "
    "paraphrase look object activity paraphrase count person+object place activity+person dropped+object "
    "paraphrase dropped+dropped person activity manner object+person activity+person dropped+look topic "
    "paraphrase place object activity+person dropped+person topic unrelated"
)


class Scenes:
    """Pairs of scenes that differ in a wished way."""

    name = "demo_sts"
    wishes = tuple(WISHES.split())
    rows_per_wish = 1

    def __init__(self) -> None:
        self._words = lexicon("scenes")
        self._broader = {(wide, narrow) for wide, all_ in self._words["broader"].items() for narrow in all_}
        self._cores = {
            split: [core for core in self._all_cores() if _split(core) == split] for split in SPLITS
        }

    def propose(self, wish: str, split: str, draw: Draw) -> list[Row] | None:
        first = self._detailed(draw.pick(self._cores[split]), draw)
        second = first
        for change in wish.split("+"):
            second = self._changed(second, change, split, draw)
            if second is None:
                return None
        if _split(second) != split or (second == first) != (wish == "paraphrase"):
            return None
        score = self.closeness(first, second)
        pair = draw.order(self._tellings(first, second, alike=score < CLOSE and draw.chance(0.7), draw=draw))
        return [(*pair, f"{score:.1f}")]

    def _tellings(self, first: Scene, second: Scene, *, alike: bool, draw: Draw) -> list[str]:
        """A sentence for each scene, worded alike or as differently as a few draws allow.

        Close scenes in other words and distant ones in the same words: characters alone should not tell.
        """
        sentence = self._told(first, draw)
        candidates = [self._told(second, draw) for _ in range(6)]
        overlaps = [len(bigrams(sentence) & bigrams(other)) for other in candidates]
        return [sentence, candidates[overlaps.index(max(overlaps) if alike else min(overlaps))]]

    def closeness(self, first: Scene, second: Scene) -> float:
        """Similarity from 0 to 5 in steps of a half.

        Another topic: 0, or 0.5 with the same person. Otherwise 5 less the heaviest difference and half of
        each other one, at least 1. Another activity weighs 3; object or person 2; place or number of persons
        1.5; a missing detail, another look, manner or time, or a person named more broadly 1.
        """
        if first.topic != second.topic:
            return 0.5 if first.person == second.person else 0.0
        differences = [0.0]
        if first.verb != second.verb:
            differences.append(3.0)
        elif first.object != second.object:
            differences.append(2.0)
        if first.person != second.person:
            related = {(first.person, second.person), (second.person, first.person)} & self._broader
            differences.append(1.0 if related else 2.0)
        if first.count != second.count:
            differences.append(1.5)
        for detail in DETAILS:
            first_detail, second_detail = getattr(first, detail), getattr(second, detail)
            if first_detail != second_detail:
                differences.append(1.5 if detail == "place" and first_detail and second_detail else 1.0)
        heaviest = max(differences)
        score = 5 - heaviest - (sum(differences) - heaviest) / 2
        return max(int(score * 2) / 2, 1.0)

    def _all_cores(self) -> Iterator[Scene]:
        for topic, terms in sorted(self._words["topics"].items()):
            for deed, person in product(terms["what"], self._people(topic)):
                yield from (Scene(topic, deed["verb"], thing, person) for thing in deed["objects"])

    def _detailed(self, core: Scene, draw: Draw) -> Scene:
        """The scene with a number of persons, mostly a place, and up to two other details."""
        extra = draw.distinct(["look", "manner", "time"], draw.pick([0, 1, 1, 2]))
        located = ["place"] if draw.chance(0.8) else []
        details = {field: draw.pick(self._choices(core, field)) for field in ["count", *located, *extra]}
        return replace(core, **details)

    def _changed(self, scene: Scene, change: str, split: str, draw: Draw) -> Scene | None:
        """The scene with one difference, or None when it has nothing to change there."""
        if change == "paraphrase":
            return scene
        if change in ("topic", "unrelated"):
            cores = [core for core in self._cores[split] if core.topic != scene.topic]
            cores = [core for core in cores if (core.person == scene.person) == (change == "topic")]
            return self._detailed(draw.pick(cores), draw) if cores else None
        if change == "activity":
            deed = draw.pick(self._words["topics"][scene.topic]["what"])
            return replace(scene, verb=deed["verb"], object=draw.pick(deed["objects"]))
        if change == "dropped":
            filled = [detail for detail in DETAILS if getattr(scene, detail)]
            return replace(scene, **{draw.pick(filled): ""}) if filled else None
        if change in DETAILS and not getattr(scene, change):
            return None
        if change == "person":
            scene = replace(scene, look="")  # what one person looks like need not suit another
        return replace(scene, **{change: draw.pick(self._choices(scene, change))})

    def _people(self, topic: str) -> list[str]:
        groups = set(self._words["topics"][topic]["who"])
        return sorted(name for name, who in self._words["people"].items() if groups & set(who["groups"]))

    def _choices(self, scene: Scene, field: str) -> list[str]:
        """What may stand in a field of this scene."""
        topic = self._words["topics"][scene.topic]
        if field == "person":
            return self._people(scene.topic)
        if field == "object":
            return next(deed["objects"] for deed in topic["what"] if deed["verb"] == scene.verb)
        if field == "look":
            group = self._words["people"][scene.person]["groups"][0]
            return self._words["looks"].get(group, self._words["looks"]["human"])
        choices = {"count": self._words["counts"], "time": self._words["times"]}
        return (choices | {"place": topic["where"], "manner": topic["how"]})[field]

    def _told(self, scene: Scene, draw: Draw) -> str:
        """One of the many sentences that describe the scene."""
        measure, noun = draw.pick(self._words["people"][scene.person]["named"]).split("/")
        slots = {
            "who": f"{scene.count}{measure}{scene.look}{noun}",
            "where": scene.place,
            "how": scene.manner,
            "do": scene.verb + scene.object,
        }
        frame = draw.pick(self._words["frames"]["placed" if scene.place else "placeless"])
        time = f"{scene.time}，" if scene.time else ""
        return spell(f"{time}{frame}。", slots, draw)


def _split(scene: Scene) -> str:
    """Who does what to what decides; details do not, or one scene could be told in two splits."""
    return split_of(scene.topic, scene.verb, scene.object, scene.person)
