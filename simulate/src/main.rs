//! `mainstay-simulate`: runs plans by their seeds.

use clap::Parser;
use mainstay_simulate::{plan::Plan, run, shrink};
use std::{ops::Range, process::ExitCode, time::Instant};

/// Runs the engine in a simulated cluster, under schedules and faults drawn from seeds.
#[derive(Debug, Parser)]
#[command(name = "mainstay-simulate")]
struct Arguments {
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

fn main() -> ExitCode {
    mainstay_simulate::fix_addresses();
    let arguments = Arguments::parse();
    if arguments.mutants {
        mainstay_engine::mutants().for_each(|(name, meaning)| println!("{name}: {meaning}"));
        return ExitCode::SUCCESS;
    }
    if let Some(name) = &arguments.mutant
        && !mainstay_engine::become_mutant(name)
    {
        eprintln!("there is no wrong variant {name}; --mutants lists them");
        return ExitCode::FAILURE;
    }
    match arguments.seed {
        Some(seed) => one(seed, arguments.shrink),
        None => many(arguments.from..arguments.from + arguments.count, arguments.mutant.is_some()),
    }
}

fn one(seed: u64, is_cut: bool) -> ExitCode {
    let mut plan = Plan::of(seed);
    if is_cut && run(&plan, false).outcome.is_err() {
        plan = shrink(&plan);
    }
    println!("{plan:#?}");
    let ran = run(&plan, true);
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
fn many(seeds: Range<u64>, up_to_first: bool) -> ExitCode {
    let (begun, count) = (Instant::now(), seeds.end - seeds.start);
    let (mut failed, mut steps, mut acknowledged, mut restores) = (0, 0, 0, 0);
    for seed in seeds {
        let ran = run(&Plan::of(seed), false);
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
