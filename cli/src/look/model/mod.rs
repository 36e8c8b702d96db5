//! `mainstay model`: the cost of checkpoints on a machine by its number of ranks, and the levels that lose least there.

mod machine;
mod measured;
mod page;
mod plot;

use super::failures::ns;
use crate::{
    arguments,
    document::{LevelTimes, Modelled, ModelledChoice, ModelledJob, ModelledLevel, SimulatedChoice},
    exit::{Exit, Failure},
    output,
    random::Random,
};
use mainstay_engine::{
    LevelKind,
    model::{self, Choice, Job, LevelCopies, Schedule},
};
use std::{iter::zip, time::Duration};

pub fn model(wanted: &arguments::Model) -> Result<Exit, Failure> {
    let measured = wanted.space.as_deref().map(measured::measured).transpose()?;
    let (machine, costs) = machine::machine(&wanted.costs, measured.as_ref());
    let jobs = wanted.ranks.0.iter().map(|ranks| job(wanted, &Job { machine, ranks: *ranks }));
    let modelled =
        Modelled { jobs: jobs.collect::<Result<_, Failure>>()?, measured_in: measured.map(|it| it.from), costs };
    if let Some(path) = &wanted.plot {
        plot::draw(&modelled, path)?;
    }
    match wanted.json {
        true => output::json(&modelled)?,
        false => output::text(&page::page(&modelled, wanted.all))?,
    }
    Ok(Exit::Good)
}

fn job(wanted: &arguments::Model, job: &Job) -> Result<ModelledJob, Failure> {
    let mut seen: Vec<Vec<LevelKind>> = Vec::new();
    let mut choices = Vec::new();
    for choice in model::choices(job, wanted.run)? {
        let memory_bytes = job.memory_bytes(&choice.levels, wanted.keep);
        let memory_bytes = memory_bytes.ok_or_else(|| Failure::usage("--rank-bytes: more than any memory has"))?;
        if wanted.memory.is_some_and(|most| memory_bytes > most) {
            continue;
        }
        // The best number of copies on each set of levels.
        let kinds: Vec<LevelKind> = choice.levels.iter().map(|on| on.level).collect();
        let is_best = !seen.contains(&kinds);
        seen.push(kinds);
        let simulated = (wanted.failures > 0 && (is_best || wanted.all)).then(|| simulated(wanted, job, &choice));
        choices.push(modelled(&choice, memory_bytes, simulated));
    }
    Ok(ModelledJob {
        ranks: job.ranks,
        nodes: job.nodes(),
        bytes: job.machine.rank_bytes.saturating_mul(job.ranks),
        mtbf_ns: nanoseconds(1.0 / job.failures()),
        checkpoints: model::levels_on(job.nodes()).map(|on| times(job, on)).collect(),
        choices,
    })
}

fn times(job: &Job, on: LevelCopies) -> LevelTimes {
    LevelTimes {
        level: on.level.name(),
        copies: on.copies,
        perceived_ns: nanoseconds(job.perceived()),
        durable_ns: nanoseconds(job.perceived() + job.under_way(on)),
        restart_ns: nanoseconds(job.restart(Some(on))),
    }
}

fn modelled(choice: &Choice, memory_bytes: u64, simulated: Option<SimulatedChoice>) -> ModelledChoice {
    let levels = zip(on_turn(choice), &choice.left).map(|((on, every), left)| ModelledLevel {
        level: on.level.name(),
        copies: on.copies,
        every,
        left_share: *left,
    });
    ModelledChoice {
        levels: levels.collect(),
        interval_ns: ns(choice.pattern.interval),
        memory_bytes,
        unsurvived_share: choice.unsurvived(),
        efficiency: choice.efficiency,
        simulated,
    }
}

fn simulated(wanted: &arguments::Model, job: &Job, choice: &Choice) -> SimulatedChoice {
    let schedule = Schedule { levels: on_turn(choice).collect(), interval: choice.pattern.interval };
    // The same failures for each choice.
    let mut random = Random::new(wanted.seed);
    let seen = model::simulate(job, &schedule, wanted.run, wanted.failures, &mut || random.share());
    SimulatedChoice {
        efficiency: seen.efficiency,
        error: seen.error,
        failures: seen.failures,
        begun_again: seen.begun_again,
    }
}

/// Each level, and the number of checkpoints between two that go there.
fn on_turn(choice: &Choice) -> impl Iterator<Item = (LevelCopies, u64)> {
    zip(choice.levels.iter().copied(), choice.pattern.every.iter().flatten().copied())
}

fn nanoseconds(seconds: f64) -> u64 {
    ns(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
