"""Printing of errors that all ranks have and nobody catches."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

# Seconds that the other ranks give rank 0 to print, before their end ends the job.
PRINT_S = 0.5

_installed = False


def install() -> None:
    """Lets only rank 0 print such an error. Without it each rank prints the error, in no order. One call is enough."""
    global _installed
    if _installed:
        return
    _installed, before = True, sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if getattr(error, "_is_rank_0s_too", False):
            time.sleep(PRINT_S)
        else:
            before(kind, error, traceback)

    sys.excepthook = hook
