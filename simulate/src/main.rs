//! `mainstay-simulate`: runs plans by their seeds.

use clap::{Parser, ValueEnum};
use mainstay_simulate::{Ran, objects, plan::Plan, run, shrink, slots};
use std::{fmt, ops::Range, process::ExitCode, time::Instant};

/// Runs the engine in a simulated cluster, under schedules and faults drawn from seeds.
#[derive(Debug, Parser)]
#[command(name = "mainstay-simulate")]
struct Arguments {
    /// Programs of the simulated ranks.
    #[arg(long, value_enum, default_value_t = Kind::Regions)]
    kind: Kind,
    /// Run one seed, and print its plan and story.
    #[arg(long)]
    seed: Option<u64>,
    /// Cut a plan that fails down to a smaller one that still fails. Not for slots.
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Number of seeds.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// First seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run a wrong variant of the code, until a seed fails.
    #[arg(long)]
    mutant: Option<String>,
    /// List the wrong variants.
    #[arg(long)]
    mutants: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Programs that save regions of memory.
    Regions,
    /// Programs with objects that move between ranks.
    Objects,
    /// Ranks in slots that send messages.
    Slots,
}

/// A plan of any kind.
enum AnyPlan {
    Jobs(Plan),
    Slots(slots::Plan),
}

impl fmt::Debug for AnyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyPlan::Jobs(plan) => plan.fmt(f),
            AnyPlan::Slots(plan) => plan.fmt(f),
        }
    }
}

impl AnyPlan {
    fn run(&self, keeps_story: bool) -> Ran {
        match self {
            AnyPlan::Jobs(plan) => run(plan, keeps_story),
            AnyPlan::Slots(plan) => slots::run(plan, keeps_story),
        }
    }
}

impl Kind {
    fn plan(self, seed: u64) -> AnyPlan {
        match self {
            Kind::Regions => AnyPlan::Jobs(Plan::of(seed)),
            Kind::Objects => AnyPlan::Jobs(objects::plan(seed)),
            Kind::Slots => AnyPlan::Slots(slots::Plan::of(seed)),
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
        Some(seed) => run_one(seed, arguments.kind, arguments.shrink),
        None => run_many(arguments.from..arguments.from + arguments.count, arguments.kind, arguments.mutant.is_some()),
    }
}

fn run_one(seed: u64, kind: Kind, is_cut: bool) -> ExitCode {
    let plan = match kind.plan(seed) {
        AnyPlan::Jobs(plan) if is_cut && run(&plan, false).outcome.is_err() => AnyPlan::Jobs(shrink(&plan)),
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

/// Runs `seeds`. Stops after the first that fails if `up_to_first`.
fn run_many(seeds: Range<u64>, kind: Kind, up_to_first: bool) -> ExitCode {
    let begun = Instant::now();
    let (mut count, mut failed, mut steps, mut acknowledged, mut restores) = (0_u32, 0, 0, 0, 0);
    for seed in seeds {
        let ran = kind.plan(seed).run(false);
        count += 1;
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
        f64::from(count) / seconds * 60.0
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
