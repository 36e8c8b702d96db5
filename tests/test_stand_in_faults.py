"""Programs of VeloC, SCR and FTI meet damage, hostile files, other users, and settings of all kinds."""

import os
import random
import re
import shutil
import struct
import tempfile
from pathlib import Path

import mainstay
import pytest
from jobs import run
from mpi import SHARED_MEMORY
from programs import ROOT, build_c
from relinked import build, configuration, configuration_of_fti, results, set_variables, sum_of
from ways import in_turn, rarely

NOBODY = 65534
STEPS, EVERY = 60, 10


def codes(output):
    return [code for _, code in results(output)]


def damage(folder, data):
    """Changes a byte of these in each file that has them."""
    damaged = 0
    for path in folder.rglob("*"):
        if path.is_file() and (at := path.read_bytes().find(data)) >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([data[0] ^ 1]))
            damaged += 1
    assert damaged, f"nothing in {folder} has these bytes"


def test_damaged_versions_of_veloc_are_passed_over(scratch):
    program = build("veloc_calls", "veloc")
    file = configuration(scratch, persistent=None, max_versions=5)
    calls = ["fill=1", "protect=0:100000", "init", "protect=0:100000"]
    for version in range(1, 4):
        calls += [f"fill={version}", f"save=x:{version}", "wait"]
    status, output = run(2, [program, file, *calls, "final"], scratch)
    assert status == 0 and all(code == "0" for word, code in results(output)[2:] if "fill" not in word), output
    damage(scratch / "node" / "x", bytes([3]) * 4096)
    calls = ["init", "protect=0:100000", "test=x:0", "test=x:1", "restart=x:2", "show=0", "restart=x:3", "final"]
    status, output = run(2, [program, file, *calls], scratch)
    assert status == 0 and codes(output) == ["0", "0", "2", "1", "0", "2", "-1", "0"], output
    # One line for a try, and not for each rank.
    assert output.count("version 3 of x cannot be read") == 2, output


@pytest.mark.campaign
def test_a_damaged_checkpoint_of_scr_is_passed_over(scratch, monkeypatch):
    program = build("scr_calls", "scr")
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node")
    first, second = "first" * 8, "second" * 8
    status, output = run(2, [program, "init", f"save={first}:1:1", f"save={second}:1:1", "final"], scratch, cwd=scratch)
    assert status == 0 and codes(output) == ["0"] * 4, output
    damage(scratch, second.encode())
    status, output = run(
        2, [program, "init", "have", "start", f"read={first}", "valid=1", "final"], scratch, cwd=scratch
    )
    assert status == 0 and codes(output) == ["0", "1", "0", "0", "0", "0"] and f"[{first}] have" in output, output


@pytest.mark.campaign
def test_a_damaged_checkpoint_of_fti_is_passed_over(scratch):
    program = build("fti_calls", "fti")
    file = configuration_of_fti(scratch, keep_last_ckpt=1)
    calls = ["init", "protect=0:20000", "fill=1", "save=1:1", "fill=2", "save=2:1", "final"]
    status, output = run(2, [program, file, *calls], scratch)
    assert status == 0 and codes(output) == ["0", "0", "0", "1", "0", "1", "0"], output
    damage(scratch, bytes([2]) * 4096)
    status, output = run(2, [program, file, "init", "status", "protect=0:20000", "recover", "show=0", "final"], scratch)
    assert status == 0 and codes(output) == ["0", "1", "0", "0", "1", "0"], output


def subset(*numbers, data=b""):
    return struct.pack(f"<{len(numbers)}q", *numbers) + data


# Headers of two dimensions have the lengths of the dataset, the place of the subset, and its lengths.
HOSTILE = {
    "dimensions": (subset((1 << 32) + 2, 4, *[1] * 99), "is no subset"),
    "overflow": (subset(2, 4, 24, 33, 0, 0, (1 << 63) - 1, (1 << 63) - 1, data=bytes(64)), "is no subset"),
    "short": (subset(2, 4, 24, 33, 0, 0, 24, 33, data=bytes(64)), "is too short"),
}
MORE_HOSTILE = {
    "empty": (b"", "is no subset"),
    "no dimensions": (subset(-1, 4), "is no subset"),
    "wide": (subset(2, 4, 24, 33, 0, 0, 24, 1 << 61, data=bytes(64)), "is too short"),
    "overlap": (subset(2, 4, 24, 33, 0, 0, 24, 32, data=bytes(24 * 32 * 4)), "1 of its 33 elements were not saved"),
    "negative": (subset(2, 4, 24, 33, 0, -1, 24, 34, data=bytes(24 * 34 * 4)), "is no subset"),
    "other elements": (subset(2, 8, 24, 33, 0, 0, 24, 33, data=bytes(24 * 33 * 8)), "or of another type"),
}


@pytest.mark.parametrize("name", [*HOSTILE, *rarely(*MORE_HOSTILE)])
def test_a_hostile_subset_of_fti_is_refused(scratch, name):
    stream, said = {**HOSTILE, **MORE_HOSTILE}[name]
    space = scratch / "Global" / "mainstay"
    space.parent.mkdir()
    with mainstay.open(space) as session:
        session.note("kind", "subsets")
        session.begin(2 * len(stream) + 2)
        for name in "dataset/0/0", "dataset/0/1":
            session.write(name, 0, stream)
        session.checkpoint()
    words = [build("fti_subsets", "fti"), configuration_of_fti(scratch), 33, "all"]
    status, output = run(1, words, scratch)
    assert status == 3 and "wrong" not in output and said in output, output


def test_a_full_disk_costs_veloc_one_version(scratch, monkeypatch):
    program = build("veloc_calls", "veloc")
    file = configuration(scratch, mode="sync", persistent=None)
    shim = build_c(["inject.c"], "inject.so", "-shared", "-fPIC")
    set_variables(monkeypatch, LD_PRELOAD=shim, INJECT="write:ENOSPC:0:1", INJECT_SPACE=scratch / "node", INJECT_RANK=1)
    calls = ["init", "protect=0:100000", "fill=1", "save=x:1", "fill=2", "save=x:2", "final"]
    status, output = run(2, [program, file, *calls], scratch)
    assert status == 0 and codes(output) == ["0", "0", "0", "-1", "0", "0", "0"], output
    assert "No space left on device" in output, output
    monkeypatch.delenv("LD_PRELOAD")
    calls = ["init", "protect=0:100000", "test=x:0", "restart=x:2", "show=0", "final"]
    status, output = run(2, [program, file, *calls], scratch)
    assert status == 0 and codes(output) == ["0", "0", "2", "0", "2", "0"], output


@pytest.mark.parametrize("library", ["veloc", *rarely("scr", "fti")])
def test_the_last_checkpoint_outlives_the_node_if_the_job_ends_in_order(scratch, monkeypatch, library):
    """The space was busy at its turn, so it stayed on the node alone. VELOC_Cleanup removed it there, too."""
    file = {
        "veloc": [configuration(scratch)],
        "scr": [],
        "fti": [configuration_of_fti(scratch, Ckpt_dir=scratch / "node", keep_last_ckpt=1)],
    }[library]
    words = [build(f"{library}_calls", library), *file, "init"]
    space = {"veloc": scratch / "persistent" / "x", "scr": scratch / ".scr", "fti": scratch / "Global"}[library]
    held = scratch / "held"
    shim = build_c(["inject.c"], "inject.so", "-shared", "-fPIC")
    monkeypatch.setenv("SCR_CACHE_BASE", str(scratch / "node"))
    save = {"veloc": "save=x:{}", "scr": "save=x{}:1:1", "fti": "save={}:1"}[library]
    protect = [] if library == "scr" else ["protect=0:30000"]
    # The first save has made the files of the space: no call waits for the held writes.
    calls = [save.format(1), f"touch={held}", save.format(2), save.format(3), f"unlink={held}"]
    ends = ["cleanup=x", "final"] if library == "veloc" else ["final"]
    with monkeypatch.context() as patch:
        set_variables(patch, LD_PRELOAD=shim, INJECT="write:hold", INJECT_SPACE=space, INJECT_WHEN=held)
        status, output = run(2, [*words, *protect, *calls, *ends], scratch, cwd=scratch)
    assert status == 0 and "-1" not in codes(output), output
    assert "the level space is busy" in output, output
    shutil.rmtree(scratch / "node")
    monkeypatch.setenv("MAINSTAY_DISK_LOST", "accepted")
    with mainstay.open(space if library == "veloc" else space / "mainstay") as session:
        assert session.revisions()[0].revision == 3


def test_messages_name_no_call_of_mainstay(scratch):
    """VeloC's users read that rank 0 had called `revisions`, and FTI's that they should give `begin` the bytes."""
    file = configuration(scratch)
    # Rank 0 asks for versions, and rank 1 has ended.
    calls = ["init", "protect=0:9", "save=x:1", "on=1:final", "on=0:wait", "on=0:test=x:0"]
    status, output = run(2, [build("veloc_calls", "veloc"), file, *calls], scratch)
    assert status == 0 and codes(output) == ["0"] * 5 + ["-1"], output
    assert "the versions of x cannot be listed: the ranks have made different calls; none of them" in output, output
    calls = ["init", "begin=y:1", "end=1"]
    status, output = run(1, [build("veloc_calls", "veloc"), file, *calls], scratch)
    assert "VELOC_Checkpoint_end: no rank has anything to save; protect memory first" in output, output
    calls = ["init", "icp=1:1:1", "send"]
    status, output = run(1, [build("fti_calls", "fti"), configuration_of_fti(scratch), *calls], scratch)
    assert "FTI_InitICP: no rank has anything to save; protect memory first" in output, output
    assert "mainstay_" not in output, output


def test_the_messages_that_stand_ins_reword_are_those_of_the_engine():
    """A message that changes in the engine would name Mainstay's calls again."""
    engine = " ".join(path.read_text() for path in (ROOT / "engine" / "src").rglob("*.rs"))
    engine = re.sub(r"\\\n\s*", "", engine)
    table = (ROOT / "capi" / "stand_ins" / "stand_in.c").read_text().partition("} wordings[] = {\n")[2]
    rows = re.findall(r'\{"([^"]*)",\s*"([^"]*)",', table.partition("\n};")[0])
    assert len(rows) > 3
    # An argument's name stands before its colon.
    missing = [text for row in rows for text in row if re.sub(r"^[a-z]+: ", "", text) not in engine]
    assert not missing


@pytest.mark.parametrize("name", ["SCR_CACHE_SIZE", *rarely("SCR_FLUSH")])
def test_a_parameter_of_scr_that_mainstay_does_not_take_is_named(scratch, monkeypatch, name):
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node", **{name: -1})
    status, output = run(1, [build("scr_calls", "scr"), "init"], scratch, cwd=scratch)
    assert status == 0 and codes(output) == ["1"] and f" ({name}): " in output, output


def test_a_setting_that_mainstay_does_not_take_is_an_error(scratch):
    program = build("veloc_calls", "veloc")
    calls = ["init", "protect=0:9", "save=x:1"]
    status, output = run(2, [program, configuration(scratch, max_versions=5000), *calls], scratch)
    assert status == 0 and codes(output) == ["0", "0", "-1"] and "VELOC_Checkpoint_begin: keep" in output, output
    assert "keep (VeloC's max_versions): " in output, output


def test_versions_of_veloc_that_a_start_could_not_open_are_not_pushed_out(scratch):
    """Programs take the failure of VELOC_Restart_test for no version. They began anew, and their versions took the room."""
    program = build("veloc_calls", "veloc")
    file = configuration(scratch, max_versions=1)
    status, output = run(2, [program, file, "init", "protect=0:9", "save=x:9", "final"], scratch)
    assert status == 0 and codes(output) == ["0"] * 4, output
    (folder,) = (scratch / "node").iterdir()
    shutil.rmtree(folder)
    folder.touch()
    calls = ["init", "protect=0:9", "test=x:0", f"unlink={folder}", "save=x:1", "save=y:1", "final"]
    status, output = run(2, [program, file, *calls], scratch)
    assert status == 0 and codes(output) == ["0", "0", "-1", "0", "-1", "0", "0"], output
    assert "x has versions that this job could not open at its start" in output, output
    status, output = run(2, [program, file, "init", "test=x:0"], scratch)
    assert status == 0 and codes(output) == ["0", "9"], output


@pytest.mark.parametrize("place", ["scratch", *rarely("persistent")])
def test_a_folder_of_veloc_that_cannot_be_used_is_an_error_at_once(scratch, place):
    (scratch / "file").touch()
    file = configuration(scratch, **{place: scratch / "file"})
    status, output = run(2, [build("veloc_calls", "veloc"), file, "init"], scratch)
    assert status == 0 and codes(output) == ["-1"] and f"{scratch}/file cannot be used" in output, output


@pytest.mark.parametrize("wrong", ["ten", *rarely("inf", "1x")])
def test_a_setting_that_is_no_number_is_an_error(scratch, monkeypatch, wrong):
    """`keep_last_ckpt = true` let FTI_Finalize remove the checkpoints, and an interval of `inf` ended SCR's program."""
    said = "is no number"
    status, output = run(
        2, [build("veloc_calls", "veloc"), configuration(scratch, max_versions=wrong), "init"], scratch
    )
    assert status == 0 and codes(output) == ["-1"] and f"max_versions = {wrong} {said}" in output, output
    file = configuration_of_fti(scratch, keep_last_ckpt=wrong)
    status, output = run(2, [build("fti_calls", "fti"), file, "init"], scratch)
    assert status == 0 and codes(output) == ["-1"] and f"keep_last_ckpt = {wrong} {said}" in output, output
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node", SCR_CHECKPOINT_INTERVAL=wrong)
    status, output = run(2, [build("scr_calls", "scr"), "init", "need"], scratch, cwd=scratch)
    assert status == 0 and codes(output) == ["1", "99"] and f"SCR_CHECKPOINT_INTERVAL={wrong} {said}" in output, output


def test_the_first_start_with_scr_current(scratch, monkeypatch):
    """There is no checkpoint of this name yet. SCR goes on, too."""
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node", SCR_CURRENT="a")
    words = [build("scr_calls", "scr"), "init", "have", "save=a:1:1", "save=b:1:1", "final"]
    for name, have in ("", "0"), ("a", "1"):
        status, output = run(2, words, scratch, cwd=scratch)
        assert status == 0 and codes(output) == ["0", have, "0", "0", "0"] and f"[{name}] have" in output, output


def test_a_variable_of_fti_that_does_not_fit_its_subset_is_refused(scratch):
    words = ["init", "dataset=4:8", "protect=5:1", "subset=5:4", "save=1:9", "protect=5:100", "save=2:9", "final"]
    status, output = run(2, [build("fti_calls", "fti"), configuration_of_fti(scratch), *words], scratch)
    assert status == 0 and codes(output) == ["0", "0", "0", "0", "1", "0", "-1", "0"], output
    assert "variable 5 does not fit its subset" in output, output


@pytest.mark.parametrize(
    "scratch_path, persistent", [("node", "./per#sistent"), *rarely(("same", "same"), ("./same", "{here}/x/../same"))]
)
def test_paths_of_veloc(scratch, scratch_path, persistent):
    """They may be relative, have signs of comments in them, and be the same."""
    program = build("veloc_calls", "veloc")
    file = configuration(scratch, scratch=scratch_path, persistent=persistent.format(here=scratch))
    calls = ["init", "protect=0:9", "fill=7", "save=x:1", "final"]
    status, output = run(2, [program, file, *calls], scratch, cwd=scratch)
    assert status == 0 and codes(output) == ["0", "0", "0", "0", "0"], output
    assert any((scratch / scratch_path).rglob("layout-*"))
    assert scratch_path != "node" or (scratch / "per#sistent" / "x").is_dir()
    shutil.rmtree(scratch / ("node" if scratch_path == "node" else "none"), ignore_errors=True)
    calls = ["init", "protect=0:9", "restart=x:1", "show=0", "final"]
    status, output = run(2, [program, file, *calls], scratch, cwd=scratch)
    assert status == 0 and codes(output) == ["0", "0", "0", "7", "0"], output


def test_the_routed_file_of_a_killed_job_is_not_saved(scratch):
    program = build("veloc_calls", "veloc")
    file = configuration(scratch)
    status, output = run(2, [program, file, "init", "protect=0:9", "save=x:1", "final"], scratch)
    assert status == 0 and codes(output) == ["0"] * 4, output
    (folder,) = (scratch / "node").iterdir()
    for rank in range(2):
        (folder / f"rank.{rank}.dat").write_text("old")
    calls = ["init", "protect=0:9", "begin=x:2", "mem", "route", "end=1", "from=x:2", "route", "over", "final"]
    status, output = run(2, [program, file, *calls], scratch)
    assert status == 0 and codes(output) == ["0"] * 7 + ["-1", "0", "0"], output


@pytest.mark.parametrize("planted", ["open", *rarely("a link", "of another user")])
def test_a_cache_of_scr_that_another_user_planted_is_refused(scratch, monkeypatch, planted):
    program = build("scr_calls", "scr")
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node")
    words = [program, "init", "save=a:1:1", "final"]
    status, output = run(2, words, scratch, cwd=scratch)
    assert status == 0 and codes(output) == ["0"] * 3, output
    (folder,) = (scratch / "node").iterdir()
    if planted == "open":
        folder.chmod(0o777)
    elif planted == "a link":
        folder.rename(scratch / "elsewhere")
        folder.symlink_to(scratch / "elsewhere")
    elif os.geteuid():
        pytest.skip("only root can give a folder away")
    else:
        os.chown(folder, NOBODY, NOBODY)
    status, output = run(2, words, scratch, cwd=scratch)
    assert status == 0 and codes(output) == ["1", "90", "1"], output
    assert f"SCR_Init: {folder} can be changed by another user" in output, output


def test_jobs_of_fti_share_a_folder_of_the_node(scratch):
    """One ends, and removes its own checkpoints there alone."""
    program = build("fti_calls", "fti")
    calls = ["init", "protect=0:9", "save=1:1", "final"]
    # A hash of h * 33 + character is the same for both names.
    for keeps, name in (1, "Ez"), (0, "FY"):
        (scratch / name).mkdir()
        file = configuration_of_fti(scratch / name, Ckpt_dir=scratch / "node", keep_last_ckpt=keeps)
        status, output = run(1, [program, file, *calls], scratch)
        assert status == 0 and codes(output) == ["0", "0", "1", "0"], output
    (folder,) = (scratch / "node").iterdir()
    assert [*folder.rglob("layout-*")]


def test_a_checkpoint_of_scr_has_its_output(scratch, monkeypatch):
    """Its output cannot be written, so there is no checkpoint: the program would never write it again."""
    program = build("scr_calls", "scr")
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node")
    (scratch / "b" / "rank.1").mkdir(parents=True)
    words = [program, "init", "save=a:3:1", "save=b:3:1", "have", "final"]
    status, output = run(2, words, scratch, cwd=scratch)
    assert status == 0 and codes(output) == ["0", "0", "1", "1", "0"] and "[a] have" in output, output
    assert f"{scratch}/b/rank.1 cannot be written: Is a directory" in output, output


def test_names_of_datasets_of_scr_and_ids_of_fti_go_on_after_a_restart(scratch, monkeypatch):
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node")
    words = [build("scr_calls", "scr"), "init", "have", "next", "have", "next", "have", "final"]
    names = [run(2, words, scratch, cwd=scratch)[1] for _ in range(2)]
    assert "[scr.dataset.2] have" in names[0] and "[scr.dataset.4] have" in names[1], names
    set_variables(monkeypatch, MAINSTAY_EVERY_STEPS=1)
    file = configuration_of_fti(scratch, keep_last_ckpt=1)
    words = [build("fti_calls", "fti"), file, "init", "protect=0:100", "snapshot", "snapshot", "final"]
    for expected in ["1", "1"], ["0", "1"]:
        status, output = run(2, words, scratch)
        assert status == 0 and codes(output) == ["0", "0", *expected, "0"], output
    with mainstay.open(scratch / "Global" / "mainstay") as session:
        assert session.revisions()[0].notes["id"] == "3"


def test_a_restart_of_scr_or_fti_goes_on_with_its_count_of_steps(scratch, monkeypatch):
    """A line of each restart told the user to protect the count of steps: the stand-in had counted from 1 again."""
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node", MAINSTAY_EVERY_STEPS=9)
    program = build("scr_calls", "scr")
    for name, ranks in ("a", 2), ("b", 2), ("c", 3):
        words = [program, "init", "have", "need", "need", f"save={name}:1:1", "need", "final"]
        status, output = run(ranks, words, scratch, cwd=scratch)
        assert status == 0 and "step" not in output, output
    words = [build("fti_calls", "fti"), configuration_of_fti(scratch, keep_last_ckpt=1), "init", "protect=0:100"]
    for call in "recover", "snapshot":
        status, output = run(2, [*words, call, "snapshot", "snapshot", "save=1:1", "snapshot", "final"], scratch)
        assert status == 0 and "step" not in output, output


@pytest.fixture
def memory():
    """A folder in memory, where jobs that were killed leave parts of their level."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="mainstay-test-") as folder:
        yield Path(folder)


def draw(library, pick, folder, node):
    """Settings of a library and of Mainstay, drawn at random: the configuration file or None, and variables."""
    variables = {
        "MAINSTAY_CAPTURE": pick([None, "incremental", "snapshot"]),
        "MAINSTAY_COMPRESS": pick([None, "lz4", "zstd"]),
        "MAINSTAY_PER": pick([None, "app", "node", "rank"]),
    }
    if library == "fti":
        return configuration_of_fti(folder, Ckpt_dir=node, enable_dcp=pick([0, 1])), variables
    if library == "scr":
        variables |= {
            "SCR_CHECKPOINT_INTERVAL": EVERY,
            "SCR_CACHE_BASE": node,
            "SCR_CACHE_SIZE": pick([None, 1, 3]),
            "SCR_FLUSH": pick([None, 0, 1, 3]),
            "SCR_COPY_TYPE": pick([None, "SINGLE", "PARTNER", "XOR"]),
        }
        return None, variables
    file = configuration(
        folder,
        scratch=node,
        persistent=pick([folder / "persistent", None, node]),
        mode=pick(["sync", "async"]),
        max_versions=pick([1, 3, 0]),
        scratch_versions=pick([None, 1, 2]),
        ec_interval=pick([None, -1, 5]),
    )
    return file, variables


def words_of(library, file, way):
    """The words that run a program of the library; a step and a place to die may follow."""
    return [build(library, library), *([] if file is None else [file]), STEPS, way]


WAYS = {"veloc": ["mem", "file", "some"], "scr": [1, 3], "fti": ["all", "names", "pieces"]}


@pytest.mark.parametrize(("library", "seed"), in_turn(WAYS, range(1, 21)))
def test_a_program_comes_back_with_any_settings(scratch, memory, monkeypatch, library, seed):
    """It is killed twice, at random steps. Its end is that of an undisturbed run."""
    drawn = random.Random(f"{library} {seed}")
    ranks, way = drawn.choice([2, 3]), drawn.choice(WAYS[library])
    calm, killed = scratch / "calm", scratch / "killed"
    calm.mkdir()
    killed.mkdir()
    usual = {"veloc": configuration, "scr": lambda folder: None, "fti": configuration_of_fti}[library]
    set_variables(monkeypatch, SCR_CACHE_BASE=calm / "node")
    status, undisturbed = run(ranks, words_of(library, usual(calm), way), calm, cwd=calm)
    assert status == 0, undisturbed

    file, variables = draw(library, drawn.choice, killed, drawn.choice([killed / "disk", memory / "level"]))
    variables = {name: value for name, value in variables.items() if value is not None}
    set_variables(monkeypatch, **variables)
    said = f"{ranks} ranks, {way}, {file and file.read_text()}, {variables}"
    deaths = sorted(drawn.sample(range(EVERY, STEPS + 1, EVERY if library == "scr" else 1), 2))
    at_least = 0
    for death in deaths:
        where = [drawn.choice(["write", "complete", "after"])] if library == "scr" else []
        status, output = run(ranks, [*words_of(library, file, way), death, *where], killed, cwd=killed)
        found = re.search(r"^from step (\d+)$", output, re.M)
        assert status != 0 and found and int(found[1]) >= at_least, f"{said}\n{output}"
        # The last checkpoint before the death may still be on its way; the one before it is complete.
        at_least = max(0, (death - 1) // EVERY * EVERY - EVERY)
    status, output = run(ranks, words_of(library, file, way), killed, cwd=killed)
    found = re.search(r"^from step (\d+)$", output, re.M)
    assert status == 0 and found and int(found[1]) >= at_least, f"{said}\n{output}"
    assert sum_of(output) == sum_of(undisturbed), f"{said}\n{output}"
