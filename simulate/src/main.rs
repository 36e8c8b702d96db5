//! `mainstay-simulate`: runs plans by their seeds.

use clap::{Parser, ValueEnum};
use mainstay_simulate::{Ran, objects, plan::Plan, run, shrink, slots};
use std::{fmt, ops::Range, process::ExitCode, time::Instant};

/// Runs the engine in a simulated cluster, under schedules and faults drawn from seeds.
#[derive(Debug, Parser)]
#[command(name = "mainstay-simulate")]
struct Arguments {
    /// The programs of the simulated ranks.
    #[arg(long, value_enum, default_value_t = Kind::Regions)]
    kind: Kind,
    /// Runs one seed, and prints its plan and story.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: first cuts a plan that fails down to the least that still fails.
    #[arg(long)]
    shrink: bool,
    /// Runs this many seeds.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Runs a wrong variant of the engine, until a seed shows that it is wrong.
    #[arg(long)]
    mutant: Option<String>,
    /// Lists the wrong variants.
    #[arg(long)]
    mutants: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// They save regions of memory.
    Regions,
    /// They have objects that move between ranks.
    Objects,
    /// They are ranks in slots, and send messages.
    Slots,
}

/// The plan of a kind.
enum KindOfPlan {
    Jobs(Plan),
    Slots(slots::Plan),
}

impl fmt::Debug for KindOfPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KindOfPlan::Jobs(plan) => plan.fmt(f),
            KindOfPlan::Slots(plan) => plan.fmt(f),
        }
    }
}

impl KindOfPlan {
    fn run(&self, keeps_story: bool) -> Ran {
        match self {
            KindOfPlan::Jobs(plan) => run(plan, keeps_story),
            KindOfPlan::Slots(plan) => slots::run(plan, keeps_story),
        }
    }
}

impl Kind {
    fn plan(self, seed: u64) -> KindOfPlan {
        match self {
            Kind::Regions => KindOfPlan::Jobs(Plan::of(seed)),
            Kind::Objects => KindOfPlan::Jobs(objects::plan(seed)),
            Kind::Slots => KindOfPlan::Slots(slots::Plan::of(seed)),
        }
    }
}

/// All wrong variants, each with its meaning.
fn mutants() -> impl Iterator<Item = (&'static str, &'static str)> {
    mainstay_engine::mutants().chain(mainstay_objects::MUTANTS).chain(mainstay_ranks::MUTANTS)
}

fn main() -> ExitCode {
    mainstay_simulate::fix_addresses();
    let arguments = Arguments::parse();
    if arguments.mutants {
        mutants().for_each(|(name, meaning)| println!("{name}: {meaning}"));
        return ExitCode::SUCCESS;
    }
    if let Some(name) = &arguments.mutant
        && !mainstay_engine::become_mutant(name)
        && mutants().all(|(known, _)| known != name)
    {
        eprintln!("there is no wrong variant {name}; --mutants lists them");
        return ExitCode::FAILURE;
    }
    match arguments.seed {
        Some(seed) => one(seed, arguments.kind, arguments.shrink),
        None => many(arguments.from..arguments.from + arguments.count, arguments.kind, arguments.mutant.is_some()),
    }
}

fn one(seed: u64, kind: Kind, is_cut: bool) -> ExitCode {
    let plan = match kind.plan(seed) {
        KindOfPlan::Jobs(plan) if is_cut && run(&plan, false).outcome.is_err() => KindOfPlan::Jobs(shrink(&plan)),
        plan => plan,
    };
    println!("{plan:#?}");
    let ran = plan.run(true);
    ran.story.iter().for_each(|line| println!("{line}"));
    match ran.outcome {
        Ok(()) => {
            println!("seed {seed}: all promises kept");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            println!("seed {seed}: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `seeds`, or only those up to the first that fails.
fn many(seeds: Range<u64>, kind: Kind, up_to_first: bool) -> ExitCode {
    let (begun, count) = (Instant::now(), seeds.end - seeds.start);
    let (mut failed, mut steps, mut acknowledged, mut restores) = (0, 0, 0, 0);
    for seed in seeds {
        let ran = kind.plan(seed).run(false);
        steps += ran.steps;
        acknowledged += ran.acknowledged;
        restores += ran.restores;
        if let Err(fault) = ran.outcome {
            failed += 1;
            println!("seed {seed}: {fault}");
            if up_to_first {
                break;
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{count} runs in {seconds:.1} s, {:.0} a minute: {failed} failed; {steps} hand-overs, {acknowledged} revisions \
         promised, {restores} restores",
        count as f64 / seconds * 60.0
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
