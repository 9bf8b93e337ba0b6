"""Jobs with augmentation: what is learnt, that it is the same again, what decides the key, and wrong numbers."""

import pytest
from jobs import key_of, run_job, typed_job, weights

from juzhen.core.result import Result
from juzhen.identity import deciding_augmentation

JOB = ("debug_rows=24", "training.duration=3 steps", "seed=3")
NOISE = ("augmentation=noise", "augmentation.delete=0.3")


@pytest.mark.parametrize(
    "model", [(), ("model=crossencoder", "loss=bce", "dataset=[demo_qmc]")], ids=["bi", "cross"]
)
@pytest.mark.slow
def test_a_job_learns_something_else_and_the_same_again(model, tmp_path, tiny_backbone):
    plain, changed, again = (
        run_job(tmp_path / name, tiny_backbone, *JOB, *model, *words)
        for name, words in (("plain", ()), ("changed", NOISE), ("again", (*NOISE, "hardware.num_workers=1")))
    )
    assert weights(changed) == weights(again) != weights(plain)
    assert Result.read(changed).data == Result.read(plain).data  # the same rows, labels and evaluation
    assert Result.read(changed).config["augmentation"]["views"] == ["delete", "repeat"]


@pytest.mark.slow
def test_translations_are_learnt_from_with_their_labels(tmp_path, tiny_backbone, project_root):
    lines = (
        (project_root / "juzhen/builtin/data/demo_sts/train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    )
    firsts = sorted({line.split("\t")[0] for line in lines})
    path = tmp_path / "back.tsv"
    path.write_text("".join(f"{text}\t换了一种说法{text}\n" for text in firsts), encoding="utf-8")
    words = ("augmentation=translation", f"augmentation.translations={path}")
    runs = [run_job(tmp_path / str(len(one)), tiny_backbone, *JOB, *one) for one in ((), words)]
    assert weights(runs[0]) != weights(runs[1])


def test_the_key_knows_what_is_changed_and_nothing_else():
    plain, noise = key_of(), key_of("augmentation=noise")
    assert key_of("augmentation.delete=0.2", "augmentation.probability=0.1") == plain  # they change nothing
    assert noise != plain
    assert key_of("augmentation=noise", "augmentation.shuffle=9") == noise
    assert key_of("augmentation=noise", "augmentation.delete=0.2") != noise


def test_a_file_of_translations_counts_by_what_it_says(tmp_path):
    paths = [tmp_path / name for name in ("one.tsv", "two.tsv", "three.tsv")]
    for path, text in zip(paths, ("一\t二\n", "一\t二\n", "一\t三\n"), strict=True):
        path.write_text(text, encoding="utf-8")
    settings = {"views": ["translation"], "probability": 0.5, "sets": None}
    one, two, three = (deciding_augmentation(settings | {"translations": str(path)}) for path in paths)
    assert one == two != three


@pytest.mark.slow
def test_what_learns_nothing_is_left_alone(tmp_path, tiny_backbone):
    """A row of a table that trains nothing stays possible in a sweep that augments."""
    run = run_job(tmp_path, tiny_backbone, *NOISE, "dataset=[]", "benchmark=demo", "debug_rows=24")
    assert Result.read(run).trained_on == []


@pytest.mark.slow
def test_every_option_has_the_numbers_of_none():
    names = ("none", "synonym", "noise", "sentence_order", "translation")
    numbers = {name: vars(typed_job("benchmark=none", f"augmentation={name}").augmentation) for name in names}
    assert numbers["none"].pop("views") == []
    for name, one in numbers.items():
        assert {key: value for key, value in one.items() if key != "views"} == numbers["none"], name
