"""The rows of the benchmark `speculation`, from the results of its jobs."""

from harness import rows

FULL, INCREMENTAL = "full", "incremental"
PREDICTORS = ("infrequent", "auto", "oracle")
APART = "_apart"  # without `stagger`
WAYS = (FULL, INCREMENTAL, *PREDICTORS, *(f"{name}{APART}" for name in PREDICTORS))
POINTS = 10  # by how much live and predicted gain may differ
REPLAY = "replay of "  # how cases begin that are no jobs
OF_ORACLE, VAIN = 0.9, 0.2  # what `auto` is to reach: of the oracle's gain; extra writes for each page at most
TRACKING = 1.05  # of the time between checkpoints of a program that saves nothing early
LEAST = 0.1  # %: less is taken for it, as ratios need something


def predictor_of(way):
    return way.removesuffix(APART)


def case_rows(case, ran, predicted):
    """`ran`: for each way its jobs, one a round. `predicted`: for each predictor the part of the written bytes that is
    saved early, one a round."""
    took = {way: [one.seconds for one in jobs] for way, jobs in ran.items()}
    made = [rows.floor(case, INCREMENTAL, took[INCREMENTAL], "s")]
    for way in ran:
        if way != INCREMENTAL:
            target = 1.0 if way in PREDICTORS else None
            made.append(rows.row(case, way, took[way], "s", INCREMENTAL, took[INCREMENTAL], target))
    if any(one.between for one in ran[INCREMENTAL]):
        made += between(case, ran)
    made.append(rows.floor(case, "points_allowed", [POINTS], "points"))
    for name in PREDICTORS:
        left = [100 * (1 - part) for part in predicted[name]]
        made.append(rows.floor(case, f"{name}_predicted", [max(0.1, rows.median(left))], "%"))
    for way in (way for way in ran if predictor_of(way) in PREDICTORS):
        expected = f"{predictor_of(way)}_predicted"
        against = [row["value"] for row in made if row["metric"] == expected]
        of_time = [100 * one.learnt / other.learnt for one, other in zip(ran[way], ran[INCREMENTAL])]
        of_blocks = [100 * (1 - one.early / max(1, one.dirty)) for one in ran[way]]
        vain = [100 * (1 + one.vain / max(1, one.dirty)) for one in ran[way]]
        made.append(rows.row(case, f"{way}_left", of_time, "%", expected, against))
        made.append(rows.row(case, f"{way}_blocks", of_blocks, "%", expected, against))
        # All blocks that were saved, including those saved in vain, compared with the blocks that had to be saved.
        made.append(rows.row(case, f"{way}_saved", vain, "%", expected, against))
        points = [abs(rows.median(of_time) - against[0])]
        made.append(rows.row(case, f"{way}_points", points, "points", "points_allowed", [POINTS],
                             target=None if way.endswith(APART) else 1.0))  # fmt: skip
    return made


def between(case, ran):
    """The program's own time between checkpoints. Ticks, and writes that ticks have to detect, make it longer."""
    took = {way: [one.between for one in jobs] for way, jobs in ran.items() if way != FULL}
    least = took.pop(INCREMENTAL)
    yield rows.floor(case, f"{INCREMENTAL}_between", least, "s")
    for way, seconds in took.items():
        target = TRACKING if way in PREDICTORS else None
        yield rows.row(case, f"{way}_between", seconds, "s", f"{INCREMENTAL}_between", least, target)


def replay_rows(case, learnt, unlearnt):
    """The pages saved early and those saved in vain, of 100 written pages: by the oracle, by `auto`, and by `auto` when
    the intervals from which it learns are counted too."""

    def early(of, name):
        return [max(LEAST, 100 * of[name]["early_share"])]

    auto, perfect = early(learnt, "auto"), early(learnt, "oracle")
    return [
        rows.floor(case, "auto", auto, "%"),
        rows.row(case, "oracle", perfect, "%", "auto", auto, 1 / OF_ORACLE),
        rows.floor(case, "vain_allowed", [100 * VAIN], "%"),
        rows.row(case, "auto_vain", [100 * learnt["auto"]["wasted_share"]], "%", "vain_allowed", [100 * VAIN], 1.0),
        rows.row(case, "auto_unlearnt", early(unlearnt, "auto"), "%", "auto", auto),
        rows.row(case, "oracle_unlearnt", early(unlearnt, "oracle"), "%", "oracle", perfect),
    ]
