"""`juzhen index`: texts and their vectors on disk, for search."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from juzhen.backends.names import BackendName
from juzhen.cli.options import (
    AS_IT_LOOKS,
    BATCH_TOKENS,
    Backend,
    BatchTokens,
    Cache,
    Columns,
    Header,
    LongTexts,
    Overlap,
    Sheet,
    TableOptions,
    TruncateDim,
    encoding_options,
    refuse_file_names,
)
from juzhen.core.errors import UserError
from juzhen.core.machine import without_hub
from juzhen.core.text import counted
from juzhen.core.text_warnings import collected

WHOLE = "An index that was built with --chunk-tokens N, or --long-texts chunk, holds them whole."

Folder = Annotated[Path, Argument(help="folder of the index")]
Encoder = Annotated[str, Argument(help="run folder, or folder of an encoder")]
Texts = Annotated[
    Path,
    Argument(
        help="texts: .txt with one per line, or a table: .tsv, .csv, .jsonl, .parquet, .xlsx, also .gz or .zst"
    ),
]
TextColumn = Annotated[
    str | None,
    Option("--text", metavar="COLUMN", help="column with the texts", show_default="text, or the only column"),
]
IdColumn = Annotated[
    str | None,
    Option("--id", metavar="COLUMN", help="column with an id for each text", show_default="numbers, from 0"),
]
Metadata = Annotated[
    list[str] | None,
    Option(metavar="COLUMN…", help="columns to store with each text, for display and filters"),
]
Workers = Annotated[int | None, Option(min=1, help="number of processes", show_default="1")]
PromptName = Annotated[
    str | None, Option(help="name of a prompt for the texts", show_default="the document prompt")
]
Prompt = Annotated[str | None, Option(metavar="TEXT", help="prompt text before each text ('' for none)")]


def build(
    folder: Folder,
    encoder: Encoder,
    file: Texts,
    *,
    kind: Annotated[
        Literal["flat", "hnsw", "ivf", "ivf_pq", "int8", "binary"],
        Option(help="exact · neighbour graph · vectors in lists · small: codes in lists · bytes · bits"),
    ] = "flat",
    text: TextColumn = None,
    id_column: IdColumn = None,
    metadata: Metadata = None,
    table: TableOptions = AS_IT_LOOKS,
    tokens: Annotated[
        Literal["characters", "jieba"],
        Option(help="Chinese terms of BM25: characters and character pairs, or words"),
    ] = "characters",
    truncate_dim: TruncateDim = None,
    prompt_name: PromptName = None,
    prompt: Prompt = None,
    long_texts: LongTexts = "cut",
    chunk_tokens: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="split each text into passages of at most N tokens",
            show_default="texts are whole",
        ),
    ] = None,
    overlap: Overlap = None,
    late: Annotated[
        bool,
        Option(
            "--late",
            help="pool passages from one pass over the whole text (late chunking, needs pooling=mean)",
        ),
    ] = False,
    backend: Backend = BackendName.TORCH,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    workers: Workers = None,
    cache: Cache = None,
) -> None:
    """Builds an index of the texts of a file in a new folder.

    Search returns exact scores of the encoder for every kind. Only flat compares all texts. To resume an interrupted
    build, repeat the command.

    Truncated texts are counted. --long-texts chunk stores one vector per whole text, --chunk-tokens one per passage.
    Later texts and queries are read in the same way.

    juzhen index build indexes/faq runs/NAME faq.csv --text question --id number --metadata answer
    juzhen index build indexes/laws runs/NAME laws.jsonl --id title --chunk-tokens 100 --overlap 20
    """
    if chunk_tokens is not None and long_texts == "chunk":
        raise UserError(
            "--long-texts chunk and --chunk-tokens exclude each other. Store one vector per text, or one per passage"
        )
    if overlap is not None and chunk_tokens is None and long_texts == "cut":
        raise UserError(
            "--overlap needs --chunk-tokens N or --long-texts chunk. Add one, or leave --overlap out"
        )
    if late and chunk_tokens is None:
        raise UserError("--late needs --chunk-tokens N. Add it, or leave --late out")
    if late and (backend != BackendName.TORCH or workers is not None):
        raise UserError(
            "--late needs token states, which --backend and --workers do not return. Leave them out"
        )
    if chunk_tokens is not None and cache is not None:
        raise UserError("--cache does not store vectors of passages. Leave it out")
    rows = _read(file, table, text=text, id_column=id_column, metadata=metadata)
    from juzhen.index.writing import PassageSettings
    from juzhen.index.writing import build as build_index

    loaded = _loaded(encoder)
    if chunk_tokens is None:
        loaded = loaded.with_long_texts(long_texts, overlap)
    encoding = _encoding(loaded, backend, batch_tokens, workers, cache)
    with collected() as seen:
        done = build_index(
            folder,
            loaded,
            rows,
            name=encoder,
            kind=kind,
            dim=truncate_dim,
            prompt_name=prompt_name,
            prompt=prompt,
            tokens=tokens,
            passages=None if chunk_tokens is None else PassageSettings(chunk_tokens, overlap or 0, late),
            encoding=encoding,
        )
    if done:
        print(f"went on behind {counted(done, 'texts')} that were there", file=sys.stderr)
    print(f"{counted(len(rows.texts), 'texts')}{_dropped(rows)}: {folder}")
    seen.show(WHOLE)


def add(
    folder: Folder,
    encoder: Encoder,
    file: Texts,
    *,
    text: TextColumn = None,
    id_column: IdColumn = None,
    metadata: Metadata = None,
    table: TableOptions = AS_IT_LOOKS,
    backend: Backend = BackendName.TORCH,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    workers: Workers = None,
    cache: Cache = None,
) -> None:
    """Adds the texts of a file to an index, all or none. A text with a known id replaces the old one.

    When the verb ends, the texts are on disk. An encoder with other weights is refused. --cache stores vectors, so that
    an interrupted command can be repeated cheaply.

    juzhen index add indexes/faq runs/NAME more.csv --text question --id number --metadata answer
    """
    rows = _read(file, table, text=text, id_column=id_column, metadata=metadata)
    from juzhen.index.writing import add as add_rows

    loaded = _loaded(encoder)
    encoding = _encoding(loaded, backend, batch_tokens, workers, cache)
    with collected() as seen:
        replaced = add_rows(folder, loaded, rows, encoding=encoding)
    new = f", in the place of {replaced:,}" if replaced else ""
    print(f"added {counted(len(rows.texts), 'texts')}{new}{_dropped(rows)}: {folder}")
    seen.show(WHOLE)


def remove(
    folder: Folder,
    ids: Annotated[
        list[str] | None, Argument(help="ids of texts, or their numbers if the index has no ids")
    ] = None,
    *,
    file: Annotated[
        Path | None, Option(help="file with one id per line, or a table with a column of ids")
    ] = None,
    id_column: IdColumn = None,
    columns: Columns = None,
    header: Header = None,
    sheet: Sheet = None,
) -> None:
    """Removes the texts with these ids from an index, all or none.

    juzhen index remove indexes/faq 17 18
    juzhen index remove indexes/faq --file gone.csv --id number
    """
    from juzhen.data.tables import TableReading, parse_columns
    from juzhen.index.writing import read_ids

    reading = TableReading({"id": id_column} if id_column else parse_columns(columns), header, sheet=sheet)
    if file is None:
        reading.require_unread("a list of ids", "Name a table by --file, or leave it out")
    names = [*(ids or []), *(read_ids(file, reading) if file else [])]
    if not names:
        raise UserError("no ids given. Type ids of texts, or --file with one per line")
    from juzhen.index.writing import remove as remove_ids

    remove_ids(folder, list(dict.fromkeys(names)))
    print(f"removed {len({*names}):,} texts: {folder}")


def search(
    folder: Folder,
    queries: Annotated[list[str], Argument(help="one or more texts")],
    *,
    encoder: Annotated[
        str | None,
        Option(metavar="RUN", help="encoder for the queries", show_default="the encoder of the build"),
    ] = None,
    mode: Annotated[
        Literal["dense", "bm25", "hybrid"], Option(help="vectors · shared terms · both ranks")
    ] = "dense",
    top_k: Annotated[int, Option(min=1, max=1000, help="number of results per query")] = 10,
    filter: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE…", help="required metadata of a result")
    ] = None,
    rerank: Annotated[
        str | None, Option(metavar="RUN", help="cross-encoder that reranks the best 50")
    ] = None,
    per_document: Annotated[
        bool, Option("--per-document", help="show only the best passage of each document")
    ] = False,
    prompt_name: Annotated[
        str | None, Option(help="name of a prompt for the queries", show_default="the query prompt")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="print one JSON object per query, with metadata")] = False,
) -> None:
    """Finds the texts of an index that are nearest to a query.

    juzhen index search indexes/faq 怎么退货 --mode hybrid --rerank runs/CE
    """
    if mode == "bm25" and (encoder or prompt_name):
        flag = "--encoder" if encoder else "--prompt-name"
        raise UserError(f"{flag}: --mode bm25 counts terms and encodes no query. Leave out one of the two")
    refuse_file_names(queries, "Type the texts of the queries")
    without_hub()
    from juzhen.index.index import RERANKED, Index, reranked

    with Index.open(folder) as opened:
        where = _where(filter or [], opened.view().facts["fields"])
        name = encoder or opened.view().facts["encoder"]
    try:
        loaded = None if mode == "bm25" else _loaded(name)
    except UserError as error:
        if encoder is not None:
            raise
        raise UserError(
            f"{folder}: its encoder {name} cannot be loaded. Give its new folder: --encoder RUN. ({error})"
        ) from error
    with Index.open(folder, loaded) as opened:
        depth = top_k if rerank is None else max(top_k, RERANKED)
        options: dict[str, Any] = {} if prompt_name is None else {"prompt_name": prompt_name}
        found = opened.search(queries, depth, mode=mode, where=where, per_document=per_document, **options)
    if where and not any(found):
        print(f"--filter {' '.join(filter or [])}: nothing was found with this metadata", file=sys.stderr)
    if rerank is not None:
        from juzhen.encoders import CrossEncoder

        found = reranked(CrossEncoder.load(rerank), queries, found, top_k)
    for query, hits in zip(queries, found, strict=True):
        if as_json:
            records = [hit.as_dict() for hit in hits]
            print(json.dumps({"query": query, "hits": records}, ensure_ascii=False))
            continue
        if len(queries) > 1:
            print(query)
        for hit in hits:
            span = "" if hit.span is None else f"  {hit.span[0]}–{hit.span[1]}"
            print(f"{hit.score:8.4f}  {hit.id}{span}  {' '.join(hit.text.split())}")


def info(folder: Folder) -> None:
    """Shows texts, encoder, kind and size of an index, and verifies that its texts and vectors are those stored.

    juzhen index info indexes/faq
    """
    from juzhen.index.derived_files import verify
    from juzhen.index.index import Index, facts_of

    with Index.open(folder) as opened:
        facts = facts_of(opened)
        verify(opened.store)
    width = max(map(len, facts))
    print("\n".join(f"{name:{width}}  {value}" for name, value in facts.items()))


def push(
    folder: Folder,
    address: Annotated[
        str, Argument(help="http://HOST:PORT/COLLECTION, or qdrant:FOLDER/COLLECTION without a server")
    ],
) -> None:
    """Copies an index to a collection of Qdrant, for juzhen serve --index ADDRESS. Repeat it after changes.

    juzhen index push indexes/faq http://127.0.0.1:6333/faq
    """
    from juzhen.index.qdrant import push as push_index

    sent, gone = push_index(folder, address)
    print(f"{counted(sent, 'texts')} sent, {gone:,} taken away: {address}")


COMMANDS = {"build": build, "add": add, "remove": remove, "search": search, "info": info, "push": push}


def _loaded(encoder: str) -> Any:
    from juzhen.encoders import load_encoder

    return load_encoder(encoder).eval()


def _read(file: Path, table: TableOptions, **columns: Any) -> Any:
    """Read the texts of a file with their ids and metadata, and print notes about its columns."""
    from juzhen.index.writing import read_rows

    rows = read_rows(file, table.reading, **columns | {"metadata": columns["metadata"] or ()})
    print("".join(f"note: {note}\n" for note in rows.notes), end="", file=sys.stderr)
    without_hub()
    return rows


def _encoding(encoder: Any, backend: str, batch_tokens: int, workers: int | None, cache: Path | None) -> Any:
    from juzhen.index.writing import Encoding

    return Encoding(encoding_options(encoder, backend, batch_tokens, workers, cache), workers)


def _dropped(rows: Any) -> str:
    return f", {counted(rows.dropped, 'faulty rows')} left out" if rows.dropped else ""


def _where(filters: list[str], fields: list[str]) -> dict[str, list[Any]]:
    """Read the values of each name. One that spells JSON, such as a number, also counts as that value."""
    from juzhen.index.store import is_value

    where: dict[str, list[Any]] = {}
    for word in filters:
        name, is_pair, value = word.partition("=")
        if not is_pair:
            raise UserError(
                f"--filter {word}: not NAME=VALUE. Names are {', '.join(fields) or 'none: there is no metadata'}"
            )
        where.setdefault(name, []).append(value)
        try:
            spelt = json.loads(value)
        except ValueError:
            continue
        where[name] += [spelt] if is_value(spelt) else []
    return where
