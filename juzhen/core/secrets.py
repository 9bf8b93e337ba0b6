"""Redaction of secrets in results, logs and data for W&B."""

import logging
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

REDACTED = "<redacted>"

LOOKS = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}"  # Hugging Face
    r"|\bgh[a-z]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bsk-[\w-]{20,}|\bxox[a-z]-[\w-]{10,}|\bAIza[\w-]{30,}|\bAKIA[0-9A-Z]{16}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"  # JSON Web Token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)",  # user and password in a URL
    re.ASCII,
)
"""Tokens that are known by their form."""

NAMES = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)$", re.IGNORECASE
)
"""Names of keys and environment variables whose value is a secret."""

NO_SECRETS = (
    "this looks like a secret, and a configuration is stored with each result. Leave it out: the hub reads HF_TOKEN "
    "from the environment, and W&B reads WANDB_API_KEY"
)

SHORTEST = 8
"""Shortest value of an environment variable that is redacted. Shorter ones are words such as `true`."""


def redacted(value: Any) -> Any:
    """Return plain data with secrets replaced by REDACTED. Tuples become lists.

    Secrets are tokens known by their form, values of environment variables with a telling name, and values of such
    keys.

    Args:
        value: Plain data. It is not changed.

    Returns:
        A copy.

    >>> redacted({"about": "with hf_0123456789abcdefgh", "password": "x", "rows": 3})
    {'about': 'with <redacted>', 'password': '<redacted>', 'rows': 3}
    """
    return _redacted(value, _of_the_environment())


def place_of_secret(value: Any) -> str | None:
    """Return the dotted key of the first value that `redacted` would change, or None.

    Args:
        value: Plain data.

    Returns:
        A dotted key without list positions. "" if the value is a text.
    """
    secrets = _of_the_environment()

    def look(key: str, name: str, value: Any) -> str | None:
        if isinstance(value, Mapping):
            items = [(f"{key}.{name}".lstrip("."), str(name), value[name]) for name in value]
        elif isinstance(value, list | tuple):
            items = [(key, name, inner) for inner in value]
        else:
            return key if _redacted({name: value}, secrets) != {name: value} else None
        return next((secret for item in items if (secret := look(*item))), None)

    return look("", "", value)


def _redacted(value: Any, secrets: re.Pattern[str] | None) -> Any:
    if isinstance(value, str):
        value = LOOKS.sub(REDACTED, value)
        return value if secrets is None else secrets.sub(REDACTED, value)
    if isinstance(value, Mapping):
        return {
            key: REDACTED
            if isinstance(inner, str) and inner and NAMES.search(str(key))
            else _redacted(inner, secrets)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(inner, secrets) for inner in value]
    return value


def _of_the_environment() -> re.Pattern[str] | None:
    secrets = {value for name, value in os.environ.items() if NAMES.search(name) and len(value) >= SHORTEST}
    return re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True)))) if secrets else None


def hide_in_logs() -> None:
    """Redact every log message of this process from now on."""
    make = logging.getLogRecordFactory()
    if getattr(make, "func", None) is not _without_secrets:
        logging.setLogRecordFactory(partial(_without_secrets, make))


def _without_secrets(
    make: Callable[..., logging.LogRecord], *fields: Any, **options: Any
) -> logging.LogRecord:
    record = make(*fields, **options)
    message = record.getMessage()
    if (without := redacted(message)) != message:
        record.msg, record.args = without, ()
    return record
