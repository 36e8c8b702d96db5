//! The host of all ranks of a program, in this one process.

use crate::{
    arguments,
    exit::{Exit, Failure, say},
};
use mainstay_engine::{Choice, Config, Session, group::Solo};
use mainstay_ranks::{Alone, Ended, Error, Options, Reserved, run};
use std::process::{ExitCode, exit};

pub fn host_ranks(wanted: &arguments::HostRanks) -> Result<ExitCode, Failure> {
    let _reserved = Reserved::new().map_err(failure)?;
    let config = Config::resolve(&Choice::default())?.config;
    let mut session = Session::open(Box::new(Solo), &wanted.space, config)?;
    let options = Options {
        ranks: wanted.ranks,
        balance: None,
        with_libraries: wanted.with_libraries.as_deref() == Some("yes"),
        library: wanted.library.clone(),
        program: wanted.command.clone(),
    };
    let code = match run(&mut session, Box::new(Alone), &options) {
        Ok(Ended::Whole(code)) => {
            // The program has ended even if the space is not closed. The next start then goes on from the last revision.
            if let Err(error) = session.close() {
                say(&format!("the space is not closed: {error}"));
            }
            code
        }
        // The space is not marked as closed: the next start goes on from the last revision.
        Ok(Ended::Aborted(code)) => {
            drop(session);
            code
        }
        Err(error) => {
            drop(session);
            let failure = failure(error);
            say(&failure.message);
            failure.exit as i32
        }
    };
    // This thread has run ranks, and is good for nothing else.
    exit(code)
}

/// A refusal concerns the program that the user chose.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Refused(why) => Failure { exit: Exit::Usage, message: why },
        Error::Engine(error) => error.into(),
    }
}
