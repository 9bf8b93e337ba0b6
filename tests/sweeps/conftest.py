from collections.abc import Callable

import pytest

from juzhen.core.result import Result, Score

MakeResult = Callable[..., Result]


@pytest.fixture(scope="session")
def make_result() -> MakeResult:
    """Builds a result with the configuration of a small job; scores as {"dev/lcqmc/spearman": 0.5}."""

    def make(
        trained_on: list[str],
        scores: dict[str, float | Score | None],
        *,
        untrained: dict[str, float] | None = None,
        seed: int = 1,
        stage: int = 0,
        schedule: str = "mix",
        model: str = "lightning_modules.biencoder.BiEncoder",
        finished_at: str = "2026-01-01T00:00:00+00:00",
        **config: object,
    ) -> Result:
        def as_scores(values: dict[str, float | Score | None]) -> dict[str, Score]:
            return {key: one if isinstance(one, Score) else Score(one) for key, one in values.items()}

        return Result(
            name="+".join(trained_on),
            key=f"key{seed}",
            trained_on=trained_on,
            scores=as_scores(scores),
            untrained=as_scores(untrained or {}),
            config={
                "seed": seed,
                "run_dir": f"runs/{seed}",
                "model": {"_target_": model, "name": model.split(".")[-2]},
                "backbone": {"path": "random_small", "pooling": "mean"},
                "loss": {
                    "_target_": "juzhen.losses.pairwise_ranking.CoSENT",
                    "name": "cosent",
                    "temperature": 0.05,
                },
                "training": {"duration": "3 epochs"},
                "dataset": {name: {"name": name, "limit": None} for name in trained_on},
                "schedule": schedule,
                "init_from": None,
                **config,
            },
            data={},
            training={},
            environment={},
            seed=seed,
            stage=stage,
            finished_at=finished_at,
        )

    return make


@pytest.fixture
def small_matrix_results(make_result: MakeResult) -> list[Result]:
    """Baselines, two seeds of one set, a curriculum, and a null."""
    interval = {"low": 0.40, "high": 0.44, "count": 100}
    return [
        make_result(
            ["lcqmc"],
            {"test/lcqmc/spearman": 0.70, "dev/lcqmc/spearman": 0.69, "dev/csts/spearman": 0.60},
            untrained={"test/lcqmc/spearman": 0.20, "dev/lcqmc/spearman": 0.21, "dev/csts/spearman": 0.30},
            seed=1,
        ),
        make_result(
            ["lcqmc"],
            {"test/lcqmc/spearman": 0.72, "dev/lcqmc/spearman": 0.71, "dev/csts/spearman": None},
            seed=2,
        ),
        make_result(
            ["lcqmc", "csts"],
            {"test/lcqmc/spearman": 0.65, "dev/lcqmc/spearman": 0.64, "dev/csts/spearman": 0.8049},
            schedule="serial",
            stage=1,
        ),
        make_result(
            [],
            {
                "test/lcqmc/spearman": Score(0.42, **interval),
                "dev/lcqmc/spearman": Score(0.41, **interval),
                "dev/csts/spearman": 0.731,
            },
            model="lightning_modules.lexical.Lexical",
        ),
    ]
