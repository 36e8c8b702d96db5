"""A Slurm on this machine alone: a controller, and a daemon for each of several nodes, from Debian's packages."""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

COMMANDS = ("slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue")
LIMIT_S = 60  # of one command, and of anything that is waited for
LOOK_S = 0.05

# Without keys and accounts: it uses one machine and only its loopback device. The time-outs for a lost node are short.
CONFIGURATION = """ClusterName=mainstay
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/%n.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
SlurmdTimeout=60
"""


def missing():
    """The reason why this machine cannot run a Slurm, or an empty text."""
    lacking = [command for command in COMMANDS if not shutil.which(command)]
    if lacking:
        return f"missing: {' '.join(lacking)}; on Debian and Ubuntu: apt-get install slurmctld slurmd slurm-client"
    return "" if os.geteuid() == 0 else "slurmd takes root"


class Slurm:
    """A context manager. At its end no process and no file of the Slurm is left."""

    def __init__(self, nodes, cores):
        self.nodes, self._cores = nodes, cores
        self._daemons = {}

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="mainstay-slurm-", dir="/tmp")
        self.home = Path(self._folder.name)
        configuration = self.home / "slurm.conf"
        self.environment = {**os.environ, "SLURM_CONF": str(configuration)}
        host, ports = socket.gethostname(), free_ports(1 + len(self.nodes))
        text = CONFIGURATION.format(host=host, user=getpass.getuser(), port=ports[0], home=self.home)
        for node, port in zip(self.nodes, ports[1:]):
            text += f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self._cores} RealMemory=100\n"
        configuration.write_text(text + "PartitionName=all Nodes=ALL Default=YES State=UP\n")
        (self.home / "state").mkdir()
        try:
            self._start("slurmctld", "slurmctld", "-D")
            for node in self.nodes:
                self._start(node, "slurmd", "-D", "-N", node)
            self._wait_for_nodes()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in self._daemons.values():
            daemon.kill()
        # The processes that the daemons started have sessions of their own.
        self._end()
        for daemon in self._daemons.values():
            daemon.wait()
        self._folder.cleanup()

    def call(self, *words):
        """Runs a command of Slurm; returns its output."""
        words = list(map(str, words))
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done
        return done.stdout

    def lose(self, node):
        """Loses a node with all its processes, and reports the loss to Slurm, which would notice it only later."""
        self._daemons[node].kill()
        self._daemons[node].wait()
        self._end(f"SLURMD_NODENAME={node}".encode())
        self.call("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")

    def _start(self, name, *words):
        with open(self.home / f"{name}.out", "wb") as output:
            self._daemons[name] = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def _wait_for_nodes(self):
        deadline, states = time.monotonic() + LIMIT_S, ""
        while states.split() != len(self.nodes) * ["idle"]:
            if time.monotonic() > deadline:
                logs = "".join(path.read_text()[-2000:] for path in self.home.glob("*.log"))
                raise TimeoutError(f"Slurm did not come up: {states}\n{logs}")
            time.sleep(LOOK_S)
            with contextlib.suppress(AssertionError):  # nobody answers yet
                states = self.call("sinfo", "-h", "-N", "-o", "%T")

    def _end(self, *marks):
        """Sends SIGKILL to all processes with these marks and this configuration in their environment, and to Slurm's
        processes that watch them."""
        marks = {f"SLURM_CONF={self.environment['SLURM_CONF']}".encode(), *marks}
        deadline = time.monotonic() + LIMIT_S
        while found := set(marked(marks)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes of Slurm are still there: {found}")
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_S)


def marked(marks):
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # gone meanwhile
            if marks <= set((entry / "environ").read_bytes().split(b"\0")):
                yield int(entry.name)
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if b"slurmstepd" in Path(f"/proc/{parent}/cmdline").read_bytes():
                    yield parent


def free_ports(count):
    """Ports of the loopback device that were free a moment ago."""
    with contextlib.ExitStack() as open_ones:
        found = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]
