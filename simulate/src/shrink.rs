//! Cuts a plan that fails down to the fewest jobs, faults, ranks and calls that still fail.

use crate::{
    plan::{Plan, Round},
    run,
};
use mainstay_engine::{Capture, Compress, Recovery, Stage};

/// Runs for one plan, at most.
const TRIES: u32 = 400;

/// A smaller plan that fails, too, though perhaps for another reason. Returns `plan` itself if nothing can go.
pub fn shrink(plan: &Plan) -> Plan {
    let (mut smallest, mut tries) = (plan.clone(), 0);
    loop {
        let found = smaller(&smallest).into_iter().find(|one| {
            tries += 1;
            tries <= TRIES && run(one, false).outcome.is_err()
        });
        match found {
            Some(found) => smallest = found,
            None => return smallest,
        }
    }
}

/// The plans with one thing less, those with the largest thing less first.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Plan)| {
        let mut one = plan.clone();
        change(&mut one);
        all.push(one);
    };
    for round in 0..plan.rounds.len() {
        add(&|plan| drop(plan.rounds.remove(round)));
    }
    for (round, Round { faults, tools, lost, rots, .. }) in plan.rounds.iter().enumerate() {
        (0..faults.len()).for_each(|fault| add(&|plan| _ = plan.rounds[round].faults.remove(fault)));
        (0..tools.len()).for_each(|tool| add(&|plan| _ = plan.rounds[round].tools.remove(tool)));
        (0..lost.len()).for_each(|node| add(&|plan| _ = plan.rounds[round].lost.remove(node)));
        if rots.is_some() {
            add(&|plan| plan.rounds[round].rots = None);
        }
    }
    for (round, Round { steps, .. }) in plan.rounds.iter().enumerate() {
        (0..steps.len()).for_each(|step| add(&|plan| _ = plan.rounds[round].steps.remove(step)));
    }
    let ranks = plan.rounds.iter().map(|round| round.seats.len()).min().unwrap_or(0);
    let is_named =
        |rank: usize| plan.rounds.iter().flat_map(|round| &round.faults).any(|fault| fault.rank() == Some(rank));
    // The last rank of each job, if it shares its node with another.
    let may_go =
        |round: &Round| round.seats.iter().rev().take(2).collect::<Vec<_>>().windows(2).any(|two| two[0] == two[1]);
    if ranks > 1 && plan.rounds.iter().all(may_go) && !is_named(ranks - 1) {
        add(&|plan| plan.rounds.iter_mut().for_each(|round| _ = round.seats.pop()));
    }
    let setting = &plan.setting;
    if setting.compress != Compress::Off {
        add(&|plan| plan.setting.compress = Compress::Off);
    }
    if setting.capture != Capture::Whole {
        add(&|plan| plan.setting.capture = Capture::Whole);
    }
    if setting.stage != Stage::Direct {
        add(&|plan| plan.setting.stage = Stage::Direct);
    }
    if setting.recovery != Recovery::Off {
        add(&|plan| plan.setting.recovery = Recovery::Off);
    }
    if setting.io_threads > 1 {
        add(&|plan| plan.setting.io_threads = 1);
    }
    all
}
