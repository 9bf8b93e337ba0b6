"""What a result file must be like. Versions have added keys; none of them is required that one of them lacked."""

from juzhen.core.shape import Object, Table

NOTHING = type(None)
NUMBER = (float, NOTHING)
ANYTHING = (dict, list, str, bool, float, NOTHING)
METRIC = r"[^/]+/[^/]+/[^/]+"
COLUMN = r"[^/]+/[^/]+"

SCORES = Table(
    Object(
        {"value": NUMBER},
        {
            "low": NUMBER,
            "high": NUMBER,
            "count": int,
            "worst": NUMBER,
            "best": NUMBER,
            "why": (str, NOTHING),
        },
    ),
    keys=METRIC,
)
SETS = Table(
    Object(
        optional={
            "name": str,
            "kind": str,
            "layout": str,
            "layouts": Table((Object(optional={"files": (dict, NOTHING)}), NOTHING)),
            "source": (str, NOTHING),
            "hub": (Object(optional={"splits": (dict, NOTHING)}), NOTHING),
            "limit": (int, NOTHING),
            "view": (str, NOTHING),
            "learning": (
                Object(optional={"num_negatives": (int, NOTHING), "in_batch": (bool, NOTHING)}),
                NOTHING,
            ),
            "symmetric": (bool, NOTHING),
        }
    )
)
NODE = Object(optional={"_target_": str, "name": (str, NOTHING)})
CONFIG = Object(
    optional={
        "model": NODE,
        "loss": NODE,
        "backbone": Object(optional={"path": str, "name": (str, NOTHING)}),
        "dataset": SETS,
        "evaluate": (SETS, NOTHING),
        "schedule": (
            str,
            Object(
                {"name": str},
                {
                    "order": ([str], NOTHING),
                    "stages": Table((dict, NOTHING)),
                    "sets": Table((dict, NOTHING)),
                    "sample_by": str,
                    "temperature": float,
                },
            ),
        ),
        "evaluation": Object(optional={"splits": [str], "backend": str}),
        "hardware": (Object(optional={"precision": str}), NOTHING),
        "logger": (dict, NOTHING),
        "augmentation": (dict, NOTHING),
        "source": str,
        "data_dir": str,
        "on_bad_row": str,
        "sweep_row": (str, NOTHING),
        "init_from": (str, NOTHING),
        "debug_rows": (int, NOTHING),
    }
)
DATA = Table(
    Object(
        optional={
            "rows": int,
            "kind": str,
            "fingerprint": str,
            "leaked": Object({"rows": int, "share": float}, {"by_set": Table(int)}),
        }
    ),
    keys=COLUMN,
)
TRAINING = Object(
    optional={
        "rows_seen": int,
        "train_seconds": NUMBER,
        "rows_per_second": NUMBER,
        "peak_memory_mib": NUMBER,
        "selected_on": [str],
        "sets": Table(
            Object({"batches": int, "rows": int, "share_of_batches": float, "share_of_rows": float})
        ),
    }
)
ENVIRONMENT = Object(
    optional={"command": ([str], NOTHING), "git_commit": (str, NOTHING), "device": (str, NOTHING)}
)
RESULT = Object(
    {
        "name": str,
        "key": str,
        "trained_on": [str],
        "scores": SCORES,
        "config": CONFIG,
        "data": DATA,
        "training": TRAINING,
        "environment": ENVIRONMENT,
        "seed": int,
    },
    {
        "stage": int,
        "untrained": SCORES,
        "finished_at": str,
        "weights": str,
        "filled": [Object({"sets": SETS}, {"data": DATA, "weights": str})],
        "transfer": Table(dict),
        "unscored": Table(str),
        "format_version": int,
    },
)
