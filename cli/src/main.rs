//! The command `mainstay`: looks into spaces and after them, starts a job again that failed, and tells what
//! is in force.
//!
//! One command a file; `document` is what `--json` prints, `text` what people read.

mod advise;
mod arguments;
mod array;
mod asking;
mod checkpoint;
mod chosen;
mod completions;
mod config;
mod document;
mod exit;
mod export;
mod flags;
mod hold;
mod ls;
mod man;
mod nodes;
mod output;
mod phases;
mod progress;
mod prune;
mod reserve;
mod run;
mod salvage;
mod show;
mod staged;
mod text;
mod unfinished;
mod verify;
mod view;

use arguments::{Arguments, Command};
use clap::Parser;
use mainstay_engine::is_seen;
use std::{
    env,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

/// Wrong usage, or a wish for help. What was typed may be the name of somebody else's file.
fn refused(error: &clap::Error) -> ExitCode {
    if env::args_os().all(|word| word.to_str().is_some_and(|word| word.chars().all(is_seen))) {
        error.exit();
    }
    exit::say(error.to_string().trim_end());
    exit::Exit::Usage.into()
}

fn main() -> ExitCode {
    // A limit on the size of files is then an error of the write, and what was begun is cleared away.
    let _ = signal_hook::flag::register(nix::libc::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    let done = match arguments.command {
        Command::Ls(wanted) => ls::ls(&wanted),
        Command::Show(wanted) => show::show(&wanted),
        Command::Verify(wanted) => verify::verify(&wanted),
        Command::Advise(wanted) => advise::advise(&wanted),
        Command::Checkpoint(wanted) => checkpoint::checkpoint(&wanted),
        Command::Config(wanted) => config::config(&wanted),
        Command::Completions(wanted) => completions::completions(&wanted),
        Command::Man(wanted) => man::man(&wanted),
        Command::Export(wanted) => export::export(&wanted),
        Command::Hold(wanted) => hold::hold(&wanted),
        Command::Release(wanted) => hold::release(&wanted),
        Command::Prune(wanted) => prune::prune(&wanted),
        Command::Reserve(wanted) => reserve::reserve(&wanted),
        Command::Grow(wanted) => reserve::grow(&wanted),
        Command::Run(wanted) => return run::run(&wanted),
        Command::Salvage(wanted) => salvage::salvage(&wanted),
        Command::View(wanted) => view::view(&wanted),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            exit::say(&failure.message);
            failure.exit.into()
        }
    }
}
