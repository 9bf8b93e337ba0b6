"""`juzhen student`: a smaller encoder that begins with what a larger one knows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from juzhen.cli.arguments import SEED, VerbParser, data_folder
from juzhen.core.commands import command, setting
from juzhen.core.errors import UserError
from juzhen.core.network import without_hub
from juzhen.core.owned import require_apart, require_ours, require_outside


def parser() -> VerbParser:
    parser = VerbParser(
        "student",
        description="Writes a smaller encoder made of a larger one, to be trained by distillation. With as many "
        "dimensions as the teacher it takes over every k-th layer. With fewer, its tokens begin where the teacher puts "
        "them as texts, and its layers begin by changing nothing.",
    )
    parser.add_argument("teacher", help="a run, or the folder of an encoder")
    parser.add_argument("folder", type=Path, help="where the student is written")
    parser.add_count(
        "--layers", "layers of the student", expected="at least 1 layer, such as 4", required=True
    )
    about = "size of its states (default: the teacher's)"
    parser.add_count("--dim", about, expected="a multiple of 64, such as 256")
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        help="what stands before each text that the teacher reads, such as 'query: ' (default: what its folder says); "
        "needs --dim below the teacher's",
    )
    about = "tokens that are kept: those that the texts of --dataset need most (default: all)"
    parser.add_count("--vocabulary", about, expected="some thousand tokens, such as 10000")
    parser.add_argument(
        "--tokenizer",
        help="folder of an encoder whose tokenizer is used instead; needs --dim below the teacher's",
    )
    about = "texts whose tokens are counted: text_tatoeba …"
    parser.add_argument("--dataset", nargs="+", default=[], metavar="SET", help=about)
    about = "tokens per sentence (default: the teacher's)"
    parser.add_count("--max-length", about, least=3, expected="at least 3 tokens, such as 128")
    parser.add_seed(of="weights that are not the teacher's")
    parser.add_data_dir()
    parser.add_config_dir()
    parser.add_on_bad_row()
    return parser


def run(
    teacher: str | Path,
    folder: Path,
    *,
    layers: int,
    dim: int | None = None,
    prompt: str | None = None,
    vocabulary: int | None = None,
    tokenizer: str | Path | None = None,
    dataset: Sequence[str] = (),
    max_length: int | None = None,
    seed: int = SEED,
    data_dir: Path | None = None,
    config_dir: Path | None = None,
    on_bad_row: str = "error",
) -> None:
    """Reads the teacher and the texts, makes the student, writes it, and says how to go on."""
    without_hub()
    from juzhen.encoders.locate import encoder_source

    require_apart(folder, *(encoder_source(one) for one in (teacher, tokenizer) if one is not None))
    require_outside(folder)
    require_ours(folder)
    from juzhen.distill.student import student_of
    from juzhen.encoders.bundle import load_encoder, save_encoder
    from juzhen.mining.sets import read_set

    texts: list[str] = []
    where: dict[str, Any] = {"data_dir": data_folder(data_dir), "config_dir": config_dir}
    for name in dataset:
        _, examples = read_set(name, "train", on_bad_row=on_bad_row, **where)
        texts += list(examples.sentences)
    encoder = load_encoder(teacher).eval()
    size = encoder.backbone.config.hidden_size
    if prompt is not None and dim in (None, size):
        raise UserError(
            "--prompt: a student as wide as its teacher takes over the teacher's layers, and nothing is read for that; "
            f"say --dim below {size}, or leave --prompt out"
        )
    student = student_of(
        encoder if prompt is None else encoder.with_prompt(prompt=prompt),
        layers=layers,
        dim=dim,
        vocabulary=vocabulary,
        texts=texts,
        tokenizer=None if tokenizer is None else load_encoder(tokenizer).tokenizer,
        max_length=max_length,
        seed=seed,
    )
    save_encoder(student, folder, card={"name": folder.name, "begins_as": f"a student of {teacher}"})
    numbers = sum(one.numel() for one in student.backbone.parameters())
    print(
        f"{folder}: {layers} layers of {student.dim}, {len(student.tokenizer):,} tokens, "
        f"{numbers / 1e6:.1f} million numbers"
    )
    if encoder.score_head is not None:
        print("the teacher's form uᵀWv is left out: pairs of the student are scored by the cosine")
    words = (
        "model=distill",
        setting("model.teacher", teacher),
        "backbone=local",
        setting("backbone.path", folder),
    )
    print(f"teach it:\n  {command('python', 'train.py', *words, more=['…'])}")
