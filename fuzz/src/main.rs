//! `mainstay-fuzz`: hostile bytes from seeds, for each reader of foreign bytes.

use clap::Parser;
use mainstay_fuzz::{Judge, Scratch, Target, kept, make, mutate, targets};
use std::{error::Error, fs, ops::Range, path::PathBuf, process::ExitCode};

/// Reads hostile bytes, drawn from seeds, with each reader of foreign bytes.
#[derive(Debug, Parser)]
#[command(name = "mainstay-fuzz")]
struct Arguments {
    /// Run this target alone.
    #[arg(long)]
    target: Option<String>,
    /// List the targets, each with its usual number of seeds.
    #[arg(long)]
    list: bool,
    /// First seed. The first seeds are the kept inputs as they are.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Number of seeds. By default each target has its own.
    #[arg(long)]
    count: Option<u64>,
    /// Read this file in place of inputs from seeds.
    #[arg(long, requires = "target")]
    file: Option<PathBuf>,
    /// Only write the input of the seed --from to this file.
    #[arg(long, requires = "target")]
    save: Option<PathBuf>,
    /// Make the kept inputs anew.
    #[arg(long)]
    make: bool,
    /// Stage data as a killed job does, for --make.
    #[arg(long, hide = true)]
    stage: Option<PathBuf>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::parse();
    if arguments.list {
        targets::all().for_each(|target| println!("{} {}", target.name, target.count));
        return Ok(ExitCode::SUCCESS);
    }
    let _scratch = Scratch::make()?;
    if let Some(folder) = &arguments.stage {
        make::stage(folder)?;
    }
    if arguments.make {
        make::make(&kept::folder())?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<&'static Target> = match &arguments.target {
        Some(name) => targets::all().chain(targets::wrong()).filter(|target| target.name == name).collect(),
        None => targets::all().collect(),
    };
    if chosen.is_empty() {
        return Err("there is no such target; --list names them".into());
    }
    let mut faults = 0;
    for target in chosen {
        faults += usize::from(!run(target, &arguments)?);
    }
    Ok(ExitCode::from(u8::from(faults > 0)))
}

/// Runs a target until its first fault. Returns whether it has none.
fn run(target: &'static Target, arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let (judge, kept) = (Judge::of(target), kept::inputs(target)?);
    if let Some(path) = &arguments.save {
        fs::write(path, mutate::input(&kept, arguments.from))?;
        return Ok(true);
    }
    let seeds: Range<u64> = arguments.from..arguments.from + arguments.count.unwrap_or(target.count);
    let inputs: &mut dyn Iterator<Item = (u64, Vec<u8>)> = match &arguments.file {
        Some(path) => &mut [(0, fs::read(path)?)].into_iter(),
        None => &mut seeds.map(|seed| (seed, mutate::input(&kept, seed))),
    };
    for (seed, input) in inputs {
        if let Err(fault) = judge.judge(seed, &input) {
            println!("{}: seed {seed}: {fault}", target.name);
            return Ok(false);
        }
    }
    Ok(true)
}
