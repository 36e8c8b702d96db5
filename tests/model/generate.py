"""Random programs, each from its seed.

There are three kinds. `fixed`: every job has the same number of ranks, with regions, pieces, notes and output files.
`elastic`: the number of ranks changes, with boxes and regions that all ranks share; the program mostly declares them
the same. `buffers`: whole buffers are put and got. A kind decides how a session begins and which calls it makes.
Deaths, tools and settings are the same for all kinds.
"""

from random import Random

SIZES = [0, 1, 100, 4095, 4096, 5000, 20000, 60000, 100000, 300000]
TOOLS = [
    ["ls", "SPACE", "--json"], ["ls", "SPACE"], ["show", "SPACE"], ["show", "SPACE", "--phases"], ["show", "SPACE", "--table"],
    ["verify", "SPACE", "--json"], ["advise", "SPACE"], ["export", "SPACE", "OUT", "--json"],
    ["view", "SPACE", "--hdf5", "OUT.h5", "--no-hold", "--force"],
]  # fmt: skip
BESIDE = [
    ["hold", "SPACE", "--json", "--wait", "0s"], ["release", "SPACE", "--all"], ["prune", "SPACE", "--keep-last", "1"],
    ["grow", "SPACE", "--per-rank", "1MiB"], ["salvage", "SPACE", "--json"],
]  # fmt: skip
BETWEEN = [
    ["prune", "SPACE", "--keep-last", "1"], ["prune", "SPACE", "--keep-last", "2"],
    ["prune", "SPACE", "--keep-last", "1", "--dry-run"], ["salvage", "SPACE", "--json", "--pool-directory", "POOL"],
    ["salvage", "SPACE", "--json", "--pool-directory", "POOL1"], ["hold", "SPACE", "--json"], ["release", "SPACE", "--all"],
    ["grow", "SPACE", "--per-rank", "400KiB"],
]  # fmt: skip
DYING = 0.6  # how many of the jobs do


def program(seed, world):
    return Generator(seed, world).program()


class Generator:
    def __init__(self, seed, world):
        self.random, self.seed, self.world = Random(seed), seed, world
        # A generator of its own: all other choices of a seed stay the same.
        self.compresses = Random(f"compress {seed}")
        self.says_same = Random(f"same {seed}")
        pick = self.random.choice
        self.kind = pick(["fixed", "fixed", "elastic", "buffers"])
        self.most = pick([1, 2, 2, 3, 4])
        self.two_nodes = self.random.random() < 0.4
        self.holds = self.random.random() < 0.3  # somebody holds and reads: room is not promised then
        self.tag = 0
        self.fixed_settings = {"per": pick(["app", "node", "rank"]), "allocate": pick(["sparse", "blocks", "zero"])}
        if self.random.random() < 0.2:
            self.fixed_settings["portion_bytes"] = pick(["1MiB", "2MiB"])
        if self.random.random() < 0.2:
            self.fixed_settings["shard_bytes"] = pick(["100000", "400KiB"])
        self.keep = pick([1, 1, 2, 3])
        self.regions = [(f"r{i}", pick(["private", "private", "shared"])) for i in range(pick([1, 2, 3]))]
        self.sizes = {name: [pick(SIZES) for _ in range(4)] for name, _ in self.regions}
        self.sizes[self.regions[0][0]] = [max(size, 100) for size in self.sizes[self.regions[0][0]]]
        self.array = (pick([1, 5, 40, 301]), pick([1, 7, 64]))
        self.has_output = self.kind == "fixed" and self.random.random() < 0.4
        self.every_steps = pick([0, 0, 0, 3])

    def chance(self, of):
        return self.random.random() < of

    def next_tag(self):
        self.tag += 1
        return self.tag

    def program(self):
        acts = []
        if self.chance(0.15):
            acts.append({"tool": ["reserve", "SPACE", "--ranks", str(self.most), "--per-rank", "400KiB"]})
        jobs = self.random.choice([2, 3, 4])
        for number in range(jobs):
            acts.append({"job": self.job(dies=number < jobs - 1 and self.chance(DYING))})
            while self.chance(0.4):
                acts.append({"tool": self.between()})
        if self.chance(0.12):
            acts.append({"damage": {"flips": self.random.choice([1, 3, 40]), "seed": self.random.randrange(1 << 30)}})
        acts.append({"job": self.job(dies=False, calm=True)})
        acts += [{"tool": ["verify", "SPACE", "--json"]}, {"tool": ["ls", "SPACE", "--json"]}]
        return {"seed": self.seed, "world": self.world, "kind": self.kind, "acts": acts}

    def between(self):
        tool = self.random.choice(TOOLS + BETWEEN)
        return self.random.choice(TOOLS) if tool[0] in ("hold", "grow") and not self.holds else tool

    def job(self, dies, calm=False):
        self.ranks = self.random.randint(1, self.most) if self.kind == "elastic" else self.most
        nodes = [0] * self.ranks
        if self.two_nodes and self.ranks > 1:
            nodes = self.random.choice(
                [[r * 2 // self.ranks for r in range(self.ranks)], [r % 2 for r in range(self.ranks)]]
            )
        steps = []
        for number in range(sessions := self.random.choice([1, 1, 2])):
            steps += self.session(calm)
            if number < sessions - 1:
                steps.append({"call": "close"})
        steps += self.death(steps) if dies else [{"call": "close"}]
        return {
            "ranks": self.ranks,
            "nodes": nodes,
            "survive": self.chance(0.3),
            "settings": self.settings(),
            "steps": steps,
        }

    def settings(self):
        pick = self.random.choice
        chunk = pick([4096, 16384, 65536, 262144])
        settings = dict(self.fixed_settings)
        settings["keep"] = self.keep if self.chance(0.8) else pick([1, 2, 3])
        settings["stage"] = pick(["pool", "pool", "pool", "node", "rank", "direct"])
        settings["chunk_bytes"] = pick(["auto", chunk])
        settings["pool_bytes"] = chunk * pick([2, 5, 9]) if chunk > 4096 else pick([65536, 1 << 20])
        if settings["chunk_bytes"] == "auto":
            settings["pool_bytes"] = pick([1 << 20, 4 << 20])
        settings["pool_held"] = pick(["always", "checkpoint"])
        settings["io_threads"] = pick([0, 1, 3])
        if self.chance(0.1):
            settings["start"] = "fresh"
        if settings["stage"] in ("node", "rank"):
            settings["threshold_bytes"] = pick([4096, 65536])
            settings["buffer_bytes"] = pick([4096, 65536])
        if self.chance(0.35):
            settings["capture"] = "incremental"
            settings["predictor"] = pick(["off", "told", "told", "infrequent", "idle", "phase", "count", "auto"])
            settings["tick_seconds"] = pick([0, 0, 0.001])
        if self.every_steps:
            settings["every_steps"] = self.every_steps
            settings["agree_seconds"] = pick([0, 1])
            # Only the steps decide, even if a revision is under way: the judge counts them.
            settings["when_busy"] = "now"
        # Some settings come from the program, some from the environment.
        given = {key if self.chance(0.5) else f"MAINSTAY_{key.upper()}": str(value) for key, value in settings.items()}
        compress = self.compresses.choice(["off", "off", "lz4", "zstd"])
        return (
            given
            if compress == "off"
            else {**given, self.compresses.choice(["compress", "MAINSTAY_COMPRESS"]): compress}
        )

    # Sessions.

    def session(self, calm):
        steps = [{"call": "open"}, *self.protects()]
        steps += self.restores()
        for _ in range(self.random.choice([1, 2, 3] if calm else [1, 2, 4, 7])):
            steps += self.work()
        return steps

    def protects(self):
        if self.kind == "buffers":
            return []
        if self.kind == "elastic":
            shared = [name for name, _ in self.regions[1:]]
            steps = [self.box(), *({"call": "protect", "words": [name, self.sizes[name][0], 0]} for name in shared)]
            return steps + [{"call": "same", "words": [name]} for name in shared if self.says_same.random() < 0.85]
        steps = []
        for name, sort in self.regions:
            each = [[name, self.sizes[name][0 if sort == "shared" else rank], 0 if sort == "shared" else rank + 1]
                    for rank in range(self.ranks)]  # fmt: skip
            steps.append({"call": "protect", "each": each})
        if self.has_output:
            steps.append({"call": "output", "each": [[f"OUTPUT.{rank}"] for rank in range(self.ranks)]})
        return steps

    def box(self):
        rows, columns = self.array
        cuts = sorted(self.random.choices(range(rows + 1), k=self.ranks - 1))
        if self.chance(0.5):
            cuts = [rows * rank // self.ranks for rank in range(1, self.ranks)]
        ends = [0, *cuts, rows]
        return {
            "call": "box",
            "each": [["b", rows, columns, ends[r], ends[r + 1] - ends[r]] for r in range(self.ranks)],
        }

    def restores(self):
        """The beginning of a session. It seldom has no restore; that is refused if the space has a revision."""
        if self.kind == "buffers":
            return [] if self.chance(0.25) else [self.get(0)]
        # Without a restore, a program would not know the length of its output file.
        return [] if not self.has_output and self.chance(0.08) else [{"call": "restore"}]

    def get(self, revision):
        name = (
            self.buffer()
            if self.kind == "buffers"
            else self.random.choice(["b" if self.kind == "elastic" else "r0", "s0"])
        )
        if self.chance(0.3):
            return {"call": "get_bytes", "words": [revision, name]}
        return {"call": "get", "words": [revision, name, self.random.choice([2 << 20, 2 << 20, 2 << 20, 1000])]}

    def buffer(self):
        return "p0"

    def work(self):
        pick = self.random.choices
        if self.kind == "buffers":
            doing = pick([self.puts, self.fills_it, self.gets, self.pieces, self.looks], [5, 1.5, 3, 0.7, 1])[0]
        else:
            doing = pick(
                [self.saves, self.pieces, self.gets, self.looks, self.asks, self.restores_again],
                [6, 3, 1, 1.5, 0.7, 0.7],
            )[0]
        return doing()

    def saves(self):
        steps = [{"call": "fill", "words": [self.next_tag()]}]
        if self.chance(0.3):
            steps.append({"call": "note", "words": [self.random.choice(["n0", "n1"]), f"v{self.next_tag()}"]})
        if self.has_output:
            steps.append({"call": "append", "words": [self.random.choice([1, 10, 5000])]})
        steps += self.ticks()
        return [*steps, {"call": "checkpoint"}, *self.then()]

    def ticks(self):
        """The program's declarations about written memory. A declaration that it is settled may be true or false."""
        steps = [{"call": "tick"}] * self.random.choice([0, 0, 1, 3])
        if self.chance(0.3):
            name, part = self.random.choice(["r0", "b", "none"]), self.random.choice([0, 100, 4096, 50000])
            steps = [*steps, {"call": "settled", "words": [name, self.random.choice([0, 1, 4096]), part]}]
        if steps and self.chance(0.5):
            steps = [*steps, {"call": "fill", "words": [self.next_tag()]}]
        return steps

    def then(self):
        """The steps after t2, with the revision under way."""
        then = self.random.choice(["nothing", "nothing", "wait", "poll", "fill"])
        if then == "fill":
            return [{"call": "fill", "words": [self.next_tag()]}]
        return [] if then == "nothing" else [{"call": then}]

    def pieces(self):
        steps, most, ends = [{"call": "fill", "words": [self.next_tag()]}], 0, {}
        writes = []
        for _ in range(self.random.choice([0, 1, 2, 5])):
            start, count = self.random.choice([0, 10, 4096, 30000]), self.random.choice([1, 100, 4096, 20000, 70000])
            name = self.random.choice(["s0", "s1"])
            most, ends[name] = most + count, max(ends.get(name, 0), start + count)
            writes.append({"call": "write", "words": [name, start, count, self.next_tag()]})
        # Skipped bytes count, too.
        steps.append({"call": "begin", "words": [most + sum(ends.values()) + self.random.choice([0, 5000])]})
        steps += writes
        end = self.random.choices(["checkpoint", "abandon", "some leave", "all leave"], [5, 1.5, 2, 0.7])[0]
        if end in ("checkpoint", "abandon"):
            return [*steps, {"call": end}, *self.then()]
        if end == "some leave" and self.ranks > 1:
            steps.append({"call": "checkpoint", "ranks": self.some_ranks(self.ranks - 1)})
        # Any next call abandons the checkpoint, or is refused; then the one after it abandons it.
        next_one = self.random.choice(["restore", "get", "get", "wait", "begin", "put"])
        if next_one == "get" or (next_one == "restore" and self.kind == "buffers"):
            return [*steps, self.get(0), {"call": "wait"}]
        if next_one == "put":
            return [*steps, *(self.puts() if self.kind == "buffers" else [{"call": "wait"}])]
        if next_one == "begin":
            return [*steps, {"call": "begin", "words": [100]}, {"call": "wait"}]
        return [*steps, {"call": next_one}]

    def some_ranks(self, most):
        return sorted(self.random.sample(range(self.ranks), self.random.randint(1, most)))

    def puts(self):
        size = self.random.choice(SIZES)
        each = [[self.buffer(), size if self.chance(0.6) else self.random.choice(SIZES), 0] for _ in range(self.ranks)]
        tag = self.next_tag()
        return [{"call": "put", "each": [[name, size, tag] for name, size, _ in each]}]

    def fills_it(self):
        """Puts the largest buffer that fits beside a usual one, and then a small one, which must fit, too."""
        usual = {"call": "put", "words": [self.buffer(), self.random.choice([60000, 100000, 100000]), self.next_tag()]}
        most, less = self.random.choice([400000, 700000, 1500000]), self.random.choice([4096, 10000])
        largest = {"call": "put_largest", "words": [self.buffer(), most, less, self.next_tag()]}
        return [
            usual,
            largest,
            {"call": "put", "words": [self.buffer(), self.random.choice([0, 1, 5000]), self.next_tag()]},
        ]

    def gets(self):
        return [self.get(self.random.choice([0, 0, self.random.randint(1, 12)]))]

    def asks(self):
        return [{"call": "due", "words": [step]} for step in range(1, self.random.choice([3, 8]))]

    def restores_again(self):
        return [{"call": "restore"}]

    def looks(self):
        if self.holds and self.chance(0.3):
            return [
                {"call": "reader", "words": ["SPACE", self.random.choice([0, 0, self.random.randint(1, 9)])]},
                {"call": "meet"},
            ]
        tools = TOOLS + (BESIDE if self.holds else BESIDE[2:])
        # An export holds the revision that it reads.
        tools = [tool for tool in tools if self.holds or tool[0] not in ("export", "hold", "release")]
        return [{"call": "pause", "tools": self.random.sample(tools, self.random.choice([1, 2]))}]

    # Deaths.

    def death(self, steps):
        """The end of a job that does not close. May put an alarm among its steps."""
        all_ranks = list(range(self.ranks))
        way = self.random.choice(["after t2", "after t2", "any moment", "any moment", "some", "leave"])
        if way == "after t2":
            steps += [
                *(
                    self.puts()
                    if self.kind == "buffers"
                    else [{"call": "fill", "words": [self.next_tag()]}, {"call": "checkpoint"}]
                )
            ]
            return [{"call": "meet"}, {"call": "die"}] if self.chance(0.6) else [{"call": "die"}]
        if way == "some":
            return [
                {"call": "meet"},
                {"call": "die", "ranks": self.some_ranks(self.ranks)},
                *self.work(),
                {"call": "close"},
            ]
        if way == "leave":
            return [{"call": "meet"}, {"call": "leave"}]
        us = self.random.choice([300, 3000, 12000])
        at = self.random.randrange(len(steps) + 1)
        ranks = self.random.choice([all_ranks, self.some_ranks(self.ranks)])
        steps.insert(at, {"call": "alarm", "each": [[self.random.randrange(us)] for _ in all_ranks], "ranks": ranks})
        return [{"call": "sleep", "words": [us]}, {"call": "meet"}, {"call": "die"}]
