"""What the tests compose with shared files is what Hydra composes, key for key and flag for flag."""

import compositions
import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf


def composed(folder, line):
    with initialize_config_dir(str(folder), version_base="1.3"):
        return compose("train", overrides=line.split(), return_hydra_config=True)


def nodes(node, path=""):
    """Every node below, with what OmegaConf keeps of it."""
    kept, parent = node._metadata, node._get_parent()
    yield path, type(node), kept.flags, kept.ref_type, kept.object_type, kept.optional, str(node._value())
    yield path, kept.key, None if parent is None else parent._metadata.key
    content = node._content if OmegaConf.is_config(node) else None
    for key, value in (content if isinstance(content, dict) else dict(enumerate(content or ()))).items():
        yield from nodes(value, f"{path}.{key}")


@pytest.mark.parametrize(
    "line",
    [
        "dataset=[demo_nli,demo_sts] schedule=serial loss=by_kind +dataset.demo_sts.limit=3 ~benchmark seed=3",
        "experiment=demo benchmark=none +dataset@evaluate.demo_order=demo_order callbacks=[] loss={temperature:2}",
    ],
)
def test_shared_files_change_nothing(line, project_root, monkeypatch):
    with monkeypatch.context() as plain:
        compositions.share_nothing(plain)
        expected = list(nodes(composed(project_root / "conf", line)))
    for _ in range(2):
        found = composed(project_root / "conf", line)
        assert list(nodes(found)) == expected
        found.seed = 77  # of the copy


def test_a_file_that_changes_is_read_again(tmp_path):
    (tmp_path / "loss").mkdir()
    (tmp_path / "train.yaml").write_text("defaults: [loss: one, _self_]\nseed: 1\n")
    for value in ("1", "20"):
        (tmp_path / "loss" / "one.yaml").write_text(f"margin: {value}\n")
        assert composed(tmp_path, "seed=2").loss.margin == int(value)
    with pytest.raises(HydraException):
        composed(tmp_path, "loss=two")
    (tmp_path / "loss" / "two.yaml").write_text("margin: 3\n")
    assert composed(tmp_path, "loss=two").loss.margin == 3
