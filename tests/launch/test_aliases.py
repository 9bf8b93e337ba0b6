"""Names of other toolkits are answered with ours, from every entry point; encoders load as they are typed."""

import importlib
import re

import pytest
import torch
from forks import ROOT
from jobs import compose_job, key_of, typed_job

from conf.job import JobConfig
from juzhen import fit
from juzhen.cli.main import main
from juzhen.cli.verbs import VERBS, flags, known_verbs
from juzhen.core import aliases
from juzhen.core.aliases import (
    OF_GROUPS,
    OPTIONS,
    SETTINGS,
    current_flags,
    option_meant,
    plain,
    with_current_keys,
    with_old_keys,
    with_old_options,
)
from juzhen.core.errors import UserError
from juzhen.core.safe_open import read_yaml
from juzhen.data.spec import require_set
from juzhen.identity import stage_settings
from juzhen.losses import binary_cross_entropy
from juzhen.mining import MiningOptions
from juzhen.serving.models import open_corpus
from juzhen.training import fit as fitting
from launch.check import check_command_line
from launch.job import deciding_settings, run_key
from launch.overrides import with_backbone, with_current_names

CONF = ROOT / "conf"
GROUPS = ("loss", "model", "backbone", "dataset", "hardware", "sweep", "schedule", "logger")
ROWS = [("怎么退货", "东西想退掉", 1.0), ("怎么退货", "何时发货", 0.0)]


def command(*words):
    return check_command_line([*words, "benchmark=none"], conf_dir=CONF)


def options(group):
    return {path.stem for path in (CONF / group).glob("*.yaml")}


def test_each_target_is_a_word_that_can_be_typed():
    settings = {
        key
        for path in CONF.rglob("*.yaml")
        for key in re.findall(r"^ *(\w+):", path.read_text("utf-8"), re.M)
    }
    settings |= {*JobConfig.__dataclass_fields__, *(folder.name for folder in CONF.iterdir()), "data"}
    for group, names in OF_GROUPS.items():
        for name, target in names.items():
            assert not any(plain(option) == name for option in options(group)), (
                f"{name} is an option of {group}"
            )
            for owner, value in re.findall(rf"\b({'|'.join(GROUPS)})=(\w+)", target):
                assert value in options(owner), target
    for name, target in SETTINGS.items():
        assert name == plain(name)
        assert name not in JobConfig.__dataclass_fields__
        for key in re.findall(r"\b([\w.]+)=", target):
            assert key.rpartition(".")[2] in settings, target
    for name, target in aliases.VERBS.items():
        assert name not in VERBS
        assert {*re.findall(r"juzhen (\w+)", target)} <= {*VERBS}, target
    every = {flag for verb in known_verbs() for flag in flags(verb)}
    missing = {flag for targets in OPTIONS.values() for flag in targets} - every
    assert not missing or {*VERBS} - {*known_verbs()}  # a deleted room takes its options with it
    for table in (aliases.VERBS, OPTIONS, *OF_GROUPS.values()):
        assert [name for name in table if name != plain(name)] == []


@pytest.mark.parametrize("path", ["builtin/mini_zh@2", "builtin/encoder"])
def test_an_encoder_loads_by_its_path(path, tmp_path, monkeypatch):
    (tmp_path / "own").symlink_to(ROOT / "juzhen" / path)
    monkeypatch.chdir(tmp_path)
    for typed in (path, "own", "./own", str(tmp_path / "own")):
        shown = command(f"backbone={typed}")
        assert run_key(shown.config) == key_of("backbone=local", f"backbone.path={typed}"), typed
    assert command("backbone=builtin/mini_zh").job.backbone.path == "builtin/mini_zh@2"
    assert command("backbone=mini_zh").job.backbone.name == "mini_zh"  # an option counts first


def test_a_model_of_the_hub_loads_by_its_id(capsys):
    shown = command("backbone=BAAI/bge-small-zh-v1.5")
    assert run_key(shown.config) == key_of("backbone=local", "backbone.path=BAAI/bge-small-zh-v1.5")
    assert "backbone=bge_small_zh" in capsys.readouterr().err
    several = command("-m", "backbone=BAAI/bge-small-zh-v1.5,builtin/encoder").job
    assert several.backbone.path == "BAAI/bge-small-zh-v1.5"
    assert with_backbone(["backbone='a, b/c'"]) == ["backbone=local", 'backbone.path="a, b/c"']
    for word in ("backbone=mini_zh", "backbone=mini_zh,random_small", "~backbone", "backbone=null"):
        assert with_backbone([word]) == [word]


def test_options_of_a_tree_of_ones_own_may_lie_in_folders(tmp_path):
    (tmp_path / "backbone" / "team").mkdir(parents=True)
    (tmp_path / "backbone" / "team" / "mine.yaml").touch()
    assert with_backbone(["backbone=team/mine"], trees=[CONF, tmp_path]) == ["backbone=team/mine"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["train"], "train.py"),
        (["search"], "juzhen index search"),
        (["rank"], "juzhen index search --rerank"),
        (["threshold"], "juzhen score --threshold"),
        (["index", "search", "x", "y", "--top", "3"], "--top-k"),
        (["evaluate", "runs", "--k", "3"], "--top"),
        (["leaks", "--train", "bqcorpus"], "Type bq"),
        (["serve", "builtin/mini_zh", "--workers", "2"], "--processes"),
        (["serve", "builtin/mini_zh", "--max-batch-tokens", "512"], "--batch-tokens"),
        (["serve", "builtin/mini_zh", "--served-model-name", "faq"], "--name"),
    ],
)
def test_verbs_and_options_of_others_are_answered_with_ours(words, meant, capsys):
    assert main(words) == 2
    assert meant in capsys.readouterr().err


def test_losses_of_fit_go_by_the_options_of_the_suite_too():
    named = {
        read_yaml(path)["name"]: read_yaml(path)["_target_"].rpartition(".")[2]
        for path in (CONF / "loss").glob("[!b]*.yaml")
    }
    kinds = fitting._losses()
    for name, of_class in named.items():
        if of_class in kinds:
            assert fitting.named_loss(name) is kinds[of_class], name


SLIPS = [
    ("model=bert", "backbone=bert_en"),
    ("backbone=bert", "bert_zh"),
    ("dataset=demo_sts,", "'dataset=[demo_sts,"),
    ("dataset=nothing", "unknown set"),
    ("loss=BatchHardTripletLoss", "triplet_soft_margin"),
    ("loss=SparseMultipleNegativesRankingLoss", "model=splade loss=info_nce"),
    ("loss=MegaBatchMarginLoss", "triplet_online"),
    ("loss=DenoisingAutoEncoderLoss", "model=views loss=info_nce"),
    ("loss=ContrastiveTensionLoss", "simcse"),
    ("loss=ContrastiveTensionLossInBatchNegatives", "simcse"),
    ("loss=CSRLoss", "matryoshka"),
]
CALLS = [
    (lambda table: fit("builtin/encoder", ROWS, loss="mnrl"), "info_nce"),
    (lambda table: fit("builtin/encoder", ROWS, loss="MultipleNegativesRankingLoss"), "info_nce"),
    (lambda table: fit("builtin/encoder", ROWS, loss="tripplet"), "triplet"),
    (lambda table: fit("builtin/encoder", ROWS, loss=type("CachedGISTEmbedLoss", (), {})), "info_nce_guided"),
    (lambda table: fit("builtin/encoder", ROWS, loss=type("CoSENTLoss", (), {})()), "'CoSENT'"),
    (lambda table: open_corpus(table, None), "juzhen index build … --columns text=a"),
    (lambda table: require_set("set", "bqcorpus", ["csts"]), "Known: csts"),  # it is not proposed
    *((lambda table, word=word: command(word), re.escape(meant)) for word, meant in SLIPS),
    *(
        (
            lambda table, word=word: fit("builtin/mini_zh", ROWS, loss=word.removeprefix("loss=")),
            re.escape(meant),
        )
        for word, meant in SLIPS
        if word.startswith("loss=")
    ),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_a_function_that_is_given_another_toolkits_word_names_ours(call, words, tmp_path):
    path = tmp_path / "three.csv"
    path.write_text("a,b,c\n今天,天气,好\n你好,吗,嗯\n", "utf-8")
    with pytest.raises(UserError, match=words):
        call(path)


@pytest.fixture
def faulty(tmp_path):
    """A folder of data in which a row of demo_qmc has no text, and a configuration that reads it."""
    description = (
        (CONF / "dataset" / "demo_qmc.yaml").read_text("utf-8").replace("source: builtin", "source: local")
    )
    description = re.sub(r"^rows: .*$", "rows: {train: null, dev: null, test: null}", description, flags=re.M)
    (tmp_path / "conf" / "dataset").mkdir(parents=True)
    (tmp_path / "conf" / "dataset" / "faulty.yaml").write_text(
        description.replace("demo_qmc", "faulty"), "utf-8"
    )
    (tmp_path / "faulty").mkdir()
    for split in ("train", "dev", "test"):
        lines = "sentence1\tsentence2\tlabel\n怎么退货\t东西想退掉\t1\n\t何时发货\t0\n"
        (tmp_path / "faulty" / f"{split}.tsv").write_text(lines, "utf-8")
    return ["--data-dir", str(tmp_path), "--config-dir", str(tmp_path / "conf")]


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        (["export", "{encoder}", "out", "--format", "static", "--sets", "faulty"], None),
        (["distill", "builtin/mini_zh", "faulty", "--out", "new.tsv"], "--on-bad-row drop"),
        (["mine", "faulty", "bm25", "--out", "new.tsv"], "--on-bad-row drop"),
    ],
)
def test_a_message_names_an_option_of_this_verb_or_none(
    faulty, words, way_out, encoder_folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main([*(word.format(encoder=encoder_folder) for word in words), *faulty]) == 2
    said = capsys.readouterr().err
    assert "tsv:3:" in said
    assert "on_bad_row" not in said
    assert way_out in said if way_out else "on-bad-row" not in said


def test_keys_and_groups_of_0_2_are_taken_with_a_notice_and_make_the_same_run(capsys, tmp_path):
    text = (CONF / "dataset" / "demo_nli.yaml").read_text(encoding="utf-8")
    for name, line in (("now", "convert_to: triplet"), ("then", "view: triplet")):
        (tmp_path / name / "dataset").mkdir(parents=True)
        own = text.replace("convert_to: null", line).replace(
            "@package dataset.demo_nli", "@package dataset.own"
        )
        own = own.replace("name: demo_nli", "name: own")
        (tmp_path / name / "dataset" / "own.yaml").write_text(own, encoding="utf-8")

    def key(*words, extra="now"):
        line = ["loss=info_nce", "mining=ance", *words, "--config-dir", str(tmp_path / extra)]
        command = check_command_line(line, conf_dir=CONF)
        assert {each.convert_to for each in command.job.dataset.values()} == {"triplet"}
        return run_key(command.config)

    today = key("benchmark=none", "dataset=[demo_nli]", "dataset.demo_nli.convert_to=triplet")
    assert "0.3" not in capsys.readouterr().err
    mining = "callbacks.mining.beside=true"
    assert key("suite=none", "dataset=[demo_nli]", "dataset.demo_nli.view=triplet", mining) == today
    notes = capsys.readouterr().err
    assert all(name in notes for name in ("suite is benchmark", "convert_to", "callbacks.mining.background"))
    words = ["benchmark=none", "dataset=[own]"]
    assert key(*words, extra="then") == key(*words, extra="now")
    assert "dataset.own.view" in capsys.readouterr().err


def test_the_digested_settings_of_a_run_keep_the_keys_of_0_2():
    words = ["dataset=[demo_qmc]", "dataset.demo_qmc.convert_to=triplet", "mining=ance", "loss=info_nce"]
    settings = deciding_settings(compose_job(*words))
    assert settings["dataset"]["demo_qmc"]["view"] == "triplet"
    stage = stage_settings(typed_job(*words), {}, {}, None)
    assert settings["callbacks"]["mining"]["beside"] is stage["callbacks"]["mining"]["beside"] is True


def test_options_of_mining_are_taken_by_their_earlier_names(capsys):
    with pytest.warns(DeprecationWarning, match="relative_margin"):
        options = MiningOptions(share=0.95, first_rank=3, negatives=2)
    assert options == MiningOptions(relative_margin=0.05, range_min=2, num_negatives=2)
    words = [
        "lcqmc",
        "--share",
        "0.9",
        "--first-rank=11",
        "--keep-out",
        "bq",
        "--share",
        "none",
        "--seed",
        "1",
    ]
    new = ["--relative-margin", "0.1", "--range-min=10", "--exclude-from", "bq", "--relative-margin", "none"]
    assert current_flags("mine", words) == ["lcqmc", *new, "--seed", "1"]
    assert current_flags("score", words) == words
    words = ["+callbacks.mining.share=0.9,null", "callbacks.mining.depth=5", "loss.margin=1"]
    new = ["+callbacks.mining.relative_margin=0.1,null", "callbacks.mining.range_max=5", "loss.margin=1"]
    assert with_current_names(words) == new
    told = capsys.readouterr().err
    assert all(name in told for name in ("--relative-margin", "callbacks.mining.range_max"))
    # Keys and digests of runs are made of the earlier names, in the order of the file.
    dynamic = with_old_keys({"callbacks": {"mining": read_yaml(CONF / "mining" / "dynamic.yaml")}})
    assert [*dynamic["callbacks"]["mining"].items()][5:] == [
        *{"negatives": 8, "hard_at_most": None, "beside": False, "until_easy": False, "sets": None}.items(),
        *{"stages": None, "depth": 100, "index": "exact", "first_rank": 1, "share": 0.95}.items(),
        *{"share_of": "lowest", "margin": None, "temperature": None}.items(),
    ]


def test_options_of_losses_are_taken_by_their_earlier_names(capsys):
    with pytest.warns(DeprecationWarning, match="label_smoothing"):
        binary_cross_entropy(torch.ones(2), torch.ones(2), smoothing=0.1)
    typed = ["loss=softmax", "loss.smoothing=0.1"]
    assert with_current_names(typed) == ["loss=softmax", "loss.label_smoothing=0.1"]
    assert "loss.label_smoothing" in capsys.readouterr().err
    assert with_current_names(["loss=mine", "loss.smoothing=0.1"]) == ["loss=mine", "loss.smoothing=0.1"]
    of_users = {"loss": {"_target_": "theirs.Loss", "smoothing": 0.1}}
    assert with_current_keys(of_users) == of_users
    for name, names in (
        ("softmax", {"label_smoothing": "smoothing"}),
        ("lambda_loss", {"weighting_scheme": "weighting"}),
        ("info_nce_weighted", {"hardness_strength": "hardness", "hardness_mode": "weigh"}),
    ):
        node = read_yaml(CONF / "loss" / f"{name}.yaml")
        before = {names.get(key, key): value for key, value in node.items()}
        assert with_current_keys({"loss": before}) == {"loss": node}
        assert [*with_old_options(node)] == [*before] != [*node]


def losses_of_sentence_transformers():
    pytest.importorskip("sentence_transformers", minversion="6.0")
    for kind in ("sentence_transformer", "cross_encoder", "sparse_encoder"):
        losses = importlib.import_module(f"sentence_transformers.{kind}.losses")
        yield from (name for name in dir(losses) if name.endswith("Loss"))


@pytest.mark.parametrize("edition", ["", ".zh"])
def test_every_loss_of_sentence_transformers_has_a_hint_and_a_row_of_the_migration_page(edition):
    page = (ROOT / f"docs/from/sentence_transformers{edition}.md").read_text("utf-8")
    for name in losses_of_sentence_transformers():
        assert option_meant("loss", name, options("loss")), name
        if not name.startswith(("Cached", "Sparse")):  # one row has all of these
            assert f"`{name}" in page, name


def test_words_for_the_subcommands_of_an_index_and_for_options_of_other_tools():
    for word, meant in {"build": "build", "add": "add", "delete": "remove", "query": "search"}.items():
        assert aliases.verb_meant(word) == f"juzhen index {meant}"
    for flag, known in {
        "--limit": "--top-k",
        "--index-type": "--kind",
        "--fp16": "--backend",
        "--instruction": "--prompt-name",
        "--negative-number": "--num-negatives",
        "--alpha": "--weights",
        "--onnx": "--format",
        "--languages": "--tasks",
    }.items():
        assert aliases.flag_meant(flag, ["--file", known]) == known
