"""The door: a wrong command line ends in one line with the right word in it; a right one passes."""

import io
import sys
from pathlib import Path

import pytest
from forks import ROOT, python
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from scratch_conf import FILES, write_tree

from juzhen.core.errors import UserError
from launch.check import Command, check_command_line
from launch.overrides import option_hint


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small configuration tree, in the folder conf/."""
    OmegaConf.register_new_resolver("job_name", lambda: "trial", replace=True)
    folder = tmp_path_factory.mktemp("project")
    write_tree(folder / "conf", FILES)
    return folder


def check(tree: Path, *arguments: str) -> Command:
    return check_command_line(arguments, conf_dir=tree / "conf")


WRONG = {
    # syntax
    "name=实验": """name=实验: cannot be read. Write 'name="实验"'""",
    "pairs.csv": "Did you mean dataset=pairs.csv?",
    "--package loss": "--cfg job --package",
    "dataset=[csts，afqmc]": "'dataset=[csts,afqmc]'",
    "dataset=[csts,": "bracket is missing",
    "training.batch_size = 3": "training.batch_size=3",
    "cosent": "Did you mean loss=cosent",
    "batch": "key=value, such as loss=cosent. Quote a value with a space: '",
    "=3": "key=value",
    "''": "'': expected key=value",
    "--config-dir /nowhere/absent dataset=mine": "/nowhere/absent: no such folder",
    "--config-path /nowhere/absent": "/nowhere/absent: no such folder",
    "--confg job": "--cfg",
    "--cfg jbo": "job",
    "--seed=3": "seed=3",
    "hydra.sweep.subdir=x -m seed=1": "name=…",
    "hydra.job.chdir=true": "Leave it out",
    "--resolve": "--cfg job --resolve",
    # groups and options
    "modle=biencoder": "Did you mean model?",
    "+suit=demo": "+suit=demo: unknown key or group suit. Known: ",
    "loss=cosnet": "Did you mean cosent? Options of loss: by_kind",
    "dataset=[csts,afqcm]": "Did you mean afqmc?",
    "experiment=godo": "Did you mean good?",
    "loss=null": "Known: by_kind",
    "loss=3": "Known: by_kind",
    "dataset=csts,afqmc": "'dataset=[csts,afqmc]'",
    "dataset=[nli,csts,nli]": "nli is repeated",
    "loss=cosent loss=angle": "loss is chosen twice. Keep one of them",
    "+experiment=good": "without a +",
    "sweep=losses": "-m",
    "--config-name trian": "train",
    # keys
    "optimizer.Lr=1": "optimizer.lr",
    "lr=1e-5": "Type optimizer.lr=1e-5",
    "columns=question": "Type juzhen dataset FILE --columns question, once. Then data=FILE",
    "training.lr=1e-5": "Type optimizer.lr=1e-5",
    "loss.temprature=0.1": "Did you mean loss.temperature?",
    "training.batchsize=3": "Type training.batch_size=3",
    "+trainer.max_epoch=3": "Did you mean training?",
    "+training.max_epochs=3": "given as +training.max_epochs=3",
    "~foo": "'foo' does not exist",
    "seed.x=3": "seed.x: unknown key",
    "+training.batch_size=3": "remove + prefix: 'training.batch_size=3'",
    "dataset.demo_sts.limit=3": "'+dataset.demo_sts.limit=…'",
    "dataset.csts.limit=3": "'dataset=[csts]'",
    "hydra.verbos=true": "Did you mean hydra.verbose?",
    # types
    "training.batch_size=abc": "training.batch_size=abc: expected a valid integer",
    "seed=x": "seed=x: expected a valid integer",
    "seed=1.5": "a valid integer",
    "seed=8.0": "seed=8.0: expected a whole number",
    "seed=1e3": "expected a whole number",
    "training.batch_size=true": "training.batch_size=true: expected a whole number",
    "optimizer.lr=true": "optimizer.lr=true: expected a number",
    "+dataset.demo_sts.limit=true": "expected a whole number",
    "seed=null": "seed=null: expected a valid integer",
    "hardware.devices=two": "a valid integer",
    "optimizer.lr=fast": "expected a valid number",
    "evaluation.untrained=maybe": "expected a valid boolean",
    "evaluation.splits=dev": "'evaluation.splits=[…]'",
    "training=3": "training.<key>=<value>",
    "training=[3]": "training: Cannot merge DictConfig with ListConfig (given as training=[3])",
    "optimizer.betas={a:1}": "optimizer.betas: Cannot merge",
    "dataset.demo_sts.layouts=[1]": "dataset.demo_sts.layouts: Cannot merge",
    "dataset.demo_sts.rows={0:1}": "dataset.demo_sts.rows.0: unknown key",
    "+dataset.demo_sts.ignore_labels={a:1}": "expected a valid list, 'dataset.demo_sts.ignore_labels=[…]'",
    "+dataset.demo_sts.labels=[0,1]": "Type dataset.demo_sts.labels.<key>=<value>",
    # values
    "source=hubb": "Did you mean hub?",
    "on_bad_row=dorp": "Did you mean drop?",
    "resume=always": "'never' or 'auto'",
    "schedule=serail": "Did you mean serial?",
    "backbone.pooling=men": "Did you mean mean?",
    "backbone.initialize=radnom": "Did you mean random?",
    "hardware.precision=bf16": "bf16-mixed",
    "logger.wandb=ofline": "Did you mean offline?",
    "evaluation.splits=[dev,tset]": "Did you mean test?",
    "evaluation.splits=[dev,dev]": "evaluation.splits",
    "evaluation.transfer=[mrpc,mrpc]": "evaluation.transfer",
    "evaluation.bootstrap_samples=1": "evaluation.bootstrap_samples=1: ",
    "evaluation.bootstrap_samples=39": "0 for none",
    "optimizer.decay=linaer": "Did you mean linear?",
    "optimizer.decay=inverse_sqrt optimizer.warmup=0 steps": "'optimizer.warmup=10 percent'",
    "training.stratify_by=lable": "Did you mean label?",
    "training.stratify_by=label training.length_window=4": "Leave one of them at its default",
    "+backbone.layer_norm=true init_from=runs/first": "backbone=local backbone.path=<its encoder folder>",
    "health.on_collapse=stop": "health: unknown key",
    "loss=by_kind loss.triplet.margin=0.3": "the sets of this job have no such rows",
    "callbacks.space_health.on_collapse=stp": "expected 'warn' or 'stop'. Did you mean stop?",
    "callbacks.space_health.collapse_rang=3": "Did you mean callbacks.space_health.collapse_rank?",
    "callbacks.space_helth=null": "Did you mean callbacks.space_health?",
    "callbacks=[default,space_helth]": "Did you mean space_health?",
    "callbacks.loss_gradient.low=abc": "callbacks.loss_gradient.low=abc: expected a valid number",
    "callbacks.loss_gradient._target_=juzhen.losses.pairwise_ranking.CoSENT": "losses.pairwise_ranking.CoSENT",
    "callbacks=[default,unmarked]": "callbacks.unmarked.decides_weights: expected true or false",
    "+callbacks.mine=3": "callbacks.mine.<key>=<value>",
    "training.duration=3": "training.duration=3: expected a number and one unit of steps, epochs",
    "training.validate_every=3 setps": "steps",
    "training.duration=0 epochs": "more than 0",
    "optimizer.warmup=200 percent": "100 percent",
    "training.batch_size=0": "greater than or equal to 1",
    "optimizer.lr=0": "greater than 0",
    "optimizer.lr=nan": "optimizer.lr=nan: expected a number",
    "callbacks.loss_gradient.low=nan": "callbacks.loss_gradient.low=nan: expected a finite number",
    "callbacks.space_health.collapse_cosine=inf": "callbacks.space_health.collapse_cosine=inf: expected a finite",
    "backbone.dropout=1": "less than 1",
    "seed=-1": "greater than or equal to 0",
    "seed=4294967296": "less than 4294967296",
    "optimizer.betas=[0.9]": "at least 2 items",
    "optimizer.betas=[[],0.999]": "optimizer.betas[0]=[]: expected a valid number",
    "training.monitor=spearman": "dev/csts/spearman",
    "training.monitor=dev/demo_stt/spearman": "Did you mean demo_sts?",
    "dataset=upside_down": "[0, 5]",
    "hardware.threads=100000": "less than 1025",
    'output_dir=""': "output_dir=: expected a folder. Type output_dir=.",
    "+dataset.demo_sts.labels.a=1": "dataset.demo_sts.labels: not read for a scored_pair",
    "backbone.pooling={a:1}": "backbone.pooling={'a': 1}: expected 'mean'",
    "hydra.output_subdir=../../x": "hydra.output_subdir: expected .hydra",
    "augmentation.views=[[]]": "augmentation.views[0]=[]: expected 'translation'",
    # completeness and references
    "backbone=local": "backbone.path is not set. For example: python train.py backbone=local backbone.path=",
    "~loss": "python train.py loss=cosent",
    "+dataset.msmarco.limit=3": "dataset.msmarco: has keys, but msmarco is not among the sets",
    "dataset={demo_sts:1}": "dataset={demo_sts:1}: expected the name of an option, or a list of names",
    "dataset=[demo_sts,]": "Write 'dataset=[demo_sts]'",
    "~training.batch_size": "training.batch_size is not set",
    "data_dir=${oc.env:NOWHERE_SET}": "NOWHERE_SET",
    # targets
    "loss=misplaced": "Did you mean juzhen.losses.pairwise_ranking.CoSENT?",
    "model=misspelt": "Did you mean lightning_modules.biencoder.BiEncoder?",
    "model._target_=lightning_module.biencoder.BiEncoder": "Did you mean lightning_modules.biencoder.BiEncoder?",
    "loss=nameless": "loss.name is not set. Give letters, digits, _ and -, for example loss.name=cosent",
    "loss._target_=juzhen.losses.regression.SquaredError ~loss.temperature": "conf/loss/cosent.yaml is CoSENT",
    "loss.name=triplet": "loss.name=triplet: conf/loss/triplet.yaml is TripletMargin",
    "loss=by_kind loss.triplet.name=x/y": "loss.triplet.name=x/y: not a name. Give letters, digits, _ and -",
    "loss.temperature=abc": "loss.temperature=abc: expected a valid number",
    "+model.score=cosin": "expected 'cosine' or 'bilinear'. Did you mean cosine?",
    "+loss.margn=3": "unknown key. Known: temperature",
    "loss=softmax +loss.dim=3": "loss.dim",
    "+model.scor=cosine": "Did you mean model.score?",
    "loss=by_kind loss.triplet.margin=abc": "loss.triplet.margin=abc: expected a valid number",
    "loss=by_kind +loss.scored_pai.margin=1": "Did you mean scored_pair?",
    **dict.fromkeys(
        [f"{shown} loss.temprature=1" for shown in ("--help", "--cfg job", "--info config")],
        "Did you mean loss.temperature?",
    ),
    # files
    "experiment=typo": "Did you mean training.batch_size? (conf/experiment/typo.yaml, line 3)",
    "experiment=wrong_loss": "(conf/experiment/wrong_loss.yaml, line 3)",
    "experiment=dangling": "(conf/experiment/dangling.yaml, line 2)",
    "experiment=broken": "broken.yaml, line 3",
    # sweeps: the last choice is the wrong one
    "-m loss=cosent,tripelt": "Did you mean triplet?",
    "-m sweep=typo": "Did you mean triplet?",
    "-m seed=1,2,x": "seed=x: expected a valid integer",
    "-m training.batch_size=8,0": "greater than or equal to 1",
    "-m loss.temperature=0.1,abc": "expected a valid number",
    "-m dataset=[csts,nli],[nli,nli]": "nli is repeated",
    "-m loss=cosent,triplet loss.temprature=0.1,0.2": "Did you mean loss.temperature?",
    "-m optimizer.lr=interval(0,1)": "hydra/sweeper=optuna",
    "-m dataset=csts,upside_down": "score_range",
    "-m loss=glob(x*)": "nothing is chosen",
}

RIGHT = [
    "",
    "model=biencoder loss=cosent",
    "dataset=csts data_dir=/somewhere/else",
    "dataset=[csts,afqmc] benchmark=zh_matching schedule=serial",
    "dataset=[] init_from=runs/first",
    "loss=softmax",
    "loss=incomplete",  # the class has the customary number
    "loss=triplet loss.distance=euclidean",
    "loss.name=cosent_cold loss.temperature=0.01",
    "experiment=good debug=fast",
    "backbone=local backbone.path=/models/mine backbone.pooling=cls",
    """name="句子" """,
    "+dataset.demo_sts.limit=3",
    "+model.score=bilinear",
    "callbacks.loss_gradient=null callbacks.space_health.on_collapse=stop",
    "callbacks=[]",
    "callbacks=[default,unmarked] +callbacks.unmarked.decides_weights=true",
    "training.monitor=dev/demo_sts/spearman training.patience=null",
    "optimizer.warmup=0.5 epochs",
    "optimizer.warmup=1 epochs optimizer.decay=inverse_sqrt",
    "hydra.verbose=true",
    "--cfg job",
    "--help",
    "--hydra-help",
    "--info defaults",
    "loss=triplet --info",
    "seed=1 -m loss=cosent",
    "hydra.mode=MULTIRUN seed=1,2",
    "hydra.verbose=true hydra.output_subdir=null hydra/job_logging=disabled",
    "-m seed=range(0,4) loss=cosent,triplet",
    "-m sweep=losses",
    "-m sweep=losses seed=7",
    "-m dataset=csts,[csts,nli],[]",
    "-m loss=glob(c*)",
    "-m loss=cosent,triplet loss.temperature=0.1,0.2",  # read by one of them
]


def split(line: str) -> list[str]:
    """Arguments of a line; a duration's blank stays inside its argument."""
    units = ("steps", "setps", "epochs", "percent")
    if line in ("training.batch_size = 3", "''"):
        return [line.strip("'")]
    arguments: list[str] = []
    for word in line.split():
        if word in units:
            arguments[-1] += f" {word}"
        else:
            arguments.append(word)
    return arguments


@pytest.mark.parametrize(("line", "hint"), WRONG.items(), ids=WRONG.keys())
@pytest.mark.sampled(6)
def test_a_wrong_command_line_is_answered_with_the_right_word(tree: Path, line: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        check(tree, *split(line)).run(lambda config: None)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", RIGHT)
@pytest.mark.sampled(4)
def test_a_right_command_line_passes_and_leaves_hydra_free(tree: Path, line: str) -> None:
    check(tree, *split(line))
    assert not GlobalHydra.instance().is_initialized()


def test_of_many_options_the_nearest_three_are_named_and_where_all_are_shown() -> None:
    many = [f"set_{number}" for number in range(40)]
    options = ["csts", "lcqmc", "lcqmc_mined", "lcqmc_retrieval", *many]
    hint = option_hint("dataset", "lcqcm", options)
    assert hint.startswith("dataset=lcqcm: unknown set. Did you mean lcqmc or lcqmc_mined? All 44: ")
    assert option_hint("dataset", "nothing", options).startswith("dataset=nothing: unknown set. All 44: ")


def test_a_further_folder_of_configurations_is_searched(tree: Path, tmp_path: Path) -> None:
    write_tree(tmp_path, {"dataset/mine.yaml": FILES["dataset/csts.yaml"].replace("csts", "mine")})
    check(tree, "--config-dir", str(tmp_path), "dataset=mine")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
def test_a_person_sees_how_far_the_check_of_a_sweep_is(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {True: Terminal(), False: io.StringIO()}
    for screen in shown.values():
        monkeypatch.setattr(sys, "stderr", screen)
        check(tree, "-m", "name=a,b,c")
    assert "checking the sweep" in shown[True].getvalue()
    assert not shown[False].getvalue()


SCRIPT = """
import sys, time
from pathlib import Path
started = time.process_time()  # a busy machine is not this program's doing
from juzhen.cli.program import run_program
from launch.check import check_command_line

def main():
    try:
        check_command_line(sys.argv[2:], conf_dir=Path(sys.argv[1]) / "conf")
    finally:
        if sys.argv[2] == "name=timed":
            print(time.process_time() - started, "torch" in sys.modules)

sys.exit(run_program(main))
"""


def test_a_mistake_ends_a_program_quickly_with_one_line_and_without_torch(tree: Path) -> None:
    done = python("-c", SCRIPT, tree, "name=timed", "loss=cosnet")
    assert done.returncode == 2
    assert done.stderr.startswith("error: loss=cosnet")
    assert done.stderr.count("\n") == 1
    seconds, has_torch = done.stdout.split()
    assert float(seconds) < 3  # 0.3 s on a quick machine; the margin is for slow ones
    assert has_torch == "False"


JOB = """
import sys
from pathlib import Path
from juzhen.cli.program import run_program
from juzhen.core.errors import UserError
from launch.check import check_command_line

def job(config):
    if config.seed == 2:
        raise UserError("train.tsv, line 3: no text")
    print("done", config.seed)

run = lambda: check_command_line(sys.argv[1:], conf_dir=Path("conf").resolve()).run(job)
sys.exit(run_program(run))
"""


@pytest.mark.parametrize("arguments", [["seed=2"], ["-m", "seed=1,2,3"]])
@pytest.mark.slow
def test_a_mistake_found_inside_a_job_is_shown_without_a_traceback(
    tmp_path: Path, arguments: list[str]
) -> None:
    write_tree(tmp_path / "conf", FILES)
    script = write_tree(tmp_path, {"job.py": JOB}) / "job.py"
    done = python(
        script, *arguments, "name=${seed}", cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin"}
    )
    assert done.returncode == 2
    assert done.stderr.endswith("error: train.tsv, line 3: no text\n")
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    # Hydra says which one of a sweep it was; of one job there is nothing to say.
    assert ("Error executing job" in done.stderr) == ("-m" in arguments)
    assert ("done 3" in done.stdout) == ("-m" in arguments)  # the other jobs of a sweep still run
