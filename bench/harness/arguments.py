"""The arguments of every benchmark: the folders of its results and of its spaces, and QUICK=1 for a short run."""

import argparse
import os
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "out"
QUICK = os.environ.get("QUICK", "") not in ("", "0")


class Parser(argparse.ArgumentParser):
    """A parser with --out, the folder of `results`, and --scratch, the folder of all else."""

    def __init__(self, doc, results, has_scratch=True):
        super().__init__(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.has_scratch = has_scratch
        self.add_argument("--out", type=Path, default=OUT, help=f"the folder of {results}")
        if has_scratch:
            self.add_argument("--scratch", type=Path, help="the folder of spaces while it runs; default: --out")

    def parse_args(self):
        chosen = super().parse_args()
        if self.has_scratch:
            chosen.scratch = chosen.scratch or chosen.out
        return chosen
