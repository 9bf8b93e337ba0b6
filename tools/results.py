"""Unpack the runs behind the pages of results/, rebuild a page from them, pack them: python -m tools.results unpack

`unpack` writes the runs of `results/<page>/runs.tar.xz` to build/results/<page>. `rebuild` adds the tables, pictures
and reports that the commands of tools.generated make from them. `pack` writes the archive from that folder again.
"""

import argparse
import sys
from pathlib import Path

from juzhen.cli.program import run_program
from juzhen.core.atomic_write import atomic_write_dir
from juzhen.core.errors import require_choice
from juzhen.core.paths import ROOT
from tools.archives import ARCHIVE, RESULTS, archives, extract, pack
from tools.generated import PAGES, run

BUILD = ROOT / "build" / "results"


def unpack(page: str, folder: Path, *, rebuilt: bool = False) -> None:
    """Write the runs of a page to a folder, and where `rebuilt` what the commands of tools.generated make from them.

    Raises:
        UserError: The folder holds a file that an earlier `unpack` has not written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write_dir(folder) as part:
        extract(page, part)
        runs, pages = f"build/results/{page}", f"results/{page}"
        for command in (one.command for one in PAGES if rebuilt and f" {runs}/" in one.command):
            run(command, {runs: part, pages: part})


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.results", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["unpack", "rebuild", "pack"])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="a folder of results/; none: every archive")
    parser.add_argument("--folder", type=Path, default=BUILD, help="it has PAGE/ (default: build/results)")
    options = parser.parse_intermixed_args()
    for page in options.pages or archives():
        folder = options.folder / page
        if options.what == "pack":
            pack(page, folder)
            print(RESULTS / page / ARCHIVE)
        else:
            require_choice("PAGE", page, archives())
            unpack(page, folder, rebuilt=options.what == "rebuild")
            print(folder)


if __name__ == "__main__":
    sys.exit(run_program(main))
