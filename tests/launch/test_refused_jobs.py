"""Jobs that cannot be meant, and files and losses of others that a job cannot use, are refused with the way out."""

from types import SimpleNamespace

import pytest
import test_own_loss as own_loss
import test_set_files as set_files
from forks import ROOT
from jobs import run_job
from refusals import each, rows
from test_odd_words import NUMBERS
from test_own_loss import package  # noqa: F401
from test_stages import UNMEANT, plans
from test_start_comparison import UNCOMPARED

from juzhen.core.errors import UserError
from juzhen.data.loading import look_at_data
from launch.check import check_command_line
from launch.run_folder import require_free_space
from lightning_modules.loss_factory import match_losses


def checked(*words):
    return check_command_line(words, conf_dir=ROOT / "conf").job


def compared(f, words):
    run_job(f.tmp_path, f.tiny_backbone, *(word.format(encoder=f.encoder_folder) for word in words))


def file_as_folder(f):
    place = f.tmp_path / "data"
    place.touch()
    look_at_data(checked(f"data_dir={place}", "dataset=[csts]", "source=local"), unscored={})


def without_space(f):
    f.monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=3 * 2**20))
    require_free_space(f.tmp_path, needed_bytes=3 * 2**20)
    require_free_space(f.tmp_path, needed_bytes=5 * 2**20)


def with_package(f, call):
    assert f.package.is_dir()
    call()


REFUSED = {
    "a stage": each(lambda f, overrides: plans(*overrides), UNMEANT),
    "a number of a model": each(
        lambda f, words: match_losses(checked(*words, "dataset=[demo_qmc]")),
        [(words, words[-1]) for words in NUMBERS],
    ),
    "a comparison": each(compared, [(words, f"^{named}") for words, named in UNCOMPARED]),
    "a place": [(file_as_folder, "a file"), (without_space, r"\b3 MiB free.* 5 MiB")],
    "a set": each(
        lambda f, words: checked("dataset=[demo_qmc]", "benchmark=demo", words),
        [
            (f"{key}=null", rf"^{key}=null: .*~{key}")
            for key in ("dataset.demo_qmc", "evaluate.demo_qmc", "evaluate.demo_sts")
        ],
    ),
    "a loss of others": each(with_package, own_loss.REFUSED.values()),
    "a set file": each(lambda f, call: call(f.tmp_path), set_files.REFUSED.values()),
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED, sampled={"a stage": 3}))
def test_what_a_job_cannot_use_is_refused_with_the_way_out(f, call, words):
    with pytest.raises(UserError, match=words) as caught:
        call(f)
    assert "\n" not in str(caught.value).replace("a\nb", "")
