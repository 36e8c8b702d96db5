//! `mainstay report` and its journal, of jobs that ended, were killed, failed, and came again.

use crate::support::{RANKS, Ran, Space, field};
use mainstay_engine::{
    LevelPlace, Session,
    group::ThreadGroup,
    space::format::{EarlyOff, SavedEarly},
    status::{Event, Journal, JournalEntry, Parts, Recovery, Saved},
};
use std::{fs, io::Write, thread};

/// A space with a level in memory. Every second revision goes to the space.
fn levels() -> Space {
    let mut space = Space::new(2);
    space.config.memory = LevelPlace::At(space.directory.path().join("memory"));
    space.config.pfs_every = 2;
    space
}

fn save(space: &Space, steps: std::ops::RangeInclusive<u64>) {
    space.run(|rank, session, state| {
        session.restore().unwrap();
        for step in steps.clone() {
            state.copy_from_slice(&field(rank, step));
            session.due(10 * step).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
}

fn journal(space: &Space) -> Journal {
    Journal::read(&space.path()).unwrap().unwrap()
}

/// The events, in short.
fn told(space: &Space) -> Vec<String> {
    let short = |event: &Event| match event {
        Event::Opened(opening) => format!("opened {}", opening.ranks),
        Event::Restored { revision, .. } => format!("restored {revision}"),
        Event::Complete(complete) => {
            let (level, step) = (complete.level.name(), complete.step.unwrap_or(0));
            format!("{} on {level} at {step}", complete.revision)
        }
        Event::Failed { level, .. } => format!("failed {}", level.name()),
        Event::PassedOver { level, .. } => format!("passed over {}", level.name()),
        Event::Recovered(_) => "recovered".to_owned(),
        Event::Closed => "closed".to_owned(),
        Event::Died { .. } => "died".to_owned(),
    };
    journal(space).entries.iter().map(|entry| short(&entry.event)).collect()
}

fn report(space: &Space) -> String {
    let Ran { code, out, err } = space.mainstay(&["report"]);
    assert_eq!((code, err.as_str()), (0, ""));
    // The page contains no address that a browser would fetch.
    assert!(!out.contains("http://") && !out.contains("https://") && !out.contains("<script"), "{out}");
    out
}

fn count(page: &str, what: &str) -> usize {
    page.matches(what).count()
}

#[test]
fn a_job_with_levels_writes_down_what_happens() {
    let space = levels();
    save(&space, 1..=3);
    let wanted = [
        "opened 3",
        "1 on memory at 10",
        "2 on memory at 20",
        "2 on space at 20",
        "3 on memory at 30",
        "3 on space at 30",
        "closed",
    ];
    let told = told(&space);
    // The next call, of any kind, finds that a revision is complete on the space.
    let (mut sorted, mut all) = (told.clone(), wanted.map(str::to_owned).to_vec());
    sorted.sort();
    all.sort();
    // The close flushes revision 3 to the space last, so the journal may lack this event.
    all.retain(|what| what != "3 on space at 30" || told.contains(what));
    assert_eq!(sorted, all, "{told:?}");
    assert_eq!((told.first().unwrap().as_str(), told.last().unwrap().as_str()), ("opened 3", "closed"));
    let phases = journal(&space).entries.into_iter().filter_map(|entry| match entry.event {
        Event::Complete(complete) => complete.phases,
        _ => None,
    });
    assert!(phases.into_iter().all(|phases| phases.t1_unix_ns > 0 && phases.durable_ns > 0));
    let page = report(&space);
    assert_eq!(count(&page, "data-level=\"memory\""), 3, "{page}");
    assert!(count(&page, "data-level=\"space\"") >= 2 && page.contains("The last job ended in order"), "{page}");
    assert_eq!(fs::read_dir(space.path()).unwrap().filter(|e| e.as_ref().unwrap().file_name() == "journal").count(), 1);
}

#[test]
fn a_space_alone_has_its_checkpoints_in_the_journal_once_the_job_ends_or_fails() {
    let space = Space::new(2);
    space.run(|_, session, _| {
        session.checkpoint().unwrap();
        session.wait().unwrap();
        // The opening is written in the background.
        let journal = Journal::read(&space.path()).unwrap().unwrap_or_default();
        let is_opening = |entry: &JournalEntry| matches!(entry.event, Event::Opened(_));
        assert!(journal.entries.iter().all(is_opening), "a checkpoint costs no write: {journal:?}");
    });
    assert_eq!(told(&space), ["opened 3", "1 on space at 0", "closed"]);
    // A job that only opened and closed was recorded, too.
    let other = Space::new(1);
    other.run(|_, _, _| {});
    assert_eq!(told(&other), ["opened 3", "closed"]);
}

#[test]
fn several_starts_write_into_one_journal() {
    let space = levels();
    save(&space, 1..=1);
    save(&space, 2..=2);
    let told = told(&space);
    assert_eq!(told.iter().filter(|what| *what == "opened 3").count(), 2);
    assert!(told.contains(&"restored 1".to_owned()), "{told:?}");
    let page = report(&space);
    assert!(page.contains("start 2, 3 ranks") && page.contains("revision 1 (lineage 1)"), "{page}");
}

#[test]
fn a_job_that_was_killed_is_shown() {
    let space = levels();
    save(&space, 1..=2);
    // A kill leaves a journal without an end, with a cut last line.
    let path = space.path().join("journal");
    let journal = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = journal.lines().filter(|line| !line.contains("\"closed\"")).collect();
    fs::write(&path, lines.join("\n") + "\n{\"unix_ns\": 12, \"ev").unwrap();
    // It also leaves the space opened, and not closed.
    thread::scope(|scope| {
        for group in ThreadGroup::new(RANKS) {
            scope.spawn(|| drop(Session::open(Box::new(group), &space.path(), space.config.clone()).unwrap()));
        }
    });
    let ran = space.mainstay(&["report"]);
    assert_eq!(ran.code, 1, "a line that says nothing is told: {ran:?}");
    assert!(ran.err.contains("1 lines of the journal"), "{ran:?}");
    assert!(ran.out.contains("did not end in order") && ran.out.contains("id=\"failures\""), "{}", ran.out);
}

#[test]
fn without_a_journal_what_lies_there_is_shown() {
    let space = Space::with(3, 3);
    fs::remove_file(space.path().join("journal")).unwrap();
    let page = report(&space);
    assert_eq!(count(&page, "data-level=\"space\""), 3, "{page}");
    assert!(page.contains("No journal"), "{page}");
}

#[test]
fn recoveries_are_shown_with_their_parts_and_the_steps_lost() {
    let space = levels();
    save(&space, 1..=2);
    let last = journal(&space).entries.last().unwrap().unix_ns;
    let recovery = Recovery {
        noticed_unix_ns: last - 1000,
        failed: vec![2],
        ranks_before: 3,
        ranks: 3,
        parts: Parts { regroup_ns: 50_000_000, open_ns: 20_000_000, copies_ns: 1_000_000, state_ns: 30_000_000 },
        total_ns: 120_000_000,
        back_to: Some(Saved { lineage: 1, revision: 1, saved_unix_ns: None }),
        lineage: 2,
        step: Some(27),
        lost: vec!["<script>alert(1)</script>".to_owned()],
        ..Recovery::default()
    };
    let line = serde_json::json!({ "unix_ns": last, "event": "recovered" });
    let mut line = line.as_object().unwrap().clone();
    line.extend(serde_json::to_value(&recovery).unwrap().as_object().unwrap().clone());
    let mut file = fs::OpenOptions::new().append(true).open(space.path().join("journal")).unwrap();
    writeln!(file, "{}", serde_json::Value::Object(line)).unwrap();
    let page = report(&space);
    assert_eq!(count(&page, "class=\"recovery\""), 1);
    assert!(page.contains("rank 2 failed; replaced by a spare"), "{page}");
    // Revision 1 was saved at step 10; the rank failed at step 27.
    assert!(page.contains("<td class=\"number\">17</td>"), "{page}");
    assert!(page.contains("&lt;script&gt;"), "what a space says is text");
}

#[test]
fn a_page_goes_into_a_file() {
    let space = Space::with(1, 1);
    let file = space.directory.path().join("run.html");
    let ran = space.mainstay(&["report", "-o", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<!DOCTYPE html>"));
    space.mainstay(&["report", "-o", "/gone/run.html"]).refused(4, &["/gone/run.html"]);
    crate::support::mainstay(&["report"], &space.directory.path().join("other")).refused(3, &["no such directory"]);
}

#[test]
fn what_was_saved_early_is_told_and_why_it_ended() {
    let space = Space::new(2);
    save(&space, 1..=3);
    assert_eq!(count(&report(&space), "id=\"early\""), 0);
    let offs = [EarlyOff::No, EarlyOff::InVain, EarlyOff::InVain];
    let mut entries = journal(&space).entries;
    let complete = entries.iter_mut().filter_map(|entry| match &mut entry.event {
        Event::Complete(complete) => Some(complete),
        _ => None,
    });
    for (complete, off) in complete.zip(offs) {
        complete.saved_early = Some(SavedEarly { dirty: 2560, early: 1280, saved: 1536, wasted: 256, off });
    }
    let lines: String = entries.iter().map(|entry| serde_json::to_string(entry).unwrap() + "\n").collect();
    fs::write(space.path().join("journal"), lines).unwrap();
    let page = report(&space);
    let told = "before 3 of them: 15 MiB of the 30 MiB that the program wrote between checkpoints; 18 MiB were saved, 3 MiB in vain. \
                From revision 2 (lineage 1) on saving early stopped: more was saved in vain than was gained.</p>";
    assert!(page.contains(told), "{page}");
}
