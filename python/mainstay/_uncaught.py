"""What is printed where nobody catches an error that all ranks have."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

# So long the others leave rank 0 to print, before their end ends the job.
PRINT_S = 0.5

_installed = False


def install() -> None:
    """Has rank 0 alone print such an error: each rank raised it, and printed it, in no order. Once is enough."""
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
