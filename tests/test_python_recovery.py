"""Python programs that go on when ranks fail, with spares, with started processes, or with fewer ranks, have the
results of an undisturbed run bit for bit."""

import contextlib
import dataclasses
import os
import random
import re
import signal
from pathlib import Path

import mainstay
import pytest
from crashes import unless_mpi_crashes
from job import Job
from mpi import MPICH, OPENMPI, SURVIVING
from programs import PYTHON
from recovering import begun_anew
from staged import pool_directory
from ways import rarely

STEPS, CELLS = 8, 60
LIMIT_S = 60  # of a job of a second
KILLS, KILLED_JOBS = 3, 4  # each in both modes
CAMPAIGN_JOBS = 100  # of each
# The heartbeat finds a stopped rank.
WATCHED = dataclasses.replace(
    SURVIVING,
    oversubscribe=(
        *SURVIVING.oversubscribe,
        *(word for name, value in [("", "true"), ("_thread", "true"), ("_period", "2"), ("_timeout", "20")]
          for word in ("--mca", f"mpi_ft_detector{name}", value)),
    ),
)  # fmt: skip


# Less than the time that the end of a program waits for the other ranks.
SOON = dataclasses.replace(
    WATCHED, oversubscribe=tuple({"2": "0.8", "20": "4"}.get(word, word) for word in WATCHED.oversubscribe)
)


# As between nodes.
TCP = dataclasses.replace(SURVIVING, variables=(*SURVIVING.variables, ("OMPI_MCA_btl", "self,tcp")))


class Said:
    def __init__(self, status, output):
        self.status, self.output = status, "\n".join(output)
        self.words = re.findall(r"^= (.*)$", self.output, re.M)

    def of(self, word):
        return [line for line in self.words if line.split()[0] == word]

    @property
    def end(self):
        lines = self.of("end")
        assert len(lines) == 1, self.output
        return lines[0].split()[1:]


def run(scratch, ranks, *moments, mpi=SURVIVING, followed=None, **settings):
    """Runs a job to its end; `followed` gets each line of its output."""
    with pool_directory() as pools:
        settings = {"MEMORY": "auto", "PFS_EVERY": 0, "RECOVERY": "replace", **settings}
        variables = [f"MAINSTAY_{name}={value}" for name, value in settings.items()] + ["GIVEN=by = env"]
        # Open MPI's own segments are removed with the folder, even if processes are killed.
        variables.append(f"OMPI_MCA_btl_sm_backing_directory={scratch}")
        program = [mpi.command("python"), "-X", "faulthandler", PYTHON / "recovery.py"]
        command = ["env", *variables, *program, scratch / "space", pools, STEPS, CELLS, *moments]
        with Job(ranks, command, scratch, LIMIT_S, mpi) as job:
            for line in job.lines():
                if followed:
                    followed(job, line)
            return Said(job.wait(), job.output)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    said = run(tmp_path_factory.mktemp("calm"), 1, mpi=OPENMPI, RECOVERY="off")
    assert said.status == 0, said.output
    return said.end[0]


def goes_on(said, undisturbed, ranks, anew=False):
    """`anew`: whether the job goes back to the beginning on the way; None if that depends on chance."""
    assert anew is None or anew == begun_anew(said.output), said.output
    assert said.end == [undisturbed, str(ranks)] and len(said.of("closed")) == ranks, said.output
    return said


@pytest.mark.parametrize(
    "moment", ["4:1:talks", *rarely("4:1:computes", "4:0:computes", "1:2:computes", "7:2:computes")]
)
def test_a_spare_takes_the_place_of_a_rank(scratch, undisturbed, moment):
    # In step 1 the first revision may still be under way.
    anew = None if moment.startswith("1") else False
    said = goes_on(run(scratch, 4, moment, SPARES=1), undisturbed, 3, anew)
    assert said.of("ranks") == ["ranks 0 1 2"] * 2 and not said.of("replaces"), said.output
    # Only the step of the failure is repeated, and steps that were not complete.
    assert len(said.of("step")) <= STEPS + 2 or moment.startswith("1"), said.output


@pytest.mark.campaign
def test_who_writes_to_one_that_has_failed_lives(scratch, undisturbed):
    """MPI does so over TCP. In Python SIGPIPE ends no process, unless the program enables it."""
    said = goes_on(run(scratch, 3, "4:1:writes"), undisturbed, 3)
    assert said.of("refused") and len(said.of("step")) == STEPS, said.output


@pytest.mark.campaign
@pytest.mark.parametrize("rank", [0, 3])
def test_ranks_that_never_spoke_to_the_one_that_failed_live(scratch, undisturbed, rank):
    """They also report the agreed result to it, and connect to it for that."""
    said = goes_on(run(scratch, 8, f"4:{rank}:computes", mpi=TCP, RECOVERY="shrink"), undisturbed, 7)
    assert "MPI_ERRORS_ARE_FATAL" not in said.output, said.output


@pytest.mark.campaign
@pytest.mark.parametrize(("rank", "way"), [(0, "replace"), (0, "shrink"), (3, "replace"), (3, "shrink")])
def test_a_rank_is_lost_before_the_session_is_open(scratch, undisturbed, way, rank):
    """With a spare for the last one."""
    said = run(scratch, 4, f"0:{rank}:opens", RECOVERY=way, SPARES=1 if way == "replace" else 0)
    goes_on(said, undisturbed, 3)


@pytest.mark.campaign
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_is_lost_in_the_closing(scratch, undisturbed, rank):
    """All saved data is in the space: the others end well."""
    said = run(scratch, 3, f"0:{rank}:closes", MEMORY="off", PFS_EVERY=1)
    assert len(said.of("closed")) == 2 and not said.of("raised"), said.output
    assert said.of("end") == ([f"end {undisturbed} 3"] if rank else []), said.output


@pytest.mark.campaign
def test_two_ranks_are_lost_at_once(scratch, undisturbed):
    moments = ["4:0:computes", "4:2:computes"]
    said = goes_on(run(scratch, 6, *moments, SPARES=2, MEMORY_COPIES=3), undisturbed, 4)
    assert len(said.of("step")) <= 2 * STEPS, said.output


def test_a_rank_is_lost_while_the_others_recover(scratch, undisturbed):
    said = run(scratch, 6, "4:1:computes", "1:3:lays_out", SPARES=2, MEMORY_COPIES=3)
    goes_on(said, undisturbed, 4)


@pytest.mark.campaign
def test_a_process_is_started_where_no_spare_is_left(scratch, undisturbed):
    said = goes_on(run(scratch, 4, "3:1:computes", "5:0:computes", SPARES=1), undisturbed, 3)
    assert said.of("replaces") == ["replaces 0"], said.output


@pytest.mark.campaign
@pytest.mark.parametrize("rank", [0, 2])
def test_another_rank_is_lost_while_a_process_is_started(scratch, undisturbed, rank):
    """Rank 0 starts it. Before, all ranks started it together: if one of them failed meanwhile, MPI let the others and
    the new process wait for each other for ever."""
    moments = ["4:1:computes", f"0:{rank}:replaces"]
    said = unless_mpi_crashes(lambda: goes_on(run(scratch, 3, *moments, MEMORY_COPIES=3), undisturbed, 3))
    assert sorted(said.of("replaces")) == sorted(["replaces 1", f"replaces {rank}"]), said.output


@pytest.mark.campaign
@pytest.mark.parametrize("moment", ["stillborn", "begun"])
def test_a_process_that_dies_while_it_starts_is_replaced_too(scratch, undisturbed, moment):
    """The job stalled for 120 s, and ended. If MPI waits for the dead process, the rank that started it is lost,
    too."""
    said = goes_on(run(scratch, 3, "4:1:computes", f"0:1:{moment}", PFS_EVERY=1), undisturbed, 3, None)
    assert len(said.of("replaces")) == (2 if moment == "stillborn" else 1), said.output


@pytest.mark.campaign
def test_a_process_that_is_started_has_what_env_gave_the_program(scratch, undisturbed):
    """Also a process that replaces a started process."""
    moments = ["3:0:computes", "5:1:computes"]
    said = goes_on(run(scratch, 3, *moments, KEEP=3), undisturbed, 3)
    assert said.of("given") == ["given by = env"] * 2, said.output


@pytest.mark.campaign
@pytest.mark.parametrize(("way", "spares"), [("replace", 2), ("shrink", 0)])
def test_a_rank_that_hears_nothing_in_the_recovery_is_ended(scratch, undisturbed, way, spares):
    """If another rank is killed while it returns memory to a rank, Open MPI loses all later messages to that rank over
    shared memory. Then all ranks waited for ever in the making of a communicator."""
    said = run(scratch, 4 + spares, "4:1:computes", "4:2:deaf", RECOVERY=way, SPARES=spares, MEMORY_COPIES=3)
    goes_on(said, undisturbed, 4 if spares else 2)
    assert re.search(r"mainstay: process \d+ hears no other rank any more", said.output), said.output


@pytest.mark.campaign
def test_a_rank_that_does_not_come_to_the_recovery_is_told_of(scratch, undisturbed):
    """It may compute for long, so it is not ended. Here the user ends the stopped rank. A rank that sends to it is
    reported, too."""
    told = []

    def ends(job, line):
        if missing := re.match(r"mainstay: for \d+ s the others have waited for process (\d+) to take part", line):
            told.append(missing[1])
            if re.search(r"^State:\s+T", Path(f"/proc/{missing[1]}/status").read_text(), re.M):
                os.kill(int(missing[1]), signal.SIGKILL)

    moments = ["4:1:computes", "4:2:computes:stop"]
    goes_on(run(scratch, 6, *moments, SPARES=2, MEMORY_COPIES=3, followed=ends), undisturbed, 4)
    assert 1 <= len(told) <= 2, told


class Endless:
    """A world of three ranks. MPI's agreement in it never ends, or ends with an error."""

    def __init__(self, teller=None, fails=False):
        self.teller, self.fails, self.sent, self.tags, self.count = teller, fails, [], [], None
        self.looks_left = 100_000

    def Create_keyval(self):
        return 7

    def Get_attr(self, key):
        return self.count

    def Set_attr(self, key, value):
        self.count = value

    def Iagree(self, flags):
        self.lent = flags
        return self

    def Test(self):
        self.looks_left -= 1
        assert self.looks_left, "no rank was listened to"
        if self.fails:
            raise RuntimeError("a rank has failed")
        if self.teller is None:
            self.lent[0] = 4
        return self.teller is None

    def Get_size(self):
        return 3

    def Get_rank(self):
        return 1

    def Iprobe(self, rank, tag):
        self.tags.append(tag)
        return rank == self.teller

    def Recv(self, into, rank, tag):
        assert (rank, tag) == (self.teller, self.tags[-1])

    def Isend(self, what, rank, tag):
        self.sent.append((rank, tag))
        return self

    def Free(self):
        pass


def test_who_waits_for_an_agreement_hears_of_its_outcome_from_others():
    """In MPI's own agreement a rank waits for ever if the rank that should forward the outcome has failed."""
    mpi = type("MPI", (), {"Comm": Endless(), "BYTE": None, "Exception": RuntimeError})
    agrees = mainstay._engine._Ranks.common
    calm = Endless()
    assert [agrees(mpi, calm, 6), agrees(mpi, calm, 6)] == [4, 4] and not calm.sent
    heard = Endless(teller=2)
    assert agrees(mpi, heard, 6) is None and not heard.sent
    first = heard.tags[-1]
    assert agrees(mpi, heard, 6) is None and heard.tags[-1] == first + 1, (
        "an outcome of one agreement must not count for the next"
    )
    failed = Endless(fails=True)
    assert agrees(mpi, failed, 6) is None and failed.sent == [(0, first), (2, first)]


@pytest.mark.parametrize("spares", [1, *rarely(0)])
def test_fewer_ranks_go_on_with_all_of_the_field(scratch, undisturbed, spares):
    moments = ["3:1:computes", "5:0:talks"]
    said = goes_on(run(scratch, 4 + spares, *moments, RECOVERY="shrink", SPARES=spares), undisturbed, 2 + spares)
    assert said.of("ranks")[0] == "ranks 0 1 2 3", said.output


@pytest.mark.campaign
@pytest.mark.parametrize("moments", [["3:1:computes", "1:0:lays_out"], ["3:1:computes"]], ids=["two", "one"])
def test_ranks_are_replaced_whose_state_is_their_own(scratch, undisturbed, moments):
    """Fewer ranks have no revision to go back to; the second is lost when no memory is protected."""
    said = run(scratch, 3, "whole", *moments, RECOVERY="shrink", MEMORY_COPIES=3)
    goes_on(said, undisturbed, 3)
    assert len(said.of("replaces")) == len(moments), said.output


@pytest.mark.campaign
def test_a_rank_that_is_stopped_is_found_by_its_heart_and_killed(scratch, undisturbed):
    unless_mpi_crashes(lambda: goes_on(run(scratch, 4, "4:1:computes:stop", SPARES=1, mpi=WATCHED), undisturbed, 3))


@pytest.mark.campaign
def test_a_spare_that_hangs_does_not_keep_the_job_from_its_end(scratch, undisturbed):
    """No rank needed it, so no rank ended it, and mpiexec waited for it for ever."""

    def stop_the_spare(_, line):
        if line == "= step 3":
            # On a busy machine the job may be over before its line is read, or the spare may count as hanging.
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.kill(int(Path(scratch / "space.victim").read_text()), signal.SIGSTOP)

    # It writes its number to `space.victim`.
    job = {"SPARES": 1, "mpi": SOON, "followed": stop_the_spare}
    unless_mpi_crashes(lambda: goes_on(run(scratch, 4, "0:3:replaces", **job), undisturbed, 3))


def is_killed_again_and_again(scratch, undisturbed, seed, way, kills):
    """Each time another rank, at a later step than the kill before."""
    chance = random.Random(f"{way} {seed}")
    ranks = kills + (3 if way == "shrink" else 1)
    spares = 0 if way == "shrink" else chance.randrange(kills + 1)
    victims = chance.sample(range(ranks), kills)
    steps = sorted(chance.sample(range(1, STEPS), len(victims)))
    moments = [
        f"{step}:{rank}:{chance.choice(['computes', 'talks'])}" for step, rank in zip(steps, victims, strict=True)
    ]
    said = run(scratch, ranks + spares, *moments, RECOVERY=way, SPARES=spares, PFS_EVERY=1)
    anew = None if steps[0] == 1 else False
    goes_on(said, undisturbed, ranks - (len(victims) if way == "shrink" else 0), anew)


@pytest.mark.campaign
@pytest.mark.parametrize("way", ["replace", "shrink"])
@pytest.mark.parametrize("seed", range(KILLED_JOBS))
def test_kills_at_random(scratch, undisturbed, seed, way):
    is_killed_again_and_again(scratch, undisturbed, seed, way, KILLS)


@pytest.mark.campaign
@pytest.mark.parametrize("way", ["replace", "shrink"])
def test_many_kills_at_random(tmp_path_factory, undisturbed, way):
    for seed in range(CAMPAIGN_JOBS):
        is_killed_again_and_again(tmp_path_factory.mktemp("killed"), undisturbed, f"campaign {seed}", way, KILLS)


@pytest.mark.campaign
def test_a_spare_that_is_not_needed_ends_well(scratch, undisturbed):
    said = goes_on(run(scratch, 4, SPARES=2), undisturbed, 2)
    assert said.status == 0 and len(said.of("not")) == 2, said.output


def test_a_spare_that_is_not_needed_ends_well_by_itself_after_a_failure(scratch, undisturbed):
    """The end of MPI waited there for ever for the failed ranks."""
    said = goes_on(
        run(scratch, 5, "4:1:computes", *(f"0:{rank}:leaves" for rank in range(5)), SPARES=3), undisturbed, 2
    )
    assert len(said.of("not")) == 2, said.output


def test_a_spare_can_be_interrupted(scratch, undisturbed):
    def interrupts(job, line):
        if line == "= step 1":
            signal.pidfd_send_signal(job._ranks[2], signal.SIGINT)
        if line == "= interrupted":
            (scratch / "space.go").touch()

    # The job does not end before the spare has noticed it.
    said = goes_on(run(scratch, 3, "2:0:waits", SPARES=1, followed=interrupts), undisturbed, 2)
    assert said.of("interrupted"), said.output


def test_an_error_that_comes_of_no_failure_ends_the_steps_on_all_ranks(scratch):
    said = run(scratch, 3, "4:1:raises:truncation")
    told = sorted(line.split()[1] for line in said.of("raised"))
    assert told == ["Exception", "GroupFailed", "GroupFailed"] and said.status != 0, said.output
    assert "MPI_ERR_TRUNCATE" in said.output and "rank 1 was told of an error of MPI" in said.output, said.output


def test_an_error_of_the_programs_own_passes_through(scratch):
    said = run(scratch, 2, "4:0:raises:own", "4:1:raises:own")
    assert sorted(said.of("raised")) == ["raised ValueError of the program's own"] * 2, said.output


@pytest.mark.campaign
@pytest.mark.parametrize("mpi", [MPICH, OPENMPI], ids=str)
def test_an_mpi_that_cannot_go_on_without_ranks_says_so_once(scratch, undisturbed, mpi):
    said = goes_on(run(scratch, 3, mpi=mpi, SPARES=1), undisturbed, 2)
    assert said.status == 0 and len(said.of("not")) == 1, said.output
    assert said.output.count("recovery has no effect here: this MPI does not go on") == 1, said.output


@pytest.mark.campaign
def test_spares_that_leave_nobody_to_work_are_refused(scratch):
    said = run(scratch, 2, SPARES=2)
    assert len(said.of("raised")) == 2, said.output
    assert all("spares: 2 of 2 ranks would wait" in line for line in said.of("raised")), said.output


def steps_of(session, array, count, layout=None):
    for step in session.steps(count, layout):
        with session.recovering():
            array += step
            yield step


def test_steps_without_recovery_restore_and_save(scratch):
    import numpy

    sums = []
    for count in (5, 8, 8):
        field = numpy.zeros(3)
        with mainstay.open(scratch / "space", every_steps=1) as session:
            session.protect("field", field)
            assert session.comm is None
            sums.append((list(steps_of(session, field, count)), field[0]))
    assert sums == [([0, 1, 2, 3, 4], 10.0), ([5, 6, 7], 28.0), ([], 28.0)]


def test_one_loop_of_steps_at_a_time(scratch):
    with mainstay.open(scratch / "space") as session:
        for step in session.steps(3):
            with pytest.raises(mainstay.InvalidArgument, match="steps: another loop over them is under way"):
                list(session.steps(2))
        assert step == 2 and list(session.steps(3)) == [0, 1, 2]


def test_a_loop_of_steps_that_ended_within_a_checkpoint_is_none_that_is_under_way(scratch):
    with mainstay.open(scratch / "space") as session:
        with pytest.raises(ValueError):
            for _ in session.steps(3):
                session.begin(100)
                raise ValueError
        session.abandon()
        assert list(session.steps(3)) == [0, 1, 2]


def test_a_layout_protects_anew_what_it_has_protected(scratch):
    import numpy

    with mainstay.open(scratch / "space", every_steps=1) as session:
        field = numpy.zeros(3)

        def lay_out(laid):
            assert laid is session
            session.protect("field", field)

        assert list(steps_of(session, field, 2, lay_out)) == [0, 1]
        assert list(steps_of(session, field, 3, lay_out)) == [2]


def test_a_layout_asks_for_memory_anew(scratch):
    """empty refused it, and the first recovery ended the job."""
    with mainstay.open(scratch / "space", every_steps=1) as session:
        fields = []

        def lay_out(laid):
            fields.append(laid.empty("field", 3))

        def steps(count):
            for step in session.steps(count, lay_out):
                fields[-1] += step
                yield step

        assert list(steps(3)) == [0, 1, 2]
        assert list(steps(5)) == [3, 4]
        assert [list(field) for field in fields] == [[3.0] * 3, [10.0] * 3]


def test_a_layout_asks_for_memory_anew_that_it_protects_under_another_name(scratch):
    with mainstay.open(scratch / "space", every_steps=1) as session:
        fields = []

        def lay_out(laid):
            memory = laid.empty("memory", 5)
            laid.unprotect("memory")
            fields.append(memory[1:-1])
            laid.protect("field", fields[-1])

        def steps(count):
            for step in session.steps(count, lay_out):
                fields[-1] += step
                yield step

        assert list(steps(3)) == [0, 1, 2]
        assert list(steps(5)) == [3, 4]
        assert [list(field) for field in fields] == [[3.0] * 3, [10.0] * 3]


def test_a_program_that_saves_its_end_itself_starts_again_there(scratch):
    """The number of steps was missing in its saved data, and no later start could restore."""
    import numpy

    for begins, ends in (0, 3), (3, 5):
        with mainstay.open(scratch / "space", every_steps=100) as session:
            field = numpy.zeros(3)
            assert list(steps_of(session, field, ends, lambda laid: laid.protect("field", field))) == list(
                range(begins, ends)
            )
            session.checkpoint()


def test_what_steps_have_changed_is_no_beginning(scratch, monkeypatch):
    """Without a revision, steps began at 0 again with changed arrays, and saved them."""
    import numpy
    from mainstay._recovery import Steps

    with mainstay.open(scratch / "space", every_steps=1) as session:
        session.protect("field", numpy.zeros(3))
        steps = Steps(session, 3, None)
        steps._recovers = True
        monkeypatch.setattr(steps, "_agree", lambda: None)
        steps._has_begun = True
        with pytest.raises(mainstay.RevisionMissing, match="no revision is left, and without a layout"):
            list(steps.run())


@pytest.mark.parametrize("too_large_at", [1, 3])
def test_a_checkpoint_that_is_not_saved_ends_no_steps(scratch, capfd, too_large_at):
    """As in C; the steps since the last revision were lost."""
    import numpy

    field, done = numpy.zeros(3), []

    def steps():
        for step in session.steps(4):
            field[:] += step
            if step == too_large_at:
                session.protect("large", numpy.ones(4 << 20))
            elif step == too_large_at + 1:
                session.unprotect("large")
            done.append(step)

    with mainstay.open(scratch / "space", every_steps=1, portion_bytes=8 << 20) as session:
        session.protect("field", field)
        if too_large_at == 3:
            with pytest.raises(mainstay.PortionTooSmall):
                steps()
        else:
            steps()
    assert done == [0, 1, 2, 3]
    assert capfd.readouterr().err.count("a checkpoint was not saved, the program goes on: ") == 1
    saved = 3 if too_large_at == 3 else 4
    with mainstay.open(scratch / "space") as session:
        session.protect("field", field)
        assert list(session.steps(saved)) == [] and field[0] == sum(range(saved))


def test_errors_pass_through_where_recovery_is_off(scratch):
    with mainstay.open(scratch / "space", every_steps=1) as session:
        for error in (mainstay.GroupFailed("x"), ValueError("y")):
            with pytest.raises(type(error)):
                for _ in session.steps(3):
                    with session.recovering():
                        raise error
