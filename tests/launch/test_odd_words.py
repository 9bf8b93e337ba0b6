"""Words of a job that name several things, a folder, or a sign of another keyboard: each answer says what to type."""

import pytest

from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT
from launch.check import check_command_line
from lightning_modules.loss_factory import match_losses


def refusal(*words):
    with pytest.raises(UserError) as caught:
        check_command_line(list(words), conf_dir=ROOT / "conf")
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["loss=[cosent,mse]"], "train.py -m loss=cosent,mse"),
        (["model=[biencoder,colbert]"], "train.py -m model=biencoder,colbert"),
        (["optimizer=sgd"], "optimizer.<key>=<value>"),
        (["optimizer.lr=1e\u22123"], "'optimizer.lr=1e-3'"),
        (["optimizer.lr=1e\u20133"], "'optimizer.lr=1e-3'"),
        (["学习率=1e-3"], "unknown key"),
    ],
)
def test_an_odd_word_is_answered_with_what_to_type(words, told):
    assert told in refusal(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["model=colbert", "loss=info_nce", "model.dim=0"],
        ["model=colbert", "loss=info_nce", "model.dim=99999"],
        ["model=crossencoder", "loss=bce", "model.head_dropout=1"],
    ],
)
def test_numbers_of_a_model_are_checked_before_its_weights(words):
    job = check_command_line([*words, "dataset=[demo_qmc]"], conf_dir=ROOT / "conf").job
    with pytest.raises(UserError, match=words[-1]):
        match_losses(job)


@pytest.mark.parametrize("word", ["data={}", "data={}/*.csv", "dataset={}"])
def test_a_folder_or_a_pattern_is_not_a_set(word, tmp_path):
    (tmp_path / "b.csv").write_text("text_a,text_b\n")
    (tmp_path / "a.bin").touch()
    said = refusal(word.format(tmp_path))
    assert "b.csv" in said or "data=<file>" in said


def test_a_file_is_not_called_a_missing_folder(tmp_path):
    from juzhen.data.loading import look_at_data

    place = tmp_path / "data"
    place.touch()
    job = check_command_line(
        [f"data_dir={place}", "dataset=[csts]", "source=local"], conf_dir=ROOT / "conf"
    ).job
    with pytest.raises(UserError, match="a file"):
        look_at_data(job, unscored={})
