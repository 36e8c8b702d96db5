//! `mainstay status`: the state of a space, while its job runs and after it.

mod page;
mod prometheus;

use crate::{
    arguments,
    document::Status,
    exit::{Exit, Failure, say},
    files, output,
    replaced::refuse_irreplaceable,
};
use mainstay_engine::{ErrorKind, status::Standing, unix_ns};
use std::{io, thread};

pub fn status(wanted: &arguments::Status) -> Result<Exit, Failure> {
    wanted.prometheus.iter().try_for_each(|file| refuse_irreplaceable(file))?;
    // A folder may have protected files, and no space.
    if Standing::of(&wanted.space.path).is_err_and(|error| error.kind() == ErrorKind::NotASpace)
        && let Some(exit) = files::status(&wanted.space.path, wanted.space.json)?
    {
        return Ok(exit);
    }
    let Some(pause) = wanted.watch else { return Ok(tell(wanted)?.0) };
    let mut is_first = true;
    loop {
        if !wanted.space.json {
            output::begin_page(is_first)?;
        }
        let (_, is_read) = tell(wanted)?;
        if !is_read {
            return Ok(Exit::Good);
        }
        is_first = false;
        thread::sleep(pause);
    }
}

/// Prints the state once; returns false if the reader is gone.
fn tell(wanted: &arguments::Status) -> Result<(Exit, bool), Failure> {
    let standing = Standing::of(&wanted.space.path)?;
    let now_unix_ns = unix_ns();
    if let Some(file) = &wanted.prometheus {
        prometheus::write(file, &standing, now_unix_ns)?;
    }
    let told = match wanted.space.json {
        true => output::json_read(&Status::of(&standing, now_unix_ns)),
        false => page(&standing, wanted.details, now_unix_ns),
    };
    let is_read = match told {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => false,
        told => told.map(|()| true)?,
    };
    standing.unseen.iter().chain(&standing.survey.damage).for_each(|what| say(what));
    Ok((exit(&standing), is_read))
}

fn page(standing: &Standing, has_details: bool, now_unix_ns: u64) -> io::Result<()> {
    output::alarms(&standing.alarms)?;
    output::text_read(&page::page(standing, has_details, now_unix_ns))
}

fn exit(standing: &Standing) -> Exit {
    match (standing.alarms.is_empty(), standing.survey.damage.is_empty() && standing.unseen.is_empty()) {
        (false, _) => Exit::StepError,
        (true, false) => Exit::Lost,
        (true, true) => Exit::Good,
    }
}
