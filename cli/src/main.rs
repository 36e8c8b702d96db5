//! The command `mainstay`: looks at spaces, tidies them up, and runs jobs that restart after a failure.
//!
//! Each folder is one purpose of the user, as in `arguments`: `look`, `take`, `tend`, `room`, `run`, `ranks`, `setup`. `document`
//! is the output of `--json`, `text` the output for people, and `space` the code that the commands on a space share.

mod arguments;
mod consent;
mod document;
mod exit;
mod files;
mod given;
mod look;
mod output;
mod outside;
mod progress;
mod random;
mod ranks;
mod replaced;
mod room;
mod run;
mod setup;
mod signals;
mod space;
mod stand_in;
mod take;
mod tend;
mod text;
mod time;

use arguments::{Arguments, Command};
use clap::{
    FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};
use mainstay_engine::{is_seen, tell_times};
use std::{
    env,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

/// Prints the help, or the error of wrong usage. A typed word may be a strange file name, so it is escaped.
fn refused(mut error: clap::Error) -> ExitCode {
    hint_call(&mut error);
    if env::args_os().all(|word| word.to_str().is_some_and(|word| word.chars().all(is_seen))) {
        error.exit();
    }
    exit::say(error.to_string().trim_end());
    exit::Exit::Usage.into()
}

/// Suggests the nearest correct call. A stray number is taken for a revision, which every command but `diff` takes by
/// `--revision`; another stray word is taken for the job's command.
fn hint_call(error: &mut clap::Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return };
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let command = env::args().nth(1).unwrap_or_default();
    let hint = match &*command {
        "run" | "trace" | "rehearse" if !word.starts_with('-') => {
            let command = if command == "rehearse" { "rehearse KILLS" } else { &command };
            format!("the job comes after --: mainstay {command} -- {word} ...")
        }
        "diff" if word == "--revision" => {
            "the two revisions come after the space: mainstay diff SPACE 11 newest".to_owned()
        }
        _ if word == "newest" || word.parse::<u64>().is_ok() => {
            format!("name a revision by its number: --revision {word}")
        }
        _ => return,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
}

fn ended_early(failure: exit::Failure) -> ExitCode {
    exit::say(&failure.message);
    failure.exit.into()
}

fn main() -> ExitCode {
    // A limit on the size of files then fails the write with an error, and the command removes its unfinished files.
    let _ = signal_hook::flag::register(nix::libc::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let arguments = match arguments::command().try_get_matches().and_then(|found| Arguments::from_arg_matches(&found)) {
        Ok(arguments) => arguments,
        Err(error) => return refused(error),
    };
    if arguments.utc {
        time::tell_in_utc();
    }
    tell_times(time::when_and_where);
    let done = match arguments.command {
        Command::Ls(wanted) => look::ls(&wanted),
        Command::Show(wanted) => look::show(&wanted),
        Command::Diff(wanted) => look::diff(&wanted),
        Command::Status(wanted) => look::status(&wanted),
        Command::Report(wanted) => look::report(&wanted),
        Command::Verify(wanted) => look::verify(&wanted),
        Command::Advise(wanted) => look::advise(&wanted),
        Command::Model(wanted) => look::model(&wanted),
        Command::Oracle(wanted) => look::oracle(&wanted),
        Command::Trace(wanted) => return look::trace(&wanted).unwrap_or_else(ended_early),
        Command::Checkpoint(wanted) => tend::checkpoint(&wanted),
        Command::Evacuate(wanted) => tend::evacuate(&wanted),
        Command::Mpicc(wanted) => return ranks::mpicc(&wanted).unwrap_or_else(ended_early),
        Command::Mpicxx(wanted) => return ranks::mpicxx(&wanted).unwrap_or_else(ended_early),
        Command::Mpifort(wanted) => return ranks::mpifort(&wanted).unwrap_or_else(ended_early),
        Command::HostRanks(wanted) => return ranks::host_ranks(&wanted).unwrap_or_else(ended_early),
        Command::Config(wanted) => setup::config(&wanted),
        Command::Completions(wanted) => setup::completions(&wanted),
        Command::Man(wanted) => setup::man(&wanted),
        Command::Export(wanted) => take::export(&wanted),
        Command::Copy(wanted) => take::copy(&wanted),
        Command::Hold(wanted) => tend::hold(&wanted),
        Command::Release(wanted) => tend::release(&wanted),
        Command::Prune(wanted) => tend::prune(&wanted),
        Command::Rollback(wanted) => tend::rollback(&wanted),
        Command::Reserve(wanted) => room::reserve(&wanted),
        Command::Grow(wanted) => room::grow(&wanted),
        Command::Files(wanted) => return files::files(&wanted).unwrap_or_else(ended_early),
        Command::FilesHelper(wanted) => files::helper(&wanted),
        Command::StandIn(wanted) => stand_in::make(&wanted),
        Command::Run(wanted) => return run::run(&wanted),
        Command::Rehearse(wanted) => return run::rehearse(&wanted),
        Command::Salvage(wanted) => tend::salvage(&wanted),
        Command::View(wanted) => take::view(&wanted),
    };
    done.map_or_else(ended_early, ExitCode::from)
}
