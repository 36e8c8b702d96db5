"""Objects that move, in Python: on mpi4py under each MPI, in jobs that lose ranks, and the saved parts of an
object."""

import array
import functools
import random
import re
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import mainstay
import ml_dtypes
import numpy as np
import pytest
from jobs import run
from mainstay import objects
from mpi import OPENMPI, ROOT
from programs import PYTHON
from recovering import begun_anew
from staged import pool_directory
from test_objects import AT_ONCE, BOTH, SHRINK, SPARE, Lossy
from ways import rarely

ROD = ROOT / "examples" / "rod" / "rod.py"
RANKS, STEPS = 4, 40
SEEDS, CAMPAIGN_SEEDS = 3, 50  # of jobs that lose ranks, in both modes


def told(output):
    found = re.search(r"^heat \S+ mark \d+$", output, re.M)
    assert found, output
    return found[0]


def words(mpi, space, *more):
    return [mpi.command("python"), "-X", "faulthandler", ROD, "--space", space, "--steps", STEPS, *more]


@functools.cache
def undisturbed():
    with tempfile.TemporaryDirectory() as folder:
        status, output = run(1, words(OPENMPI, Path(folder) / "space"), Path(folder))
        assert status == 0, output
        return told(output)


class LossyRod(Lossy):
    def goes_on(self, *more, ranks=RANKS, anew=False, **how):
        self.jobs += 1
        scratch, nodes = self.folder / str(self.jobs), self.nodes / str(self.jobs)
        scratch.mkdir()
        nodes.mkdir()
        command = [self.node, *words(OPENMPI, scratch / "space", "--every", 4, *more)]
        with self.start(ranks, command, scratch, NODES=nodes, **how) as job:
            for _ in job.lines():
                pass
            status = job.wait()
        output = "\n".join(job.output)
        assert status == 0, output
        assert told(output) == undisturbed(), output
        assert anew is None or anew == begun_anew(output), output
        return output


@pytest.fixture
def lossy(scratch):
    with pool_directory() as nodes:
        yield LossyRod(scratch, nodes)


@pytest.mark.campaign
@pytest.mark.parametrize(("before", "after"), [(4, 2), (3, 3), (2, 3)])
def test_a_job_starts_again_on_other_ranks(mpi, scratch, before, after):
    status, output = run(
        before, [*words(mpi, scratch / "space"), "--steps", 20, "--balance-every", 3], scratch, mpi=mpi
    )
    assert status == 0, output
    status, output = run(after, words(mpi, scratch / "space"), scratch, mpi=mpi)
    assert status == 0, output
    assert f"step 20, 40 pieces on {after} ranks" in output, output
    assert told(output) == undisturbed()


@pytest.mark.parametrize("how", [*rarely(SPARE), SHRINK], ids=["replace", "shrink"])
def test_a_rank_is_lost(lossy, how):
    output = lossy.goes_on("--crash", "1@18", **AT_ONCE, **how)
    assert "step 16, 40 pieces" in output, output


@pytest.mark.campaign
def test_one_after_another_is_lost_and_the_load_is_balanced(lossy):
    output = lossy.goes_on("--crash", "1@6", "--crash", "0@14", "--strategy", "graph", **AT_ONCE, **SHRINK)
    assert len(re.findall("^revision", output, re.M)) == 2, output


def is_lost_at_random(lossy, seed, how):
    chance = random.Random(seed)
    crashes = []
    for step, rank in zip(
        (chance.randrange(1, 9), chance.randrange(16, 36)), chance.sample(range(RANKS), 2), strict=True
    ):
        crashes += [
            "--crash",
            f"{rank}@{step}+{chance.choice([1, chance.randrange(1, 3000), chance.randrange(1, 30000)])}",
        ]
    strategy = chance.choice(["greedy", "refine", "orphans", "graph"])
    # The first may be lost before a revision exists.
    lossy.goes_on(*crashes, "--strategy", strategy, anew=None, MAINSTAY_PFS_EVERY=1, **how)


@pytest.mark.campaign
@BOTH
@pytest.mark.parametrize("seed", range(SEEDS))
def test_ranks_are_lost_at_random(lossy, how, seed):
    is_lost_at_random(lossy, f"rod {how} {seed}", how)


@pytest.mark.campaign
@BOTH
def test_many_ranks_are_lost_at_random(lossy, how):
    for seed in range(CAMPAIGN_SEEDS):
        is_lost_at_random(lossy, f"rod campaign {how} {seed}", how)


@pytest.mark.campaign
def test_a_rank_goes_on_while_the_one_that_it_sends_to_is_at_work(mpi, scratch):
    """MPI transfers a long message only while its receiver calls MPI."""
    command = [mpi.command("python"), PYTHON / "busy.py", scratch / "space", scratch / "note"]
    status, output = run(2, command, scratch, mpi=mpi)
    assert status == 0 and "in time, come" in output, output


# The saved data of an object, in a session of this process alone.


@pytest.fixture
def session(scratch):
    with mainstay.open(scratch / "space") as opened:
        yield opened


class Any:
    fields = ()

    def __init__(self, index):
        self.index = index


def comes_back(session, of, change, **how):
    """The object after it was saved and restored."""
    with objects.open(session) as here:
        kind = here.add(of, **how)
        assert here.restore() is None
        change(kind.create(7))
        here.checkpoint()
        session.wait()
        kind.get(7).__dict__.clear()
        assert here.restore().objects == 1 and kind.here() == [7]
        return kind.get(7)


VALUES = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**63, -(10**40), 0.1, float("inf"), 1 - 2j, "", "é\udc80", b"", b"\0x",
    bytearray(b"abc"), array.array("d", [1, 2]), array.array("H"), [], (), {}, [1, [2, (3, {"a": [None]})]],
    {1: "a", (2, 3): b"b"}, np.arange(12.0).reshape(3, 4)[:, ::2], np.zeros((0, 3)), np.array(5, "i2"), np.float32(1.5),
    np.array(["ab", "c"]), np.array(["2026-11-23"], "M8[D]"), np.zeros(2, [("a", "f8"), ("b", "i4", (2,))]), np.asfortranarray(np.eye(3)),
    np.ones(3, ml_dtypes.bfloat16), ml_dtypes.bfloat16(1.5), np.ones(3, ml_dtypes.float8_e5m2), np.zeros(2, "V0"),
]  # fmt: skip


def test_every_value_comes_back_as_it_was_and_nothing_is_pickled(session, monkeypatch):
    monkeypatch.setattr("pickle.dumps", lambda *_: pytest.fail("something was pickled"))

    def change(one):
        one.values, one.other = VALUES, "x"

    back = comes_back(session, Any, change, fields=["values"])
    assert not hasattr(back, "other")
    for value, other in zip(VALUES, back.values, strict=True):
        assert type(value) is type(other)
        if isinstance(value, (np.ndarray, np.generic)):
            assert value.dtype == other.dtype and value.shape == other.shape
        assert np.array_equal(value, other) if isinstance(value, np.ndarray) else value == other


def test_a_field_is_pickled_if_it_is_named_and_else_refused(session):
    def change(one):
        one.chance = random.Random(5)

    with pytest.raises(mainstay.InvalidArgument, match=r"object Any\[7\] on rank 0: .*field 'chance': .*type Random"):
        comes_back(session, Any, change, fields=["chance"])


C_STRUCT = np.dtype([("a", "u1"), ("b", "f8")], align=True)


@pytest.mark.parametrize(
    "value", [np.zeros(2, C_STRUCT), np.zeros(2, [("a", ml_dtypes.bfloat16)])], ids=["gaps", "bfloat16"]
)
def test_an_array_that_would_come_back_as_another_is_refused(session, value):
    def change(one):
        one.value = value

    with pytest.raises(mainstay.InvalidArgument, match=r"field 'value': an array of type .*pickled="):
        comes_back(session, Any, change, fields=["value"])


@pytest.mark.parametrize("deep", range(27, 34))
def test_an_array_that_lies_too_deep_to_come_back_is_not_saved(session, deep):
    with objects.open(session) as here:
        one = here.add(Any, fields=["value"]).create(7)
        one.value = np.zeros(2, [("a", "f8"), ("b", "i4", (2,))])
        for _ in range(deep):
            one.value = [one.value]
        try:
            here.checkpoint()
        except mainstay.InvalidArgument as error:
            assert deep > 27 and "deep" in str(error)
        else:
            assert here.restore().objects == 1


def test_a_revision_without_the_objects_that_are_open_is_not_saved(session):
    """The program's own checkpoint removed the last revision with the objects."""
    with objects.open(session) as here:
        kind = here.add(Any, fields=["index"])
        kind.create(7)
        here.checkpoint()
        for call in (session.checkpoint, lambda: session.put("whole", b"bytes"), lambda: session.begin(10)):
            with pytest.raises(mainstay.InvalidArgument, match="session: objects are open on it.*their checkpoint"):
                call()
        with pytest.raises(mainstay.InvalidArgument, match="objects: others are open on this session"):
            objects.open(session)
        assert here.restore().objects == 1
        here.checkpoint()
    session.protect("state", bytearray(3))
    session.checkpoint()  # none are open
    objects.open(session).close()


def test_what_is_named_is_pickled(session):
    def change(one):
        one.chance = random.Random(5)

    back = comes_back(session, Any, change, fields=["chance"], pickled=["chance"])
    assert back.chance.random() == random.Random(5).random()


def test_a_value_that_holds_itself_is_refused(session):
    def change(one):
        one.value = []
        one.value.append(one.value)

    with pytest.raises(mainstay.InvalidArgument, match="more than 32 deep"):
        comes_back(session, Any, change, fields=["value"])


def test_buffers_are_what_is_saved_of_objects_that_have_no_fields(session):
    class Row:
        def __init__(self, index):
            self.values = np.zeros(5)

        def buffer(self):
            return self.values

    class Text(bytearray):
        def __init__(self, index):
            super().__init__(b"empty")

    with objects.open(session) as here:
        rows, texts = here.add(Row, dimensions=2), here.add(Text)
        assert here.restore() is None
        rows.create((3, 4)).values[:] = np.arange(5)
        texts.create(1)[:] = b"longer than it was"
        here.checkpoint()
        session.wait()
        here.restore()
        assert rows.here() == [(3, 4)] and rows.get((3, 4)).values.tolist() == [0, 1, 2, 3, 4]
        assert bytes(texts.get(1)) == b"longer than it was" and len(here) == 2


@dataclass
class Talker:
    index: int
    heard: list = field(default_factory=list)

    @objects.handler
    def hear(self, *words):
        self.heard.append(words)
        if self.index == 1:
            Talker.kind.send(2, "hear", "passed on", np.arange(3))

    @objects.handler
    def count(self, units):
        Talker.here.contribute(1, [1, self.index])
        Talker.here.contribute(2, [self.index], "max")
        Talker.here.work(units)

    @objects.handler
    def stop(self):
        raise KeyboardInterrupt


@pytest.fixture
def talkers(session):
    with objects.open(session) as here:
        Talker.here, Talker.kind = here, here.add(Talker, "talker", dimensions=1)
        here.restore()
        for index in range(1, 5):
            Talker.kind.create(index)
        yield here, Talker.kind


def test_messages_results_and_what_was_measured(talkers):
    here, kind = talkers
    kind.send(1, "hear", 5, "a")
    kind.broadcast("count", 10)
    here.step()
    assert kind.get(1).heard == [(5, "a")] and kind.get(2).heard[0][0] == "passed on" and here.steps == 1
    assert here.result(1) == [4, 10] and here.result(2) == [4] and here.result(3) is None
    load, sent = kind.measured(1)
    assert load >= 10 and [(name, index) for name, index, _ in sent] == [("talker", 2)] and sent[0][2] > 24
    assert kind.measured(3) == (10, []) and kind.rank(3) == 0
    balanced = here.balance("graph")
    assert (balanced.moved, balanced.sent) == (0, 0) and kind.measured(3).load == 5


REFUSED = {
    "a handler that there is not": (lambda here, kind: kind.send(1, "shout"), "no handler 'shout'.*count, hear, stop"),
    "an index of too many numbers": (lambda here, kind: kind.create((1, 2)), r"\(1, 2\) is no index of it"),
    "an index below 0": (lambda here, kind: kind.get(-1), "-1 is no index of it; an index is a number below"),
    "what a message cannot carry": (lambda here, kind: kind.send(1, "hear", {1, 2}), "message 'hear': .*type set"),
    "an object of nowhere": (lambda here, kind: kind.rank(9), r"object talker\[9\]: no rank has made it"),
    "what was measured elsewhere": (lambda here, kind: kind.measured(9), r"object talker\[9\]: it is on no rank"),
    "a strategy that there is not": (lambda here, kind: here.balance("luck"), "none, greedy, refine, orphans, graph"),
    "an operation that there is not": (lambda here, kind: here.contribute(1, [1], "product"), "sum, min, max"),
    "an object made twice": (lambda here, kind: kind.create(1), "there is one of this index already"),
    "a kind made twice": (lambda here, kind: here.add(Talker, "talker"), "another kind of objects has this name"),
    "a kind that says nothing": (lambda here, kind: here.add(object, "odd"), "does not name its saved fields"),
    "fields as a text": (lambda here, kind: here.add(Any, "odd", fields="abc"), "a list of names"),
    "a field that is none": (
        lambda here, kind: here.add(Any, "odd", fields=["a"], pickled=["b"]),
        "b is to be pickled",
    ),
    "all ranks left": (lambda here, kind: here.evacuate([0]), "no rank would be left"),
    "a rank that there is not": (lambda here, kind: here.evacuate([5]), "there is no rank 5"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(talkers, what):
    call, says = REFUSED[what]
    here, kind = talkers
    with pytest.raises(mainstay.InvalidArgument, match=says):
        call(here, kind)
    kind.broadcast("count", 1)
    here.step()
    assert here.result(1) == [4, 10]


def test_what_a_handler_raises_is_the_cause_and_a_ctrl_c_stays_one(talkers):
    here, kind = talkers
    here.checkpoint()
    kind.send(3, "hear", 1)
    kind.get(3).heard = None
    with pytest.raises(
        mainstay.InvalidArgument, match=r"object talker\[3\] on rank 0: its method hear failed: .*AttributeError"
    ) as told:
        here.step()
    assert isinstance(told.value.__cause__, AttributeError)
    for goes_on in here.step, here.checkpoint:
        with pytest.raises(mainstay.InvalidArgument, match="go back to a checkpoint by restore"):
            goes_on()
    here.restore()
    kind.send(4, "stop")
    with pytest.raises(KeyboardInterrupt):
        here.step()


def test_objects_belong_to_one_thread_and_end_once(session):
    here, raised = objects.open(session), []

    def elsewhere():
        with pytest.raises(mainstay.InvalidArgument, match="another thread") as told:
            here.step()
        raised.append(told)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert raised
    here.close()
    here.close()
    with pytest.raises(mainstay.InvalidArgument, match="they are closed"):
        here.step()
