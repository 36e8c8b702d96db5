//! What can be asked of the command, and its help.

mod advise;
mod look;
mod oracle;
mod rehearse;
mod room;
mod run;
mod setup;
mod take;
mod tend;
mod trace;

pub use advise::*;
pub use look::*;
pub use oracle::*;
pub use rehearse::*;
pub use room::*;
pub use run::*;
pub use setup::*;
pub use take::*;
pub use tend::*;
pub use trace::*;

use clap::{Args, Parser, Subcommand};
use std::{path::PathBuf, time::Duration};

const EXIT_CODES: &str = "\
Exit codes:
  0  good
  1  damage was found, or nothing complete where a revision was asked for; no such hold; no job that saved itself
  2  wrong usage, or a wrong setting; reserve: the space is in use already
  3  not a space, or one of a newer format
  4  refused: I/O error, no permission, no room, in use by a job
  5  status: saving keeps failing, or nothing is saved";

const EXAMPLES: &str = "\
Examples:
  mainstay ls /scratch/me/space              what there is to go back to
  mainstay show /scratch/me/space --phases   the newest revision, and what it took
  mainstay diff /scratch/me/space 11 12      which items differ between two revisions, and how much
  mainstay status /scratch/me/space          how its job stands: by level, and what it would survive
  mainstay report /scratch/me/space -o run.html   a page about its runs, for a browser
  mainstay verify /scratch/me/space          reads every block
  mainstay advise /scratch/me/space          how large a pool is worth having; of levels, how often to save
  mainstay trace -- mpiexec -n 4 ./simulation   records which pages it writes
  mainstay oracle trace                      what saving pages early would gain
  mainstay checkpoint /scratch/me/space      has the job that runs there save itself now
  mainstay evacuate /scratch/me/space n17    has all objects that move leave a node
  mainstay export /scratch/me/space out      copies it into .npy files
  mainstay view /scratch/me/space --hdf5 out.h5   shows it to tools that read HDF5, in place
  mainstay copy /scratch/me/space /archive/me/space   takes its revisions to another file system
  mainstay hold /scratch/me/space            has it stay, until it is released
  mainstay prune /scratch/me/space --keep-last 3
  mainstay rollback /scratch/me/space --revision 12   goes back there for good
  mainstay reserve /scratch/me/space --ranks 64 --per-rank 20MiB
  mainstay run --restarts 5 -- mpiexec -n 64 ./simulation input.toml
  mainstay rehearse 3 -- mpiexec -n 4 ./simulation input.toml   whether it comes back as it was";

/// Looks into spaces and after them, and starts a job again that failed.
///
/// A space is the directory that a parallel program saves itself to. Looking into it needs no MPI and
/// no right to write, and may be done while a job is saving there.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, arg_required_else_help = true)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Arguments {
    /// Times in UTC, in place of the local time zone (TZ)
    #[arg(long, global = true)]
    pub utc: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Ls(Ls),
    Show(Show),
    Diff(Diff),
    Status(Status),
    Report(Report),
    Verify(Verify),
    Advise(Advise),
    Trace(Trace),
    Oracle(Oracle),
    Checkpoint(Checkpoint),
    Evacuate(Evacuate),
    Export(Export),
    View(View),
    Copy(Copy),
    Hold(Hold),
    Release(Release),
    Prune(Prune),
    Rollback(Rollback),
    Reserve(Reserve),
    Grow(Grow),
    Salvage(Salvage),
    Run(Run),
    Rehearse(Rehearse),
    Config(Config),
    Completions(Completions),
    Man(Man),
}

/// A revision, as every command takes it.
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
            format!("one number each time: --revision {one} --revision {other}, where a command takes several")
        }
        _ => "it is no number of a revision, such as `mainstay ls SPACE` lists, and not `newest`".to_owned(),
    })
}

/// Of every command on one space.
#[derive(Debug, Clone, Args)]
pub struct Space {
    /// The directory that a session was opened on
    #[arg(value_name = "SPACE")]
    pub path: PathBuf,
    /// One JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// A length of time. Batch systems write theirs as 2:00:00, and people as a number: the units that are meant are asked for.
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
