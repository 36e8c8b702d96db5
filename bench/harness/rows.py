"""Rows of a benchmark: a value and its reference, measured in the same run."""

import json
import math


def percentile(values, part):
    """Interpolates between the nearest two values, as most tools do."""
    ordered = sorted(values)
    at = part * (len(ordered) - 1)
    low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
    return low + (high - low) * (at - math.floor(at))


def median(values):
    return percentile(values, 0.5)


def spread(values):
    return [percentile(values, 0.1), percentile(values, 0.9)]


def row(case, metric, values, unit, reference=None, against=None, target=None):
    """`values` and `against` have one value for each round, or one for all; `reference` is the name of `against`.

    The ratio is the ratio of the medians; its spread is the spread of the ratios of single rounds. A target is the
    largest ratio that passes. Without a reference the row has only the value.
    """
    made = dict.fromkeys(("case", "metric", "value", "unit", "reference", "ratio", "spread", "target", "holds"))
    made.update(case=case, metric=metric, value=median(values), unit=unit, reference=reference, target=target)
    if reference is not None:
        made["ratio"] = made["value"] / median(against)
        pairs = zip(values, against) if len(against) == len(values) else ((value, against[0]) for value in values)
        made["spread"] = spread([value / other for value, other in pairs])
        made["holds"] = None if target is None else made["ratio"] <= target
    return made


def floor(case, metric, values, unit):
    """A row of a reference. It is compared with its own median, so its spread shows how noisy the machine was."""
    return row(case, metric, values, unit, metric, [median(values)])


def number(value, unit):
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB"
    if unit == "s" and value < 1e-4:
        return f"{1e6 * value:.2f} µs"
    if unit == "s":
        return f"{1e3 * value:.1f} ms"
    if unit == "%":
        return f"{value:.2f} %"
    return f"{value:g} {unit}"


def table(rows):
    """For people: a block of lines for each case."""
    lines, case = [], None
    for one in rows:
        if one["case"] != case:
            case = one["case"]
            lines += ["", case, f"  {'':22}{'median':>12}  {'÷':>6}  {'10th..90th':>12}  against"]
        line = f"  {one['metric']:22}{number(one['value'], one['unit']):>12}"
        if one["reference"] is not None:
            low, high = one["spread"]
            against = "itself" if one["reference"] == one["metric"] else one["reference"]
            line += f"  {one['ratio']:6.2f}  {f'{low:.2f}..{high:.2f}':>12}  {against}"
        if one["target"] is not None:
            line += f"; at most {one['target']:g}: {'holds' if one['holds'] else 'MISSED'}"
        lines.append(line)
    return "\n".join(lines)


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


def end(path, rows):
    """Ends a benchmark after its tables are printed: writes the rows, and reports the missed targets."""
    write(path, rows)
    print(f"\n{len(rows)} rows in {path}")
    if missed := [f"{one['case']}: {one['metric']} {one['ratio']:.2f}" for one in rows if one["holds"] is False]:
        print("missed: " + "; ".join(missed))
