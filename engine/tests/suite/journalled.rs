//! The events of a space without other levels are in its journal, even those of killed jobs; it claims nothing that the
//! journal and the space do not show.

use crate::support::bounded;
use mainstay_engine::{
    Config, Region, Session, SpaceSurvey,
    group::Solo,
    status::{Event, Journal, Standing, tell_death, was_closed},
};
use std::{
    env, fs, iter,
    path::{Path, PathBuf},
    process::{self, Command},
    time::Duration,
};
use tempfile::TempDir;

/// The path of the space, for the process that is the job.
const TASK: &str = "MAINSTAY_TEST_JOURNALLED";
/// The end of the job: `killed` or `closed`; at once, or after it has saved twice.
const END: &str = "MAINSTAY_TEST_JOURNALLED_END";

/// Opens the space, restores, and saves at steps 1 and 2, unless the job ends at once.
#[test]
fn job() {
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let end = env::var(END).unwrap();
    let mut state = [7_u8; 100];
    let config = Config { pool_bytes: Some(1 << 20), every_steps: 1, ..Config::default() };
    let mut session = Session::open(Box::new(Solo), &space, config).unwrap();
    if end != "killed at once" {
        // SAFETY: the state outlives the session.
        #[expect(unsafe_code, reason = "regions are memory of the program")]
        session.protect(unsafe { Region::new("state", state.as_mut_ptr(), 100).unwrap() }).unwrap();
        let restored = session.restore().unwrap();
        assert!(restored.is_none_or(|restored| restored.step == Some(2)));
        for step in [1, 2] {
            session.due(step).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    }
    if end == "closed" {
        return session.close().unwrap();
    }
    process::abort();
}

fn run(space: &Path, end: &str) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "journalled::job", "--nocapture"]).env(TASK, space).env(END, end);
    let ran = command.output().unwrap();
    assert_eq!(ran.status.success(), end == "closed", "{}", String::from_utf8_lossy(&ran.stderr));
}

fn events(space: &Path) -> Vec<Event> {
    let journal = Journal::read(space).unwrap().unwrap_or_default();
    journal.entries.into_iter().map(|entry| entry.event).collect()
}

/// A name for each event in the journal.
fn names(space: &Path) -> Vec<&'static str> {
    let name = |event: &Event| match event {
        Event::Opened(_) => "opened",
        Event::Restored { step, .. } if *step == Some(2) => "restored step 2",
        Event::Complete(complete) if complete.step.is_some() => "complete",
        Event::Closed => "closed",
        Event::Died { .. } => "died",
        _ => "?",
    };
    events(space).iter().map(name).collect()
}

fn is_closed(space: &Path) -> bool {
    was_closed(space, &SpaceSurvey::open(space).unwrap())
}

/// Story: the report showed five killed starts as one, and said of a start that was killed at once that it had "ended
/// in order".
#[test]
fn openings_and_ends_are_journalled_whoever_is_killed() {
    let folder = TempDir::new().unwrap();
    let space = folder.path().join("space");
    fs::create_dir(&space).unwrap();
    run(&space, "killed at once");
    assert_eq!(names(&space), ["opened"]);
    assert!(!is_closed(&space), "it was killed before it had saved anything");
    run(&space, "killed");
    assert_eq!(names(&space)[1..2], ["opened"]);
    assert!(!is_closed(&space));
    run(&space, "closed");
    let names = names(&space);
    assert_eq!(names[2..4], ["opened", "restored step 2"], "{names:?}");
    assert_eq!(names[4..], ["complete", "complete", "closed"], "{names:?}");
    assert!(is_closed(&space));
}

/// The starter of a job knows the cause of its death. The journal has the death once, and no death of a job that ended
/// in order.
#[test]
fn the_death_of_a_job_is_told_once() {
    let folder = TempDir::new().unwrap();
    let space = folder.path().join("space");
    fs::create_dir(&space).unwrap();
    tell_death(&space, "no job was there");
    assert!(events(&space).is_empty());
    run(&space, "killed at once");
    tell_death(&space, "killed by SIGABRT");
    tell_death(&space, "again");
    assert_eq!(events(&space)[1..], [Event::Died { why: "killed by SIGABRT".to_owned() }]);
    assert!(!is_closed(&space));
    run(&space, "closed");
    let before = events(&space).len();
    tell_death(&space, "it has ended in order");
    assert_eq!(events(&space).len(), before);
}

/// Changes the time of the last opening in the journal of `space` to so long ago.
fn backdate_opening(space: &Path, by: Duration) {
    let path = space.join("journal");
    let text = fs::read_to_string(&path).unwrap();
    let (before, line) =
        text.trim_end().rsplit_once('\n').map_or(("", text.trim_end()), |(before, line)| (before, line));
    let mut entry: serde_json::Value = serde_json::from_str(line).unwrap();
    entry["unix_ns"] = (entry["unix_ns"].as_u64().unwrap() - by.as_nanos() as u64).into();
    fs::write(&path, format!("{before}\n{entry}\n")).unwrap();
}

/// Story: there was an alarm before the first checkpoint could be due.
#[test]
fn a_job_that_has_just_begun_is_no_alarm() {
    let folder = TempDir::new().unwrap();
    let space = folder.path().join("space");
    fs::create_dir(&space).unwrap();
    let alarms = || Standing::of(&space).unwrap().alarms;
    // A child process of another test has this process's locks until it starts its own program.
    let alarms_after = || {
        let ended = || iter::repeat_with(|| Standing::of(&space).unwrap()).find(|now| now.survey.in_use != Some(true));
        bounded("children that start", ended).unwrap().alarms
    };
    let config = Config { pool_bytes: Some(1 << 20), ..Config::default() };
    let session = Session::open(Box::new(Solo), &space, config).unwrap();
    assert_eq!(alarms(), [""; 0]);
    session.close().unwrap();
    assert_eq!(alarms_after().len(), 1, "it has ended, and saved nothing");
    for (hours, alarms_told) in [(1, 1), (3, 0)] {
        let config =
            Config { pool_bytes: Some(1 << 20), every: Duration::from_secs(3600 * hours), ..Config::default() };
        let session = Session::open(Box::new(Solo), &space, config).unwrap();
        backdate_opening(&space, Duration::from_secs(5 * 3600));
        assert_eq!(alarms().len(), alarms_told, "at work for five hours, with a checkpoint each {hours}");
        session.close().unwrap();
    }
}
