"""Known leaks of the real sets, counted by hand with plain sets of strings."""

import zstandard
from omegaconf import OmegaConf

from juzhen.data.leaks.matching import PairIndex, normalize
from juzhen.data.rows import ConfiguredSets


def read(project_root, real_data):
    return ConfiguredSets(project_root / "conf" / "dataset", real_data)


def raw_pairs(path):
    text = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read().decode()
    return [line.split("\t")[:2] for line in text.rstrip("\n").split("\n")[1:]]


def test_atec_and_afqmc_give_each_other_away(project_root, real_data):
    sets = read(project_root, real_data)
    dev = [sets.load("afqmc", "dev"), sets.load("atec", "dev")]
    index = PairIndex(dev)
    on_afqmc, on_atec = index.search(sets.load("atec", "train"))
    assert [len(rows) for rows in on_afqmc.rows()] == [1889, 0]
    # 花唄什麼意思 and 花呗-什么意思: the scripts are one, the signs between are not.
    assert [len(rows) for rows in on_atec.rows()] == [0, 3]
    _, on_atec = index.search(sets.load("afqmc", "train"))
    assert [len(rows) for rows in on_atec.rows()] == [6715, 0]


def test_csts_as_counted_with_sets_of_strings(project_root, real_data):
    sets = read(project_root, real_data)
    seen = {frozenset(map(normalize, pair)) for pair in raw_pairs(real_data / "csts" / "train.tsv.zst")}
    expected = [
        row
        for row, pair in enumerate(raw_pairs(real_data / "csts" / "dev.tsv.zst"))
        if frozenset(map(normalize, pair)) in seen
    ]
    train, dev = sets.load("csts", "train"), sets.load("csts", "dev")
    exact, near = PairIndex([dev]).search(train)[0].rows()
    assert exact.tolist() == expected
    assert len(expected) == 20
    assert len(near)


def test_the_configured_sets_are_those_of_conf(project_root, real_data):
    sets = read(project_root, real_data)
    assert all(OmegaConf.load(path).name == key for key, path in sets.files.items())
