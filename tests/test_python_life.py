"""Events in the life of a Python program with a session: signals, threads, forks, an end without a close, little
memory.

If a call must be under way when something happens, the shim holds its writes as long as a file exists.
"""

import os
import subprocess
import sys
import textwrap

import pytest
from limits import LIMIT_S
from programs import build_c

# Every program begins with this; `held()` keeps the writes back, until `go_on()`.
PRELUDE = """
import gc, os, signal, sys, threading, time
import mainstay

gate = os.environ["INJECT_WHEN"]
space = os.environ["INJECT_SPACE"]
field = bytearray(b"a" * 3_000_000)

def opened(**settings):
    session = mainstay.open(space, **settings)
    session.protect("field", field)
    return session

def hold():
    open(gate, "w").close()

def go_on():
    os.unlink(gate)

def in_call(session):
    # Another thread's call is refused while one is under way.
    try:
        session.poll()
    except mainstay.InvalidArgument as error:
        assert "another thread" in str(error), error
        return True
    return False

def beside(work):
    def guarded():
        try:
            work()
        except BaseException as error:
            print("WRONG", repr(error), flush=True)
            os._exit(9)
    thread = threading.Thread(target=guarded)
    thread.start()
    return thread

def comes_back(revision, settings={}):
    kept = bytes(field)
    field[:] = bytes(len(field))
    with opened(**settings) as session:
        restored = session.restore()
    assert restored.revision == revision, restored
    assert field == kept
"""


@pytest.fixture(scope="session")
def shim():
    return build_c(["inject.c"], "inject.so", "-shared", "-fPIC")


@pytest.fixture
def program(scratch, shim):
    """Runs a program to its end; returns its output."""

    def run(code, *, status=0):
        environment = {
            **os.environ,
            "LD_PRELOAD": str(shim),
            "INJECT": "write:hold",
            "INJECT_SPACE": str(scratch / "space"),
            "INJECT_WHEN": str(scratch / "gate"),
        }
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-W", "error", "-c", PRELUDE + textwrap.dedent(code)],
            env=environment,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == status and "WRONG" not in done.stdout, done.stdout
        return done.stdout

    return run


# ---- Ctrl-C ----

CALLS = {
    # With "direct" the calling thread writes; with the pool it waits for the writing threads.
    "checkpoint": ("stage='direct'", "", "session.checkpoint()"),
    "wait": ("stage='pool'", "session.checkpoint()", "session.wait()"),
    "restore": ("stage='pool'", "session.checkpoint()", "session.restore()"),
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_waits_for_the_call_and_the_session_goes_on(program, call):
    settings, before, called = CALLS[call]
    program(f"""
        session = opened({settings})
        session.checkpoint()
        session.wait()
        field[:] = b"b" * len(field)

        def interrupt():
            while not in_call(session):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            assert in_call(session), "the call was broken off"
            go_on()

        hold()
        {before}
        thread = beside(interrupt)
        try:
            {called}
            time.sleep(30)
        except KeyboardInterrupt:
            print("interrupted")
        thread.join()
        session.wait()
        field[:] = b"c" * len(field)
        assert session.checkpoint() == 3
        session.close()
        comes_back(3)
    """)


def test_ctrl_c_during_the_close(program):
    program("""
        session = opened()
        session.checkpoint()
        session.wait()

        def interrupt():
            while not in_call(session):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            go_on()

        hold()
        field[:] = b"b" * len(field)
        thread = beside(interrupt)
        try:
            with session:
                session.checkpoint()
            time.sleep(30)
        except KeyboardInterrupt:
            pass
        thread.join()
        comes_back(2)
    """)


def test_a_handler_that_raises_in_the_block(program):
    program("""
        class Stop(Exception):
            pass

        def handler(*_):
            raise Stop

        signal.signal(signal.SIGTERM, handler)
        try:
            with opened() as session:
                session.checkpoint()
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(30)
        except Stop:
            pass
        comes_back(1)
    """)


# ---- threads ----


@pytest.mark.parametrize("call", ["checkpoint", "wait", "close"])
def test_other_threads_run_meanwhile_and_are_refused_the_session(program, call):
    program(f"""
        session = opened(stage="direct" if {call!r} == "checkpoint" else "pool")
        session.checkpoint()  # the first one writes before it returns
        session.wait()

        def others():
            while not in_call(session):
                time.sleep(0.001)
            calls = [session.checkpoint, session.wait, session.progress, session.poll, session.restore, session.close, session.last_record,
                     lambda: session.protect("more", bytearray(1)), lambda: session.unprotect("field"),
                     lambda: session.due(1), session.__enter__]
            for call in calls:
                try:
                    call()
                except mainstay.InvalidArgument as error:
                    assert "another thread" in str(error)
                else:
                    raise AssertionError(call)
            assert "at work" in repr(session)
            # Only a thread that runs can end the call.
            go_on()

        hold()
        if {call!r} != "checkpoint":
            session.checkpoint()
        thread = beside(others)
        session.{call}()
        thread.join()
        session.close()
        comes_back(2)
    """)


def test_threads_may_take_turns(program):
    program("""
        session = opened()
        for step in range(4):
            beside(lambda: session.checkpoint()).join()
        beside(session.close).join()
        comes_back(4)
    """)


def test_sessions_in_threads_of_their_own(program):
    program("""
        def work(name):
            mine = bytearray(100_000)
            with mainstay.open(f"{space}-{name}", pool_bytes="8 MiB") as session:
                session.protect("mine", mine)
                for step in range(20):
                    mine[:] = bytes([step]) * len(mine)
                    session.checkpoint()
                mine[:] = bytes(len(mine))
                assert session.restore().revision == 20 and mine[0] == 19

        threads = [beside(lambda name=name: work(name)) for name in "abcd"]
        for thread in threads:
            thread.join()
    """)


# ---- forks ----

REFUSED = """
        def all_refused(session):
            calls = [session.checkpoint, session.wait, session.progress, session.poll, session.restore, session.last_record,
                     lambda: session.protect("more", bytearray(1)), lambda: session.unprotect("field"),
                     lambda: session.due(1), lambda: session.checkpoint({"step": 1}), session.close]
            for call in calls:
                try:
                    call()
                except mainstay.InvalidArgument as error:
                    assert "process" in str(error) or "fork" in str(error), error
                else:
                    raise AssertionError(call)
"""


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)", "pass"])
@pytest.mark.parametrize("writing", [False, True])
def test_a_forked_child_is_refused_and_ends(program, end, writing):
    told = program(
        REFUSED
        + f"""
        session = opened()
        session.checkpoint()
        session.wait()
        if {writing}:
            hold()
        session.checkpoint()
        child = os.fork()
        if child == 0:
            all_refused(session)
            print("refused", flush=True)
            {end}
        else:
            assert os.waitpid(child, 0)[1] == 0
            if {writing}:
                go_on()
            session.wait()
            assert session.checkpoint() == 3
            session.close()
            comes_back(3)
            print("parent")
    """
    )
    assert told.splitlines() == ["refused", "parent"]


def test_a_child_may_open_a_session_of_its_own(program):
    program("""
        session = opened()
        session.checkpoint()
        child = os.fork()
        if child == 0:
            with mainstay.open(space + "-child") as own:
                own.protect("field", field)
                assert own.checkpoint() == 1
            try:
                mainstay.open(space)
            except mainstay.InUse:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        session.close()
        comes_back(1)
    """)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_beside_a_session(program, scratch, method):
    (scratch / "work.py").write_text("def square(n):\n    return n * n\n")
    program(f"""
        import multiprocessing
        sys.path.insert(0, os.getcwd())
        from work import square

        if __name__ == "__main__":
            with opened() as session:
                session.checkpoint()
                context = multiprocessing.get_context({method!r})
                with context.Pool(2) as pool:
                    assert pool.map(square, range(100)) == [n * n for n in range(100)]
                worker = context.Process(target=square, args=(3,))
                worker.start()
                worker.join()
                assert worker.exitcode == 0
                try:
                    with context.Pool(1) as pool:
                        pool.apply(square, (session,))
                except TypeError as error:
                    assert "pickle" in str(error)
                session.checkpoint()
            comes_back(2)
    """)


# ---- an end without a close ----


@pytest.mark.parametrize("end", ["del session", "sys.exit(0)", "pass", "sys.modules['kept'] = session"])
def test_a_session_that_is_left_open_ends_with_its_revision(program, end):
    program(f"""
        session = opened()
        session.checkpoint()
        {end}
    """)
    program("""
        comes_back(1)
    """)


def test_an_end_by_exit_at_once(program):
    program("session = opened(); session.checkpoint(); os._exit(0)")
    program("with opened() as session: print(session.restore())")


def test_a_session_in_a_cycle_is_collected(program):
    program("""
        class Owner:
            pass

        owner = Owner()
        owner.session, owner.me = opened(), owner
        owner.session.checkpoint()
        del owner
        gc.collect()
        comes_back(1)
    """)


def test_a_session_that_a_daemon_thread_is_using_at_the_end(program):
    program("""
        session, saved = opened(), []

        def work():
            while True:
                saved.append(session.checkpoint())

        threading.Thread(target=work, daemon=True).start()
        while len(saved) < 2:  # then the first is complete
            time.sleep(0.001)
    """)
    program("""
        with opened() as session:
            assert session.restore().revision >= 1
    """)


# ---- little memory ----


def test_a_memory_limit_below_the_pool(program):
    told = program("""
        import resource

        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20),) * 2)
        try:
            with opened(pool_bytes="1 GiB") as session:
                session.checkpoint()
        except mainstay.Error as error:
            print(error.kind, error)
        else:
            print("WRONG: saved")
        with opened(pool_bytes="16 MiB") as session:
            assert session.restore() is None
            session.checkpoint()
        comes_back(1, {"pool_bytes": "16 MiB"})
    """)
    assert "memory" in told and "/dev/shm" in told, told
