//! `mainstay report`: one HTML page about the runs of a space.

mod charts;
mod history;
mod page;
mod scale;
mod timeline;

use crate::{
    arguments,
    exit::{Exit, Failure, say},
    output,
    replaced::refuse_irreplaceable,
};
use history::History;
use mainstay_engine::{printable_path, unix_ns};
use std::fs;

pub fn report(wanted: &arguments::Report) -> Result<Exit, Failure> {
    // A page may go to a device, but replaces neither a device nor a space's own file.
    wanted
        .output
        .iter()
        .filter(|file| !file.exists() || file.is_file())
        .try_for_each(|file| refuse_irreplaceable(file))?;
    let history = History::of(&wanted.space)?;
    let page = page::page(&history, unix_ns());
    match &wanted.output {
        None => output::bytes(page.as_bytes())?,
        Some(file) => fs::write(file, page).map_err(|e| Failure {
            exit: Exit::System,
            message: format!("writing {} failed: {e}", printable_path(file)),
        })?,
    }
    history.unseen.iter().for_each(|what| say(what));
    Ok(if history.unseen.is_empty() { Exit::Good } else { Exit::Lost })
}
