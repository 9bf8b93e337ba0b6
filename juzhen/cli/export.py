"""`juzhen export`: an encoder as a folder for other programs, with a verification report."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from juzhen.cli.options import ConfigDir, DataDir, Encoder, data_folder
from juzhen.core.file_guard import check_overwritable, require_apart, require_outside
from juzhen.core.process import without_hub
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
    check_overwritable(out)
    require_outside(out)
    require_apart(out, encoder)
    without_hub()
    from juzhen.core.paths import DATASETS
    from juzhen.data.spec import configured_set, described_sets, read_description
    from juzhen.export import export_encoder
    from juzhen.families.registry import find_family
    from juzhen.report.terminal import console_table, for_people

    files = described_sets(DATASETS, config_dir)
    chosen = [
        read_description(files[name]) if name in files else configured_set(name) for name in sets or SETS
    ]
    loaded = find_family(encoder).load(encoder)
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
    print(f"{proof.words()}\n{out}: {size / 1e6:.1f} MB; how to open it: README.md; the proof: {PARITY}")
