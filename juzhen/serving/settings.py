"""Limits of a server, and the keys that open it."""

import hmac
import os
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.safe_open import read_text

KEYS_VARIABLE = "JUZHEN_API_KEYS"

SHORTEST_KEY = 16

MOST_CONNECTIONS = 10_000
MOST_TEXTS = 2048

MOST_PARTS, MOST_VALUES = 2**16, 2**18
"""Texts, lists and objects of one body, and all its values: token numbers, too. Reading so many takes a tenth of a
second, in which nobody else is answered."""


@dataclass(frozen=True)
class Limits:
    """Limits of a server, per process.

    Args:
        batch_tokens: Tokens computed at once.
        queue_tokens: Tokens that may wait. More is answered with 429.
        seconds: Time of a request, including upload and waiting.
        texts: Texts of a request.
        characters: Characters of a text.
        numbers: Numbers of all embeddings of an answer.
        scores: Scores of an answer of /similarity.
        characters_found: Characters of all texts of an answer of /search.
        body_bytes: Bytes of a request.
        bodies_bytes: Bytes of all open requests.
        connections: Open connections. Fewer if the system's limit of open files is lower.
        processes: Worker processes at the address.
        proxies: Addresses and networks whose X-Forwarded-For is trusted.
        drain_seconds: Time after SIGTERM in which clients are told to close their connections.
    """

    batch_tokens: int = 2048
    queue_tokens: int = 262_144
    seconds: float = 60.0
    texts: int = MOST_TEXTS
    characters: int = 65_536
    numbers: int = 2**21
    scores: int = 2**18
    characters_found: int = 2**24
    body_bytes: int = 4 * 2**20
    bodies_bytes: int = 64 * 2**20
    connections: int = MOST_CONNECTIONS
    processes: int = 1
    proxies: tuple[str, ...] = ()
    drain_seconds: float = 1.0

    @property
    def values(self) -> int:
        """Of one body: as many token numbers as may wait."""
        return max(MOST_VALUES, self.queue_tokens)


def is_loopback(host: str) -> bool:
    """Return True for a name or an address that this machine alone reaches.

    Args:
        host: Name or address of a network interface. A name that only looks like one of this machine is not.

    Returns:
        True for the loopback.
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Keys:
    """API keys, stored as digests. Without keys every request is accepted.

    Args:
        keys: The keys.

    Raises:
        UserError: A text instead of a list, or an empty key.
    """

    def __init__(self, keys: list[str]) -> None:
        if isinstance(keys, str) or not all(keys):  # each letter of a text would open the server
            raise UserError("keys: expected a list of keys without an empty one. Give [key].")
        self._digests = [sha256(key.encode()).digest() for key in keys]

    @classmethod
    def read(cls, file: Path | None) -> "Keys":
        """Read the lines of a file, else the words of JUZHEN_API_KEYS.

        Args:
            file: File of keys, separated by white space or commas. None reads the variable.

        Returns:
            The keys.

        Raises:
            UserError: A key can be guessed, or the file has none.
        """
        try:
            text = os.environ.get(KEYS_VARIABLE, "") if file is None else read_text(file, "utf-8-sig")
        except UnicodeDecodeError:
            text = "?"  # no key
        keys = text.replace(",", " ").split()
        source = KEYS_VARIABLE if file is None else str(file)
        if (file is not None and not keys) or any(
            len(key) < SHORTEST_KEY or not key.isascii() for key in keys
        ):
            raise UserError(
                f"{source}: expected keys of at least {SHORTEST_KEY} ASCII characters, one a line. Make one: "
                "openssl rand -hex 24"
            )
        return cls(keys)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def number(self, authorization: str) -> int | None:
        """Return the number of the key in an Authorization header, in constant time, or None.

        Args:
            authorization: Value of the header.

        Returns:
            The number, from 0, or None.
        """
        scheme, _, key = authorization.partition(" ")
        digest = sha256(key.strip().encode("utf-8", "surrogatepass")).digest()
        matches = [hmac.compare_digest(digest, stored) for stored in self._digests]
        return matches.index(True) if scheme.lower() == "bearer" and any(matches) else None
