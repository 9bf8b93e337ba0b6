"""Text from anywhere as text of a Markdown page: names of runs, sets and folders are not ours to trust."""

import re
from collections.abc import Container, Iterable, Sequence


def in_markdown(text: str) -> str:
    """One line of a Markdown table that is shown as it is: no HTML, no link, no picture, no further column.

    What Markdown makes of stars and backticks stays, since tables mark their best with them.

    >>> in_markdown("<b>a</b> | [x](y)")
    '&lt;b>a&lt;/b> \\\\| [x]\\\\(y)'
    """
    text = " ".join(text.splitlines())
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)  # what follows a bare < in "p < 0.05" is no tag
    text = text.replace("](", r"]\(").replace("][", r"]\[")
    return re.sub(r"(?<!\\)\|", r"\|", text)


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Container[int] = ()
) -> str:
    """A table of Markdown; `numbers` are the places of the columns that stand at the right."""
    rules = ["--:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(map(in_markdown, line))} |" for line in (head, rules, *rows))
