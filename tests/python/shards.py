"""c/shards.c in Python."""

import sys

import mainstay
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD


def particles(of):
    return 1e6 * of + numpy.arange(1000.0 * (of + 1))


def refused(call, *arguments):
    try:
        call(*arguments)
    except mainstay.InvalidArgument:
        return True
    return False


def save(session):
    own = particles(comm.rank)
    session.protect("particles", own)
    session.protect("table", numpy.arange(100))
    session.same_on_all_ranks("table")
    session.any_number_of_ranks()
    session.begin(100, notes={"count": own.size, "kind": "particles"})
    session.write("log", 0, b"rank")
    session.checkpoint()
    session.wait()


def read(session, shards, shard):
    expected = particles(shard)
    log, region, _ = shards[shard].items
    assert (region.name, region.kind, region.dtype, region.shape) == ("particles", "region", "<f8", expected.shape)
    assert (log.name, log.kind, log.bytes) == ("log", "stream", 4)
    some = numpy.zeros(expected.shape, region.dtype)
    assert session.readinto_shard(shard, "particles", 8, some[1:]) == some.nbytes - 8
    some[0] = numpy.frombuffer(session.read_shard(shard, "particles", bytes=8))[0]
    assert (some == expected).all() and session.read_shard(shard, "log", 1) == b"ank"
    # In one write: ranks print to one place.
    sys.stdout.write(f"shard {shard}: {some.size} particles, sum {some.sum():.0f}\n")


def divide(session):
    assert refused(session.bring_shards), "no shards before a restore"
    table = numpy.zeros(100, int)
    session.protect("table", table)
    (listed,) = session.revisions()
    assert (listed.revision, listed.step, listed.notes["kind"]) == (1, None, "particles")
    assert session.choose(revision=1).revision == 1 and not table.any(), "the region is as it was"
    session.restore()
    assert (table == numpy.arange(100)).all(), "the region that is the same on all ranks"
    session.unprotect("table")
    shards = session.bring_shards()
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert [shard.notes["count"] for shard in shards] == [str(1000 * (shard + 1)) for shard in range(len(shards))]
    mine = range(comm.rank, len(shards), comm.size)
    # One rank alone asks for an impossible shard.
    assert refused(session.bring_shards, [len(shards)] if comm.rank == 0 else mine)
    session.bring_shards(mine)
    for shard in mine:
        read(session, shards, shard)


def put(session, again):
    state, extra, back = numpy.full(5000, 0 if again else 7), numpy.array([comm.rank, 7]), numpy.zeros(2, int)
    session.protect("state", state)
    restored = session.restore()
    assert again == (restored is not None)
    if not again:
        session.put("extra", extra)
        return
    assert (state == 7).all()
    assert session.get("extra", back).revision == restored.revision and (back == extra).all()
    session.checkpoint()


with mainstay.open(sys.argv[1], comm) as session:
    mode = sys.argv[2]
    if mode == "save":
        save(session)
    elif mode == "read":
        divide(session)
    else:
        put(session, mode == "again")
