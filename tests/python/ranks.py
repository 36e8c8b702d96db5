"""The ranks of mpi4py as the engine sees them; the modes are those of c/ranks.c."""

import os
import signal
import sys
import time

from mainstay import _engine
from mpi4py import MPI

import mainstay

PIECES = 20
BYTES = 1 << 20
LOOKS_MAX = 20_000
world = MPI.COMM_WORLD.rank


leaves = 0


class Watched(MPI.Intracomm):
    """So often `Split` is left with an error while the other ranks wait in it."""

    def Shrink(self):
        return Watched(super().Shrink())

    def Split(self, *arguments):
        global leaves
        if leaves:
            leaves -= 1
            raise MPI.Exception(MPI.ERR_OTHER)
        return Watched(super().Split(*arguments))


def say(what):
    sys.stdout.write(f"rank {world}: {what}\n")  # in one piece
    sys.stdout.flush()


def through(group, message):
    for _ in range(LOOKS_MAX):
        if (got := group.test(message)) is not None:
            return got
        time.sleep(0.001)
    raise TimeoutError("a message never ends")


def fails(call, *arguments):
    try:
        call(*arguments)
    except mainstay.GroupFailed:
        return True
    return False


def exchange(group):
    following, last = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    receiving = [group.start_receive(last, BYTES - i) for i in range(PIECES)]
    sending = [group.start_send(following, bytes([group.rank * PIECES + i]) * (BYTES - i)) for i in range(PIECES)]
    for i in reversed(range(PIECES)):
        assert through(group, receiving[i]) == bytes([last * PIECES + i]) * (BYTES - i)
        assert through(group, sending[i]) == b""


def odd_length(group):
    if group.rank == 0:
        through(group, group.start_send(1, b"1234567"))
    elif group.rank == 1:
        assert fails(through, group, group.start_receive(0, 8)), "a short message passed"


def shrunk(group, dead):
    """A group without the rank that failed; `dead` is its number in `group`."""
    assert fails(lambda: through(group, group.start_receive(dead, 1))), "a message from the dead"
    living, never = 0 if dead else group.size - 1, None
    if group.rank != living:
        try:
            never = group.start_receive(living, 1)
        except mainstay.GroupFailed:
            pass  # another rank shrinks already
    for _ in range(LOOKS_MAX):
        if failed := group.failed():
            break
        time.sleep(0.001)
    assert failed == [dead], failed
    left = group.shrink()
    assert (left.rank, left.size) == (group.rank - (group.rank > dead), group.size - 1)
    assert never is None or fails(through, group, never), "a message in a group that is over"
    return left


def refuses(group):
    told = []
    for call in (group.failed, group.shrink):
        try:
            call()
        except mainstay.InvalidArgument as error:
            told.append(str(error))
    can = "can" if not told else "cannot" if len(told) == 2 and all("start the job again" in t for t in told) else told
    say(f"{can} shrink")


def main(mode):
    global leaves
    group = _engine._Ranks(Watched(MPI.COMM_WORLD))
    if mode == "refuses":
        refuses(group)
    elif mode == "messages":
        exchange(group)
        odd_length(group)
        exchange(group)
    else:
        exchange(group)
        for dead, dies in [(0, 0), (group.size - 2, group.size - 1)]:
            if world == dies:
                time.sleep(0.3)  # until what it has sent is there
                os.kill(os.getpid(), signal.SIGKILL)
            leaves = int(mode == "shrink_twice" and dead == 0 and world == 2)
            group = shrunk(group, dead)
            assert leaves == 0
            exchange(group)
        assert group.all_gather(bytes([world])) == [bytes([1]), bytes([2])]
        say(f"{group.rank} of {group.size}")
    say("done")


try:
    main(sys.argv[1])
except Exception as error:
    print(f"WRONG: rank {world}: {error!r}", flush=True)
    MPI.COMM_WORLD.Abort(9)
