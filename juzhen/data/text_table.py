"""Many texts as places in one block of bytes: no Python object per text until it is asked for."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int, UInt8


class TextTable(Sequence):
    """Stretches of running UTF-8 text, in the order of the file; read-only, and possibly mapped from the file.

    content  uint8, the whole text
    starts   int64, where each text begins in `content`
    ends     int64, where it ends

    >>> table = TextTable(np.frombuffer("今天。明天。".encode(), np.uint8), np.array([0, 9]), np.array([9, 18]))
    >>> table[1], table[0:2], len(table), table.sizes.tolist()
    ('明天。', ['今天。', '明天。'], 2, [9, 9])
    """

    def __init__(self, content: UInt8[np.ndarray, "bytes"], starts: np.ndarray, ends: np.ndarray) -> None:
        self.content = content
        self.starts = starts
        self.ends = ends

    @property
    def sizes(self) -> Int[np.ndarray, "texts"]:
        """Bytes per text."""
        return self.ends - self.starts

    def follows(self, number: int) -> bool:
        """Whether text `number` + 1 comes right after text `number` in the file, white space apart."""
        if number + 1 >= len(self):
            return False
        return not self.content[self.ends[number] : self.starts[number + 1]].tobytes().strip()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, chosen: int | slice) -> str | list[str]:
        if isinstance(chosen, slice):
            return [self[number] for number in range(*chosen.indices(len(self)))]
        return self.content[self.starts[chosen] : self.ends[chosen]].tobytes().decode().strip()

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))
