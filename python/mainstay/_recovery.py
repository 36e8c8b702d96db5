"""The steps of Session.steps and Session.recovering, with which a job goes on when ranks fail."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from array import array
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mainstay._engine import Error, GroupFailed, InvalidArgument, RegionMissing, RevisionMissing, Session

if TYPE_CHECKING:
    from types import TracebackType

# The region that counts the finished steps, as in mainstay_run in C.
DONE = "mainstay_steps"
# How often ranks may start again without a failed rank and without a finished step.
IDLE_MAX = 3
# Seconds for which the end of a program waits for the other ranks, and seconds of one sleep.
END_S, NAP_S = 10, 500e-6


class Steps:
    """The steps of a session, on this rank."""

    def __init__(self, session: Session, count: int, layout: Callable[[Session], object] | None) -> None:
        self._session, self._count, self._layout = session, count, layout
        self._done = array("Q", [0])
        before = session._steps  # type: ignore[attr-defined]
        self._laid_out: set[str] = before._laid_out if before else set()  # regions of the layout
        self._recovers = session._recovers  # type: ignore[attr-defined]
        self._lost = self._idle = 0
        self._unsaved: Error | None = None  # the error of the last checkpoint, if it was not saved
        self._has_begun = False  # a step, on any rank, as of their last agreement
        self._own: Exception | None = None  # an error of this rank's own calls that does not mean a failed rank
        self._last: Exception | None = None  # the error from which it recovered last
        self.is_running = False  # the loop
        self.is_under_way = False  # its body
        self.failure: BaseException | None = None  # the error that ended the body

    def run(self) -> Iterator[int]:
        before = self._session._steps  # type: ignore[attr-defined]
        if before and before.is_running:
            raise InvalidArgument("steps: another loop over them is under way on this session; end that first")
        if before:
            with suppress(RegionMissing):  # a checkpoint in progress may have kept it
                self._session.unprotect(DONE)
        self._session.protect(DONE, self._done)
        self._session._steps = self  # type: ignore[attr-defined]
        self.is_running = True
        try:
            while not (yield from self._try()):
                self._recover()
        except BaseException:
            # Nobody knows whether an interrupted step is done.
            with suppress(Error):  # the session may be closed
                self._session.unprotect(DONE)
            raise
        finally:
            # After the last step the number stays protected. The program can then save the end itself, and start
            # again there.
            self.is_under_way = self.is_running = False

    def _try(self) -> Generator[int, None, bool]:
        """Returns whether it came to the end."""
        wrong: BaseException | None = None
        try:
            if not (wrong := self._agree()):
                self._unsaved = None
                self._begin()
                while self._done[0] < self._count:
                    yield from self._step()
                # Another rank may fail in its last step.
                self._session.wait()
                wrong = self._unsaved
        except Exception as error:
            if not self._recovers or not tells_of_failure(error):
                raise
            self._last = error
            return False
        if wrong:
            raise wrong
        return True

    def _step(self) -> Iterator[int]:
        self.is_under_way, self.failure, self._has_begun = True, None, True
        yield self._done[0]
        self.is_under_way = False
        if self.failure:
            raise self.failure
        self._session.check()
        self._done[0] += 1
        self._idle = 0
        if self._session.due(self._done[0]):
            self._save()

    def _save(self) -> None:
        """A failed checkpoint harms nothing, unless ranks have failed: the program goes on, as in mainstay_run. The
        program's own mistakes end the steps."""
        try:
            self._session.checkpoint()
            self._unsaved = None
        except (GroupFailed, InvalidArgument):
            raise
        except Error as error:
            self._unsaved = error
            self._remark(f"a checkpoint was not saved, the program goes on: {error}")

    def _remark(self, text: str) -> None:
        if self._session.rank == 0:
            print(f"mainstay: {text}", file=sys.stderr, flush=True)

    def _begin(self) -> None:
        """Starts at the newest revision, or at the beginning."""
        if self._layout:
            names = self._session._names  # type: ignore[attr-defined]
            for name in self._laid_out.intersection(names()):
                self._let_go(name)
            before = set(names())
            try:
                self._layout(self._session)
            finally:
                self._laid_out = set(names()) - before
        restored = self._session.restore()
        if restored:
            steps = "1 step" if self._done[0] == 1 else f"{self._done[0]} steps"
            self._remark(f"restored revision {restored.revision}, after {steps}")
        else:
            self._done[0] = 0
            if self._recovers and not self._layout:
                if self._has_begun:
                    why = "no revision is left, and without a layout the changes of the steps cannot be undone"
                    raise RevisionMissing(f"steps: {why}; start the job again, or give steps a layout")
                # No layout can make this state anew, so it must be saved before it changes.
                self._session.checkpoint()
                self._session.wait()

    def _let_go(self, name: str) -> None:
        try:
            self._session.free(name)  # memory of empty
        except (RegionMissing, InvalidArgument):
            self._session.unprotect(name)

    def _recover(self) -> None:
        if self._own is None and self._last and not is_of_others(self._last):
            self._own = self._last
        self._idle += 1
        if self._session.recover().lost:
            self._lost, self._idle = 1, 0
        if self._last and is_of_others(self._last):
            self._last.__traceback__ = None  # it keeps the variables of the step

    def _agree(self) -> BaseException | None:
        """Returns the error that ends the steps on all ranks: an error on one of them without a failed rank."""
        if not self._recovers:
            return None
        MPI: Any = sys.modules["mpi4py.MPI"]
        comm: Any = self._session.comm
        told = array("q", [self._lost, self._session.rank + 1 if self._own else 0, self._idle, self._has_begun])
        comm.Allreduce(MPI.IN_PLACE, [told, MPI.INT64_T], op=MPI.MAX)
        lost, has_own, idle, has_begun = told
        self._has_begun = bool(has_begun)
        own, self._own, self._lost = self._own, None, 0
        if lost or not has_own and idle <= IDLE_MAX:
            # If a rank is lost, all errors of messages are blamed on that.
            return None
        if not has_own:
            return self._last or GroupFailed("the ranks have begun again several times, and none of them has failed")
        why = f"rank {has_own - 1} was told of an error of MPI, and no rank has failed; the error is raised there"
        return own or GroupFailed(why)


class Recovering:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._steps: Steps | None = None

    def __enter__(self) -> None:
        steps = self._session._steps  # type: ignore[attr-defined]
        self._steps = steps if steps and steps.is_under_way else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None or not self._session._recovers or not tells_of_failure(error):  # type: ignore[attr-defined]
            return False
        if self._steps is None:
            why = (
                "Python cannot run the body of a `with` again; put it inside the loop: "
                "`for step in session.steps(n):`, and in that `with session.recovering():` around all that a step does"
            )
            raise InvalidArgument(f"recovering: {why}") from error
        self._steps.failure = error
        return True


def tells_of_failure(error: BaseException) -> bool:
    """Whether a rank may have failed: MPI reports that by all kinds of errors."""
    MPI: Any = sys.modules.get("mpi4py.MPI")
    return isinstance(error, (GroupFailed, MPI.Exception) if MPI else GroupFailed)


def is_of_others(error: Any) -> bool:
    """Whether the error means that another rank has failed, or has begun to recover."""
    if isinstance(error, GroupFailed):
        return True
    MPI: Any = sys.modules["mpi4py.MPI"]
    of_others = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)
    # The error of several messages (Waitall) does not give the cause.
    return error.Get_error_class() in (*of_others, MPI.ERR_IN_STATUS, MPI.ERR_PENDING)


def finalize(status: int, last: Any, end_failed: Callable[[Any], None]) -> int:
    """`last`: the ranks of a job that has lost some; `None`: there was none. `end_failed` ends the hanging ones among
    them."""
    MPI: Any = sys.modules.get("mpi4py.MPI")
    if MPI is None or not MPI.Is_initialized() or MPI.Is_finalized():
        return status
    if last is None:
        MPI.Finalize()
        return status
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # the stream may be closed, or None
            stream.flush()
    with suppress(MPI.Exception):
        everyone = last.Iagree(array("i", [1]))  # recovering ranks agree on another number
        until = time.monotonic() + END_S
        while not everyone.Test() and time.monotonic() < until:
            time.sleep(NAP_S)
    with suppress(MPI.Exception):
        end_failed(last)
    # Without this, mpiexec counts the process as failed.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(MPI.__file__).PMIx_Finalize(None, ctypes.c_size_t(0))
    os._exit(status)
