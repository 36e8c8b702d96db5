"""Every table and figure of the five papers, measured with Mainstay, beside the published values.

make reproduce                  writes bench/out/reproduce.json, reproduce.html and docs/reproduction.md; about 80 minutes
make reproduce PAPER=000        one paper; FIGURE='7(a)': one figure; QUICK=1: small
make reproduce NPB=DIR          also with the NAS benchmarks that you have compiled in DIR, as ranks in slots
make reproduce KEEP=1           without the benchmarks that have rows in bench/out
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from harness import arguments, machine
from reproduce import document, page, text
from reproduce.figure import Results

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
# Each benchmark as large as its figures need, and no larger; all together take about 80 minutes.
OPTIONS = {
    "staging": ("--rounds", 3),
    "run": ("--seconds", 12, "--rounds", 3),
    "images": ("--seconds", 4, "--rounds", 1),
    "space": ("--ways", "segmented", "file", "delegated_direct", "--no-local"),
    "levels": ("--nodes", 2, "--rounds", 3, "--sizes", 100, 250, 500, 1000),
    "recovery": ("--rounds", 2),
    "objects": ("--steps", 300, "--rounds", 3),
    "speculation": ("--part", 32, "--shorter", 8, "--every", 4, "--share", 0.4),
}


def variable(name):
    return os.environ.get(name, "")


def options():
    parser = arguments.Parser(__doc__, "rows and page", has_scratch=False)
    parser.add_argument("--paper", default=variable("PAPER"), choices=["", *(of.PAPER for of in document.PAPERS)])
    parser.add_argument("--figure", default=variable("FIGURE"), help="a part of its name, such as 7(a)")
    parser.add_argument(
        "--keep", action="store_true", default=variable("KEEP") not in ("", "0"), help="rows that are there"
    )
    return parser.parse_args()


def measure(o, bench, words):
    """Runs a benchmark, unless its rows are there and shall stay. The rows."""
    rows = o.out / f"{bench}.json"
    if not (o.keep and rows.exists()):
        rows.unlink(missing_ok=True)
        scale = () if arguments.QUICK else OPTIONS[bench]
        command = [sys.executable, HERE / f"{bench}.py", "--out", o.out, *scale, *(["--only", *words] if words else [])]
        print(f"\n$ {' '.join(map(str, command[1:]))}", flush=True)
        if status := subprocess.run(list(map(str, command)), check=False).returncode:
            print(f"{bench} ended with {status}: the rows that it wrote until then count", flush=True)
    return json.loads(rows.read_text()) if rows.exists() else []


def command(o):
    """How to make the same again."""
    set_to = {"PAPER": o.paper, "FIGURE": o.figure, "QUICK": variable("QUICK"), "NPB": variable("NPB") and "DIR"}
    return " ".join(["make reproduce", *(f"{name}='{value}'" for name, value in set_to.items() if value)])


def write_docs(made):
    (DOCS / "reproduction.md").write_text(text.markdown(made))
    for name, drawn in text.pictures(made):
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(drawn)


def main():
    o = options()
    pairs = document.chosen(o.paper, o.figure)
    if not pairs:
        sys.exit(f"no figure of the papers has '{o.figure}' in its name")
    o.out.mkdir(parents=True, exist_ok=True)
    described = machine.describe(o.out)
    results = Results({bench: measure(o, bench, words) for bench, words in document.needs(pairs).items()})
    made = document.made(pairs, results, described, command(o))
    print(f"\n{text.terminal(made)}")
    (o.out / "reproduce.json").write_text(json.dumps(made, indent=1) + "\n")
    (o.out / "reproduce.html").write_text(page.page(made))
    print(f"\n{o.out / 'reproduce.html'} shows all of it; reproduce.json has the numbers")
    if len(pairs) == len(document.chosen()) and not arguments.QUICK:
        write_docs(made)


if __name__ == "__main__":
    main()
