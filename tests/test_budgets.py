"""The budgets of files of tests: a file that became slow fails, and a slow machine fails no file."""

import outcome


def test_a_file_fails_beyond_twice_its_budget_unless_all_files_are_as_slow():
    allowed = {f"file {number}": 10 for number in range(20)}

    def beyond(factor, **others):
        spent = {**{file: factor * budget for file, budget in allowed.items()}, **others}
        return [line.split(" took")[0] for line in outcome.beyond_budget(spent, allowed)]

    assert beyond(1) == beyond(1.9) == beyond(2.5) == []
    assert beyond(1, unbudgeted=11) == ["unbudgeted"]
    assert beyond(0.9, unbudgeted=9) == []
    assert beyond(2.5, unbudgeted=24) == []
    assert beyond(2.5, unbudgeted=26) == ["unbudgeted"]
    assert len(list(outcome.beyond_budget({"file 0": 25}, allowed))) == 1, "one file tells nothing of the machine"
