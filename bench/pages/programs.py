"""Whole programs: in two of them all state changes, and in one most of it stays as it is."""

from dataclasses import dataclass
from pathlib import Path

CONSTANT = Path(__file__).resolve().parent / "program"


@dataclass(frozen=True)
class Program:
    name: str
    more: tuple  # words
    shrinks: str = ""  # the option whose value a quick run divides
    value: int = 0
    sources: tuple = ()  # if it is no example

    def words(self, o):
        value = max(self.value // o.programs_part, 8)
        return [*self.more, self.shrinks, value, "--steps", o.steps, "--progress", o.steps]


PROGRAMS = (
    Program("jacobi3d", ("--dem", "dem", "--nx", 192, "--ny", 192), "--nz", 272),
    Program("adi", ("--nx", 96, "--ny", 96), "--nz", 96),
    Program("constant", (), "--mib", 256, tuple(sorted(CONSTANT.glob("*.c")))),
)
