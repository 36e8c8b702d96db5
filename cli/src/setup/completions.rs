//! `mainstay completions`: scripts for shells, made from the definition of the help.

use crate::{
    arguments::{self, Arguments},
    exit::{Exit, Failure},
    output,
};
use clap::CommandFactory;

pub fn completions(wanted: &arguments::Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(wanted.shell, &mut Arguments::command(), "mainstay", &mut script);
    output::bytes(&script)?;
    Ok(Exit::Good)
}
