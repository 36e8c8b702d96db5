//! `mainstay run`: starts a job, and again after a failure, for as long as it makes progress.
//!
//! What to go on from is the job's own choice, by its restore. Here is only decided whether it is
//! worth another start: not if it failed twice with no new complete revision in between.

mod job;
mod last;
mod signals;
mod spaces;

use crate::{
    arguments,
    exit::{Exit, Failure, say},
    space::completing,
};
use job::{Ended, Limits};
use mainstay_engine::{Surroundings, printable_path};
use signals::Signals;
use spaces::{Newest, Report};
use std::{
    ffi::OsString,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

/// How long the ranks of a failed job may take to disappear.
const GONE_LIMIT: Duration = Duration::from_secs(30);
/// How long a last checkpoint may take, unless told otherwise.
const MARGIN: Duration = Duration::from_secs(60);
const GONE_POLL: Duration = Duration::from_millis(100);

pub fn run(wanted: &arguments::Run) -> ExitCode {
    supervise(wanted).map_or_else(
        |failure| {
            say(&failure.message);
            failure.exit.into()
        },
        ExitCode::from,
    )
}

/// The exit status of the last run.
fn supervise(wanted: &arguments::Run) -> Result<u8, Failure> {
    let system = |what: &str| {
        let what = what.to_owned();
        move |e| Failure { exit: Exit::System, message: format!("{what} failed: {e}") }
    };
    // The job would be refused the same way, after it has started.
    Surroundings::here().check()?;
    let margin = margin(wanted)?;
    let mut signals = Signals::catch().map_err(system("catching signals"))?;
    let report = Report::new().map_err(system("making the report that the job writes to"))?;
    let name = wanted.command.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let mut before: Option<Newest> = None;
    // A limit that the clock cannot tell is none.
    let end = wanted.time_limit.and_then(|limit| Instant::now().checked_add(limit.saturating_sub(margin)));
    let known = || if wanted.spaces.is_empty() { report.spaces() } else { wanted.spaces.clone() };
    let limits = Limits { spaces: &known, end, grace: margin };
    let mut start = 1;
    loop {
        say(&format!("start {start}: {name}"));
        let Ended { status, asked } =
            match job::run(&wanted.command, wanted.fresh && start == 1, &report, &mut signals, &limits) {
                Ok(ended) => ended,
                Err(failure) => {
                    say(&failure.message);
                    return Ok(failure.code);
                }
            };
        let code = job::code(status);
        if code == 0 {
            tell_if_nothing_was_saved(&known());
            return Ok(0);
        }
        let how = job::describe(status);
        if let Some(signal) = asked {
            say(&format!("the job ended after {signal} ({how}); not starting it again"));
            tell_if_nothing_was_saved(&known());
            return Ok(code);
        }
        let spaces = known();
        say(&format!("start {start} failed: {how}"));
        let lost = completing::what_can_be(&spaces);
        lost.iter().for_each(|line| say(line));
        let newest = Newest::of(&spaces);
        if start > wanted.restarts {
            say(&format!("giving up after {} restart(s) at {newest}", wanted.restarts));
            return Ok(code);
        }
        if before.as_ref() == Some(&newest) {
            say(&format!(
                "giving up: the job failed twice ({how}) with no new complete revision in between, at {newest}"
            ));
            return Ok(code);
        }
        match wait_until_free(&spaces, &mut signals) {
            Free::Yes => {}
            Free::No(space) => {
                say(&format!(
                    "giving up: {} is still in use {} s after the failure; end the ranks that are left",
                    printable_path(&space),
                    GONE_LIMIT.as_secs()
                ));
                return Ok(code);
            }
            Free::Asked(signal) => {
                say(&format!("{signal}: not starting the job again"));
                return Ok(128 + signal as u8);
            }
        }
        // What its last ranks still published counts too, and what they had staged.
        let more = completing::what_can_be(&spaces);
        more.iter().filter(|line| !lost.contains(line)).for_each(|line| say(line));
        let newest = Newest::of(&spaces);
        say(&format!("going on from {newest}"));
        before = Some(newest);
        start += 1;
    }
}

/// A job that saves nothing loses nothing that anybody would notice, until it fails.
fn tell_if_nothing_was_saved(spaces: &[PathBuf]) {
    const RULES: &str = "`mainstay config` shows whether a setting makes one due";
    if spaces.is_empty() {
        say("the job saved nothing: it opened no space (or its rank 0 ran on another machine; then give --space)");
    }
    for space in spaces.iter().filter(|space| spaces::is_without_revision(space)) {
        say(&format!("the job saved nothing: no checkpoint was taken in {}; {RULES}", printable_path(space)));
    }
}

fn margin(wanted: &arguments::Run) -> Result<Duration, Failure> {
    match (wanted.margin, wanted.time_limit) {
        (Some(margin), Some(limit)) if margin >= limit => {
            let [margin, limit] = [margin, limit].map(humantime::format_duration);
            let message = format!("--margin {margin} leaves nothing of --time-limit {limit}; give a smaller margin");
            Err(Failure { exit: Exit::Usage, message })
        }
        (Some(margin), _) => Ok(margin),
        (None, limit) => Ok(limit.map_or(MARGIN, |limit| MARGIN.min(limit / 2))),
    }
}

/// A part of the command, in quotes where it would not be one word of one line.
fn quoted(part: &OsString) -> String {
    let text = part.to_string_lossy();
    let is_word = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_word { text.into_owned() } else { format!("{text:?}") }
}

enum Free {
    Yes,
    No(PathBuf),
    Asked(nix::sys::signal::Signal),
}

/// Waits until nobody holds a lock of the spaces: ranks may outlive their mpiexec for a while.
fn wait_until_free(spaces: &[PathBuf], signals: &mut Signals) -> Free {
    let deadline = Instant::now() + GONE_LIMIT;
    let mut told = false;
    loop {
        if let Some(signal) = signals.asked_to_end() {
            return Free::Asked(signal);
        }
        let Some(space) = spaces.iter().find(|space| spaces::is_in_use(space)) else { return Free::Yes };
        if Instant::now() > deadline {
            return Free::No(space.clone());
        }
        if !told {
            say(&format!("waiting for the last ranks to leave {}", printable_path(space)));
            told = true;
        }
        std::thread::sleep(GONE_POLL);
    }
}
