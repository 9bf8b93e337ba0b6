"""How often Python looks for objects that only hold each other, its garbage collector.

Modules are 400,000 objects that stay. As they are loaded the collector looks through all of them seven to nine times, a
tenth of the time of a start; afterwards each look stops a server, or a step of training, for 0.3 s. Measured in
docs/log/serving.md.
"""

import gc

USUAL = gc.get_threshold()
RARELY = (50_000, 20, 20)


def look_rarely() -> None:
    """For a program that loads modules first."""
    gc.set_threshold(*RARELY)


def look_as_usual() -> None:
    """Once modules are loaded, which no look touches from then on. Models are loaded later: a stage's must go."""
    gc.freeze()
    gc.set_threshold(*USUAL)


def set_apart() -> None:
    """The same with what a server has loaded, its models too; what it no longer needs goes."""
    gc.unfreeze()
    gc.collect()
    look_as_usual()
