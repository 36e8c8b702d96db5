"""Numbers for machines that nobody here has: `mainstay model` with costs that benchmarks measured here."""

from harness import command

MYRINET, FAST_ETHERNET = 2e9 / 8, 1e8 / 8  # bytes a second of a node's link
MB = 10**6


def checkpoint_s(ranks, all_bytes, level, copies, **costs):
    """Seconds until a checkpoint is durable, t3 - t1, with a node for each rank."""
    costs = {"ranks-per-node": 1, "rank-bytes": int(all_bytes / ranks), **costs}
    words = [word for name, value in costs.items() for word in (f"--{name}", int(value))]
    [job] = command.document("model", "--failures", 0, "--ranks", ranks, *words)["jobs"]
    return next(
        1e-9 * one["durable_ns"] for one in job["checkpoints"] if (one["level"], one["copies"]) == (level, copies)
    )


def with_model(chart, modelled):
    """The chart, and the numbers of the model. `modelled`: (series, group): value."""
    groups = list(dict.fromkeys([*chart["groups"], *(group for _, group in modelled)]))
    names = list(dict.fromkeys([*chart["series"], *(name for name, _ in modelled)]))
    measured = {
        (name, group): value
        for name, values in chart["series"].items()
        for group, value in zip(chart["groups"], values)
    }
    values = {**modelled, **measured}
    return {"groups": groups, "series": {name: [values.get((name, group)) for group in groups] for name in names}}
