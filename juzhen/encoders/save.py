"""Save an encoder as a folder that juzhen and sentence-transformers load, with its model card."""

import copy
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import torch
import transformers
from safetensors.torch import save_file, save_model
from torch import nn
from transformers import PretrainedConfig

from juzhen.core.atomic_write import atomic_write_dir, write_json, write_text
from juzhen.core.columns import require_finite_weights
from juzhen.core.file_guard import require_outside, require_writable
from juzhen.core.lazy_names import offered
from juzhen.core.safe_open import read_bytes
from juzhen.core.text import in_markdown
from juzhen.encoders.backbone import ARCHITECTURES, StaticTokens, looks_ahead, quiet, why_padded
from juzhen.encoders.base_weights import adapter_facts, has_adapter, is_ours_alone
from juzhen.encoders.batch_invariance import layers_that_add_up
from juzhen.encoders.folder_settings import LENGTH_FILE
from juzhen.encoders.layout import EMBEDDING, MODULES_FILE, OWN_FILE, PAIRS_FILE, SCORES, TOKEN_STATES
from juzhen.encoders.peer_options import PeerNames, takes_peer_options
from juzhen.encoders.pooled_encoder import TYPES, PooledEncoder
from juzhen.encoders.pooling import POOLINGS
from juzhen.encoders.projection import GRADES, IDENTITY, Projection
from juzhen.encoders.prompts import PROMPTS_FILE
from juzhen.encoders.resolve_path import HEAD_FILE, SCORE_FILE
from juzhen.encoders.thresholds import write_thresholds
from juzhen.encoders.tokens import write_tokenizer

CARD = "README.md"
LINKS = {"cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/"}
"""Licences that a card explains."""

_HEAD = re.compile(r"\A---\n(.*?)\n---$", flags=re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(r"^license: *([a-zA-Z0-9][\w.-]*) *$", flags=re.MULTILINE)


def licence_of(folder: Path) -> str | None:
    """Licence in the header of a model card, as the hub spells it. None without a licence.

    Args:
        folder: Folder of an encoder. Without a README.md there is no licence.

    Returns:
        Identifier such as `mit`, or None.
    """
    try:
        text = read_bytes(folder / CARD).decode("utf-8", errors="replace")
    except OSError:
        return None
    head = _HEAD.search(text.replace("\r\n", "\n"))
    licence = _LICENCE.search(head[1]) if head else None
    return licence[1] if licence else None


def _licence_note(licence: str | None) -> str:
    """Sentence of a model card for weights that were trained from other weights."""
    if licence is None:
        return ""
    name = f"[{licence}]({LINKS[licence]})" if licence in LINKS else licence
    return f"\nThe weights that training began with are under {name}, and so are these.\n"


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
    False: """sentence-transformers cannot compute it, and stops at the `modules.json`. Load it with juzhen:

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
    """Model card in Markdown: description, code to load the encoder, and tables of facts.

    Args:
        encoder: The encoder.
        facts: `name` is the title. A nested dict becomes a section.
        loads_elsewhere: True if sentence-transformers loads the folder.
        place: Name of the folder in the examples.

    Returns:
        Text of README.md with its YAML header.
    """
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
        facts = facts | {"templates": {key: value for key, value in prompts if value is not None}}
    use = _USE[loads_elsewhere] + _sizes(encoder, loads_elsewhere) + (_SCORE if encoder.score_head else "")
    return card_text(
        encoder.licence, "Sentence encoder", "A sentence encoder trained with juzhen.", features, facts,
        use.replace(HERE, place), header=_FRONT_MATTER if loads_elsewhere else "",
    )  # fmt: skip


def card_text(
    licence: str | None,
    title: str,
    summary: str,
    features: dict[str, Any],
    facts: dict[str, Any],
    use: str,
    *,
    header: str = "",
) -> str:
    """Model card of an encoder of any family.

    Args:
        licence: Licence of the weights, or None.
        title: Title, unless `facts` have a `name`.
        summary: One sentence on the encoder.
        features: Rows of the table.
        facts: More rows. A nested dict becomes a section.
        use: Code that loads the encoder.
        header: Lines of the YAML header that the hub reads, without the licence.

    Returns:
        Text of README.md. It has a YAML header if `header` or `licence` is given.
    """
    header += f"license: {licence}\n" if licence else ""
    title = facts.get("name", title)
    rows = {key: value for key, value in facts.items() if key != "name" and not isinstance(value, dict)}
    sections = {key: value for key, value in facts.items() if isinstance(value, dict)}
    parts = [
        f"---\n{header}---\n" if header else "",
        f"# {in_markdown(title)}\n\n{summary}\n{_licence_note(licence)}\n",
        f"{fact_table(features | rows)}\n## Use\n\n{use}",
        *(
            f"\n## {in_markdown(_words(name)).capitalize()}\n\n{fact_table(section)}"
            for name, section in sections.items()
        ),
    ]
    return "".join(parts)


def _attention(architecture: PretrainedConfig) -> dict[str, str]:
    """Attention direction of a decoder, and the reason for padding. Empty for an encoder with packed sentences."""
    entry, padded = ARCHITECTURES.get(architecture.model_type), why_padded(architecture)
    decoder = entry is not None and entry.is_decoder
    return ({"attention": "bidirectional" if looks_ahead(architecture) else "causal"} if decoder else {}) | (
        {"in a batch": f"padded: {padded}"} if padded else {}
    )


def _sizes(encoder: PooledEncoder, loads_elsewhere: bool) -> str:
    """Trained sizes of nested embeddings, "" for others."""
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
    """Model card of a cross-encoder, in Markdown.

    Args:
        encoder: A cross-encoder or a reranker.
        settings: Rows of the first table, besides those of every cross-encoder.
        facts: As in `model_card`.
        loads_elsewhere: As in `model_card`.
        place: As in `model_card`.

    Returns:
        Text of README.md.
    """
    features = {"architecture": encoder.backbone.config.model_type} | settings
    features["tokens at most"] = encoder.inner.max_length
    features |= adapter_facts(encoder.backbone)
    summary = "A cross-encoder trained with juzhen: it scores pairs of sentences."
    use = f"{_USE_CROSS}{_USE_CROSS_ELSEWHERE[loads_elsewhere]}".replace(HERE, place)
    return card_text(encoder.inner.licence, "Cross-encoder", summary, features, facts, use)


def fact_table(rows: dict[str, Any]) -> str:
    """A Markdown table of two columns without headings.

    Args:
        rows: Name → value. Underscores become spaces. None is shown as a dash.

    Returns:
        Markdown that ends with a line break.
    """
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


def save_encoder(encoder: Any, folder: str | Path, *, card: dict[str, Any]) -> Path:
    """Save a sentence encoder or a cross-encoder.

    The files appear together (`juzhen.core.atomic_write`). A folder that was saved by juzhen is replaced. An
    encoder that sentence-transformers cannot compute has a modules.json with our class, so that it does not load
    with another meaning.

    Args:
        encoder: The encoder.
        folder: Target folder.
        card: Facts for the README. `name` is the title, the rest becomes tables. `thresholds`, set → score, are the
            decision thresholds of `encoder.is_same`.

    Returns:
        The folder.

    Raises:
        UserError: The folder holds other files, or files that have changed since they were saved. A weight is NaN or
            infinite.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> folder = save_encoder(SentenceEncoder.load("builtin/mini_zh"), "faq", card={"name": "FAQ of the shop"})
        >>> SentenceEncoder.load(folder).dim
        256
    """
    folder = Path(folder)
    if isinstance(encoder, nn.Module):
        require_finite_weights(
            encoder.named_parameters(),
            folder,
            remedy="Nothing was saved. Load the encoder again, and train it anew",
        )
    require_writable(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write_dir(folder) as part:
        write_encoder(encoder, part, card)
    return folder


def write_encoder(encoder: Any, folder: Path, card: dict[str, Any], *, place: str = HERE) -> None:
    """Fill an empty folder as `save_encoder` does.

    Args:
        encoder: An encoder of any family.
        folder: The empty folder.
        card: Facts for the README.
        place: Name of the folder in the README.
    """
    if hasattr(encoder, "write_files"):
        encoder.write_files(folder, card, place)
        return
    write = _write_files if isinstance(encoder, PooledEncoder) else _write_cross_encoder
    write(encoder, folder, card, place)


def _write_files(encoder: PooledEncoder, folder: Path, card: dict[str, Any], place: str) -> None:
    save_transformer(encoder, folder)
    if encoder.score_head is not None:
        encoder.score_head.save(folder)
    pooling = _their_pooling(encoder)
    layers = _write_layers(encoder, folder, start=len(pooling) + 1)
    templates, prompts = encoder.templates, encoder.prompts
    is_theirs = loads_elsewhere(encoder)
    if is_theirs:
        settings = prompts.as_dict_of_sides() | {"similarity_fn_name": "cosine"}
        if encoder.normalize:
            layers = {**layers, f"{len(pooling) + len(layers) + 1}_Normalize": None}
        _write_modules(encoder, folder, pooling | layers, settings)
    else:
        settings_of_ours = {
            "pooling": encoder.pooling,
            "normalize": encoder.normalize,
            "max_length": encoder.input_length,
            "projections": list(layers),
        }
        if prompts.texts:
            settings_of_ours["prefix"] = prompts.as_dict() | {"include_prompt": prompts.include_prompt}
        write_settings(
            folder / OWN_FILE, settings_of_ours | ({"prompts": templates.as_dict()} if templates else {})
        )
        _refuse_elsewhere(folder, "PromptEncoder" if templates else "SentenceEncoder")
    text = model_card(encoder, card, loads_elsewhere=is_theirs, place=place)
    write_text(folder / "README.md", text, in_own_folder=True)
    write_thresholds(folder, card)


def loads_elsewhere(encoder: PooledEncoder) -> bool:
    """True if sentence-transformers computes the same embeddings.

    Args:
        encoder: The encoder.

    Returns:
        False for templates, a score head, or a pooling or adapter that it lacks.
    """
    has_own = encoder.templates is not None or encoder.score_head is not None
    pools = _is_table(encoder) or bool(_their_pooling(encoder))
    return not has_own and pools and not is_ours_alone(encoder.backbone)


def _is_table(encoder: PooledEncoder) -> bool:
    """True for the mean of a token table, which is one module in sentence-transformers."""
    is_mean = encoder.pooling == "mean" and encoder.prompts.include_prompt
    return is_mean and isinstance(encoder.backbone, StaticTokens)


def save_transformer(encoder: PooledEncoder, folder: Path, *, segments: bool | None = None) -> None:
    """Write backbone and tokenizer in the layout of transformers, with the maximal length in the tokenizer.

    Args:
        encoder: The encoder.
        folder: Target folder.
        segments: The tokenizer returns segment ids. None leaves its setting.
    """
    if has_adapter(encoder.backbone):
        offered("adapters", "save")(encoder.backbone, folder)
    else:
        with quiet():
            encoder.backbone.save_pretrained(folder)
    save_tokenizer(encoder, folder, segments=segments)


def save_tokenizer(encoder: PooledEncoder, folder: Path, *, segments: bool | None = None) -> None:
    """Write the tokenizer as `save_transformer` does.

    Args:
        encoder: Its tokenizer and maximal length are written.
        folder: Target folder.
        segments: The tokenizer returns segment ids. None leaves its setting.
    """
    tokenizer = copy.copy(encoder.tokenizer)
    if tokenizer.is_fast:
        # The last call leaves its truncation behind; equal encoders should give equal files.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.model_max_length = encoder.input_length
    if segments is not None:
        names = [name for name in tokenizer.model_input_names if name != TYPES]
        tokenizer.model_input_names = [*names, TYPES] if segments else names
        # Else it is written only where the file that the tokenizer was read from has this key.
        tokenizer.init_kwargs = tokenizer.init_kwargs | {"model_input_names": tokenizer.model_input_names}
    write_tokenizer(tokenizer, folder)
    if isinstance(encoder.backbone, StaticTokens):  # who reads this file alone has to cut as we do
        tokenizer.backend_tokenizer.enable_truncation(encoder.input_length)
        write_text(folder / "tokenizer.json", tokenizer.backend_tokenizer.to_str(), in_own_folder=True)
        tokenizer.backend_tokenizer.no_truncation()


def write_settings(path: Path, settings: Any) -> None:
    """Write a JSON file of an encoder folder, with the indent of sentence-transformers.

    Args:
        path: A .json file.
        settings: Objects, lists, texts, numbers, true, false and null.
    """
    write_json(path, settings, indent=2, in_own_folder=True)


def write_module_list(folder: Path, modules: Iterable[tuple[str, str]]) -> None:
    """Write modules.json.

    Args:
        folder: Folder of the encoder.
        modules: Path and type of each module, in their order.
    """
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": kind}
        for number, (path, kind) in enumerate(modules)
    ]
    write_settings(folder / MODULES_FILE, listed)


def write_model_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Write config_sentence_transformers.json, with the versions of the libraries.

    Args:
        folder: Folder of the encoder.
        settings: Further keys.
    """
    versions = {"pytorch": torch.__version__, "transformers": transformers.__version__}
    write_settings(folder / PROMPTS_FILE, {"__version__": versions} | settings)


TOKENS = {"module_input_name": TOKEN_STATES, "module_output_name": TOKEN_STATES}
"""By which sentence-transformers knows a layer over the states of tokens."""

Modules = dict[str, dict[str, Any] | None]
"""Folder of a sentence-transformers module → its config.json. None if another function writes it or it has none."""


def _write_layers(encoder: PooledEncoder, folder: Path, *, start: int) -> Modules:
    names = []
    for number, layer in enumerate(encoder.output_layers, start=start):
        names.append(f"{number}_{layer.kind}")
        layer.save(folder / names[-1])
        if len(names) <= encoder.token_layers:
            write_settings(folder / names[-1] / "config.json", layer.config() | TOKENS)
    return dict.fromkeys(names)


def _their_pooling(encoder: PooledEncoder) -> Modules:
    """Modules of sentence-transformers for this pooling. Empty if they do not support it."""
    pooling = POOLINGS[encoder.pooling]
    if pooling.switch is None or isinstance(encoder.backbone, StaticTokens):
        return {}
    size = {"word_embedding_dimension": encoder.backbone.config.hidden_size}
    modules: Modules = {}
    if pooling.reads_first_layer:
        layers = layers_that_add_up(encoder)
        if layers is None:
            return {}
        modules["1_WeightedLayerPooling"] = size | {"layer_start": 1, "num_hidden_layers": layers}
    switches = {other.switch: other.switch == pooling.switch for other in POOLINGS.values() if other.switch}
    prompt = {} if encoder.prompts.include_prompt else {"include_prompt": False}
    return modules | {f"{len(modules) + 1}_Pooling": size | switches | prompt}


def _write_modules(encoder: PooledEncoder, folder: Path, modules: Modules, settings: dict[str, Any]) -> None:
    """Write the files with which sentence-transformers loads the modules after the transformer."""
    kinds = {"": "StaticEmbedding" if _is_table(encoder) else "Transformer"}
    kinds |= {path: path.partition("_")[2] for path in modules}
    write_module_list(
        folder, [(path, f"sentence_transformers.models.{kind}") for path, kind in kinds.items()]
    )
    for path, config in modules.items():
        (folder / path).mkdir(exist_ok=True)
        if config is not None:
            write_settings(folder / path / "config.json", config)
    about: dict[str, Any] = {"max_seq_length": encoder.max_length, "do_lower_case": False}
    if encoder.backbone.dtype != torch.float32:  # they would compute in the precision of the file
        about["model_args"] = {"torch_dtype": "float32"}
    for path, config in modules.items():
        if path.endswith("WeightedLayerPooling") and config:
            about["config_args"] = {"output_hidden_states": True}
            weights = torch.zeros(config["num_hidden_layers"])
            weights[0] = weights[-1] = 1.0
            save_file({"layer_weights": weights}, folder / path / "model.safetensors", {"format": "pt"})
    write_settings(folder / LENGTH_FILE, about)
    write_model_settings(folder, settings)


def _refuse_elsewhere(folder: Path, name: str) -> None:
    """Let sentence-transformers stop at our class name. Without modules.json it would add a mean pooling."""
    write_module_list(folder, [("", f"juzhen.{name}")])
    if name == "CrossEncoder":
        write_settings(folder / PROMPTS_FILE, {"model_type": name})


def _write_cross_encoder(encoder: Any, folder: Path, card: dict[str, Any], place: str) -> None:
    inner = encoder.inner
    save_transformer(inner, folder, segments=encoder.segments if encoder.marks_segments else None)
    save_model(encoder.head, str(folder / HEAD_FILE))
    pooling = _their_pooling(inner)
    layers = _write_layers(inner, folder, start=len(pooling) + 1)
    settings = {
        "outputs": encoder.outputs,
        "pooling": inner.pooling,
        "segments": encoder.segments,
        "symmetric": encoder.symmetric,
    } | ({"layers": list(layers)} if layers else {})
    if inner.token_layers:
        settings["token_layers"] = inner.token_layers
    if encoder.grades != GRADES.get(encoder.outputs, ()):
        settings["grades"] = list(encoder.grades)
    write_settings(folder / PAIRS_FILE, settings)
    is_theirs = not encoder.symmetric and not is_ours_alone(inner.backbone)
    if not is_theirs:
        _refuse_elsewhere(folder, "CrossEncoder")
    else:
        before, behind = [*layers][: inner.token_layers], [*layers][inner.token_layers :]
        modules = dict.fromkeys(before) | pooling | dict.fromkeys(behind)
        _write_their_cross_encoder(encoder, folder, modules)
    write_text(
        folder / "README.md",
        pair_card(encoder, settings, card, loads_elsewhere=is_theirs, place=place),
        in_own_folder=True,
    )
    write_thresholds(folder, card)


def _write_their_cross_encoder(encoder: Any, folder: Path, modules: Modules) -> None:
    head = Projection(encoder.dim, encoder.outputs, bias=True, activation=IDENTITY)
    head.linear.load_state_dict(encoder.head.state_dict())
    path = f"{len(modules) + 1}_Dense"
    head.save(folder / path)
    names = {"module_input_name": EMBEDDING, "module_output_name": SCORES}
    settings = {"model_type": "CrossEncoder", "activation_fn": IDENTITY}
    _write_modules(encoder.inner, folder, modules | {path: head.config() | names}, settings)


class HubMixin(PeerNames):
    """Saving to a folder and uploading to the Hugging Face hub."""

    @takes_peer_options
    def save(self, folder: str | Path, *, card: dict[str, Any] | None = None) -> Path:
        """Save the encoder with all settings, for `load` and for sentence-transformers.

        A folder that was saved by juzhen and has not changed since is replaced.

        Args:
            folder: Target folder.
            card: Facts for the README, as in `juzhen.encoders.save_encoder`.

        Returns:
            The folder.

        Raises:
            UserError: The folder holds other files, or is inside the folder of a run.

        Example:
            >>> from juzhen import SentenceEncoder
            >>> SentenceEncoder.load(SentenceEncoder.load("builtin/mini_zh").save("saved")).dim
            256
        """
        require_outside(folder)  # juzhen wrote the encoder of a run, too, and would replace it
        return save_encoder(self, folder, card=self._fitted() | (card or {}))

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> Self:
        """Alias of `load`, the name in transformers.

        Args:
            source: As of `load`.
            **options: As of `load`.

        Returns:
            The encoder.

        Example:
            >>> from juzhen import SentenceEncoder
            >>> SentenceEncoder.from_pretrained("builtin/mini_zh").dim
            256
        """
        return cls.load(source, **options)  # type: ignore[attr-defined]

    def save_pretrained(self, folder: str | Path, **options: Any) -> Path:
        """Alias of `save`, the name in sentence-transformers.

        Args:
            folder: Target folder.
            **options: As of `save`.

        Returns:
            The folder.

        Example:
            >>> from juzhen import SentenceEncoder
            >>> SentenceEncoder.load("builtin/mini_zh").save_pretrained("pretrained").name
            'pretrained'
        """
        return self.save(folder, **options)

    def _fitted(self) -> dict[str, Any]:
        """Thresholds that `juzhen.fit` found for these weights, as facts of a card."""
        return getattr(self, "fitted_here", {})

    @takes_peer_options
    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = True,
        revision: str | None = None,
        token: str | None = None,
        message: str = "Upload an encoder",
        card: dict[str, Any] | None = None,
        dry_run: bool = False,
    ) -> str:
        """Upload the saved encoder to a repository of the Hugging Face hub.

        An adapter is merged into its weights if its base is not on the hub.

        Args:
            repo_id: owner/name. The repository is created if it is missing.
            private: Visibility of a new repository.
            revision: Existing branch. None is main.
            token: Access token. None uses HF_TOKEN or `hf auth login`.
            message: Commit message.
            card: As in `save`. The title is the name of the repository.
            dry_run: Print the files with their sizes and upload nothing. It needs neither token nor network.

        Returns:
            Address of the commit. "" for a dry run.

        Raises:
            UserError: A missing token or network. Errors of the hub come from huggingface_hub.

        Example:
            >>> encoder.push_to_hub("owner/faq", dry_run=True)  # doctest: +SKIP
        """
        options = {"private": private, "revision": revision, "token": token, "message": message}
        facts = self._fitted() | (card or {})
        address: str = offered("hub", "push")(self, repo_id, facts=facts, dry_run=dry_run, **options)
        return address
