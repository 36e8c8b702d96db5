"""Random programs over the whole interface, compared with a model of the required results: tests/model.

The seeds are the same in each run, so that failures repeat. The campaign takes other seeds, and another MPI, each time.
The programs in tests/model/once failed once; they are as small as possible.
"""

import os
import random
from pathlib import Path

import pytest
from limits import LIMIT_S
from model import play, program
from model.hold_against import why_wrong
from model.run import Campaign
from ways import rarely

SEED, COUNT = 1, 12
ONCE = sorted((Path(__file__).parent / "model" / "once").glob("*.json"))


def told(campaign):
    return f"{campaign.played}, up to seed {campaign.seed - 1}"


def test_random_programs(capsys):
    campaign = Campaign(SEED, LIMIT_S, "forked", COUNT).run()
    with capsys.disabled():
        print(f"\nRandom programs: {told(campaign)}", flush=True)
    assert not campaign.failures, campaign.failures[0]


@pytest.mark.parametrize("world", ["forked", *rarely("openmpi", "python-mpich")])
@pytest.mark.parametrize("path", ONCE, ids=lambda path: path.stem)
def test_programs_that_failed_once(path, world):
    one = {**program.read(path), "world": world}
    assert not (why := why_wrong(one, {world: play.builds(world)})), why


@pytest.mark.campaign
def test_random_programs_for_hours(capsys):
    seed = int(os.environ.get("MAINSTAY_CAMPAIGN_SEED", random.SystemRandom().randrange(1 << 40)))
    seconds = float(os.environ.get("MAINSTAY_CAMPAIGN_SECONDS", 3600))
    with capsys.disabled():
        print(f"\nRandom programs for {seconds:.0f} s from seed {seed}", flush=True)
        campaign = Campaign(seed, seconds).run(failures_max=20)
        print(f"Random programs: {told(campaign)}", flush=True)
    assert not campaign.failures, "\n\n".join(campaign.failures)
