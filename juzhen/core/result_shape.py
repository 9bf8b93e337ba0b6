"""What a result file must be like. Versions have added keys; none of them is required that one of them lacked."""

from juzhen.core.shape import Entries, Object

NOTHING = type(None)
NUMBER = (float, NOTHING)
ANYTHING = (dict, list, str, bool, float, NOTHING)
METRIC = r"[^/]+/[^/]+/[^/]+"
COLUMN = r"[^/]+/[^/]+"

SCORES = Entries(
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
THRESHOLD = Object(
    {"value": NUMBER, "rows": int, "judged_on": str},
    dict.fromkeys(("accuracy", "precision", "recall", "f1"), NUMBER) | {"why": (str, NOTHING)},
)
SETS = Entries(
    Object(
        optional={
            "name": str,
            "kind": str,
            "layout": str,
            "layouts": Entries((Object(optional={"files": (dict, NOTHING)}), NOTHING)),
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
                    "stages": Entries((dict, NOTHING)),
                    "sets": Entries((dict, NOTHING)),
                    "sample_by": str,
                    "temperature": float,
                    "weigh_loss": bool,
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
        "merge": Object({"method": str, "parents": [str]}, {"weights": (str, [float], NOTHING)}),
        "debug_rows": (int, NOTHING),
    }
)
DATA = Entries(
    Object(
        optional={
            "rows": int,
            "kind": str,
            "fingerprint": str,
            "unknown": Object({"looked_at": int, "texts": int, "pairs": int, "share": float}),
            "leaked": Object({"rows": int, "share": float}, {"by_set": Entries(int)}),
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
        "parents": [Object({"name": str, "key": str, "seed": int, "trained_on": [str]}, {"weight": float})],
        "sets": Entries(
            Object(
                {"batches": int, "rows": int, "share_of_batches": float, "share_of_rows": float},
                {"loss": NUMBER, "gradient_norm": NUMBER, "weight": NUMBER, "weight_step": int},
            )
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
        "thresholds": Entries(THRESHOLD),
        "transfer": Entries(dict),
        "unscored": Entries(str),
        "format_version": int,
    },
)
