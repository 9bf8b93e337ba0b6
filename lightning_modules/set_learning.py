"""What a data set says of how it is learnt from, put into the loss that was chosen for it, or refused."""

from collections.abc import Mapping
from typing import Any

from conf.declared import Declared, declared
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.named import WITHOUT_BATCH, name_of
from juzhen.data.spec import DatasetConfig, LearningConfig

OWN_NEGATIVES = "juzhen.losses.info_nce_own.InfoNCEOwn"


def as_the_set_says(
    loss: Mapping[str, Any], dataset: DatasetConfig, kind: Kind, model: Declared
) -> Mapping[str, Any]:
    """The loss with what the set says of its own. Raises UserError for what would not be as it says.

    loss  configuration of the loss, {} where the model needs none
    kind  that the rows of the set are read as
    """
    own = dataset.learning or LearningConfig()
    for key, value in vars(own).items():
        if value is not None and (obstacle := _obstacle(key, value, loss, kind, model)):
            place = f"dataset.{dataset.name}.learning.{key}"
            raise UserError(f"{place}={str(value).lower()}: {obstacle}, or type {place}=null")
    if own.in_batch is False:
        loss = {
            "_target_": OWN_NEGATIVES,
            "name": WITHOUT_BATCH.get(name_of(loss), name_of(loss)),
            **{key: value for key, value in loss.items() if key == "temperature"},
        }
    return loss if own.temperature is None else {**loss, "temperature": own.temperature}


def _obstacle(key: str, value: Any, loss: Mapping[str, Any], kind: Kind, model: Declared) -> str | None:
    """Why a value would not be what it says, and what to do about it; None where nothing is in its way."""
    learner = f"loss={name_of(loss)}" if loss else model.name
    if key == "temperature":
        if not loss or "temperature" not in declared(loss["_target_"]).settings:
            return f"{learner} has none; choose a loss with a temperature, such as loss=info_nce"
        if "logits" in model.provides or loss.get("temperature_unit", "score") != "score":
            return f"it divides cosines, and {learner} gets other numbers here; type loss.temperature=…"
        return None
    if key == "in_batch":
        asks = {*WITHOUT_BATCH} if value else {*WITHOUT_BATCH, *WITHOUT_BATCH.values()}
        if not loss or name_of(loss) not in asks:
            return f"{learner} does not ask whether texts of other rows are negatives; choose loss=info_nce"
        for number in ("symmetric", "false_negative_margin") if not value else ():
            if str(loss.get(number)) not in ("False", "None"):  # a margin of 0 is one
                return f"loss.{number}={loss[number]} is about texts of other rows; leave it out"
    if (key == "num_negatives" or value is False) and kind is not Kind.TRIPLET:
        spoken = kind.replace("_", " ").replace("nli", "NLI")
        return f"rows are read as {spoken}s, which have no negatives of their own; have them read as triplets"
    return None
