"""Python programs on mpi4py, under each MPI."""

import re
import textwrap

import pytest
from jobs import run
from mpi import OPENMPI

RANKS = 4
PRELUDE = """
import gc, os, sys, time
import mainstay
import numpy as np
from mpi4py import MPI

def never(*_):
    print("WRONG: something was pickled", flush=True)
    MPI.COMM_WORLD.Abort(9)

MPI.pickle.__init__(never, never)
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
space = sys.argv[1]
field, step = np.zeros((3, 1000 + rank)), np.zeros((), "i8")

def opened(comm=world, path=space, **settings):
    session = mainstay.open(path, comm, **settings)
    session.protect("field", field)
    session.protect("step", step)
    return session

def compute():
    global step
    step += 1
    field[:] = np.sin(field + int(step) * (rank + 1))

def say(*words):
    sys.stdout.write(f"= {rank} " + " ".join(map(str, words)) + "\\n")
    sys.stdout.flush()
"""


@pytest.fixture
def job(mpi, scratch):
    """Runs a program on ranks to its end; what each rank said."""

    def start(code, *arguments, status=0, ranks=RANKS):
        program = scratch / "program.py"
        program.write_text(PRELUDE + textwrap.dedent(code))
        python = mpi.command("python")
        command = [python, "-X", "faulthandler", program, scratch / "space", *arguments]
        ended, output = run(ranks, command, scratch, mpi=mpi)
        assert (ended == 0) == (status == 0) and "WRONG" not in output, output
        said = {number: [] for number in range(ranks)}
        for number, words in re.findall(r"^= (\d+) (.*)$", output, re.M):
            said[int(number)].append(words)
        return said

    return start


def test_one_rank_prints_an_error_that_nobody_catches(scratch):
    """All ranks printed it, in no order. An exception of a single rank is printed by that rank."""
    for call in "session.restore(revision=7)", "if rank == 2: session.unprotect('other')":
        program = scratch / "uncaught.py"
        program.write_text(PRELUDE + f"session = opened()\n{call}\n")
        status, output = run(RANKS, [OPENMPI.command("python"), program, scratch / "space"], scratch)
        assert status != 0 and output.count("Traceback (most recent call last)") == 1, output


def alike(said):
    assert len(set(map(tuple, said.values()))) == 1, said
    return said[0]


def test_a_job_that_is_killed_comes_back_bit_for_bit(job):
    program = """
        steps, death = int(sys.argv[3]), int(sys.argv[4])
        with opened(path=space + sys.argv[2]) as session:
            restored = session.restore()
            say("from", restored.notes["step"] if restored else 0)
            while step < steps:
                compute()
                if step % 10 == 0:
                    session.checkpoint({"step": step})
                if step == death and rank == size - 1:
                    os.kill(os.getpid(), 9)
                world.Barrier()
        say("sum", field.sum().hex())
    """
    calm = job(program, "calm", 60, 0)
    killed = job(program, "killed", 60, 45, status=1)
    assert alike(killed) == ["from 0"]
    again = job(program, "killed", 60, 0)
    # The checkpoint of step 40 may have been under way, but not that of step 30.
    assert {words[0] for words in again.values()} <= {"from 30", "from 40"} and len(
        {words[0] for words in again.values()}
    ) == 1
    assert {rank: words[1] for rank, words in again.items()} == {rank: words[1] for rank, words in calm.items()}


@pytest.mark.campaign
def test_a_reader_gives_what_another_rank_has_saved(job):
    said = job("""
        with opened() as session:
            compute()
            session.checkpoint()
        other = (rank + 1) % size
        expected, found = np.sin(np.zeros((3, 1000 + other)) + (other + 1)), np.zeros((3, 1000 + other))
        with mainstay.read(space) as reader:
            say(len(reader.shards), reader.readinto(other, "field", 0, found) == found.nbytes)
            say(np.array_equal(found, expected), reader.read(other, "field") == expected.tobytes())
    """)
    assert alike(said) == [f"{RANKS} True", "True True"]


def test_what_one_rank_does_wrong_all_ranks_are_told(job):
    said = job("""
        for wrong in ({"keep": 0}, {"kep": 1}, {"pool_bytes": 1}, {"stage": []}):
            try:
                mainstay.open(space, world, **(wrong if rank == 2 else {}))
            except mainstay.InvalidArgument as error:
                say(str(error).startswith("on rank 2: ") or rank == 2, next(iter(wrong)) in str(error))
        try:
            mainstay.open(5 if rank == 2 else space, world)
        except mainstay.InvalidArgument as error:
            say(error)
        with opened() as session:
            session.checkpoint()
    """)
    assert all(words[:4] == ["True True"] * 4 and "path: 5 is no path" in words[4] for words in said.values()), said


def test_what_one_rank_gives_of_another_type_all_ranks_are_told(job):
    """It was a TypeError on that rank, before the call: the others waited in the call for ever."""
    said = job("""
        odd = 5 if rank == 2 else None
        with opened() as session:
            for call in (lambda: session.checkpoint(odd), lambda: session.begin(100, odd), lambda: session.put(odd or "x", b"x"),
                         lambda: session.get_bytes(odd or "x"), lambda: session.wait(odd or "pfs")):
                try:
                    call()
                except mainstay.InvalidArgument as error:
                    say(str(error).startswith("on rank 2: ") == (rank != 2))
            say(session.checkpoint(None))
    """)
    assert alike(said) == ["True"] * 5 + ["1"]


@pytest.mark.campaign
def test_communicators_that_are_none_are_refused(job):
    said = job("""
        freed = world.Dup()
        freed.Free()
        half = world.Split(rank % 2)
        bridge = half.Create_intercomm(0, world, 1 - rank % 2)
        for comm in (freed, MPI.COMM_NULL, bridge, MPI.GROUP_EMPTY, "world", 0, world.Dup):
            try:
                mainstay.open(space, comm)
            except mainstay.InvalidArgument as error:
                say(error)
    """)
    told = alike(said)
    assert len(told) == 7 and all(words.startswith("comm: ") for words in told)
    assert "freed" in told[0] and "Merge" in told[2]


@pytest.mark.campaign
def test_a_session_outlives_the_communicator_that_it_was_opened_on(job):
    said = job("""
        comm = world.Dup()
        session = opened(comm)
        comm.Free()
        compute()
        session.checkpoint()
        session.close()
        field[:] = 0
        with opened() as session:
            say(session.restore().revision, session.rank == rank, session.size)
    """)
    assert alike(said) == [f"1 True {RANKS}"]


@pytest.mark.campaign
def test_a_session_frees_its_communicator(job):
    said = job("""
        def free_handle():
            comm = world.Dup()
            handle = comm.py2f()
            comm.Free()
            return handle

        before = free_handle()
        for _ in range(3):
            opened().close()
        say(free_handle() == before)
    """)
    assert alike(said) == ["True"]


@pytest.mark.campaign
def test_coupled_codes_and_ranks_alone(job):
    said = job("""
        half = world.Split(rank % 2)
        with opened(half, f"{space}-{rank % 2}") as coupled, opened(MPI.COMM_SELF, f"{space}-rank-{rank}") as alone:
            for _ in range(5):
                compute()
                coupled.checkpoint()
                if rank == 1:
                    alone.checkpoint()
            kept = field.copy()
            field[:] = 0
            say(coupled.restore().revision, (field == kept).all(), coupled.size, alone.size)
            say(alone.restore())
    """)
    assert all(words[0] == "5 True 2 1" for words in said.values())
    assert all(("revision 5" in words[1]) if rank == 1 else words[1] == "None" for rank, words in said.items())


def test_an_exception_on_one_rank_is_not_held_up_by_the_others(job):
    said = job(
        """
        try:
            with opened() as session:
                compute()
                session.checkpoint()
                session.wait()
                if rank == 1:
                    raise ZeroDivisionError
                world.Barrier()  # rank 1 does not come
        except ZeroDivisionError:
            say("goes on")
            world.Abort(3)
    """,
        status=1,
    )
    assert said[1] == ["goes on"]
    said = job("""
        with opened() as session:
            say(session.restore().revision)
    """)
    assert alike(said) == ["1"]


@pytest.mark.campaign
def test_an_exception_on_every_rank_leaves_the_space_free(job):
    said = job("""
        for expected in (None, 1):
            try:
                with opened() as session:
                    restored = session.restore()
                    assert (restored and restored.revision) == expected, restored
                    if expected is None:
                        session.checkpoint()
                    raise ZeroDivisionError
            except ZeroDivisionError:
                world.Barrier()
        say("ended")
    """)
    assert alike(said) == ["ended"]


@pytest.mark.campaign
def test_a_session_that_outlives_mpi_is_told_so_and_ends(job):
    said = job("""
        session, left = opened(), opened(path=space + "-left")
        session.checkpoint()
        session.wait()
        MPI.Finalize()
        for call in (session.checkpoint, session.restore, session.wait, session.close):
            try:
                call()
            except mainstay.GroupFailed as error:
                say(error)
        del left
        gc.collect()
        say("ended")
        try:
            mainstay.open(space, world)
        except mainstay.InvalidArgument as error:
            say(error)
    """)
    *told, ended, refused = alike(said)
    assert len(told) == 4 and all("MPI was finalized" in words for words in told) and ended == "ended"
    assert refused.startswith("comm: MPI is not running")


@pytest.mark.campaign
def test_a_session_that_is_left_open(job):
    job("""
        session = opened()
        compute()
        session.checkpoint()
        world.Barrier()
    """)
    said = job("""
        with opened() as session:
            say(session.restore().revision)
    """)
    assert alike(said) == ["1"]


def test_a_child_that_a_rank_forks(job):
    said = job("""
        session = opened()
        compute()
        session.checkpoint()
        child = os.fork()
        if child == 0:
            for call in (session.checkpoint, session.wait, session.close):
                try:
                    call()
                except mainstay.InvalidArgument:
                    continue
                os._exit(1)
            os._exit(0)
        say(os.waitpid(child, 0)[1])
        session.checkpoint()
        session.close()
    """)
    assert alike(said) == ["0"]


@pytest.mark.campaign
def test_all_ranks_agree_when_a_checkpoint_is_due(job):
    said = job("""
        with opened(every_steps=4, agree_seconds=0) as session:
            due = []
            for _ in range(12):
                compute()
                if session.due(step):
                    due.append(int(step))
                    session.checkpoint()
        say(due)
    """)
    assert alike(said) == ["[4, 8, 12]"]
