//! A job with ranks in slots: the host program stands before the program in its command.

use super::{launcher, protected::Protected};
use crate::{
    arguments,
    exit::{Failure, say},
    ranks::{self, Installed},
    text,
};
use mainstay_engine::{count, printable_path};
use mainstay_ranks::{Abi, Inspected, inspect};
use std::{ffi::OsString, path::Path};

/// A job with its ranks in slots.
pub struct Hosted {
    /// The user's command, with the host program before the program.
    pub command: Vec<OsString>,
    pub found: Found,
}

/// The facts about the job before it starts.
pub struct Found {
    program: OsString,
    inspected: Inspected,
    /// `None`: as the job in the space has, or as many as processes.
    ranks: Option<u32>,
}

/// The job with --virtual; refuses a program that cannot run in slots.
pub fn hosted(wanted: &arguments::Run, ranks: u32, protected: &Protected) -> Result<Hosted, Failure> {
    let [space] = &wanted.spaces[..] else {
        return Err(Failure::usage("--virtual saves all ranks to one space; give --space once"));
    };
    let installed = Installed::find()?;
    let parts = launcher::parts(&wanted.command)?;
    let at = parts.map_or(0, |parts| parts.program);
    let program = &wanted.command[at..];
    if program.is_empty() {
        return Err(Failure::usage("the launcher of the command is given no program"));
    }
    let given = (ranks > 0).then_some(ranks);
    let processes = parts.map_or(Some(1), |parts| wanted.ranks.or(parts.processes));
    let inspected =
        inspect(program, given.or(processes).unwrap_or(1) as usize, &installed.libraries).map_err(ranks::failure)?;
    let found = Found { program: program[0].clone(), inspected, ranks: given };
    let mut words = wanted.command[..at].to_vec();
    if let Some(every) = wanted.every {
        // Not every launcher passes variables on to other machines.
        words.extend(["env".into(), format!("MAINSTAY_EVERY_SECONDS={}", every.as_secs_f64()).into()]);
    }
    // The host does the system calls of its ranks, so their names are redirected there.
    words.extend(protected.words()?);
    match parts {
        Some(parts) => words.push(ranks::host_program(&wanted.command[parts.launcher], &installed)?.into()),
        None => words.extend([installed.command.clone().into(), "host-ranks".into()]),
    }
    if let Some(ranks) = given {
        words.extend(["--virtual".into(), ranks.to_string().into()]);
    }
    if let Some(balance) = wanted.balance.as_ref().filter(|_| parts.is_some()) {
        words.extend(["--balance".into(), balance.into()]);
    }
    if wanted.with_libraries {
        words.extend(["--with-libraries".into(), "yes".into()]);
    }
    words.extend(["--space".into(), space.into(), "--library".into(), installed.libraries.into(), "--".into()]);
    words.extend_from_slice(program);
    Ok(Hosted { command: words, found })
}

/// A message names at most this many functions.
const NAMED_MAX: usize = 4;

impl Found {
    /// Prints them.
    pub fn tell(&self) {
        let program = printable_path(Path::new(&self.program));
        say(&format!("{program}: {}", self.description()));
        let missing = &self.inspected.missing;
        if !missing.is_empty() {
            say(&format!("{program} uses {}; these calls fail in slots", list(missing)));
        }
        if self.inspected.has_open_mp {
            say(&format!("{program} uses OpenMP, but a rank has one thread; set OMP_NUM_THREADS=1"));
        }
    }

    fn description(&self) -> String {
        let Inspected { abi, run_times, slot_bytes, .. } = &self.inspected;
        let abi = match abi {
            Abi::Mpich => "built for MPICH's ABI",
            Abi::Standard => "built for the standard ABI of MPI 5",
            Abi::Unknown => "linked to no MPI",
        };
        let languages =
            if run_times.is_empty() { String::new() } else { format!(", with {}", run_times.join(" and ")) };
        let ranks = self.ranks.map_or("a rank for each process".to_owned(), |ranks| count(ranks.into(), "rank"));
        format!("{abi}{languages}; {ranks} in slots of {}", text::bytes(*slot_bytes))
    }
}

/// The first of the names, and the number of the others.
fn list(names: &[String]) -> String {
    let (first, others) = names.split_at(names.len().min(NAMED_MAX));
    let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    format!("{}{others}", first.join(", "))
}
