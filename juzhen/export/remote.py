"""Embeddings of a server that speaks OpenAI's protocol, such as `juzhen serve`."""

import json
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from jaxtyping import Float

from juzhen.core.errors import UserError

SECONDS = 120.0
AT_ONCE = 64
PATH = "/v1"


class RemoteServer:
    """The first model that a server lists.

    address  such as http://127.0.0.1:8000, with or without /v1
    key      it asks for; None: none

    Raises UserError where it cannot be reached or answers something else.
    """

    def __init__(self, address: str, key: str | None = None) -> None:
        self._base = address.rstrip("/").removesuffix(PATH) + PATH
        self._key = key
        models = self._ask("/models").get("data") or []
        self.model = str(models[0].get("id"))

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "texts dim"]:
        """Embeddings in the order of the texts, by several requests."""
        rows: list[Any] = []
        for start in range(0, len(texts), AT_ONCE):
            body = {"model": self.model, "input": list(texts[start : start + AT_ONCE])}
            data = self._ask("/embeddings", body)["data"]
            rows += [item["embedding"] for item in sorted(data, key=lambda item: item["index"])]
        return np.array(rows, dtype=np.float32)

    def _ask(self, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self._base + path, data, headers), timeout=SECONDS) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError, HTTPException) as error:
            message = error.read(500).decode(errors="replace") if isinstance(error, HTTPError) else ""
            raise UserError(f"{self._base}{path}: no answer that can be read ({error}) {message}") from error
