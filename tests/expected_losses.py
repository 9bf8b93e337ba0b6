"""What is expected of every loss of conf/loss, a line each: all that a new loss adds to the tests."""

from typing import NamedTuple

SETS = {
    "graded": {"demo_sts"},
    "0/1": {"demo_qmc", "demo_order"},
    "nli": {"demo_nli"},
    "classes": set(),
    "teacher": set(),
    "guide": set(),
    "lists": set(),
}
"""Word of the table → the demo sets of that kind. Texts with classes have none; a fixture makes them.
With a teacher, which model=distill has, a loss learns from every set, and without from none.
A guide is what model=guided has; lists are triplets with a teacher's scores, which no demo set has."""


AROUND = {"matryoshka", "matryoshka_2d", "matryoshka_info_nce", "r_drop", "spread_out"}
"""Losses around another one, with which no message answers."""


class Expected(NamedTuple):
    """Of one loss.

    value  of the rows `encoded_rows(kind)` of tests/losses/loss_cases.py, kind the first that the loss takes, with the
           numbers of conf/loss; worked out by plain loops
    kinds  of sets that it learns from, as they are or by a view
    """

    value: float
    kinds: str

    @property
    def sets(self) -> set[str]:
        return set().union(*(SETS[kind] for kind in self.kinds.split()))


EXPECTED = {
    name: Expected(*line)
    for name, line in {
        "adr_mse": (0.2968215154, "0/1 nli"),
        "angle": (23.85347803, "graded 0/1 nli"),
        "arcface": (58.39912605, "classes"),
        "bce": (1.6417242, "graded 0/1"),
        "bilinear": (0.8180989885, "0/1 nli"),
        "ce": (0.8755504859, "graded 0/1 nli"),
        "ce_mse": (3.613382536, "graded 0/1"),
        "circle": (92.87675777, "0/1"),
        "clustering": (0.6889407869, "classes"),
        "contrastive": (0.1990089815, "0/1"),
        "cosent": (27.34658461, "graded 0/1 nli"),
        "cosent_adaptive": (78.58540003, "graded 0/1 nli"),
        "cosent_bce": (9.30295662, "graded 0/1"),
        "cosent_extremes": (27.34658461, "graded 0/1 nli"),
        "cosent_layers": (46.72313522, "graded 0/1 nli"),
        "cosent_sampled": (27.81653591, "graded 0/1 nli"),
        "cosent_softmax": (24.80958418, "0/1 nli"),
        "cosent_weighted": (25.73727052, "graded 0/1 nli"),
        "cosine": (0.4584380223, "graded 0/1"),
        "cosine_embedding": (0.5025752075, "0/1"),
        "distill": (4.067376769, "teacher"),
        "distill_cosine": (1.00252344, "teacher"),
        "distill_mse": (1.835266625, "teacher"),
        "distill_similarity": (0.3064853329, "teacher"),
        "huber": (0.1871203263, "graded 0/1"),
        "info_nce": (12.68811669, "0/1 nli"),
        "info_nce_drawn": (1.0986439830, "0/1 nli"),
        "info_nce_extended": (13.22681744, "0/1 nli"),
        "info_nce_gte": (70.61908907, "0/1 nli"),
        "info_nce_guided": (61.84782876, "guide"),
        "info_nce_in_batch": (8.491636595, "0/1 nli"),
        "info_nce_own": (4.522329577, "0/1 nli"),
        "info_nce_pool": (13.75675325, "0/1 nli"),
        "info_nce_queue": (12.68811668, "0/1 nli"),
        "info_nce_weighted": (16.01474094, "0/1 nli"),
        "lambda_loss": (57.73816799, "0/1 nli"),
        "list_kl": (6.925881181, "lists"),
        "list_mle": (6.625559946, "0/1 nli"),
        "margin_mse": (338.6241503, "lists"),
        "margin_ranking": (0.4498680368, "graded 0/1 nli"),
        "matryoshka": (19.31080084, "graded 0/1 nli"),
        "matryoshka_2d": (14.5193859748, "graded 0/1 nli"),
        "matryoshka_info_nce": (8.505708011, "0/1 nli"),
        "mse": (0.4584380223, "graded 0/1"),
        "mse_signed": (0.7413492246, "graded 0/1"),
        "multi_similarity": (1.361506764, "classes"),
        "nt_xent": (13.22960738, "0/1 nli"),
        "online_contrastive": (0.3890467685, "0/1"),
        "p_list_mle": (6.625559946, "lists"),
        "prototype": (7.918090794, "classes"),
        "quantile": (0.3004869951, "graded 0/1"),
        "r_drop": (27.34658461, "graded 0/1 nli"),
        "rank_net": (6.625559946, "0/1 nli"),
        "simcse": (11.78666878, "graded 0/1 nli classes"),
        "simcse_nt_xent": (13.22960738, "graded 0/1 nli classes"),
        "softmax": (1.314580368, "0/1 nli"),
        "softmax_graded": (0.8881749544, "graded 0/1"),
        "spread_out": (12.70063608, "0/1 nli"),
        "sup_con": (8.591823666, "classes"),
        "text_softmax": (1.071253027, "classes"),
        "triplet": (0.4308928019, "0/1 nli"),
        "triplet_batch_all": (0.6253213177, "classes"),
        "triplet_online": (0.7931589615, "0/1 nli"),
        "triplet_soft_margin": (22.51539102, "classes"),
    }.items()
}
"""Loss → what is expected of it."""
