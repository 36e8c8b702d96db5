//! `mainstay rehearse`: compares the end of an undisturbed run with the end of a run that is killed and restarted.
//!
//! Invariants: no process of the job is left, and nothing of the user's changes except files that the job itself names
//! by an absolute path.

mod files;
mod page;
mod scratch;

use super::{
    command::{as_given, shown},
    free::{Free, wait_until_free},
    job,
    job::{Ended, Limits},
    kills::{Calm, Killed, Killing, Moment},
    report::{Recoveries, Report},
    tree,
};
use crate::{
    arguments,
    document::ItemDiff,
    exit::{Exit, Failure, say},
    look, output, outside,
    random::Random,
    signals::Signals,
    text::count,
};
use mainstay_engine::{Landmarks, Reader, SpaceSurvey, Surroundings, printable_path, unix_ns};
use nix::{
    sys::{
        prctl,
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::{Pid, getpid},
};
use page::Compared;
use scratch::{Scratch, check_within};
use std::{
    path::Path,
    process::ExitStatus,
    thread,
    time::{Duration, Instant},
};

/// How long a last checkpoint after a signal may take.
const GRACE: Duration = Duration::from_secs(10);
/// How long killed processes may take to disappear.
const GONE_LIMIT: Duration = Duration::from_secs(10);
/// A start after a kill may take this many times as long as the undisturbed run, and this time in any case.
const TIMES_LONGER: u32 = 10;
const START_LIMIT: Duration = Duration::from_secs(120);
/// Prefix of the names of the program's own variables.
const GLOBALS: &str = "globals/";

pub fn rehearse(wanted: &arguments::Rehearse) -> Result<u8, Failure> {
    Surroundings::here().check()?;
    wanted.compare.iter().try_for_each(|file| check_within(file, "--compare"))?;
    // Processes become ours when their parent is killed, so none is missed.
    prctl::set_child_subreaper(true).map_err(|e| system("looking after the job's processes", e.into()))?;
    let scratch = Scratch::make(&wanted.with)?;
    let done = Rehearsal::new(wanted, &scratch).and_then(|mut rehearsal| rehearsal.go());
    end_all();
    match &done {
        Ok(code) if *code != Exit::Lost as u8 && !wanted.keep => scratch.remove(),
        Err(failure) if failure.exit != Exit::Lost && !wanted.keep => scratch.remove(),
        _ => {
            scratch.remove_memory();
            say(&format!("both runs are kept in {}", scratch.root()));
        }
    }
    done
}

fn system(what: &str, error: std::io::Error) -> Failure {
    Failure::refused(format!("{what} failed: {error}"))
}

struct Rehearsal<'a> {
    wanted: &'a arguments::Rehearse,
    scratch: &'a Scratch,
    signals: Signals,
    seed: u64,
}

/// The end of a start of the job.
struct Start {
    status: ExitStatus,
    asked: Option<Signal>,
    killed: Option<Killed>,
    took: Duration,
    checkpoints: u64,
}

impl<'a> Rehearsal<'a> {
    fn new(wanted: &'a arguments::Rehearse, scratch: &'a Scratch) -> Result<Rehearsal<'a>, Failure> {
        let signals = Signals::catch().map_err(|e| system("catching signals", e))?;
        let seed = wanted.seed.unwrap_or_else(|| unix_ns() % 1_000_000);
        Ok(Rehearsal { wanted, scratch, signals, seed })
    }

    /// The exit status.
    fn go(&mut self) -> Result<u8, Failure> {
        let Self { scratch, .. } = *self;
        let reports = [Report::new(), Report::new()].map(|report| report.map_err(|e| system("making a report", e)));
        let [calm, killed] = reports;
        let (calm, killed) = (calm?, killed?);
        say(&format!("the undisturbed run: {}", shown(&as_given(&self.wanted.command).words)));
        let start = self.start(&scratch.calm, &calm, None, self.wanted.limit)?;
        if let Some(signal) = start.asked {
            return Ok(128 + signal as u8);
        }
        if start.killed.is_some() {
            let limit = humantime::format_duration(self.wanted.limit);
            return Err(Failure::usage(format!("the undisturbed run took longer than {limit}; raise --limit")));
        }
        if !start.status.success() {
            let how = outside::describe(start.status);
            return Err(Failure::usage(format!("the undisturbed run failed ({how}): there is no end to compare with")));
        }
        if calm.spaces().is_empty() && self.wanted.compare.is_empty() {
            return Err(Failure::usage(
                "the job opened no space, so there is nothing to compare; name files that it writes (--compare FILE)",
            ));
        }
        // Without those that a rehearsal adds at the close.
        let own = start.checkpoints.saturating_sub(calm.told_since(0).ends.len() as u64);
        let calm_run = Calm { took: start.took, checkpoints: own };
        if calm_run.checkpoints == 0 {
            say("the job saved nothing by itself: after each kill it begins anew (is a checkpoint due while it runs?)");
        }
        let kills = match self.disturb(&calm_run, &killed)? {
            Disturbed::Done(kills) => kills,
            Disturbed::Asked(signal) => return Ok(128 + signal as u8),
        };
        let compared = self.compare(&calm, &killed)?;
        output::text(&page::page(&compared, kills, self.seed))?;
        Ok(if compared.is_same() { Exit::Good as u8 } else { Exit::Lost as u8 })
    }

    /// Kills the job again and again, and lets it end after the last kill.
    fn disturb(&mut self, calm: &Calm, report: &Report) -> Result<Disturbed, Failure> {
        let Self { wanted, scratch, .. } = *self;
        let mut random = Random::new(self.seed);
        let limit = wanted.limit.min(START_LIMIT.max(calm.took * TIMES_LONGER));
        let (mut kills, mut done) = (0, 0);
        loop {
            let moment = (kills < wanted.kills).then(|| calm.draw(&mut random, wanted.kills, done));
            let start = self.start(&scratch.killed, report, moment, limit)?;
            if let Some(signal) = start.asked {
                return Ok(Disturbed::Asked(signal));
            }
            done += start.checkpoints;
            match start.killed {
                Some(Killed::AsDrawn) => {
                    kills += 1;
                    let taken = count(start.checkpoints, "checkpoint");
                    let after = crate::text::duration(u64::try_from(start.took.as_nanos()).unwrap_or(u64::MAX));
                    say(&format!("kill {kills} of {}: after {taken}, {after} after its start", wanted.kills));
                }
                Some(Killed::TookTooLong) => {
                    let limit = humantime::format_duration(limit);
                    return Err(Failure::lost(format!(
                        "started again after {}, the job did not end within {limit}; with --seed {} it can be repeated",
                        count(kills.into(), "kill"),
                        self.seed
                    )));
                }
                None if start.status.success() => {
                    if kills < wanted.kills {
                        let kills = count(kills.into(), "kill");
                        say(&format!(
                            "the job ended after {kills} of {}: it is too short for more kills",
                            wanted.kills
                        ));
                    }
                    return Ok(Disturbed::Done(kills));
                }
                None => {
                    let how = outside::describe(start.status);
                    return Err(Failure::lost(format!(
                        "started again after {}, the job failed ({how}); with --seed {} it can be repeated",
                        count(kills.into(), "kill"),
                        self.seed
                    )));
                }
            }
            if let Free::Asked(signal) = self.wait_until_gone(report)? {
                return Ok(Disturbed::Asked(signal));
            }
        }
    }

    /// Runs the job in `directory` until it ends or is killed.
    fn start(
        &mut self,
        directory: &Path,
        report: &Report,
        moment: Option<Moment>,
        limit: Duration,
    ) -> Result<Start, Failure> {
        let mut words = as_given(&self.wanted.command).words;
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or_else(|| no_text(path));
        words.variables.push(("MAINSTAY_RUN_REHEARSAL", text(directory)?));
        words.variables.push(("MAINSTAY_POOL_DIRECTORY", text(&self.scratch.memory)?));
        // Open MPI's own files in shared memory stay if its processes are killed.
        words.variables.push(("OMPI_MCA_btl_sm_backing_directory", text(&self.scratch.memory)?));
        // Otherwise `fresh` from an earlier job would make each start begin anew.
        words.variables.push(("MAINSTAY_START", String::new()));
        let begun = Instant::now();
        let mut killing = Killing::begin(report, moment, limit);
        let spaces = || report.spaces();
        let recoveries = Recoveries::since(report, report.mark());
        let limits = Limits {
            spaces: &spaces,
            end: None,
            grace: GRACE,
            watch: None,
            recoveries,
            killed: None,
            directory: Some(directory),
            killing: Some(&mut killing),
        };
        let ended = job::run(&words, false, report, &mut self.signals, limits);
        killing.look(report);
        let (killed, checkpoints, took) = (killing.killed, killing.checkpoints, begun.elapsed());
        end_all();
        match ended {
            Ok(Ended { status, asked, .. }) => Ok(Start { status, asked, killed, took, checkpoints }),
            Err(not_run) => Err(Failure::usage(not_run.message)),
        }
    }

    fn wait_until_gone(&mut self, report: &Report) -> Result<Free, Failure> {
        match wait_until_free(&report.spaces(), &mut self.signals) {
            Free::No(space) => Err(Failure::refused(format!(
                "{} is still in use after the job was killed; end the remaining ranks",
                printable_path(&space)
            ))),
            free => Ok(free),
        }
    }

    fn compare(&self, calm: &Report, killed: &Report) -> Result<Compared, Failure> {
        let Self { wanted, scratch, .. } = *self;
        let mut compared = Compared::default();
        let (one, other) = (calm.told_since(0), killed.told_since(0));
        for space in &one.spaces {
            let name = space.strip_prefix(&scratch.calm).unwrap_or(space);
            let again = scratch.killed.join(name);
            let ends = one.ends.get(space).copied().zip(other.ends.get(&again).copied());
            // The name in the job.
            let shown = name.strip_prefix("elsewhere").map_or(name.to_owned(), |name| Path::new("/").join(name));
            compared.add_space(&shown, compare_spaces(space, &again, ends)?);
        }
        for file in &wanted.compare {
            let [calm, killed] = [&scratch.calm, &scratch.killed].map(|run| run.join(file));
            compared.add_file(file, files::difference(&calm, &killed, file)?);
        }
        if compared.is_empty() {
            return Err(Failure::usage(
                "the job saved nothing, so there is nothing to compare; name files that it writes (--compare FILE)",
            ));
        }
        Ok(compared)
    }
}

enum Disturbed {
    Done(u32),
    Asked(Signal),
}

fn no_text(path: &Path) -> Failure {
    Failure::usage(format!("{} is no text; call it in another directory", printable_path(path)))
}

/// The common revisions of both spaces: the ends if both jobs saved theirs, otherwise the newest of each.
fn compare_spaces(calm: &Path, killed: &Path, ends: Option<(u64, u64)>) -> Result<Option<page::Pair>, Failure> {
    let is_empty = |space: &Path| SpaceSurvey::open_all(space).is_ok_and(|survey| survey.newest().is_none());
    if ends.is_none() && is_empty(calm) {
        return Ok(None);
    }
    let (first, second) = ends.map_or((None, None), |(first, second)| (Some(first), Some(second)));
    let mut calm = Reader::open(calm, first, "mainstay rehearse")?;
    let mut killed = Reader::open(killed, second, "mainstay rehearse")?;
    let [ours, theirs] = [landmarks(&calm)?, landmarks(&killed)?];
    let settle = |shard: u32, item: &str, here: &[u8], there: &mut [u8]| {
        if let (Some(ours), Some(theirs)) = (ours.get(shard as usize), theirs.get(shard as usize))
            && item.starts_with(GLOBALS)
        {
            ours.settle(here, theirs, there);
        }
    };
    let mut items: Vec<ItemDiff> = look::compare(&mut calm, &mut killed, &settle)?;
    items.retain(|item| !Landmarks::are_item(&item.item));
    Ok(Some(page::Pair { items, are_ends: ends.is_some(), ranks: calm.shard_count() }))
}

/// The map of memory in each rank.
fn landmarks(reader: &Reader) -> Result<Vec<Landmarks>, Failure> {
    let of = |shard| Ok(Landmarks::of(&reader.shard(shard)?.annex.notes));
    (0..reader.shard_count()).map(of).collect()
}

/// Ends all that is left of the job: our child processes that were not waited for.
fn end_all() {
    let since = Instant::now();
    loop {
        let left: Vec<Pid> = tree::below(getpid());
        for pid in &left {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        while waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status.pid().is_some()) {}
        if left.is_empty() || since.elapsed() > GONE_LIMIT {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
