//! The command `mainstay`: looks into spaces and after them, and starts a job again that failed.
//!
//! One command a file; `document` is what `--json` prints, `text` what people read.

mod arguments;
mod document;
mod exit;
mod export;
mod hold;
mod ls;
mod output;
mod prune;
mod run;
mod show;
mod span;
mod text;
mod verify;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Ls(wanted) => ls::ls(&wanted),
        Command::Show(wanted) => show::show(&wanted),
        Command::Verify(wanted) => verify::verify(&wanted),
        Command::Export(wanted) => export::export(&wanted),
        Command::Hold(wanted) => hold::hold(&wanted),
        Command::Release(wanted) => hold::release(&wanted),
        Command::Prune(wanted) => prune::prune(&wanted),
        Command::Run(wanted) => return run::run(&wanted),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            exit::say(&failure.message);
            failure.exit.into()
        }
    }
}
