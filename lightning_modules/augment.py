"""Augmentation of a job: what makes it, and where it cannot be."""

from collections.abc import Mapping

from conf.job import JobConfig
from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import Kind, Side
from juzhen.encoders.augmentation import Augmentation, SentenceChanges
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.views import TokenViews, Views
from juzhen.encoders.views_text import TextViews
from lightning_modules.chosen_losses import Match

GROUP = "augmentation"


def changes_of(views: Views, encoder: SentenceEncoder) -> SentenceChanges:
    """The changes that `views` names, of sentences as this encoder reads them."""
    return SentenceChanges(
        encoder.tokenize,
        text_views=TextViews(views),
        token_views=TokenViews(
            views, encoder.tokenizer, max_length=encoder.max_length, prompt=encoder.prompt
        ),
    )


def augmentation_of(job: JobConfig, encoder: SentenceEncoder) -> Augmentation | None:
    """What changes the sentences that a job learns from; None where it asks for nothing."""
    config = job.augmentation
    if not config.views:
        return None
    views = Views.of(vars(config), group=GROUP)
    of_sides = {side: changes_of(views, encoder.reading(side)) for side in Side if encoder.sides[side]}
    return Augmentation(
        changes_of(views, encoder),
        probability=config.probability,
        sets=config.sets,
        seed=job.seed,
        of_sides=of_sides,
    )


def check_augmentation(job: JobConfig, matches: Mapping[str, Match], *, model: type) -> None:
    """Raises UserError where what is asked for could not be done in a stage with `matches`, before data are read.

    job    the whole one, with the sets of other stages
    model  class of the model, whose `input_kind` says whether it makes its own pairs of sentences
    """
    config = job.augmentation
    if not config.views or not matches:
        return
    shown = f"{GROUP}.views={list(config.views)}"
    if not 0 < config.probability <= 1:
        raise UserError(f"{GROUP}.probability={config.probability}: expected a number above 0, 1 at most")
    for name in config.sets or ():
        if name not in job.dataset:
            hint = nearest(name, job.dataset)
            raise UserError(f"{GROUP}.sets={list(config.sets)}: this job does not learn from {name}; {hint}")
    if config.sets is not None and not config.sets:
        raise UserError(f"{GROUP}.sets=[]: expected names of sets, or null for all; or leave {GROUP} out")
    if model.input_kind is not None:
        raise UserError(
            f"{shown}: {model.__name__} learns from text alone and makes of it what it compares; leave {GROUP} out. "
            "Changed sentences as positives are model=views"
        )
    for name, match in matches.items():
        if match.kind is Kind.SENTENCE and (config.sets is None or name in config.sets):
            raise UserError(
                f"{shown}: the loss of {name} learns from single sentences, of which there are no labels to keep; for "
                "changed sentences as positives type model=views loss=info_nce"
            )
    TextViews(Views.of(vars(config), group=GROUP))  # a file of translations is read here
