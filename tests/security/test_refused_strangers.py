"""Code, names, secrets and odd files of strangers are refused by what was given, and nothing runs or changes."""

import json
import os
import re
import shutil
import socket
from types import SimpleNamespace

import pytest
import torch
from refusals import each, refused_by_status, rows, typed
from test_places import tree
from test_remote_code import plant
from test_secrets import PLAIN, SECRET, TOKEN

from callbacks.reporting import PruneOnDev
from callbacks.trial import TrialAddress
from conf import READABLE
from conf.own_classes import own_class
from juzhen import SentenceEncoder
from juzhen.cli.program import status_of
from juzhen.core import safe_open
from juzhen.core.calibration_files import is_fusion
from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.core.schema import ConfigError
from juzhen.core.secrets import REDACTED
from juzhen.data import source
from juzhen.data.readers import decompressed, read_table
from juzhen.data.spec import HubConfig, read_description
from juzhen.encoders import load_backbone
from juzhen.encoders.augmentation import Translations
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.resolve_path import check_files
from launch.check import check_command_line
from launch.job import check_target, read_job


def weights_listed(f, name):
    """A folder whose list of weights names that file; of a file of the same folder it is read."""
    folder = shutil.copytree(f.encoder_folder, f.tmp_path / "encoder")
    shutil.copy(folder / "model.safetensors", f.tmp_path)
    (folder / "a").mkdir()
    shutil.copy(folder / "model.safetensors", folder / "a")
    tensors = dict(SentenceEncoder.load(folder).backbone.state_dict())
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")

    def names(name):
        index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, name)}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    names("model-00001-of-00001.safetensors")
    SentenceEncoder.load(folder)
    names(name)
    return lambda: SentenceEncoder.load(folder)


def an_adapter_of_others(f):
    folder = shutil.copytree(f.encoder_folder, f.tmp_path / "encoder")
    description = {"base_model_name_or_path": "../other", "peft_type": "LORA"}
    (folder / "adapter_config.json").write_text(json.dumps(description))
    return lambda: SentenceEncoder.load(folder)


OF_A_CONFIG = {"auto_map": {"AutoConfig": "configuration_theirs.TheirConfig"}}
OF_A_TOKENIZER = {
    "tokenizer_class": "TheirTokenizer",
    "auto_map": {"AutoTokenizer": ["tokenization_theirs.TheirTokenizer", None]},
}
STRANGE = {
    "model": {"config": {"auto_map": OF_A_CONFIG["auto_map"] | {"AutoModel": "modeling_theirs.TheirModel"}}},
    "unknown": {"config": {}},
    "tokenizer": {"tokenizer_config": OF_A_TOKENIZER, "config": OF_A_CONFIG},
}


def of_strangers(f, name, initialize):
    """A backbone with code of its own; told is not how to run it."""
    folder = shutil.copytree(f.tiny_backbone, f.tmp_path / "theirs")
    (folder / "model.safetensors").touch()
    settings = STRANGE[name]
    plant(folder, **settings | {"config": settings["config"] | {"model_type": "theirs"}})
    f.monkeypatch.chdir(f.tmp_path)
    config = BackboneConfig(path=str(folder), initialize=initialize)
    return lambda: load_backbone(config, seed=0)


def a_set_with_code(f):
    def load(*given, **more):
        assert not more.get("trust_remote_code")
        raise ValueError("theirs contains custom code. Pass `trust_remote_code=True` to allow it.\nmore")

    f.monkeypatch.setattr("datasets.load_dataset", load)
    f.monkeypatch.setattr(source, "require_hub", lambda name, hub_id: None)  # as if there were a network
    described = HubConfig(id="a/theirs", splits={"train": "train"}, columns={})
    return lambda: source.read_hub("x", described, "train")


UNADVISED = r"(?s)^(?!.*trust_remote_code)"
ENCODERS = [
    *each(
        weights_listed,
        [
            (name, r"index\.json: names .*of the same folder")
            for name in (
                "pytorch_model.bin",
                "../model.safetensors",
                "/etc/model.safetensors",
                "a/model.safetensors",
                "gone.safetensors",
            )
        ],
    ),
    (an_adapter_of_others, r"adapter.*\.\./other"),
    *(
        (
            lambda f, name=name, initialize=initialize: of_strangers(f, name, initialize),
            rf"{UNADVISED}(?=.*FOLDER/theirs){'' if name == 'unknown' else '.*comes with code'}",
        )
        for name in STRANGE
        for initialize in ("random", "pretrained")
    ),
    (a_set_with_code, f"{UNADVISED}.*comes with code"),
]

TARGETS = (
    "a_trap.Trap",
    "os.system",
    "juzhen.losses.pairwise_ranking.CoSENT.__init__",
    "juzhen.losses.pairwise_ranking.nn",
    "juzhen.losses.pairwise_ranking.Loss",
    "losses..cosent.CoSENT",
    "juzhen.losses.none.CoSENT",
    "juzhen.losses.pairwise_ranking.Nothing",
    "lightning_modules.biencoder.partial",
    "lightning_modules.biencoder.Batch",
    "lightning_modules.cot.BiEncoder",  # a model, of another module
    "juzhen.data.readers.Path",
    "benchmarks.report.Path",
    "losses",
    "",
    None,
    3,
    ["juzhen.losses.pairwise_ranking.CoSENT"],
)


def beside_a_trap(f, act):
    assert not f.trap.exists()
    return act


def a_result_of_a_stranger(f):
    """The attack: a run folder that was sent, scored again with the words of the documentation."""
    from test_foreign_code import having_a_trap

    folder = having_a_trap(f.tiny_lexical, "model")
    return lambda: typed(f, "evaluate", folder, "--again", "--without-leaks")


def a_journal_of_a_stranger(f, pruner):
    from test_foreign_code import journal

    f.monkeypatch.chdir(f.tmp_path)
    callback = PruneOnDev(journal(f.tmp_path, pruner=pruner), monitor="dev/selection/spearman")
    return beside_a_trap(f, lambda: callback.setup(SimpleNamespace(is_global_zero=True), None, "fit"))


def no_journal(f, content):
    path = f.tmp_path / "thesis.txt"
    if content is not None:
        path.write_text(content)
    return TrialAddress(str(path), 0).open


def a_recipe_of_a_stranger(f, content):
    recipe = f.tmp_path / "conf" / "experiment" / "theirs.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(f"# @package _global_\nhydra:\n  {content}\n")
    words = ["--config-dir", str(f.tmp_path / "conf"), "experiment=theirs"]
    return beside_a_trap(f, lambda: check_command_line(words, conf_dir=f.project_root / "conf"))


def a_pickle_of_hydra(f):
    words = ["--experimental-rerun", "config.pickle"]
    return lambda: check_command_line(words, conf_dir=f.project_root / "conf")


PRUNER_OF = "optuna.pruners."
CODE_OF_STRANGERS = [
    *each(
        lambda f, target: beside_a_trap(f, lambda: own_class(target)),
        [(target, "no class of juzhen's") for target in TARGETS],
    ),
    (a_result_of_a_stranger, r"a_trap\.Trap: no class of juzhen's"),
    *each(
        a_journal_of_a_stranger,
        [
            (pruner, r"s\.journal: .*pruner")
            for pruner in (
                {"_target_": "a_trap.Trap"},
                {"_target_": "builtins.open", "file": "sprung", "mode": "w"},
                {"_target_": f"{PRUNER_OF}PatientPruner", "wrapped_pruner": {"_target_": "a_trap.Trap"}},
                {"_target_": f"{PRUNER_OF}MedianPruner", "n_startup_trials": {"_target_": "a_trap.Trap"}},
                [f"{PRUNER_OF}NopPruner"],
                f"{PRUNER_OF}NopPruner",
                None,
            )
        ],
    ),
    *each(
        no_journal,
        [
            (content, r"trial=.*thesis\.txt#0: .*no journal of a search")
            for content in ("my thesis\nits last line, without an end", '{"a": 1}\n{"torn', "", None)
        ],
    ),
    (a_pickle_of_hydra, "--experimental-rerun"),
]
CONFIGURED = [
    (
        lambda f: beside_a_trap(f, lambda: check_target({"_target_": "a_trap.Trap"}, "loss")),
        r"loss\._target_=a_trap\.Trap: no class of juzhen's",
    )
]
RECIPES = each(
    a_recipe_of_a_stranger,
    [
        (content, r"hydra\.")
        for content in (
            "callbacks: {a: {_target_: a_trap.Trap}}",
            "launcher: {_target_: a_trap.Trap}",
            "sweeper: {_target_: hydra_plugins.juzhen_sweeps.sweeper.sys.exit}",
            "sweeper: {params: {a: {_target_: a_trap.Trap}}}",
            "job_logging: {handlers: {a: {(): a_trap.Trap}}}",
            "hydra_logging: {handlers: {a: {class: a_trap.Trap}}}",
            "hydra_logging: {handlers: {a: {class: logging.StreamHandler, stream: 'ext://a_trap.Trap'}}}",
            "job_logging: {handlers: {file: {filename: /tmp/elsewhere}}}",
            "job: {name: ../../elsewhere}",
            "job: {env_set: {PATH: /of/a/stranger}}",
            "run: {dir: /tmp/elsewhere}",
        )
    ],
)

NO_PATHS = [
    *(
        {"name": name}
        for name in ("../../evil", "/tmp/evil", "a/b", "..", ".", ".git", "", " ", "a\\b", "x" * 300)
    ),
    *({"dataset__demo_sts__name": name} for name in ("../x", "a+b", "a>b", "a.b", "")),
    *(
        {
            "schedule__name": "serial",
            "schedule__order": [name],
            "schedule__stages": {name: {"dataset": ["demo_sts"]}},
        }
        for name in ("../x", "..", "a\x00")
    ),
]
NAMES = each(
    lambda f, settings: lambda: read_job(f.job_with(**settings)),
    [(settings, r"expected a name|expected letters") for settings in NO_PATHS],
)
OTHER_NAMES = each(
    lambda f, group: lambda: read_job(f.job_with(**{group: {"../x": f.job_with().dataset.demo_sts}})),
    [(group, r"\.\./x") for group in ("dataset", "evaluate")],
)


def with_secrets(f):
    f.monkeypatch.setenv("HF_TOKEN", TOKEN)
    f.monkeypatch.setenv("MY_DATABASE_PASSWORD", PLAIN)


def a_variable(f, given):
    name, default = given
    with_secrets(f)
    f.monkeypatch.setenv(name, "something")
    config = f.job_with(data_dir=f"${{oc.env:{name}{default}}}")
    return lambda: read_job(config)


def a_missing_variable(f):
    f.monkeypatch.delenv("JUZHEN_DATA", raising=False)
    config = f.job_with(data_dir="${oc.env:JUZHEN_DATA}")
    return lambda: read_job(config)


def a_secret(f, secret):
    with_secrets(f)
    config = f.job_with(dataset__demo_sts__about=secret)
    return lambda: read_job(config)


def a_message_with_a_secret(f):
    with_secrets(f)

    def fail():
        raise UserError(f"cannot read {TOKEN}")

    return lambda: refused_by_status(f, lambda: status_of(fail))


SECRETS = [
    *each(
        a_variable,
        [
            ((name, default), rf"(?s)^(?!.*something)data_dir: .*{name}.*{READABLE[0]}")
            for name in ("HF_TOKEN", "MY_DATABASE_PASSWORD", "PATH", "WANDB_API_KEY")
            for default in ("", ",none")
        ],
    ),
    (a_missing_variable, "JUZHEN_DATA"),
    *each(
        a_secret,
        [
            (secret, rf"(?s)^(?!.*{re.escape(secret)})dataset\.demo_sts\.about: .*looks like a secret")
            for secret in SECRET
        ],
    ),
    (a_message_with_a_secret, rf"^error: cannot read {re.escape(REDACTED)}$"),
]


def a_bomb(f):
    """Aliases that spell out a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (f.tmp_path / "bomb.yaml").write_text("\n".join(lines))
    return lambda: read_description(f.tmp_path / "bomb.yaml")


def in_itself(f):
    (f.tmp_path / "bomb.yaml").write_text("a: &a [1, *a]\n")
    return lambda: safe_open.require_yaml(f.tmp_path / "bomb.yaml")


def nested(f, read, name):
    (f.tmp_path / name).write_text("[" * 10_000)
    return lambda: read(f.tmp_path / name)


READERS = {
    "table.tsv": lambda path: read_table(path, header=True, quoted=False),
    "text.jsonl": lambda path: read_table(path, header=True, quoted=False),
    "dev.tsv.zst": decompressed,
    "set.yaml": read_description,
    "result.json": Result.read,
    "fusion.json": is_fusion,
    "translations.tsv": Translations,
}


def a_pipe(f, name):
    os.mkfifo(f.tmp_path / name)
    return lambda: READERS[name](f.tmp_path / name)


WRAPPED = ("fusion.json", "translations.tsv")
"""Files whose readers tell more than that they are pipes."""


def no_file(f, path):
    (f.tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(f.tmp_path / "socket"))
    return lambda: safe_open.read_bytes(f.tmp_path / path)


def a_pipe_of_an_encoder(f):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (f.tmp_path / name).write_text("{}")
    os.mkfifo(f.tmp_path / "vocab.txt")
    return lambda: check_files(f.tmp_path, needs_weights=True, shown="mine")


KINDS = {
    UserError: {
        "an encoder": ENCODERS,
        "foreign code": CODE_OF_STRANGERS,
        "a recipe": RECIPES,
        "a name": NAMES,
        "another name": OTHER_NAMES,
        "a secret": SECRETS,
        "aliases": [(a_bomb, r"bomb\.yaml.*aliases"), (in_itself, r"bomb\.yaml.*holds itself")],
        "nested yaml": [(lambda f: nested(f, safe_open.read_yaml, "deep.yaml"), "recursion")],
        "a wrapped pipe": each(a_pipe, [(name, rf"{name}.*named pipe") for name in WRAPPED]),
    },
    ConfigError: {"a configuration": CONFIGURED},
    OSError: {
        "a pipe": each(a_pipe, [(name, rf"named pipe.*{name}") for name in READERS if name not in WRAPPED]),
        "no file": each(no_file, [("folder", "a folder"), ("socket", "a socket"), ("/dev/zero", "a device")]),
        "an encoder's pipe": [(a_pipe_of_an_encoder, r"a named pipe.*vocab\.txt")],
    },
    FileNotFoundError: {"nothing": [(lambda f: no_file(f, "nothing"), "nothing")]},
    ValueError: {
        "nested json": [(lambda f: nested(f, safe_open.read_json, "deep.json"), "brackets in brackets")]
    },
}
REFUSED = {
    subject: [(*row, kind) for row in cases]
    for kind, table in KINDS.items()
    for subject, cases in table.items()
}
SLOW = ("nested yaml", "nested json")


@pytest.mark.parametrize(
    ("prepare", "told", "kind"), rows(REFUSED, slow=SLOW, sampled={"a recipe": 3, "a name": 3})
)
@pytest.mark.usefixtures("at_once")
def test_what_strangers_give_is_named_and_neither_run_nor_changed(f, prepare, told, kind):
    act = prepare(f)
    before = tree(f.tmp_path)
    with pytest.raises(kind, match=told.replace("FOLDER", re.escape(str(f.tmp_path)))):
        act()
    assert tree(f.tmp_path) == before
