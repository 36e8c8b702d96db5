"""Programs that swap the pointers of their time levels and grow their lists, in every language: a job that comes back
after any step ends with the bits of an undisturbed run. Protected by address, swapped levels come back exchanged, and
nobody is told: what mainstay_follow is for."""

import gc
import weakref

import mainstay
import numpy as np
import pytest
from jobs import run
from mpi import OPENMPI
from programs import FORTRAN_SOURCES, build_c, build_cxx, build_fortran, build_python
from ways import rarely

RANKS = 2
ODD, STEPS = 5, 7  # where two levels are swapped, and three


@pytest.fixture(scope="module", params=["c", *rarely("c++", "fortran", "python")])
def levels(request, mpi):
    """The program, and the MPI that runs it."""
    if request.param == "python" and mpi is not OPENMPI:
        pytest.skip("this Python has the mpi4py of Open MPI")
    build = {
        "c": lambda: build_c(["levels.c"], "levels", mpi=mpi),
        "c++": lambda: build_cxx("levels.cpp", "levels-cxx", mpi=mpi),
        "fortran": lambda: build_fortran(FORTRAN_SOURCES / "levels.f90", "levels-fortran", mpi),
        "python": lambda: build_python("levels.py", "levels-python"),
    }
    return build[request.param](), mpi


def sums(levels, scratch, *steps, mode="follow"):
    """The sums at the end of a run that stops after each of `steps` and restarts."""
    program, mpi = levels
    space = scratch / "-".join([mode, *map(str, steps)])
    for start, stop in zip((0, *steps), steps):
        status, output = run(RANKS, [program, space, start, stop, mode], scratch, mpi=mpi)
        assert status == 0, output
    return sorted(output.splitlines())


def test_swapped_levels_and_grown_lists_come_back(levels, scratch):
    calm = sums(levels, scratch, STEPS)
    assert len(calm) == RANKS
    assert sums(levels, scratch, ODD, STEPS) == calm
    # The mistake from the guide: it must exist, or the program would not show that `follow` prevents it.
    assert sums(levels, scratch, ODD, STEPS, mode="address") != calm


def test_a_function_gives_the_buffer_of_the_moment_in_python(scratch):
    class Model:
        pass

    model = Model()
    model.u, model.calls = np.arange(10.0), 0
    saved = model.u.copy()

    def given():
        model.calls += 1
        return model.u

    with mainstay.open(scratch / "space") as session:
        session.protect("u", given)
        session.protect("other", lambda: model.u * 0)  # a new one each time
        assert model.calls == 1
        session.checkpoint()
        assert model.calls == 2
        # Mainstay holds no buffer between calls: numpy resizes only memory that is not shared.
        model.u.resize(20)
        before = weakref.ref(model.u)
        model.u = np.zeros(10)
        gc.collect()
        assert before() is None
        assert session.restore().revision == 1 and (model.u == saved).all()
        assert model.calls == 3

        # In pieces: its size is read at begin(), its bytes at checkpoint().
        session.begin(10)
        model.u = np.full(10, 5.0)
        session.write("stream", 0, b"0123456789")
        session.checkpoint()
        assert model.calls == 5
        session.begin(0)
        model.u = np.zeros(11)
        with pytest.raises(mainstay.InvalidArgument, match='"u": it was f64 10 .80 bytes. when the checkpoint began'):
            session.checkpoint()
        with pytest.raises(mainstay.InvalidArgument, match='"u"'):
            session.wait()
        model.u = np.zeros(10)
        session.restore()
        assert (model.u == 5).all()

        with pytest.raises(mainstay.InvalidArgument, match="a function gives its buffer"):
            session.move("u", np.zeros(10))
        with pytest.raises(mainstay.DuplicateName):
            session.protect("u", given)
        # Its result must be memory that can be protected.
        with pytest.raises(mainstay.InvalidArgument, match='region "odd".*no buffer'):
            session.protect("odd", lambda: None)
        with pytest.raises(mainstay.InvalidArgument, match='region "odd".*raised ZeroDivisionError: .*zero'):
            session.protect("odd", lambda: 1 / 0)
        # It is not called any more once the region is unprotected.
        session.unprotect("u")
        calls = model.calls
        session.put("whole", b"bytes")
        assert model.calls == calls


def test_what_a_function_raises_is_the_cause_and_a_ctrl_c_stays_one_in_python(scratch):
    """A program that goes on after a failed checkpoint also went on after its Ctrl-C, and its end by sys.exit."""
    model = np.arange(10.0)
    raised = None

    def given():
        if raised:
            raise raised
        return model

    with mainstay.open(scratch / "space") as session:
        session.protect("u", given)
        for raised in ValueError("mine"), KeyboardInterrupt(), SystemExit(3):
            calls = session.checkpoint, session.restore, lambda: session.protect("other", given)
            for call in calls:
                with pytest.raises((mainstay.InvalidArgument, type(raised))) as told:
                    call()
                if isinstance(raised, Exception):
                    assert told.type is mainstay.InvalidArgument and told.value.__cause__ is raised
                else:
                    assert told.value is raised
        raised = None
        assert session.checkpoint() == 1


def test_a_function_may_protect_another_in_python(scratch):
    model, other = np.arange(10.0), np.ones(3)
    with mainstay.open(scratch / "space") as session:

        def given():
            if first:
                session.protect("other", lambda: other)
            return model

        first = False
        session.protect("u", given)
        first = True
        session.checkpoint()
        first, other[:] = False, 0
        session.restore()
        assert (other == 1).all()


def test_a_program_and_its_session_that_refer_to_each_other_are_collected_in_python(scratch):
    class Model:
        def __init__(self):
            self.u = np.zeros(10)
            self.session = mainstay.open(scratch / "space")
            self.session.protect("u", lambda: self.u)

    gone = weakref.ref(Model())
    gc.collect()
    assert gone() is None
    mainstay.open(scratch / "space").close()  # nobody has it open any more


def test_a_region_moves_in_python(scratch):
    with mainstay.open(scratch / "space") as session:
        first, second, box = np.arange(5.0), np.arange(100.0).reshape(20, 5), np.ones((4, 6))
        session.protect("list", first)
        session.protect("box", box, (8, 6), (4, 0))
        session.move("list", second)
        first.resize(50)  # it is let go
        with pytest.raises(ValueError, match="resize|referenc"):
            second.resize(3)
        larger = np.full((8, 10), 3.0)
        session.move("box", larger[2:6, 2:8])  # the same box, with ghosts around it
        with pytest.raises(mainstay.InvalidArgument, match='box of "box"'):
            session.move("box", np.zeros((5, 6)))
        session.move("box", larger[2:7, 2:8], (8, 6), (3, 0))
        session.checkpoint()
        wanted, second[...], larger[...] = second.copy(), 0, 0
        session.restore()
        assert (second == wanted).all() and larger.sum() == 5 * 6 * 3
