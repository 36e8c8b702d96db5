//! Plans of jobs with objects.

use crate::{
    acts::{Act, ObjectSetting},
    plan::{Plan, Step, last_round, round, seats, setting},
};
use fastrand::Rng;
use mainstay_engine::Recovery;
use mainstay_objects::Strategy;

/// The plan with this seed.
pub fn plan(seed: u64) -> Plan {
    let random = &mut Rng::with_seed(seed);
    let mut setting = setting(random);
    let objects = ObjectSetting {
        count: [1, 3, 8, 20][random.usize(0..4)],
        strategy: strategy(random),
        every: random.u64(0..4),
        after_failure: random.u64(0..3),
    };
    (setting.objects, setting.is_global) = (Some(objects), true);
    setting.recovery = [Recovery::Off, Recovery::Replace, Recovery::Shrink, Recovery::Shrink][random.usize(0..4)];
    let usual = seats(setting.nodes, random);
    let mut rounds: Vec<_> = (0..random.usize(1..=3)).map(|_| round(&setting, &usual, random)).collect();
    rounds.push(last_round(usual));
    for round in &mut rounds {
        let steps = std::mem::take(&mut round.steps);
        for step in steps {
            (0..random.usize(0..4)).for_each(|_| round.steps.push(Step::Objects(act(random))));
            round.steps.push(step);
        }
    }
    Plan { seed, setting, rounds }
}

fn strategy(random: &mut Rng) -> Strategy {
    Strategy::ALL[random.usize(0..Strategy::ALL.len())].1
}

fn act(random: &mut Rng) -> Act {
    match random.u8(0..12) {
        0..6 => Act::Step,
        6 | 7 => Act::Send,
        8 => Act::Create { count: random.u64(1..4) },
        9 | 10 => Act::Balance(strategy(random)),
        _ => Act::Evacuate { given_up: random.u64(0..8) },
    }
}
