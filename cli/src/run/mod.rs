//! `mainstay run`: starts a job, and again after a failure, as long as it makes progress. `rehearse` kills the job
//! itself.
//!
//! The job's own restore chooses the revision to go on from. This module only decides if another start is worthwhile:
//! not after two failures with no new complete revision or restart file in between. It also chooses the nodes, if they are given
//! (`nodes`, `placing`, `launcher`).

mod command;
mod free;
mod generations;
mod hosted;
mod in_job;
mod job;
mod killed;
mod kills;
mod kind;
mod last;
mod launcher;
mod nodes;
mod outcome;
mod placing;
mod protected;
mod rehearse;
mod report;
mod spaces;
mod starting;
mod summary;
mod tree;
mod watch;

use crate::{
    arguments,
    exit::{Exit, Failure, say},
    outside,
    signals::Signals,
    space::completing,
    text::count,
};
use command::{as_given, in_place, shown};
use free::{Free, GONE_LIMIT, wait_until_free};
use hosted::Hosted;
use job::{Ended, Limits};
use killed::Killed;
use mainstay_engine::{Surroundings, printable_path, status::tell_death, unix_ns};
use nix::sys::signal::Signal;
use outcome::{Outcome, Ranks};
use placing::Nodes;
use protected::Protected;
use report::{Recoveries, Report, Reported};
use spaces::Newest;
use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};
use summary::Summary;

/// Default time for a last checkpoint.
const MARGIN: Duration = Duration::from_secs(60);
/// The exit status of a job that did not end in order, though its launcher returned 0.
const NOT_IN_ORDER: u8 = 1;
/// The exit status of a run that was cut off after the job had saved more: the same run goes on from there. It is
/// EX_TEMPFAIL of sysexits.h.
const RUN_AGAIN: u8 = 75;
/// The exit status of a run that gave up: its job failed twice at the same revision: the same run would fail again.
const GAVE_UP: u8 = 76;

pub fn run(wanted: &arguments::Run) -> ExitCode {
    exit_code(supervise(wanted))
}

pub fn rehearse(wanted: &arguments::Rehearse) -> ExitCode {
    exit_code(rehearse::rehearse(wanted))
}

fn exit_code(done: Result<u8, Failure>) -> ExitCode {
    done.map_or_else(
        |failure| {
            say(&failure.message);
            failure.exit.into()
        },
        ExitCode::from,
    )
}

/// Runs the job and reports the result; returns the exit status.
fn supervise(wanted: &arguments::Run) -> Result<u8, Failure> {
    let protected = Protected::of(wanted)?;
    // Programs look at their restart files before any helper is there.
    protected.complete();
    if let Some(ranks) = wanted.virtual_ranks {
        let Hosted { command, found } = hosted::hosted(wanted, ranks, &protected)?;
        found.tell();
        return follow(&arguments::Run { command, ..wanted.clone() }, &protected);
    }
    if protected.is_any() {
        let command = protected.before_program(&wanted.command)?;
        return follow(&arguments::Run { command, ..wanted.clone() }, &protected);
    }
    follow(wanted, &protected)
}

fn follow(wanted: &arguments::Run, protected: &Protected) -> Result<u8, Failure> {
    let report = Report::new().map_err(|e| Failure {
        exit: Exit::System,
        message: format!("making the file for the job's reports failed: {e}"),
    })?;
    // The job may use other spaces than the given ones.
    let known = || {
        let is_given =
            |told: &PathBuf| wanted.spaces.iter().any(|given| given.canonicalize().ok().as_ref() == Some(told));
        let told = report.spaces().into_iter().filter(|told| !is_given(told));
        wanted.spaces.iter().cloned().chain(told).collect::<Vec<_>>()
    };
    let newest = || Newest::of(&known(), report.told_since(0).newest, protected.newest(&report));
    let mut summary = Summary::begin();
    let code = start_until_done(wanted, protected, &report, &known, &newest, &mut summary)?;
    let spaces = known();
    let reached = Newest::of(&spaces, Default::default(), protected.newest(&report));
    summary.tell(&spaces, &reached, &report.told_since(0));
    Ok(code)
}

/// Starts the job until it is done, cut off, or given up; returns the exit status. `known` are its spaces, as far as
/// known, and `newest` their complete revisions, and the restart files that are `protected`.
fn start_until_done(
    wanted: &arguments::Run,
    protected: &Protected,
    report: &Report,
    known: &dyn Fn() -> Vec<PathBuf>,
    newest: &dyn Fn() -> Newest,
    summary: &mut Summary,
) -> Result<u8, Failure> {
    let system = |what: &str| {
        let what = what.to_owned();
        move |e| Failure { exit: Exit::System, message: format!("{what} failed: {e}") }
    };
    // The job would be refused in the same way, after its start.
    Surroundings::here().check()?;
    let margin = margin(wanted)?;
    let mut nodes = Nodes::of(wanted)?;
    let as_given = if nodes.is_some() { as_given(&wanted.command) } else { in_place(wanted)? };
    let in_job = nodes.as_ref().map_or(as_given.in_job, Nodes::is_in_job);
    let mut signals = Signals::catch().map_err(system("catching signals"))?;
    let mut before: Option<Newest> = None;
    // Had the start before opened a space, as far as known?
    let mut had_begun = false;
    // A limit beyond the range of the clock is no limit.
    let end = wanted.time_limit.and_then(|limit| Instant::now().checked_add(limit.saturating_sub(margin)));
    // The status of the last run, until there is one.
    let mut code = 0;
    let at_first = Newest::of(&wanted.spaces, Default::default(), protected.newest(report));
    let begun_unix_ns = unix_ns();
    // After an interrupt, the user does not want the run again.
    let cut_off = |signal: Signal, reached: &Newest| {
        (signal == Signal::SIGTERM && reached.is_beyond(&at_first, begun_unix_ns)).then_some(RUN_AGAIN)
    };
    let mut start = 1;
    loop {
        let (words, started) = match nodes.as_mut().map(Nodes::place) {
            None => (as_given.words.clone(), as_given.ranks),
            Some(Ok(placed)) => {
                if placed.lost {
                    // It was not the job that failed.
                    before = None;
                }
                (placed.words, Some(placed.ranks))
            }
            Some(Err(failure)) if start == 1 => return Err(failure),
            Some(Err(failure)) => {
                say(&format!("giving up: {}", failure.message));
                return Ok(code);
            }
        };
        if let Some(signal) = signals.asked_to_end() {
            say(&format!("{signal}: not starting the job"));
            return Ok(cut_off(signal, &newest()).unwrap_or(128 + signal as u8));
        }
        say(&format!("start {start}: {}", shown(&words)));
        if wanted.dry_run {
            return Ok(0);
        }
        let outcome = Outcome::begin(report, &wanted.spaces);
        let watch = nodes.as_ref().and_then(Nodes::watch);
        let recoveries = Recoveries::since(report, outcome.mark());
        let mut killed =
            in_job.then(Killed::new).transpose().map_err(system("making the file for the launcher's reports"))?;
        let limits = Limits {
            spaces: known,
            end,
            grace: margin,
            watch,
            recoveries,
            killed: killed.as_mut(),
            directory: None,
            killing: None,
        };
        summary.starts();
        let ended = job::run(&words, wanted.fresh && start == 1, report, &mut signals, limits);
        let mut told = report.told_since(outcome.mark());
        if protected.is_any() || !told.files.is_empty() {
            // The last files count as well.
            protected.complete();
            told = report.told_since(outcome.mark());
        }
        summary.ended(&told.recovered);
        let Ended { status, asked, lost, first_was_here } = match ended {
            Ok(ended) => ended,
            Err(failure) => {
                say(&failure.message);
                return Ok(failure.code);
            }
        };
        code = job::code(status);
        if told.refused {
            return Ok(Exit::Usage as u8);
        }
        // Ranks on another machine report nothing. They have ended if they have closed the space.
        let has_closed = wanted.virtual_ranks.is_some() && told.is_known() && told.left_open().is_none();
        let by_launcher = Some(code).filter(|code| *code != 0 && has_closed && !(in_job && outcome.went_on()));
        if let Some(code) = told.ended.or(by_launcher) {
            if code != 0 {
                say(&format!("all ranks have ended; the exit status of the program is {code}"));
            }
            tell_if_nothing_was_saved(&known(), protected, report);
            return Ok(code);
        }
        let has_aborted = killed.as_ref().is_some_and(Killed::has_aborted);
        // A space that was lost in the midst of a recovery is still open, or failed after it.
        for space in told.untold.iter().filter(|_| code == 0 && told.left_open().is_none()) {
            let space = printable_path(space);
            say(&format!("{space} was opened anew after a failure; no rank is left that knows more"));
        }
        let mut how = outside::describe(status);
        if in_job && code != 0 && asked.is_none() && lost.is_none() && outcome.went_on() {
            say(&format!("the job closed its spaces, after failures that it recovered from ({how})"));
            code = 0;
        }
        if code == 0 {
            // Processes that were asked to end may be killed for it.
            let killed = killed.filter(|_| asked.is_none());
            let ranks = killed.map(|killed| Ranks { killed, started, first_was_here });
            let mut not_in_order = outcome.not_in_order(nodes.as_ref(), ranks.as_ref());
            if let Some(why) = lost {
                not_in_order = Some(why.to_owned());
            }
            let Some(why) = not_in_order else {
                tell_if_nothing_was_saved(&known(), protected, report);
                return Ok(0);
            };
            (code, how) = (NOT_IN_ORDER, format!("{how}, but {why}"));
        }
        if let Some(signal) = asked {
            say(&format!("the job ended after {signal} ({how}); not starting it again"));
            journal_death(&told, &format!("asked to end by {signal} ({how})"));
            tell_if_nothing_was_saved(&known(), protected, report);
            let reached = newest();
            summary.lost_after(&reached);
            return Ok(cut_off(signal, &reached).unwrap_or(code));
        }
        let spaces = known();
        if in_job
            && (status.success() || code >= 128)
            && !has_aborted
            && report.told_since(outcome.mark()).left_open().is_some()
        {
            // A program reports an error of its own by another status.
            how +=
                "; it could not go on by itself, for example because a node was lost, or Open MPI's own daemon on it";
        }
        say(&format!("start {start} failed: {how}"));
        journal_death(&told, &how);
        let unfinished = completing::what_can_be(&spaces);
        unfinished.iter().for_each(|line| say(line));
        let reached = newest();
        summary.lost_after(&reached);
        if start > wanted.restarts {
            let restarts = count(u64::from(wanted.restarts), "restart");
            say(&format!("giving up after {restarts} at {reached}"));
            return Ok(code);
        }
        // If a launcher fails right after a job that had begun, for example because daemons of the last start are still
        // there, it is tried once more: it was not the job that failed.
        let has_begun = report.mark() > outcome.mark();
        let is_of_launcher = std::mem::replace(&mut had_begun, has_begun) && !has_begun;
        let is_of_nodes = lost.is_some() || nodes.as_ref().and_then(Nodes::silent).is_some();
        match wait_until_free(&spaces, &mut signals) {
            Free::Yes => {}
            Free::No(space) => {
                say(&format!(
                    "giving up: {} is still in use {} s after the failure; end the remaining ranks",
                    printable_path(&space),
                    GONE_LIMIT.as_secs()
                ));
                return Ok(code);
            }
            Free::Asked(signal) => {
                say(&format!("{signal}: not starting the job again"));
                return Ok(cut_off(signal, &newest()).unwrap_or(128 + signal as u8));
            }
        }
        // Includes data that its last ranks still published or had staged.
        let more = completing::what_can_be(&spaces);
        more.iter().filter(|line| !unfinished.contains(line)).for_each(|line| say(line));
        let reached = newest();
        if before.as_ref().is_some_and(|before| reached.is_as(before)) && !is_of_nodes && !is_of_launcher {
            let or_file = if protected.is_any() { " or restart file" } else { "" };
            say(&format!(
                "giving up: the job failed twice ({how}) with no new complete revision{or_file} in between, at {reached}"
            ));
            return Ok(GAVE_UP);
        }
        say(&reached.way_on());
        before = Some(reached);
        start += 1;
    }
}

/// Adds the end of a start to the journals of the spaces that it left open.
fn journal_death(told: &Reported, how: &str) {
    let left = told.open.iter().filter(|(_, is_open)| **is_open);
    left.for_each(|(space, _)| tell_death(space, how));
}

/// Nobody notices that a job saves nothing, until it fails.
fn tell_if_nothing_was_saved(spaces: &[PathBuf], protected: &Protected, report: &Report) {
    const RULES: &str = "`mainstay config` shows if a setting makes one due";
    if spaces.is_empty() && protected.is_any() {
        if protected.newest(report).is_empty() {
            say("the job saved nothing: it closed no file that matches --files");
        }
    } else if spaces.is_empty() && report.told_since(0).files.is_empty() {
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
            let message = format!("--margin {margin} leaves no time of --time-limit {limit}; give a smaller margin");
            Err(Failure::usage(message))
        }
        (Some(margin), _) => Ok(margin),
        (None, limit) => Ok(limit.map_or(MARGIN, |limit| MARGIN.min(limit / 2))),
    }
}
