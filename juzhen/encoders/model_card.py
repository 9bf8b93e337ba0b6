"""The README of a saved encoder: what it is, how it is used, and the facts of its training."""

from typing import Any

from transformers import PretrainedConfig

from juzhen.core.text import in_markdown
from juzhen.encoders.architectures import ARCHITECTURES, looks_ahead, why_padded
from juzhen.encoders.frozen import adapter_facts
from juzhen.encoders.licence import licence_note
from juzhen.encoders.locate import SCORE_FILE
from juzhen.encoders.pooled_encoder import PooledEncoder

HERE = "<this folder>"

_FRONT_MATTER = """library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-similarity, feature-extraction, juzhen]
"""

_USE = {
    True: """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("<this folder>")
embeddings = model.encode(["今天天气很好", "今天是个好天气"])
```
""",
    False: """sentence-transformers cannot compute it, and stops at the `modules.json`; load it with juzhen:

```python
from juzhen import SentenceEncoder

encoder = SentenceEncoder.load("<this folder>")
embeddings = encoder.encode(["今天天气很好", "今天是个好天气"])
```
""",
}

_SCORE = f"""
These are the embeddings alone. A pair was trained to be scored by uᵀWv and not by the cosine: W is in {SCORE_FILE},
which `juzhen score` reads, and `SentenceEncoder.load("<this folder>").score(pairs)`. For other programs, set
`encoder.score_head = None` and save it anew with `encoder.save`: what is left is the cosine.
"""

_USE_CROSS = """```python
from juzhen import CrossEncoder

encoder = CrossEncoder.load("<this folder>")
scores = encoder.score([("今天天气很好", "今天是个好天气")])
```
"""

_USE_CROSS_ELSEWHERE = {
    True: """
sentence-transformers 6 gives the same numbers, the logits: `CrossEncoder("<this folder>").predict(pairs)`. Older
versions put a new head of random weights over the transformer; do not use them.
""",
    False: """
sentence-transformers cannot compute it, and stops at `modules.json`. Where the table says symmetric, a score is the
mean of both orders of a pair.
""",
}


def model_card(
    encoder: PooledEncoder, facts: dict[str, Any], *, loads_elsewhere: bool, place: str = HERE
) -> str:
    """Markdown: what the encoder is, how to load it, and the facts as tables.

    facts            `name` is the title; values that are dicts become sections of their own
    loads_elsewhere  whether sentence-transformers can load the folder
    place            what the folder is called in the examples
    """
    facts = dict(facts)
    title = facts.pop("name", "Sentence encoder")
    features: dict[str, Any] = {
        "architecture": encoder.backbone.config.model_type,
        "pooling": encoder.pooling,
        "normalized": "yes" if encoder.normalize else "no",
        "dimensions": encoder.dim,
        "tokens at most": encoder.max_length,
    }
    features |= adapter_facts(encoder.backbone) | _attention(encoder.backbone.config)
    features |= {"prompt": f"{encoder.prompt!r} before every sentence"} if encoder.prompt else {}
    features |= {"may be cut to": encoder.nested_dims} if encoder.nested_dims else {}
    features |= {"score": f"uᵀWv of embeddings of length 1, W in {SCORE_FILE}"} if encoder.score_head else {}
    if encoder.templates is not None:
        prompts = encoder.templates.as_dict().items()
        facts |= {"templates": {key: value for key, value in prompts if value is not None}}
    plain = {key: value for key, value in facts.items() if not isinstance(value, dict)}
    sections = {key: value for key, value in facts.items() if isinstance(value, dict)}
    use = _USE[loads_elsewhere] + _sizes(encoder, loads_elsewhere) + (_SCORE if encoder.score_head else "")
    parts = [
        _head(_FRONT_MATTER if loads_elsewhere else "", encoder),
        f"# {in_markdown(title)}\n\nA sentence encoder trained with juzhen.\n{licence_note(encoder.licence)}\n",
        fact_table(features | plain),
        f"\n## Use\n\n{use}".replace(HERE, place),
        *(
            f"\n## {in_markdown(_words(name)).capitalize()}\n\n{fact_table(rows)}"
            for name, rows in sections.items()
        ),
    ]
    return "".join(parts)


def _attention(architecture: PretrainedConfig) -> dict[str, str]:
    """Where a decoder looks, and why sentences are padded; nothing of an encoder that is packed."""
    entry, padded = ARCHITECTURES.get(architecture.model_type), why_padded(architecture)
    decoder = entry is not None and entry.is_decoder
    return ({"attention": "bidirectional" if looks_ahead(architecture) else "causal"} if decoder else {}) | (
        {"in a batch": f"padded: {padded}"} if padded else {}
    )


def _sizes(encoder: PooledEncoder, loads_elsewhere: bool) -> str:
    """How embeddings are cut that have learnt to be; "" of others."""
    if not encoder.nested_dims or encoder.score_head is not None:
        return ""
    load = "SentenceTransformer(" if loads_elsewhere else "SentenceEncoder.load("
    return (
        f"\nThe first {', '.join(map(str, encoder.nested_dims))} numbers of an embedding are embeddings by themselves: "
        f'`{load}"{HERE}", truncate_dim={encoder.nested_dims[0]})`.\n'
    )


def pair_card(
    encoder: Any, settings: dict[str, Any], facts: dict[str, Any], *, loads_elsewhere: bool, place: str = HERE
) -> str:
    """Markdown of a cross-encoder; arguments as of `model_card`, and what its settings file says."""
    facts = dict(facts)
    title = facts.pop("name", "Cross-encoder")
    features = {"architecture": encoder.backbone.config.model_type} | settings
    features["tokens at most"] = encoder.inner.max_length
    features |= adapter_facts(encoder.backbone)
    text = f"# {in_markdown(title)}\n\nA cross-encoder trained with juzhen: it scores pairs of sentences.\n"
    note = f"{licence_note(encoder.inner.licence)}\n"
    use = f"\n## Use\n\n{_USE_CROSS}{_USE_CROSS_ELSEWHERE[loads_elsewhere]}".replace(HERE, place)
    return _head("", encoder.inner) + text + note + fact_table(features | facts) + use


def _head(header: str, encoder: PooledEncoder) -> str:
    """What the hub reads of a card; nothing where there is nothing to say."""
    header += f"license: {encoder.licence}\n" if encoder.licence else ""
    return f"---\n{header}---\n" if header else ""


def fact_table(rows: dict[str, Any]) -> str:
    """A Markdown table of two columns without headings."""
    table_rows = [
        f"| {in_markdown(_words(key))} | {in_markdown(_cell(value))} |" for key, value in rows.items()
    ]
    return "\n".join(["| | |", "|---|---|", *table_rows]) + "\n"


def _words(key: str) -> str:
    return str(key).replace("_", " ")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return "–" if value is None else str(value)
