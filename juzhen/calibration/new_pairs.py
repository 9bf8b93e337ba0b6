"""Scores of new pairs by what was fitted on a set: the options of `juzhen score` for it, and what they do to scores."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.backends.names import BackendName
from juzhen.core.errors import UserError
from juzhen.core.fitted import SCALINGS, Calibration, Fusion, is_fusion

if TYPE_CHECKING:  # --help should not wait for it
    import numpy as np


def add_fitted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fuse", nargs=2, metavar="RUN", help="instead of one run: two as one score; needs --calibration"
    )
    parser.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="calibration-<set>.json of juzhen calibrate: the score becomes the probability of label 1 · "
        "with --fuse, fusion-<set>.json of juzhen fuse: the weights of the two",
    )
    parser.add_argument(
        "--scaling",
        choices=SCALINGS,
        help="how a score becomes a probability (default: platt; with --fuse: it stays a score)",
    )


def check_fitted(options: argparse.Namespace) -> None:
    """Reads what --calibration names into `options.fitted`; beside --fuse all words are sentences.

    Raises UserError where --fuse and --calibration do not belong together, and for weights that were not fitted on.
    Needs no torch.
    """
    if options.fuse is not None and options.encoder is not None:
        options.sentences, options.encoder = [options.encoder, *options.sentences], None
    if options.calibration is None:
        for name, command in (("fuse", "fuse"), ("scaling", "calibrate")):
            if getattr(options, name) is not None:
                raise UserError(f"--{name} needs --calibration FILE, which juzhen {command} writes")
        return
    if is_fusion(options.calibration) and options.fuse is None:
        raise UserError(f"--calibration {options.calibration}: is of two runs; name both: --fuse RUN RUN")
    if options.fuse is not None:
        options.fitted = Fusion.read(options.calibration)
        options.fitted.require(options.fuse)
        if options.cache is not None or options.backend != BackendName.TORCH:
            raise UserError("--fuse scores with two runs as they are: leave out --cache and --backend")
    elif options.encoder is not None:
        options.fitted = Calibration.read(options.calibration)
        options.fitted.require(options.encoder)


def fused_scores(
    first: Sequence[str], second: Sequence[str], options: argparse.Namespace, *, progress: bool
) -> "np.ndarray":
    from juzhen.families import PairScorer

    scorer = PairScorer(*options.fuse, fusion=options.fitted)
    return scorer(first, second, batch_tokens=options.batch_tokens, progress=progress)


def scaled(scores: "np.ndarray", options: argparse.Namespace) -> "np.ndarray":
    """Probabilities of label 1 where --calibration or --scaling ask for them, else the scores."""
    method = options.scaling or (None if options.fuse is not None or options.fitted is None else "platt")
    if method is None:
        return scores
    import numpy as np
    from scipy.special import expit

    return expit(options.fitted.logits(np.asarray(scores, dtype=np.float64), method))
