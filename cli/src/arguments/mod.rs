//! The command line and its help.

mod advise;
mod files;
mod groups;
mod look;
mod model;
mod oracle;
mod ranks;
mod rehearse;
mod reserve;
mod run;
mod setup;
mod stand_in;
mod take;
mod tend;
mod trace;

pub use advise::*;
pub use files::*;
pub use groups::command;
pub use look::*;
pub use model::*;
pub use oracle::*;
pub use ranks::*;
pub use rehearse::*;
pub use reserve::*;
pub use run::*;
pub use setup::*;
pub use stand_in::*;
pub use take::*;
pub use tend::*;
pub use trace::*;

use clap::{Args, Parser, Subcommand};
use std::{path::PathBuf, time::Duration};

const EXIT_CODES: &str = "\
Exit codes:
  0  good
  1  damage found; no complete revision; no such hold; no job saved itself in time
  2  wrong usage, or a wrong setting; reserve: the space is in use already
  3  not a space, or a space of a newer format; files: no protected files there
  4  refused: I/O error, no permission, no room, in use by a job
  5  status: saving keeps failing, or nothing is saved";

const EXAMPLES: &str = "\
Examples:
  mainstay ls /scratch/me/space                    lists its revisions
  mainstay status /scratch/me/space                shows how its job stands
  mainstay export /scratch/me/space out            writes the newest revision to .npy files
  mainstay prune /scratch/me/space --keep-last 3   removes all but the three newest
  mainstay run --restarts 5 -- mpiexec -n 64 ./simulation input.toml
  mainstay rehearse 3 -- mpiexec -n 4 ./simulation input.toml";

/// Look at checkpoints, take data out, tidy up, and run jobs that restart after a failure.
///
/// A space is the directory that a parallel program saves itself to. To look at a space you need neither MPI nor
/// the right to write, and a job may save there meanwhile. `mainstay help COMMAND` explains a command.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, arg_required_else_help = true)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Arguments {
    /// Print times in UTC instead of the local time zone (TZ)
    #[arg(long, global = true, display_order = 900)]
    pub utc: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Ls(Ls),
    Show(Show),
    Status(Status),
    Report(Report),
    Diff(Diff),
    Verify(Verify),
    Config(Config),
    Export(Export),
    View(View),
    Copy(Copy),
    Prune(Prune),
    Rollback(Rollback),
    Hold(Hold),
    Release(Release),
    Salvage(Salvage),
    Run(Run),
    Rehearse(Rehearse),
    Checkpoint(Checkpoint),
    Evacuate(Evacuate),
    Advise(Advise),
    Model(Model),
    Mpicc(Mpicc),
    Mpicxx(Mpicxx),
    Mpifort(Mpifort),
    StandIn(StandIn),
    Files(Files),
    #[command(hide = true)]
    HostRanks(HostRanks),
    #[command(hide = true)]
    FilesHelper(FilesHelper),
    Reserve(Reserve),
    Grow(Grow),
    Trace(Trace),
    Oracle(Oracle),
    Completions(Completions),
    Man(Man),
}

/// A revision, as every command accepts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// The newest complete one, as `ls` calls it.
    Newest,
    Number(u64),
}

impl Revision {
    /// `None`: the newest complete one.
    pub fn number(self) -> Option<u64> {
        match self {
            Revision::Newest => None,
            Revision::Number(number) => Some(number),
        }
    }
}

fn revision(text: &str) -> Result<Revision, String> {
    if text == "newest" {
        return Ok(Revision::Newest);
    }
    let all: Vec<&str> = text.split([',', ' ']).filter(|word| !word.is_empty()).collect();
    text.parse().map(Revision::Number).map_err(|_| match &all[..] {
        [one, other, ..] if all.iter().all(|word| word.parse::<u64>().is_ok()) => {
            format!("give one number each time: --revision {one} --revision {other}, if the command takes several")
        }
        _ => "it is neither `newest` nor the number of a revision, as `mainstay ls SPACE` lists them".to_owned(),
    })
}

/// The arguments of every command on one space.
#[derive(Debug, Clone, Args)]
pub struct Space {
    /// The space: the directory that the job opened
    #[arg(value_name = "SPACE")]
    pub path: PathBuf,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// A length of time. Batch systems write 2:00:00 and people write a bare number: the message asks for a unit.
fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| format!("{text:?} is no time with its unit, such as 300ms, 90s, 30min, 2h or \"1h 30m\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_unit_is_refused_with_times_that_are_taken() {
        for text in ["2:00:00", "120", "soon"] {
            for words in [&["run", "--time-limit", text, "--", "true"][..], &["prune", "space", "--older-than", text]] {
                let told = Arguments::try_parse_from([&["mainstay"], words].concat()).unwrap_err().to_string();
                assert!(told.contains(text) && told.contains("90s, 30min, 2h"), "{told}");
            }
        }
    }
}
