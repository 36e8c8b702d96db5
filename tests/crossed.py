"""Random programs under `mainstay files`, and a model of their files that knows nothing of its code.

A program is a list of steps. Each is done by an actor (files/actor.py): the program itself, a fork of it, or another program
that it has started. The test sends the steps one after the other, so that all actors have one order. A kill comes between two
steps. The model says the outcome of each step, and the bytes under each name at the end."""

import errno
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field

from command import MAINSTAY
from limits import LIMIT_S
from protected import SOURCES, end_of, wait_for_end

PLAYER = SOURCES / "actor.py"
NAMES = ("restart.1", "restart.2", "d/restart.1")
MEMBERS = ("restart.base", "restart.0", "restart.1")
OTHERS = ("other.1", "other.2")
SET = ("--set", "{}.base {}.*", "--count", "2")
CREATE = os.O_CREAT | os.O_WRONLY


# ---- The model ----


@dataclass(eq=False)
class Bytes:
    """A file of the kernel's. A later one has a greater number."""

    text: str = ""
    number: int = field(default_factory=itertools.count().__next__)

    def put(self, text, at):
        self.text = self.text.ljust(at, "\0")
        self.text = self.text[:at] + text + self.text[at + len(text) :]

    def cut(self, size):
        self.text = self.text[:size].ljust(size, "\0")


@dataclass(eq=False)
class Staged:
    """A generation that is being written."""

    bytes: Bytes
    name: str | None
    node: int
    round: int = 0
    is_torn: bool = False
    is_closed: bool = False
    openers: set = field(default_factory=set)


@dataclass(eq=False)
class Offset:
    """Copies of a descriptor share their place."""

    at: int = 0


@dataclass(eq=False)
class Slot:
    """A descriptor, a stream, or a mapping. `file`: Staged, Bytes of a published file, or None for a base."""

    file: object
    name: str
    flags: int = os.O_WRONLY
    is_stream: bool = False
    map_size: int = 0
    offset: Offset = field(default_factory=Offset)

    @property
    def is_mappable(self):
        return self.flags & os.O_ACCMODE == os.O_RDWR and not self.is_stream and not self.map_size

    def copy(self):
        return Slot(self.file, self.name, self.flags, self.is_stream, self.map_size, self.offset)


class Among(list):
    """The values that a look at a name may have. None: there is no such file."""


class Refused(Exception):
    pass


def refuse(number):
    raise Refused(number)


@dataclass
class Actor:
    name: str
    node: int = 0
    pid: int = 0
    is_root: bool = False
    slots: dict = field(default_factory=dict)


class Model:
    """The files as all actors see them. Each step returns its value, or raises Refused."""

    def __init__(self, way):
        self.way = way
        self.whole = {}  # the published bytes
        self.before = {}  # names whose last close may not be known yet: the bytes before
        self.staged = []  # in the order of their opening
        self.actors = {}
        self.folders = {"d"} if way.has_folders else set()
        self.round, self.names, self.over = 0, set(), set()
        self.torn = set()  # names

    # -- sets --

    def next_round(self, name):
        if not self.way.set:
            return 0
        if not self.round or name in self.names or self.round in self.over:
            self.round, self.names = self.round + 1, set()
        self.names.add(name)
        return self.round

    def settle_sets(self):
        """Rounds that have all members give them their names."""
        for number in sorted({one.round for one in self.staged}):
            members = [one for one in self.staged if one.round == number]
            if len(members) == len(MEMBERS) and all(one.is_closed for one in members):
                for one in members:
                    self.whole[one.name] = one.bytes
                    self.staged.remove(one)

    # -- files --

    def open_of(self, name):
        """The generation of the name that is being written."""
        found = [one for one in self.staged if one.name == name and not one.is_closed]
        return found[-1] if found else None

    def view(self, name):
        """The bytes that the name means for the actors."""
        return self.views(name)[0]

    def views(self, name):
        """The same, and others that it may mean still: the helper drops the members of a torn set a moment later."""
        found = [one for one in self.staged if one.name == name and name not in OTHERS]
        every = [self.whole.get(name), *(one.bytes for one in found)]
        if not self.way.set:
            return every[-1:]
        left = [self.whole.get(name), *(one.bytes for one in found if one.round not in self.over)]
        return [max(filter(None, some), key=lambda one: one.number, default=None) for some in (left, every)]

    def views_from(self, actor, name):
        staged = self.open_of(name)
        if self.way.nodes > 1 and not (staged and staged.node == actor.node):
            return [self.whole.get(name), self.before.get(name, self.whole.get(name))]
        return self.views(name)

    def begin(self, actor, name, bytes):
        staged = Staged(bytes, name, actor.node, self.next_round(name))
        self.staged.append(staged)
        return staged

    def hold(self, actor, slot, held):
        actor.slots[slot] = held
        if isinstance(held.file, Staged):
            held.file.openers.add(actor.name)

    def holders(self, staged):
        return [one for one in self.actors.values() if any(slot.file is staged for slot in one.slots.values())]

    def judge(self, staged):
        if staged not in self.staged or staged.is_closed or self.holders(staged):
            return
        if staged.is_torn:
            self.torn.add(staged.name)
            self.over.add(staged.round)
            self.staged.remove(staged)
            return
        staged.is_closed = True
        if self.way.set:
            self.settle_sets()
        else:
            self.before[staged.name] = self.whole.get(staged.name)
            self.whole[staged.name] = staged.bytes
            self.staged.remove(staged)

    def drop(self, actor, slot):
        held = actor.slots.pop(slot)
        if isinstance(held.file, Staged):
            self.judge(held.file)

    def change(self, actor, slot):
        """Before the first change through a base."""
        held = actor.slots[slot]
        if held.file is not None:
            return held
        if not (staged := self.open_of(held.name)):
            staged = self.begin(actor, held.name, Bytes(self.view(held.name).text))
        held.file = staged
        staged.openers.add(actor.name)
        return held

    def change_all(self, actor, slots=None):
        for slot in actor.slots if slots is None else slots:
            self.change(actor, slot)

    def change_named(self, actor, *names):
        """Its descriptors go on with their file, under any name."""
        self.change_all(actor, [slot for slot, held in actor.slots.items() if held.name in names])

    def choose(self, actor, name, flags, at_once):
        """The file of a new descriptor."""
        staged, view = self.open_of(name), self.view(name)
        if view and flags & os.O_EXCL:
            refuse(errno.EEXIST)
        if not view and not flags & os.O_CREAT:
            refuse(errno.ENOENT)
        if flags & os.O_APPEND and not flags & os.O_TRUNC and not staged:
            return self.whole.setdefault(name, Bytes())
        if staged:
            if staged.node != actor.node:
                refuse(errno.EBUSY)
            if flags & os.O_TRUNC:
                staged.bytes.cut(0)
            return staged
        if flags & os.O_TRUNC or not view:
            return self.begin(actor, name, Bytes())
        return self.begin(actor, name, Bytes(view.text)) if at_once else None

    # -- the steps --

    def do(self, actor, step, *words):
        return getattr(self, "step_" + step)(self.actors[actor], *words)

    def step_open(self, actor, slot, name, flags):
        file = self.choose(actor, name, flags, self.way.kernel)
        self.hold(actor, slot, Slot(file, name, flags))

    def step_fopen(self, actor, slot, name, mode):
        flags = {"w": os.O_CREAT | os.O_TRUNC, "r+": 0, "a": os.O_CREAT | os.O_APPEND}[mode]
        file = self.choose(actor, name, flags, True)
        self.hold(actor, slot, Slot(file, name, flags, is_stream=True))

    def bytes_of(self, held):
        return held.file.bytes if isinstance(held.file, Staged) else held.file

    def step_write(self, actor, slot, text):
        held = self.change(actor, slot)
        bytes = self.bytes_of(held)
        at = len(bytes.text) if held.flags & os.O_APPEND else held.offset.at
        bytes.put(text, at)
        held.offset.at = at + len(text)

    step_fputs = step_write

    def step_pwrite(self, actor, slot, text, at):
        held = self.change(actor, slot)
        bytes = self.bytes_of(held)
        # As Linux does it.
        bytes.put(text, len(bytes.text) if held.flags & os.O_APPEND else at)

    def step_cut(self, actor, slot, size):
        self.bytes_of(self.change(actor, slot)).cut(size)

    def step_sync(self, actor, slot):
        pass

    def step_dup(self, actor, slot, copy):
        held = self.change(actor, slot)
        actor.slots[copy] = held.copy()

    def step_reopen(self, actor, slot, copy):
        held = actor.slots[slot]
        actor.slots[copy] = Slot(held.file, held.name)

    def step_close(self, actor, slot):
        self.drop(actor, slot)

    step_fclose = step_close

    def step_map(self, actor, slot, key, size):
        held = self.change(actor, slot)
        self.bytes_of(held).cut(size)
        actor.slots[key] = Slot(held.file, held.name, map_size=size)

    def step_store(self, actor, key, text):
        self.bytes_of(actor.slots[key]).put(text, 0)

    def step_unmap(self, actor, key):
        self.drop(actor, key)

    def step_read(self, actor, name):
        return Among([bytes.text if bytes else None for bytes in self.views_from(actor, name)])

    def step_size(self, actor, name):
        return Among([len(bytes.text) if bytes else None for bytes in self.views_from(actor, name)])

    def step_list(self, actor, folder):
        prefix = "" if folder == "." else folder + "/"
        inside = [name[len(prefix) :] for name in self.whole if name.startswith(prefix)]
        more = ["bystander", *self.folders] if folder == "." else []
        return sorted([name for name in inside if "/" not in name] + more)

    def step_truncate(self, actor, name, size):
        view = self.view(name) or refuse(errno.ENOENT)
        if staged := self.open_of(name):
            staged.bytes.cut(size)
            return
        staged = self.begin(actor, name, Bytes(view.text))
        staged.bytes.cut(size)
        self.judge(staged)

    def step_rename(self, actor, old, new):
        if old in self.folders:
            self.change_all(actor)
            return self.rename_folder(old, new)
        self.change_named(actor, old, new)
        published, staged, replaced = self.whole.get(old), self.open_of(old), self.open_of(new)
        if not published and not staged:
            refuse(errno.ENOENT)
        # Two names of one file: the kernel does nothing.
        if published and published is self.whole.get(new) and not staged and not replaced:
            return
        for name in (old, new):
            self.before.pop(name, None)
        if published:
            self.whole[new] = self.whole.pop(old)
        if replaced:
            self.orphan(replaced)
        if staged:
            staged.name = new

    def rename_folder(self, old, new):
        self.folders.remove(old)
        self.folders.add(new)

        def moved(name):
            return f"{new}{name[len(old) :]}" if name and name.startswith(old + "/") else name

        self.whole = {moved(name): bytes for name, bytes in self.whole.items()}
        self.before = {moved(name): bytes for name, bytes in self.before.items()}
        for staged in self.staged:
            staged.name = moved(staged.name)
        for actor in self.actors.values():
            for held in actor.slots.values():
                held.name = moved(held.name)

    def orphan(self, staged):
        self.staged.remove(staged)
        staged.name = None

    def step_exchange(self, actor, old, new):
        self.change_named(actor, old, new)
        if not self.view(old):
            refuse(errno.ENOENT)
        if any(self.view(name) and name not in self.whole for name in (old, new)):
            refuse(errno.EINVAL)
        if new not in self.whole:
            refuse(errno.ENOENT)
        one, other = self.open_of(old), self.open_of(new)
        self.before.pop(old, None), self.before.pop(new, None)
        self.whole[old], self.whole[new] = self.whole[new], self.whole[old]
        for staged, name in ((one, new), (other, old)):
            if staged:
                staged.name = name

    def step_link(self, actor, old, new):
        # A file that is being written has no name that could be linked.
        if self.view(new):
            refuse(errno.EEXIST)
        if self.open_of(old):
            refuse(errno.EBUSY)
        self.whole[new] = self.whole.get(old) or refuse(errno.ENOENT)

    def step_unlink(self, actor, name):
        self.change_named(actor, name)
        staged = self.open_of(name)
        if name not in self.whole and not staged:
            refuse(errno.ENOENT)
        self.whole.pop(name, None), self.before.pop(name, None)
        if staged:
            self.orphan(staged)

    # -- actors --

    def step_fork(self, actor, name):
        self.change_all(actor)
        child = Actor(name, actor.node)
        child.slots = {slot: held.copy() for slot, held in actor.slots.items()}
        self.actors[name] = child

    def step_spawn(self, actor, name, kept):
        self.change_all(actor, kept)
        child = Actor(name, actor.node)
        child.slots = {slot: actor.slots[slot].copy() for slot in kept}
        self.actors[name] = child

    def step_exec(self, actor, kept):
        self.change_all(actor, kept)
        for slot in [slot for slot in actor.slots if slot not in kept]:
            self.drop(actor, slot)

    def step_exit(self, actor, status):
        # Python unmaps before it exits.
        for key in [slot for slot, held in actor.slots.items() if held.map_size]:
            self.drop(actor, key)
        self.step_leave(actor, status)

    def step_leave(self, actor, status):
        files = {held.file for held in actor.slots.values() if isinstance(held.file, Staged)}
        for file in files:
            file.is_torn |= status != 0 and actor.name in file.openers
        self.end(actor)

    def step_kill(self, actor):
        for held in actor.slots.values():
            if isinstance(held.file, Staged):
                held.file.is_torn = True
        self.end(actor)

    def end(self, actor):
        del self.actors[actor.name]
        for held in list(actor.slots.values()):
            if isinstance(held.file, Staged):
                self.judge(held.file)


# ---- Programs ----


@dataclass
class Way:
    """A configuration."""

    kernel: bool = False
    set: bool = False
    nodes: int = 1
    options: tuple = ()
    run: bool = False
    plain: bool = False  # without Mainstay: the kernel judges the model

    @property
    def has_folders(self):
        return not self.set and self.nodes == 1


def draw_way(chance, kind):
    options = ["--keep", str(chance.randrange(1, 4))]
    options += chance.choice(([], [], ["--fsync", "wait"]))
    options += chance.choice(([], [], ["--room", "1"], ["--room", "100000"]))
    way = Way(kernel=kind == "kernel", set=kind == "set", nodes=2 if kind == "nodes" else 1, plain=kind == "plain")
    way.run = kind in ("preload", "kernel") and chance.random() < 0.2
    if way.kernel:
        options += ["--catch", "kernel"]
    if way.set:
        options += SET
        way.kernel = chance.random() < 0.3
        options += ["--catch", "kernel"] if way.kernel else []
    way.options = tuple(options)
    return way


class Generator:
    """Draws each step with the model beside it, so that nearly all steps can be done."""

    def __init__(self, seed, kind):
        self.chance = random.Random(f"{seed} {kind}")
        self.way = draw_way(self.chance, kind)
        self.model = Model(self.way)
        self.count = 0

    def new(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def text(self):
        return self.chance.choice("abcdef") * self.chance.choice((1, 5, 5, 5000))

    def name(self):
        if self.way.set:
            return self.chance.choice(MEMBERS)
        names = [*NAMES[:2], *(f"{folder}/restart.1" for folder in sorted(self.model.folders))]
        return self.chance.choice(names)

    def draw(self):
        """The next step: the actor's name, and its words."""
        chance, model, way = self.chance, self.model, self.way
        actor = chance.choice(list(model.actors.values()))
        slots = actor.slots.items()
        descriptors = [slot for slot, held in slots if not held.is_stream and not held.map_size]
        streams, maps = ([slot for slot, held in slots if getattr(held, kind)] for kind in ("is_stream", "map_size"))
        choices = []

        def may(weight, *step):
            choices.append((weight, step))

        name = self.name()
        if len(actor.slots) < 4:
            flags = [CREATE | os.O_TRUNC] * 4 + [
                CREATE | os.O_EXCL,
                os.O_RDWR | os.O_CREAT,
                os.O_RDWR,
                os.O_WRONLY | os.O_TRUNC,
            ]
            # Without Mainstay, an open that truncates changes the bytes that a log goes on with.
            if not way.plain:
                flags += [CREATE | os.O_APPEND, CREATE | os.O_APPEND | os.O_TRUNC]
            if way.nodes > 1 or way.set:
                flags = [CREATE | os.O_TRUNC]
            may(6, "open", self.new("s"), name, chance.choice(flags))
            if way.nodes == 1:
                modes = ["w"] if way.set else ["w", "w", "r+"] if way.plain else ["w", "w", "r+", "a"]
                may(2, "fopen", self.new("s"), name, chance.choice(modes))
        if descriptors:
            slot = chance.choice(descriptors)
            held = actor.slots[slot]
            may(6, "write", slot, self.text())
            may(2, "pwrite", slot, self.text(), chance.randrange(8))
            may(1, "cut", slot, chance.randrange(8))
            may(1, "sync", slot)
            may(6, "close", slot)
            if len(actor.slots) < 4:
                may(1, "dup", slot, self.new("s"))
                if isinstance(held.file, Staged) and not way.kernel:
                    may(1, "reopen", slot, self.new("s"))
        if streams:
            slot = chance.choice(streams)
            may(4, "fputs", slot, self.text())
            may(4, "fclose", slot)
        if maps:
            key = chance.choice(maps)
            held = actor.slots[key]
            # Behind the end of the file is no memory.
            may(2, "store", key, "MAPPED"[: min(held.map_size, len(model.bytes_of(held).text))])
            may(2, "unmap", key)
        mappable = [slot for slot in descriptors if actor.slots[slot].is_mappable]
        if mappable and len(actor.slots) < 4:
            may(2, "map", chance.choice(mappable), self.new("m"), chance.randrange(1, 9))
        may(3, "read", name)
        may(1, "size", name)
        if not way.set and way.nodes == 1:
            others = [one for one in (*NAMES[:2], *OTHERS) if one != name]
            may(1, "truncate", name, chance.randrange(8))
            may(3, "rename", name, chance.choice(others))
            may(1, "rename", chance.choice(OTHERS), name)
            may(2, "unlink", name)
            if not way.plain:
                may(1, "link", name, self.new("mine."))
                may(1, "exchange", name, chance.choice([one for one in NAMES[:2] if one != name]))
                if not way.kernel:
                    may(1, "list", chance.choice([".", *sorted(model.folders)]))
            if model.folders:
                may(1, "rename", sorted(model.folders)[0], self.new("d"))
        if len(model.actors) < 4:
            kept = [slot for slot in descriptors if chance.random() < 0.6]
            may(1, "fork", self.new("a"))
            may(1, "spawn", self.new("a"), kept)
            may(0.5, "exec", kept)
        if not actor.is_root:
            # Without Mainstay the status means nothing.
            # Another node may see the claim of the file some time after the exit.
            if way.nodes == 1 or not actor.slots:
                may(1, "exit", chance.choice((0, 0, 0 if way.plain else 3)))
                may(0.5, "leave", chance.choice((0, 0 if way.plain else 3)))
            if not way.plain:
                may(1, "kill")
        weights, steps = zip(*choices, strict=True)
        return [actor.name, *chance.choices(steps, weights)[0]]

    def is_avoided(self, name, verb, *words):
        """Steps that only the processes of one program can do, or with an outcome that depends on the moment."""
        actor, model = self.model.actors[name], self.model
        others = [held for other in model.actors.values() if other is not actor for held in other.slots.values()]
        if verb in ("rename", "unlink", "exchange"):
            # Another process has the file open to update, and has not changed it yet: it does not see the new name.
            moved = [held.name for held in others if held.file is None]
            return any(one == word or one.startswith(f"{word}/") for one in moved for word in words)
        if verb == "store":
            return not words[1]
        if verb in ("open", "fopen") and self.way.nodes > 1:
            return words[1] in model.torn
        return False


def generate(seed, kind):
    """The way, and the steps, each with its outcome by the model: an errno, and the value."""
    generator = Generator(seed, kind)
    chance, model = generator.chance, generator.model
    steps = []
    for node in range(generator.way.nodes):
        name = generator.new("a")
        model.actors[name] = Actor(name, node, is_root=True)
    roots = list(model.actors)
    count = chance.randrange(10, 40)
    # The job is killed there, or ends.
    kill_at = chance.randrange(count) if chance.random() < 0.6 and not generator.way.plain else None
    for number in range(count):
        if number == kill_at:
            break
        if not generator.way.plain and chance.random() < 0.04:
            steps.append((["", "kill_helper"], 0, None))
            for staged in model.staged:
                # The next helper knows only the holders.
                staged.openers |= {actor.name for actor in model.holders(staged)}
        step = generator.draw()
        if generator.is_avoided(*step):
            continue
        if generator.way.kernel and step[1] == "kill":
            # A call with a name shows the helper which files the process has closed.
            look = [step[0], "size", "restart.x"]
            steps.append((look, *outcome(model, look)))
        steps.append((step, *outcome(model, step)))
    if kill_at is not None:
        steps.append((["", chance.choice(["kill_job", "kill_job_and_helper"])], 0, None))
        for name in list(model.actors):
            model.do(name, "kill")
    else:
        names = [name for name in model.actors if name not in roots]
        for name in [*names, *roots]:
            step = [name, "exit", chance.choice((0, 0, 0 if generator.way.plain else 3))]
            steps.append((step, *outcome(model, step)))
    return generator.way, roots, steps, model


def outcome(model, step):
    try:
        return 0, model.do(*step)
    except Refused as refused:
        return refused.args[0], None


# ---- The play ----


class Play:
    """Plays the steps of a program, and compares each outcome."""

    def __init__(self, way, roots, nodes, address):
        self.way, self.nodes = way, nodes
        self.story, self.lines, self.pids, self.of_node = [], {}, {}, {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(address))
        self.listener.listen(16)
        self.listener.settimeout(LIMIT_S)
        self.address = address
        self.roots = {}
        for number, name in enumerate(roots):
            node = nodes[number]
            words = [sys.executable, "-S", "-E", str(PLAYER), str(address), name, "{}"]
            if not way.plain:
                words = front(way, words)
            variables = node.variables | {"MAINSTAY_TEST_NODE": str(number)}
            if way.nodes > 1:
                variables |= {
                    "OMPI_COMM_WORLD_SIZE": "2",
                    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
                    "PMIX_NAMESPACE": "crossed",
                }
            self.roots[name] = subprocess.Popen(
                words,
                cwd=node.folder,
                env=variables,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            self.meet()

    def meet(self):
        """Waits for a new actor, or for the new program of an old one."""
        connection, _ = self.listener.accept()
        connection.settimeout(LIMIT_S)
        lines = connection.makefile("rw", buffering=1)
        name, pid = json.loads(lines.readline())
        if name in self.lines:
            self.lines[name].close()
        self.lines[name], self.pids[name] = lines, pid

    def ask(self, name, *words):
        self.lines[name].write(json.dumps(words) + "\n")
        self.lines[name].flush()

    def do(self, name, verb, *words):
        """The outcome of a step."""
        if not name:
            return getattr(self, verb)()
        if verb == "kill":
            return self.await_end(name, signal.SIGKILL)
        self.ask(name, verb, *words)
        if verb in ("exit", "leave"):
            return self.await_end(name)
        if verb == "exec":
            return self.meet()
        found = json.loads(self.lines[name].readline())
        if verb in ("fork", "spawn"):
            self.meet()
        return tuple(found)

    def await_end(self, name, number=0):
        wait_for_end(self.pids.pop(name), number)
        self.lines.pop(name).close()

    def kill_helper(self):
        for number, node in enumerate(self.nodes):
            if helper := node.helper():
                # It has seen each end of a process: a kill that only a killed helper could have seen is not known.
                node.ask(b"open-of\0nobody\0")
                end_of(helper)
                # The next one knows the holders from now on.
                self.ask(list(self.roots)[number], "size", "restart.x") if self.is_alive(number) else None
                if self.is_alive(number):
                    self.lines[list(self.roots)[number]].readline()

    def is_alive(self, number):
        return list(self.roots)[number] in self.pids

    def kill_job(self):
        for process in self.roots.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for name in list(self.pids):
            self.await_end(name)

    def kill_job_and_helper(self):
        for node in self.nodes:
            if helper := node.helper():
                end_of(helper)
        self.kill_job()

    def compare(self, steps):
        for step, number, value in steps:
            found = self.do(*step)
            self.story.append(f"{' '.join(map(shown, step))} -> {shown(found)}")
            if found is None:
                continue
            if isinstance(value, Among):
                allowed = [(0, one) if one is not None else (errno.ENOENT, None) for one in value]
            else:
                allowed = [(number, value)]
            assert found in allowed, f"the model allows {shown(allowed)}"

    def end(self):
        """The exit codes and the errors of the roots."""
        ends = []
        for process in self.roots.values():
            _, errors = process.communicate(timeout=LIMIT_S)
            ends.append((process.returncode, errors))
        return ends

    def close(self):
        for process in self.roots.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIMIT_S)
            if process.stderr.closed:
                continue
            with process.stderr:
                self.story.append(process.stderr.read())
        for name in list(self.pids):
            self.await_end(name, signal.SIGKILL)
        self.listener.close()


def shown(value):
    text = repr(value) if not isinstance(value, str) else value or "-"
    return text if len(text) < 80 else text[:60] + f"... ({len(text)})"


def front(way, words):
    if way.run:
        return list(map(str, [MAINSTAY, "run", "--restarts", "0", "--files", "restart*", *way.options, "--", *words]))
    return list(map(str, [MAINSTAY, "files", "--match", "restart*", *way.options, "--", *words]))


def judge(way, model, nodes, steps, ends):
    """Compares the files with the model, once a later start has completed them."""
    folder = nodes[0].folder
    if not way.plain:
        for node in nodes:
            # The first name in a folder completes the sets that a killed helper has left there.
            node.files("try: get('restart.x')\nexcept OSError: pass")
    for name in {*NAMES, *MEMBERS, *model.whole, *model.before}:
        path = folder / name
        found = path.read_text() if path.exists() else None
        allowed = [model.whole.get(name)]
        # The kernel may not have said in time that the file was closed.
        if way.kernel and name in model.before:
            allowed.append(model.before[name])
        assert found in [bytes.text if bytes else None for bytes in allowed], (
            f"under {name} is {shown(found)}, and not {[shown(one and one.text) for one in allowed]}"
        )
    if way.plain:
        return
    places = [folder, *(folder / one for one in model.folders)]
    names = {path.name for place in places for path in place.iterdir()}
    known = {name.rpartition("/")[2] for name in model.whole} | model.folders
    assert names - known <= {".mainstay", "bystander"}, f"strange names: {names - known}"
    assert (folder / "bystander").read_text() == "mine", "a file that does not match was touched"
    for place in places:
        for part in ("writing", "sets", "claims"):
            left = [path.name for path in (place / ".mainstay" / part).glob("*")]
            assert not left, f"left in {part}: {left}"
    for code, errors in ends:
        assert "Traceback" not in errors and "not protected" not in errors and "damaged" not in errors, errors
    has_generations = any((folder / ".mainstay" / "kept").glob("*"))
    for one in nodes[0].status()["files"] if has_generations else []:
        assert all(generation["good"] for generation in one["generations"]), one


def play(seed, kind, nodes, address):
    """Plays a program and judges it. A failure tells its story."""
    way, roots, steps, model = generate(seed, kind)
    folder = nodes[0].folder
    (folder / "bystander").write_text("mine")
    for one in ["d"] if way.has_folders else []:
        (folder / one).mkdir()
    game, ends = Play(way, roots, nodes, address), []
    try:
        try:
            game.compare(steps)
            ends = game.end()
        finally:
            game.close()
        judge(way, model, nodes, steps, ends)
    except Exception as error:
        told = "\n".join(game.story)
        errors = "\n".join(errors for _, errors in ends)
        raise AssertionError(f"seed {seed} {kind}: {error}\n{front(way, ['...'])}\n{told}\n{errors}") from error
