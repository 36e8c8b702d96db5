"""Bytes of the pool and of the records beside it change: in a dead pool before it is claimed, and in a living one.

Only the contents of the chunks stay unchanged: without hashes they cannot be checked.
"""

import itertools
import random
import shutil
import subprocess

import pytest
from limits import LIMIT_S
from paused import LINE, Paused
from pool import STATES, Pool, flip
from programs import build_c, build_faults
from staged import Place, ends_well, pool_directory
from ways import rarely

DEAD, LIVING, LIVING_CAMPAIGN = 100, 1, 40  # seeds
REVISIONS = range(1, 9)
SMALL = [f"set:pool_bytes={1 << 20}", f"set:chunk_bytes={64 << 10}"]


@pytest.fixture(scope="module")
def faults():
    return build_faults()


@pytest.fixture
def pools(monkeypatch):
    with pool_directory() as folder:
        monkeypatch.setenv("MAINSTAY_POOL_DIRECTORY", str(folder))
        yield folder


def pool_in(folder):
    (path,) = (path for path in folder.iterdir() if "." not in path.name)
    return Pool(path)


class Living(Paused):
    """A job of two ranks that saves revisions. It stops between them while the test does damage."""

    def __init__(self, faults, scratch, *more, per="app"):
        self.space = scratch / "space"
        command = [faults, self.space, *SMALL, f"set:per={per}", "open", *more, "save:1", "wait"]
        command += [word for n in REVISIONS[1:] for word in ("pause", f"save:{n}", "wait")] + ["close"]
        super().__init__(2, command, scratch)


def solo(faults, space, *commands):
    """The output of a program with one rank, which must end in order."""
    done = subprocess.run(
        [faults, "--solo", space, *commands], capture_output=True, text=True, errors="replace", timeout=LIMIT_S
    )
    assert done.returncode == 0 and "INTERNAL" not in done.stdout, done
    return [match.groups() for match in map(LINE.match, done.stdout.splitlines()) if match]


def test_a_dead_pool_that_is_damaged(faults, scratch, pools):
    """Revision 2 or the one before is restored completely, and no part of the pool stays."""
    place = Place(scratch, faults, build_c(["inject.c"], "inject.so", "-shared", "-fPIC"))
    place.staged_and_killed(pools, 1, *SMALL)
    saved, left = scratch / "saved", scratch / "left"
    shutil.copytree(place.space, saved)
    shutil.copytree(pools, left)
    came_back = set()
    for seed in range(DEAD):
        shutil.rmtree(place.space)
        shutil.copytree(saved, place.space)
        for path in left.iterdir():
            shutil.copy(path, pools / path.name)
            (pools / path.name).chmod(0o600)
        choice = random.Random(seed)
        pool = pool_in(pools)
        record = pool.path.with_name(f"{pool.path.name}.0")
        # The owner and the seal, the table of segments, and the plan: only nonzero bytes.
        used = [at for at, byte in enumerate(record.read_bytes()) if byte]
        head, plan = used[: len(used) // 4], used[-700:]
        path, parts = choice.choice(
            [(pool.path, list(pool.parts())), *((record, [part]) for part in (head, used, plan))]
        )
        flip(path, parts, choice, choice.choice([1, 4, 40]))
        said = solo(faults, place.space, *SMALL, "open", "restore", "holds:1", "holds:2", "save:5", "wait", "close")
        told = next(text for _, call, _, text in said if call == "restored")
        first, second = (status == "OK" for _, call, status, _ in said if call == "holds")
        revision = next(status for _, call, status, _ in said if call == "restored")
        assert (first, second) == (revision == "1", revision == "2"), f"seed {seed}: {said}"
        ends_well([line for line in said if line[1] != "holds"])
        assert told or revision == "2", f"seed {seed}: revision 2 was lost without a word"
        came_back.add(revision)
        assert not list(pools.iterdir()), f"seed {seed}"
    assert came_back == {"1", "2"}


def saved_well(said):
    """Revisions that both ranks reported durable, the newest first."""
    waits = [[status for rank, call, status, _ in said if (rank, call) == (who, "wait")] for who in ("0", "1")]
    return [str(n) for n, told in reversed(list(enumerate(zip(*waits), 1))) if set(told) == {"OK"}]


def harmed(faults, scratch, pools, harm, *more, per="app"):
    """A job with a pool that is damaged between its checkpoints. Each of its calls ends with success or a named error,
    and the reported revisions are restored."""
    with Living(faults, scratch, *more, per=per) as job:
        pool = None
        for _ in REVISIONS[1:]:
            job.until_all("pause")
            pool = pool or pool_in(pools)
            harm(pool)
            job.go_on()
        job.until_all("end")
        assert job.process.wait(LIMIT_S) == 0
    assert not {"INTERNAL", "WRONG"} & {status for _, _, status, _ in job.said}, job.said
    revisions = saved_well(job.said)
    place = Place(scratch, faults, None)
    said = place.run(pools, 2, "open", "restore", *(f"holds:{n}" for n in REVISIONS), "close", wrong_is_told=True)
    came_back = {status for _, call, status, _ in said if call == "restored"}
    held = [[status for rank, call, status, _ in said if (rank, call) == (who, "holds")] for who in ("0", "1")]
    assert len(came_back) == 1 and min(came_back) >= revisions[0], (job.said, said)
    assert held == [["OK" if str(n) in came_back else "WRONG" for n in REVISIONS]] * 2, (job.said, said)
    assert not list(pools.iterdir()), "the next opening removes the rest of the pool"
    shutil.rmtree(scratch / "space")
    return job.said


@pytest.mark.parametrize(
    "seeds",
    [range(LIVING), pytest.param(range(LIVING, LIVING_CAMPAIGN), marks=pytest.mark.campaign)],
    ids=["few", "many"],
)
def test_a_living_pool_that_is_damaged(faults, scratch, pools, seeds):
    for seed in seeds:
        choice = random.Random(seed)

        def harm(pool, choice=choice):
            records = [path for path in pools.iterdir() if path != pool.path]
            if choice.random() < 0.3:
                record = choice.choice(records)
                flip(record, [range(min(2000, record.stat().st_size))], choice, choice.choice([1, 4, 100]))
            else:
                flip(pool.path, list(pool.parts())[choice.choice([0, 1]) :], choice, choice.choice([1, 4, 100]))

        # One file, the node's file, and one for each rank.
        harmed(faults, scratch, pools, harm, per=("app", "node", "rank")[seed % 3])


@pytest.mark.parametrize("member", [1, *rarely(0, 2, 77)])
def test_chunks_that_say_they_are_taken(faults, scratch, pools, member):
    """By a living member, or by none: no rank waits for them for ever."""
    states = itertools.cycle(STATES[1:])
    said = harmed(faults, scratch, pools, lambda pool: pool.claim_all(next(states), member))
    assert saved_well(said) == [str(n) for n in reversed(REVISIONS)], said


def test_chunks_that_say_they_are_taken_by_a_rank_that_needs_none(faults, scratch, pools):
    """It does not wait for a chunk, but must notice the damage nevertheless."""
    with Living(faults, scratch, "@1:unprotect:field", "@1:unprotect:step") as job:
        job.until_all("pause")
        pool = pool_in(pools)
        for state in STATES[1:]:
            pool.claim_all(state, 1)
            job.go_on()
            job.until_all("pause")
    assert {status for _, _, status, _ in job.said} == {"OK"}, job.said
