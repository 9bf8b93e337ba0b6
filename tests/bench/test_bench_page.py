"""The manual's table of speed comes from the measurements, in both languages, and nothing else of the page changes."""

import pytest

from tools.bench.page import END, START, table, write_into
from tools.bench.report import Report

SIDE = {
    "size": "S",
    "precision": "bf16",
    "ratio": 2.5,
    "ratio_low": 2.4,
    "ratio_high": 2.6,
    "vs_default": 4.0,
    "peak_share": 0.4,
}
TRAINING = Report(
    "training",
    {},
    {},
    [SIDE | {"side": "ours", "mib_peak": 900.0}, SIDE | {"side": "theirs", "mib_peak": 1100.0}],
)
OVERHEAD = Report(
    "overhead", {}, {}, [{"size": "S", "overhead_percent": 2.0, "overhead_low": -1.0, "overhead_high": 4.0}]
)


def test_one_line_per_measurement_of_ours():
    lines = table([OVERHEAD, TRAINING], "en").splitlines()
    assert lines[2:] == [
        "| training, S, bf16 | 2.50 × as fast [2.40, 2.60] | 4.00 × its default; 40 % of the matrix peak, "
        "900 of 1,100 MiB |",
        "| Lightning over a bare loop, S | 2.0 % [-1.0, 4.0] |  |",
    ]
    assert len(table([OVERHEAD, TRAINING], "zh").splitlines()) == len(lines)


def step(side, cached, batch_size, mib_peak, **more):
    row = {"size": "S", "loss": "cosent", "side": side, "cached": cached, "batch_size": batch_size}
    return row | {"seconds_per_step": 2.0, "mib_peak": mib_peak} | more


def test_memory_in_pieces_stands_beside_what_one_piece_needs():
    plain = [step("ours", "no", 64, 700.0), step("ours", "no", 256, 1500.0), step("theirs", "no", 64, 1000.0)]
    plain += [step("theirs", "no", 256, None, seconds_per_step=None)]
    pieces = [step("ours", "yes", 256, 800.0), step("ours", "yes", 4096, 900.0)]
    besides = "900 MiB, 2.0 s per step; 64 pairs at once: 700 MiB, theirs 1,000 |"
    line = table([Report("memory", {}, {}, [*plain, *pieces])], "en").splitlines()[2]
    assert line == f"| memory of 4,096 pairs in pieces, S, cosent | no such thing there | {besides}"
    theirs = step("theirs", "yes", 4096, 1800.0)
    line = table([Report("memory", {}, {}, [*plain, *pieces, theirs])], "en").splitlines()[2]
    assert line == f"| memory of 4,096 pairs in pieces, S, cosent | 0.50 × theirs in pieces | {besides}"


def test_mining_stands_beside_the_memory_of_theirs():
    row = {"documents": 10_000, "ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6, "same_share": 0.997}
    sides = [
        row | {"side": side, "cpu_seconds": 2.0, "peak_mib": peak}
        for side, peak in (("ours", 900.0), ("theirs", 1200.0))
    ]
    line = table([Report("mining", {}, {}, sides)], "en").splitlines()[2]
    besides = "2.0 s of processor time; 900 of 1,200 MiB; the same negatives for 99.7 % of the queries"
    assert line == f"| mining hard negatives, 10,000 documents | 0.50 × as fast [0.40, 0.60] | {besides} |"


def test_search_says_what_an_index_finds():
    row = {"documents": 10_000, "ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1, "recall_at_100": 0.812}
    rows = [row | {"side": side, "milliseconds_per_query": 0.5} for side in ("ours ivf_pq", "theirs")]
    lines = table([Report("search", {}, {}, rows)], "en").splitlines()[2:]
    besides = "0.50 ms a query; 81.2 % of the 100 nearest"
    assert lines == [f"| searching 10,000 documents, ivf_pq | 2.00 × as fast [1.90, 2.10] | {besides} |"]


def test_only_what_is_between_the_markers_changes(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n", encoding="utf-8")
    write_into(page, "new")
    write_into(page, "newer")
    assert page.read_text(encoding="utf-8") == f"before\n{START}\nnewer\n{END}\nafter\n"
    page.write_text("no markers", encoding="utf-8")
    with pytest.raises(ValueError, match="expected a line"):
        write_into(page, "new")
