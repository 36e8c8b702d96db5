"""Programs of VeloC, SCR and FTI are relinked, unchanged: they save with Mainstay, are killed, and come back."""

import re
import subprocess

import pytest
from jobs import run
from relinked import build, build_fortran, configuration, configuration_of_fti, results, set_variables, stand_in, sum_of
from ways import rarely

STEPS, DEATH = 60, 45
FUNCTIONS = {
    "veloc": """Init Init_single Finalize Mem_protect Region_protect Mem_unprotect Region_unprotect Mem_clear Region_clear
        Route_file Cleanup Checkpoint_begin Checkpoint_selective Checkpoint_mem Checkpoint_end Checkpoint_wait
        Checkpoint_finished Checkpoint Restart_test Restart_begin Recover_selective Recover_size Recover_mem Restart_end
        Restart""",
    "scr": """Init Finalize Config Configf Route_file Have_restart Start_restart Complete_restart Need_checkpoint
        Start_checkpoint Complete_checkpoint Start_output Complete_output Current Drop Delete Get_version Should_exit""",
    "fti": """Init Status InitGroup RenameGroup Protect SetAttribute DefineDataset DefineGlobalDataset AddSubset
        RecoverDatasetDimension GetDatasetSpan GetDatasetRank UpdateGlobalDataset UpdateSubset GetStoredSize Realloc BitFlip
        Checkpoint GetStageDir GetStageStatus SendFile Recover Snapshot Finalize RecoverVar RecoverVarInit RecoverVarFinalize
        InitICP AddVarICP FinalizeICP setIDFromString getIDFromString GetConfig InitType InitCompositeType AddScalarField
        AddVectorField""",
}  # fmt: skip


@pytest.mark.each_mpi
@pytest.mark.parametrize("way", ["mem", *rarely("file", "some")])
def test_a_killed_program_of_veloc_comes_back(scratch, mpi, way):
    program = build("veloc", "veloc", mpi)
    (scratch / "calm").mkdir()
    status, calm = run(2, [program, configuration(scratch / "calm"), STEPS, way], scratch, mpi=mpi)
    assert status == 0 and "from step 0\n" in calm, calm
    words = [program, configuration(scratch), STEPS, way]
    status, killed = run(2, [*words, DEATH], scratch, mpi=mpi)
    assert status != 0 and "sum" not in killed, killed
    status, again = run(2, words, scratch, mpi=mpi)
    assert status == 0 and re.search(r"^from step [34]0$", again, re.M), again
    assert sum_of(again) == sum_of(calm)
    # The files of VELOC_Route_file are gone.
    assert not [*(scratch / "node").rglob("*.dat")]


def test_a_program_of_veloc_comes_back_without_the_data_of_its_nodes(scratch):
    """Their test script removes `scratch` between two runs."""
    program = build("veloc", "veloc")
    words = [program, configuration(scratch), STEPS, "mem"]
    assert run(2, [*words, DEATH], scratch)[0] != 0
    subprocess.run(["rm", "-rf", scratch / "node"], check=True)
    status, again = run(2, words, scratch)
    assert status == 0 and re.search(r"^from step [1-4]0$", again, re.M), again


def test_each_call_of_veloc(scratch):
    """Names, versions, sizes and the order of calls; regions of a name; a failure of one call is no end."""
    program = build("veloc_calls", "veloc")
    file = configuration(scratch, max_versions=2)
    expected = {
        "save=x:1": "-1",  # not initialized
        "init": "0",
        "test=x:0": "-1",
        "protect=0:1000": "0",
        "protect=1:5000": "0",
        "region=2:700:own": "0",
        "unprotect=7": "-1",
        "route": "-1",  # outside of a checkpoint
        "mem": "-1",
        "end=1": "-1",
        "begin=../x:1": "-1",
        "begin=x:-1": "-1",
        "fill=1": "0",
        "begin=x:5": "0",
        "begin=x:6": "-1",  # nested
        "wait": "-1",
        "mem#2": "0",
        "end=1#2": "0",
        "fill=2": "0",
        "begin=x:6#2": "0",
        "mem#3": "0",
        "end=0": "-1",  # a rank has failed: nothing is saved
        "test=x:0#2": "5",
        "save=own:9": "0",
        "wait#2": "0",
        "done": "1",
        "from=own:9": "0",
        "size=2": "700",
        "size=0": "0",
        "over": "0",
        "fill=4": "0",
        "restart=x:5": "0",
        "show=1": "1",
        "show=2": "4",  # of another name
        "protect=1:4999": "0",  # too small
        "restart=x:5#2": "-1",
        "protect=1:5000#2": "0",
        "unprotect=1": "0",
        "restart=x:5#3": "-1",  # saved, but not protected
        "clear": "0",
        "save=x:8": "-1",  # nothing to save
        "restart=x:4": "-1",  # no such version
        "cleanup=x": "0",
        "final": "0",
    }
    status, output = run(2, [program, file, *(word.partition("#")[0] for word in expected)], scratch)
    assert status == 0, output
    assert [code for _, code in results(output)] == list(expected.values()), output
    for text in (
        "VELOC_Checkpoint_begin: VeloC is not initialized; call VELOC_Init first",
        "a rank reported a failure; version 6 is not saved",
        "region 1 has 4999 bytes, and 5000 were saved; protect as many",
        "region 1 was saved and is not protected",
        "there is no version 4 of x that can be read",
    ):
        assert text in output, text
    # VELOC_Cleanup has removed the data of one name on the node.
    assert len([*(scratch / "node").glob("mainstay-*")]) == 1 and (scratch / "persistent" / "own").exists()


def test_another_number_of_ranks_is_refused(scratch):
    program = build("veloc_calls", "veloc")
    file = configuration(scratch)
    assert run(2, [program, file, "init", "protect=0:9", "save=x:1", "wait", "final"], scratch)[0] == 0
    status, output = run(3, [program, file, "init", "protect=0:9", "restart=x:1", "final"], scratch)
    assert status == 0 and ("restart=x:1", "-1") in results(output), output
    assert "2 ranks saved version 1, and this job has 3; start it with 2" in output


def test_processes_of_veloc_that_save_alone(scratch):
    """VELOC_Init_single: each process has its own checkpoints, here with programs that do not wait for each other."""
    program = build("veloc_calls", "veloc")
    file = configuration(scratch)
    for one in 4, 5:
        calls = [f"single={one}", "protect=0:50", f"fill={one}", f"save=x:{one}", "wait", "final"]
        assert run(1, [program, file, *calls], scratch)[0] == 0
    status, output = run(1, [program, file, "single=4", "protect=0:50", "test=x:0", "restart=x:4", "show=0"], scratch)
    assert status == 0 and [code for _, code in results(output)][2:] == ["4", "0", "4"], output


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"mode": None}, "VELOC_Init: mode is neither sync nor async"),
        ({"scratch": None}, "VELOC_Init: scratch is missing"),
        (
            {"mode": "sync", "axl_type": "AXL_XFER_SYNC", "ec_interval": 10, "CHKSUM": "true"},
            "VeloC's axl_type has no effect",
        ),
        ({"speling": 1}, "VeloC's speling has no effect"),
    ],
)
def test_settings_of_veloc_without_a_counterpart_are_said_once(scratch, settings, said):
    program = build("veloc_calls", "veloc")
    status, output = run(2, [program, configuration(scratch, **settings), "init"], scratch)
    assert status == 0 and output.count(said) == (2 if "VELOC_Init" in said else 1), output
    assert results(output) == [("init", "-1" if "VELOC_Init" in said else "0")]
    assert "chksum" not in output.lower()


def test_the_environment_has_settings_of_veloc(scratch, monkeypatch):
    program = build("veloc_calls", "veloc")
    set_variables(monkeypatch, VELOC_SCRATCH=scratch / "node", VELOC_PERSISTENT=scratch / "other", VELOC_MODE="sync")
    status, output = run(2, [program, "", "init", "protect=0:9", "save=x:1", "final"], scratch)
    assert status == 0 and {code for _, code in results(output)} == {"0"}, output
    assert (scratch / "other" / "x").is_dir()


@pytest.mark.parametrize(
    "where, flags", [("write", 3), *rarely(("write", 1), ("complete", 1), ("complete", 3), ("after", 1), ("after", 3))]
)
def test_a_killed_program_of_scr_comes_back(scratch, monkeypatch, mpi, where, flags):
    """Also in the middle of a file: that dataset is not there. Output gets its names when it is whole."""
    program = build("scr", "scr", mpi)
    set_variables(monkeypatch, SCR_CHECKPOINT_INTERVAL=10, SCR_CACHE_BASE=scratch / "node")
    (scratch / "calm").mkdir()
    status, calm = run(2, [program, STEPS, flags], scratch, mpi=mpi, cwd=scratch / "calm")
    assert status == 0 and "from step 0\n" in calm, calm
    status, killed = run(2, [program, STEPS, flags, 40, where], scratch, mpi=mpi, cwd=scratch)
    assert status != 0 and "sum" not in killed, killed
    outputs = {path.name for path in scratch.glob("step.*")} - {"step.40"}
    assert outputs == ({"step.10", "step.20", "step.30"} if flags == 3 else set())
    assert {path.stat().st_size for path in scratch.glob("step.*/cells.*")} <= {240000}
    status, again = run(2, [program, STEPS, flags], scratch, mpi=mpi, cwd=scratch)
    assert status == 0 and re.search(r"^from step (30|40)$", again, re.M), again
    assert where == "after" or "from step 30\n" in again
    assert sum_of(again) == sum_of(calm)
    if flags == 3:
        for calm_file in (scratch / "calm").glob("step.*/*"):
            assert (scratch / calm_file.relative_to(scratch / "calm")).read_bytes() == calm_file.read_bytes()
    assert not [*(scratch / "node").glob("mainstay-*/rank.*")]


def test_each_call_of_scr(scratch, monkeypatch):
    program = build("scr_calls", "scr")
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node", SCR_CACHE_SIZE=9)

    def calls(*words):
        status, output = run(2, [program, *words], scratch, cwd=scratch)
        assert status == 0, output
        return [code for _, code in results(output)], output

    codes, output = calls(
        "have", "version", "route=x", "init", "have", "start", "valid=1", "save=a:1:1", "save=b:1:1", "final"
    )
    assert codes == ["1", "0", "0", "0", "0", "1", "1", "0", "0", "0"], output
    assert "SCR_Have_restart: SCR is not initialized; call SCR_Init first" in output
    # Not saved: a rank says that it is not valid, or two ranks have one file. Output alone is no checkpoint.
    codes, output = calls(
        "init", "save=c:1:0", "shared=d", "save=e:2:1", "have", "start", "read=b", "read=a", "valid=1", "final"
    )
    assert codes == ["0", "1", "1", "0", "1", "0", "0", "1", "0", "0"] and "[b] have" in output, output
    assert "ranks write one file together" in output and (scratch / "e" / "rank.1").read_text() == "e"
    # The program finds b wrong, and a is offered.
    codes, output = calls("init", "have", "start", "valid=0", "have", "start", "read=a", "valid=1", "final")
    assert codes == ["0", "1", "0", "1", "1", "0", "0", "0", "0"] and "[a] have" in output, output
    # A dropped checkpoint is not offered, by this job or by another.
    codes, output = calls("init", "save=f:1:1", "save=g:1:1", "drop=g", "have", "final")
    assert codes == ["0", "0", "0", "0", "1", "0"] and "[f] have" in output, output
    codes, output = calls("init", "have", "delete=f", "have", "current=nothing", "current=a", "have", "final")
    assert codes == ["0", "1", "0", "1", "1", "0", "1", "0"] and re.findall(r"\[(.)\] have", output) == ["f", "b", "a"]
    codes, output = calls("init", "save=h:1:1", "have", "final")
    assert "[h] have" in output, output


def test_parameters_of_scr(scratch, monkeypatch):
    """SCR_Config sets, returns and removes them. A file has others, and the environment comes first."""
    program = build("scr_calls", "scr")
    file = scratch / "scr.conf"
    file.write_text("# SCR\nSCR_CHECKPOINT_INTERVAL=2\nSCR_SET_SIZE=8\n")
    words = ["config=DEBUG", "config=DEBUG=1", "config=DEBUG", "config=DEBUG =", "config=DEBUG",
             "config=STORE= /tmp GROUP = NODE COUNT  =1", "config=STORE=/tmp COUNT", "config=STORE",
             "init", "need", "need", "need", "exit", "final"]  # fmt: skip
    set_variables(monkeypatch, SCR_CACHE_BASE=scratch / "node", SCR_CONF_FILE=file)
    status, output = run(2, [program, *words], scratch, cwd=scratch)
    assert status == 0, output
    assert re.findall(r"^\[(.*)\] config", output, re.M) == ["", "1", "1", "", "", "1", "1", "/tmp"]
    assert output.count("SCR_SET_SIZE has no effect") == 1
    assert re.findall(r"^(?:need|exit) (\d)$", output, re.M) == ["0", "1", "0", "0"]
    (scratch / ".scr" / "halt").touch()
    status, output = run(2, [program, "init", "need", "exit"], scratch, cwd=scratch)
    assert re.findall(r"^(?:need|exit) (\d)$", output, re.M) == ["1", "1"], output


def test_a_fortran_program_of_scr_comes_back(scratch, monkeypatch):
    program = build_fortran("scr", "scrf")
    set_variables(monkeypatch, SCR_CHECKPOINT_INTERVAL=5, SCR_CACHE_BASE=scratch / "node")
    (scratch / "calm").mkdir()
    status, calm = run(2, [program, 20, -1], scratch, cwd=scratch / "calm")
    assert status == 0, calm
    assert run(2, [program, 20, 18], scratch, cwd=scratch)[0] != 0
    status, again = run(2, [program, 20, -1], scratch, cwd=scratch)
    assert status == 0 and re.search(r"^from step 1[05]$", again, re.M), again
    assert sum_of(again) == sum_of(calm)


@pytest.mark.parametrize("way", ["names", *rarely("all", "pieces")])
def test_a_killed_program_of_fti_comes_back(scratch, mpi, way):
    program = build("fti", "fti", mpi)
    (scratch / "calm").mkdir()
    status, calm = run(2, [program, configuration_of_fti(scratch / "calm"), STEPS, way], scratch, mpi=mpi)
    assert status == 0 and "from step 0\n" in calm, calm
    # The job has done its work: its checkpoints are gone.
    assert not any((scratch / "calm" / "Global").iterdir())
    words = [program, configuration_of_fti(scratch), STEPS, way]
    status, killed = run(2, [*words, DEATH], scratch, mpi=mpi)
    assert status != 0 and "sum" not in killed, killed
    status, again = run(2, words, scratch, mpi=mpi)
    assert status == 0 and re.search(r"^from step [34]0$", again, re.M), again
    assert sum_of(again) == sum_of(calm)


def test_a_program_of_fti_with_snapshots(scratch):
    """The first recovers, later ones save when it is time."""
    program = build("fti", "fti")
    words = [program, configuration_of_fti(scratch, keep_last_ckpt=1), STEPS]
    assert run(2, [*words, "all", DEATH], scratch)[0] != 0
    status, output = run(2, [*words, "snapshot"], scratch)
    assert status != 0 and "FTI_Recover: variable 2 has" in output, output


@pytest.mark.parametrize("way, ranks", [("all", 3), *rarely(("pieces", 1), ("all", 5))])
def test_subsets_of_fti_come_back_on_another_number_of_ranks(scratch, way, ranks):
    program = build("fti_subsets", "fti")
    words = [program, configuration_of_fti(scratch), 33, way]
    status, output = run(2, words, scratch)
    assert status != 0 and "saved\n" in output, output
    status, output = run(ranks, words, scratch)
    assert status == 0 and "0 wrong" in output, output


def test_each_call_of_fti(scratch):
    program = build("fti_calls", "fti")
    file = configuration_of_fti(scratch, head=1, keep_last_ckpt=1)
    expected = {
        "save=1:1": "-1",  # not initialized
        "init": "0",
        "status": "0",
        "recover": "-2",
        "protect=0:100": "0",
        "protect=1:-1": "-1",
        "type=2:24": "0",
        "type=3:0": "-1",
        "set=heat": "1",
        "set=heat#2": "1",
        "get=cold": "-1",
        "protect=1:200": "0",
        "shape=1:20:10": "0",
        "shape=1:20:11": "-1",
        "subset=0:4": "-1",
        "fill=1": "0",
        "save=5:0": "-1",  # no such level
        "save=5:2": "1",
        "fill=2": "0",
        "icp=6:1:1": "0",
        "save=7:1": "-1",  # a checkpoint has begun
        "add=0": "0",
        "add=9": "-1",
        "done": "-1",  # variables are missing: nothing is saved
        "icp=6:1:1#2": "0",
        "add=0#2": "0",
        "add=1": "0",
        "add=2": "0",
        "fill=3": "0",  # what was added is copied
        "done#2": "0",
        "add=0#3": "-1",
        "icp=7:1:0": "0",  # not active
        "add=0#4": "0",
        "done#3": "0",
        "var=0": "0",
        "show=0": "2",
        "protect=4:9": "0",
        "var=4": "-2",  # not in that checkpoint
        "recover#2": "-2",
        "protect=0:99": "0",
        "var=0#2": "-2",  # another size
        "protect=0:100#2": "0",
        "save=8:3": "1",
        "size=1": "200",
        "send": "-1",
        "stage": "-1",
        "flip": "-1",
        "config": "1",
        "final": "0",
    }
    status, output = run(2, [program, file, *(word.partition("#")[0] for word in expected)], scratch)
    assert status == 0, output
    assert [code for _, code in results(output)] == list(expected.values()), output
    assert output.count("FTI's head has no effect") == 1
    calls = ["init", "status", "get=heat", "size=2", "protect=0:100", "protect=1:200", "type=2:24", "protect=4:9",
             "recover", "show=1", "status", "final"]  # fmt: skip
    status, output = run(2, [program, file, *calls], scratch)
    assert status == 0, output
    expected = ["0", "1", "1", "48", "0", "0", "0", "0", "0", "3", "0", "0"]
    assert [code for _, code in results(output)] == expected, output
    status, output = run(3, [program, file, "init"], scratch)
    assert status == 0 and results(output) == [("init", "-2")] and "2 ranks saved the checkpoint" in output, output


def test_a_fortran_program_of_fti_comes_back(scratch):
    program = build_fortran("fti", "fti_f90")
    (scratch / "calm").mkdir()
    status, calm = run(2, [program, configuration_of_fti(scratch / "calm"), 20, -1], scratch)
    assert status == 0, calm
    file = configuration_of_fti(scratch)
    assert run(2, [program, file, 20, 18], scratch)[0] != 0
    status, again = run(2, [program, file, 20, -1], scratch)
    assert status == 0 and re.search(r"^from step 1[05]$", again, re.M), again
    assert sum_of(again) == sum_of(calm)


@pytest.mark.parametrize("library", FUNCTIONS)
def test_a_stand_in_has_every_function_of_its_library(library):
    folder = stand_in(library)
    (file,) = (folder / "lib").glob({"veloc": "libveloc-client.so", "scr": "libscr.so", "fti": "libfti.so"}[library])
    shown = subprocess.run(["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True).stdout
    header = (folder / "include" / f"{library}.h").read_text()
    for function in FUNCTIONS[library].split():
        name = f"{library.upper()}_{function}"
        assert re.search(rf" T {name}$", shown, re.M) and re.search(rf"\b{name}\(", header), name
