"""The table for people: a row for each saver, in the shape of README's and the guide's comparisons."""

from peers import criu, sides

PACKAGES = {
    sides.MAINSTAY: ("mainstay-checkpoint",),
    "np.save": ("numpy",),
    "np.save beside, sync, rename": ("numpy",),
    "np.savez": ("numpy",),
    "h5py": ("h5py", "HDF5"),
    "torch.save": ("torch",),
    "dcp.save": ("torch",),
    "dcp.async_save": ("torch",),
    "dcp.async_save, memory kept": ("torch",),
    "torch-checkpointing": ("torch-checkpointing",),
    criu.NAME: (criu.NAME,),
}
COLUMNS = ("saver", "version", "the program waits ÷ memcpy", "durable ÷ write and sync", "not on the disk when it is done",
           "restart ÷ Mainstay's", "room ÷ data", "the last checkpoint, if killed while saving", "a byte flips on the disk",
           "2 ranks save, 1 restores")  # fmt: skip


KILLED = {"last": "stays", "other": "stays, the new one too", "error": "lost", "torn": "lost, without an error"}
FLIPPED = {"last": "not seen", "other": "found: an older one", "error": "found", "torn": "loads without an error"}
ACROSS = {"last": "yes", "other": "no", "error": "no", "torn": "no"}


def killed(outcomes):
    kinds = [outcome.kind for outcome in outcomes]
    told = [f"{KILLED[kind]} ({kinds.count(kind)} of {len(kinds)})" for kind in KILLED if kind in kinds]
    return "; ".join(told) or "each kill came too late"


def page(made, found, versions, refusal, about):
    """`made`: the rows of the benchmark; `about`: the machine."""
    values = {(row["case"], row["metric"]): row for row in made}
    cases = list(dict.fromkeys(row["case"] for row in made))
    names = [name for name in PACKAGES if name in found]
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [f"| {' | '.join(cells(name, values, cases, found[name], versions))} |" for name in names]
    if refusal:
        lines.append(f"| {criu.NAME} | – | not measured: {refusal} |{' |' * (len(COLUMNS) - 3)}")
    return "\n".join([f"{about}. Two figures: {cases[0]}; {cases[1]}.", "", *lines, "", *notes(found), ""])


def cells(name, values, cases, found, versions):
    def ratios(metric):
        rows = [values.get((case, f"{name}: {metric}")) for case in cases]
        return "; ".join(f"{row['ratio']:.2f}" for row in rows if row) or "–"

    unsynced = values.get((cases[0], f"{name}: unsynced"))
    return (
        name,
        ", ".join(f"{package} {versions[package]}" for package in PACKAGES[name]),
        ratios("waits"),
        ratios("durable"),
        f"{100 * unsynced['ratio']:.0f} %" if unsynced else "–",
        ratios("restart") if name != sides.MAINSTAY else "1",
        ratios("room"),
        killed(found.killed),
        FLIPPED[found.flipped.kind],
        ACROSS[found.across.kind] if found.across else "–",
    )


def notes(found):
    """The messages of the errors."""
    for name, of in found.items():
        told = {"killed": [*of.killed], "a flipped byte": [of.flipped], "1 of 2 ranks": [of.across]}
        for event, outcomes in told.items():
            for error in {outcome.error for outcome in outcomes if outcome and outcome.error}:
                yield f"- {name}, {event}: `{error}`"
