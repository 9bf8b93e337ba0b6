"""`juzhen export` and `verify`: an encoder as a folder for other programs, and the comparison of its backends."""

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from juzhen.cli.options import ConfigDir, DataDir, Encoder, Numbers, data_folder
from juzhen.cli.program import FAILED_STATUS
from juzhen.core.atomic_write import write_json
from juzhen.core.errors import require_choice
from juzhen.core.file_guard import check_overwritable, require_apart, require_outside
from juzhen.core.machine import without_hub
from juzhen.core.text import counted
from juzhen.export.formats import PARITY, Format

SETS = ("demo_sts",)


def export(
    encoder: Encoder,
    out: Annotated[Path, Argument(metavar="OUT", help="folder to write")],
    *,
    format: Annotated[Format, Option(help="format of the export")] = Format.ONNX,
    dim: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="truncate embeddings to N dimensions and normalise again",
            show_default="all, or 256 for static",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        Option(
            metavar="SET…",
            help="sets whose dev split is scored before and after the export",
            show_default=SETS[0],
        ),
    ] = None,
    data_dir: DataDir = None,
    config_dir: ConfigDir = None,
    limit: Annotated[int, Option(min=2, help="rows of a dev split to score")] = 1000,
    allow_difference: Annotated[
        bool, Option("--allow-difference", help="keep an export that differs beyond the bound")
    ] = False,
) -> None:
    """Writes an encoder as one folder for another program, and verifies that it computes the same vectors.

    The folder holds tokenizer, weights and a card. Pooling and normalisation are inside the graph. parity.json reports
    the largest difference from transformers, a correlation before and after, and speed. An export in float32 may differ
    by 1e-5, one in 8 bits may lose 0.3 points. static reports its loss.

    juzhen export runs/NAME out/onnx --format onnx
    juzhen export runs/NAME out/small --format onnx-int8 --dim 128 --sets csts lcqmc --data-dir data
    """
    format.require_packages()
    check_overwritable(out, are_folders=True)
    require_outside(out)
    require_apart(out, encoder)
    without_hub()
    from juzhen.core.paths import DATASETS
    from juzhen.core.progress import console_table, for_people
    from juzhen.data.spec import configured_set, described_sets, read_description
    from juzhen.export import export_encoder
    from juzhen.families.registry import open_weights

    files = described_sets(DATASETS, config_dir)
    chosen = [
        read_description(files[name]) if name in files else configured_set(name) for name in sets or SETS
    ]
    loaded = open_weights(encoder)
    proof = export_encoder(
        loaded,
        out,
        format,
        dim=dim,
        sets=chosen,
        data_dir=data_folder(data_dir),
        limit=limit,
        name=Path(encoder).name,
        allow_difference=allow_difference,
    )
    if console := for_people():
        head = ["", "encoder", f"export, by {proof.by}"]
        console.print(console_table(head, proof.rows(), numbers=head[1:]))
    else:
        print(proof.markdown())
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    print(
        f"{proof.words()}\n{out}: {size / 1e6:.1f} MB. Usage: README.md. Comparison with the encoder: {PARITY}"
    )


SHOWN = 40


def verify(
    encoder: Encoder,
    file: Annotated[
        Path | None,
        Argument(
            metavar="FILE.txt",
            help="texts, one per line",
            show_default="texts of all lengths, some with special tokens",
        ),
    ] = None,
    *,
    beside: Annotated[
        list[str] | None,
        Option(
            "--with", metavar="ADDRESS…", help="servers with OpenAI's protocol, or folders of juzhen export"
        ),
    ] = None,
    ways: Annotated[
        list[str] | None,
        Option(
            metavar="NAME…",
            help="backends to compare: torch-padded, torch, onnx, …, sentence-transformers",
            show_default="all",
        ),
    ] = None,
    key_variable: Annotated[
        str, Option(metavar="NAME", help="environment variable with the API key of the servers")
    ] = "JUZHEN_API_KEY",
    json: Numbers = None,
) -> None:
    """Embeds the same texts with every installed backend, and compares each with transformers, one text at a time.

    Backends are torch with and without padding, ONNX and OpenVINO, sentence-transformers, servers and exports. If one
    differs beyond rounding, the verb shows the first such text and a known reason: prompt, special tokens, truncation,
    normalisation, pooling, order, precision.

    The exit status is 1 if texts differ by more than the precision of a backend explains, if a server or an export
    fails, or if nothing could be computed.

    juzhen verify runs/NAME --with http://127.0.0.1:8000
    juzhen verify runs/NAME texts.txt --with out/onnx out/int8
    """
    from juzhen.data.tables import text_values

    if json is not None:
        check_overwritable(json)
    texts = None if file is None else text_values(file)
    without_hub()
    from juzhen.core.progress import console_table, for_people
    from juzhen.core.text import markdown_table
    from juzhen.export.backend_comparison import BACKENDS, compare_backends, is_server
    from juzhen.export.loaders import RemoteServer
    from juzhen.export.verification import proof_texts, special_texts
    from juzhen.families.registry import open_weights

    for address in filter(is_server, beside or ()):
        RemoteServer(address, os.environ.get(key_variable))  # asks at once whether it is there
    loaded = open_weights(encoder)
    if texts is None:
        texts = [*proof_texts(loaded.inner), *special_texts(loaded.inner)]
    for name in ways or ():
        require_choice("--ways", name, BACKENDS)
    results = compare_backends(
        loaded,
        texts,
        beside=beside or (),
        key=os.environ.get(key_variable),
        only=ways,
        on_way=lambda name: print(f"{name} …", file=sys.stderr),
    )
    head = ["way", "largest difference", "texts that differ", "the first one", "reason"]
    rows = [
        [
            way.name,
            ("failed" if way.failed else "left out") if way.largest is None else f"{way.largest:.1e}",
            "" if way.largest is None else f"{way.differing:,}",
            "" if way.text is None else _beginning(way.text),
            way.reason,
        ]
        for way in results
    ]
    if console := for_people():
        console.print(console_table(head, rows, numbers=head[1:3]))
    else:
        print(markdown_table(head, rows, numbers=(1, 2)))
    print(f"{counted(len(texts), 'texts')}, compared with transformers, one text at a time")
    if json is not None:
        write_json(json, [way.as_dict() for way in results])
    none_computed = all(way.largest is None for way in results)
    if none_computed or any(way.failed for way in results):
        raise Exit(FAILED_STATUS)


def _beginning(text: str) -> str:
    """Shorten a text to one line."""
    line = " ".join(text.split()) or repr(text)
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"
