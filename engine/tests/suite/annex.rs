//! A revision carries more than memory: the program's notes, and the lengths of its output files.

use crate::support::{Job, State, filled};
use mainstay_engine::{Config, Error, ErrorKind, Session, SpaceSurvey, group::Solo};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

fn job(ranks: usize, keep: u32) -> Job {
    Job::new(ranks, Config { keep, pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() })
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn output(job: &Job, rank: usize) -> PathBuf {
    job.directory.path().join(format!("out-{rank}.csv"))
}

#[test]
fn each_rank_gets_its_notes_back_and_tools_see_them() {
    let job = job(2, 2);
    job.run(|rank, session, state| {
        for step in 1..=2 {
            filled(state, rank, step);
            session.note("step", &step.to_string()).unwrap();
            session.note("rank", &rank.to_string()).unwrap();
            session.checkpoint().unwrap();
        }
    });
    job.run(|rank, session, _| {
        let restored = session.restore().unwrap().unwrap();
        let expected = [("rank", rank.to_string()), ("step", "2".to_owned())];
        assert_eq!(restored.notes, expected.map(|(name, value)| (name.to_owned(), value)).into());
    });
    let survey = SpaceSurvey::open(&job.directory.path().join("space")).unwrap();
    let manifest = survey.revision(1).unwrap().shards[1].manifest().unwrap().unwrap();
    let notes: Vec<_> = manifest.annex.notes.iter().map(|n| (n.name.as_str(), n.value.as_str())).collect();
    assert_eq!(notes, [("rank", "1"), ("step", "1")]);
}

#[test]
fn notes_that_cannot_be_kept_are_refused() {
    job(1, 1).run(|_, session, _| {
        let long = "x".repeat(201);
        let large = "x".repeat((64 << 10) + 1);
        for (name, value) in [("", "1"), (&*long, "1"), ("step", &large), ("step", "a\0b"), ("st\0ep", "1")] {
            let refused = session.note(name, value).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        }
        (0..1000).for_each(|index| session.note(&index.to_string(), "").unwrap());
        session.note("7", "again").unwrap();
        assert!(session.note("one more", "").unwrap_err().to_string().contains("1000"));
    });
}

/// Notes that the program adds after the first checkpoint has sized the space must still find room.
#[test]
fn notes_may_come_after_the_first_checkpoint() {
    job(1, 1).run(|rank, session, state| {
        for step in 1..=5 {
            filled(state, rank, step);
            if step > 1 {
                session.note("what", &"x".repeat(2000)).unwrap();
            }
            session.checkpoint().unwrap();
        }
        session.wait().unwrap();
    });
}

#[test]
fn output_files_are_cut_back_to_the_revision_and_no_other_file_is() {
    let job = job(2, 1);
    let other = job.directory.path().join("other.csv");
    append(&other, "not named");
    job.run(|rank, session, state| {
        let path = output(&job, rank);
        // The file does not exist yet: it counts as empty.
        session.protect_output(&path).unwrap();
        append(&path, "one\n");
        filled(state, rank, 1);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        append(&path, "lost\n");
        append(&other, "!");
    });
    job.run(|rank, session, _| {
        let path = output(&job, rank);
        session.protect_output(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\nlost\n", "cut before the restore");
        session.restore().unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    });
    assert_eq!(fs::read_to_string(&other).unwrap(), "not named!!");
    append(&output(&job, 0), "later\n");
    job.run(|_, session, _| drop(session.restore().unwrap()));
    assert_eq!(fs::read_to_string(output(&job, 0)).unwrap(), "one\nlater\n", "a file was cut that nobody named");
}

/// A restore would have cut a file of the space back.
#[test]
fn no_file_of_the_space_is_an_output_file() {
    let job = job(1, 1);
    job.run(|_, session, state| {
        filled(state, 0, 1);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        let space = job.directory.path().join("space");
        let own =
            |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with(".mainstay").then(|| entry.path());
        let layout = fs::read_dir(&space).unwrap().find_map(|entry| own(entry.unwrap())).unwrap();
        let link = space.join("link.csv");
        std::os::unix::fs::symlink(&layout, &link).unwrap();
        for path in [layout, link, space.join("journal"), space.join("lock")] {
            let refused = session.protect_output(&path).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.to_string().contains("is one of the space; name one that the program writes"), "{refused}");
        }
        session.protect_output(&space.join("other.csv")).unwrap();
    });
}

#[test]
fn a_shorter_output_file_is_an_error_on_all_ranks_and_changes_nothing() {
    let job = job(2, 1);
    job.run(|rank, session, state| {
        session.protect_output(&output(&job, rank)).unwrap();
        append(&output(&job, rank), "0123456789");
        filled(state, rank, 1);
        session.checkpoint().unwrap();
    });
    append(&output(&job, 0), "more");
    fs::write(output(&job, 1), "short").unwrap();
    job.run(|rank, session, state| {
        session.protect_output(&output(&job, rank)).unwrap();
        let before = state.clone();
        let error = session.restore().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutputShort);
        let text = error.to_string();
        assert!(text.contains("out-1.csv") && text.contains("5 bytes") && text.contains("10"), "{text}");
        assert!(*state == before);
    });
    assert_eq!(fs::read_to_string(output(&job, 0)).unwrap(), "0123456789more");
    fs::remove_file(output(&job, 1)).unwrap();
    job.run(|rank, session, _| {
        session.protect_output(&output(&job, rank)).unwrap();
        let error = session.restore().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutputShort);
        let text = error.to_string();
        assert!(text.contains("out-1.csv is missing, and had 10 bytes") && text.contains("put it back"), "{text}");
    });
}

/// A program rotates its log: the saved length is that of the file with this name at t1.
#[test]
fn an_output_file_that_was_replaced_is_the_new_one() {
    let job = job(1, 1);
    let path = output(&job, 0);
    job.run(|rank, session, state| {
        append(&path, "a long first file");
        session.protect_output(&path).unwrap();
        fs::rename(&path, path.with_extension("old")).unwrap();
        append(&path, "new");
        filled(state, rank, 1);
        session.checkpoint().unwrap();
    });
    append(&path, " tail");
    job.run(|_, session, _| {
        session.protect_output(&path).unwrap();
        session.restore().unwrap();
    });
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

/// Story: a link made two outputs of one file. The restore cut the file back for the first name, then to a greater
/// length for the second, and filled it with zeros.
#[test]
fn an_output_file_never_grows_by_a_restore() {
    let job = job(1, 1);
    let (path, other) = (output(&job, 0), output(&job, 1));
    let name_both = |session: &mut Session| [&path, &other].map(|path| session.protect_output(path).unwrap());
    append(&path, "one\n");
    append(&other, "one\ntwo\n");
    job.run(|rank, session, state| {
        name_both(session);
        filled(state, rank, 1);
        session.checkpoint().unwrap();
    });
    job.run(|_, session, _| {
        name_both(session);
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        append(&path, "three\n");
        assert_eq!(session.restore().unwrap_err().kind(), ErrorKind::OutputShort);
    });
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
}

/// A directory with a space and a log of 100 bytes in three lines. The third line was written after revision 1.
struct Place {
    folder: TempDir,
}

const SAVED: &str = "step,energy\n1,0.11111111111111111111111111111\n2,0.22222222222222222222222222222\n";

impl Place {
    fn new(log: &str, saved: &str) -> Place {
        let place = Place { folder: TempDir::new().unwrap() };
        fs::create_dir(place.at("run")).unwrap();
        append(&place.at("run").join("log.csv"), saved);
        place.start("run", |session| {
            session.protect_output(&place.at(log)).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        });
        append(&place.at("run").join("log.csv"), "3,lost\n");
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn start(&self, run: &str, job: impl FnOnce(&mut Session)) {
        let config = Config { pool_bytes: Some(256 << 10), ..Config::default() };
        let mut session = Session::open(Box::new(Solo), &self.at(run).join("space"), config).unwrap();
        let mut state = State::new();
        state.protect(&mut session);
        job(&mut session);
        session.close().unwrap();
    }

    /// The content of `log` after a restore in `run` that protects the output under this name.
    fn restored(&self, run: &str, log: &str) -> String {
        self.start(run, |session| {
            session.protect_output(&self.at(log)).unwrap();
            session.restore().unwrap().unwrap();
        });
        fs::read_to_string(self.at(log)).unwrap()
    }
}

/// Story: the restore cut a log back only if the program named it by the same text, so the log had lines twice.
#[test]
fn an_output_file_is_known_again_by_any_name() {
    for log in ["run/log.csv", "run/../run/./log.csv", "link", "hard", "linked/log.csv"] {
        let place = Place::new("run/log.csv", SAVED);
        symlink(place.at("run/log.csv"), place.at("link")).unwrap();
        fs::hard_link(place.at("run/log.csv"), place.at("hard")).unwrap();
        symlink(place.at("run"), place.at("linked")).unwrap();
        assert_eq!(place.restored("run", log), SAVED, "{log}");
        // The other way round: saved under this name, restored under the first.
        append(&place.at(log), "3,lost\n");
        assert_eq!(place.restored("run", "run/log.csv"), SAVED, "{log}");
    }
    // The file was renamed, its directory was moved, or the directory was copied.
    let place = Place::new("run/log.csv", SAVED);
    fs::rename(place.at("run/log.csv"), place.at("run/renamed")).unwrap();
    assert_eq!(place.restored("run", "run/renamed"), SAVED);
    let place = Place::new("run/log.csv", SAVED);
    fs::rename(place.at("run"), place.at("moved")).unwrap();
    assert_eq!(place.restored("moved", "moved/log.csv"), SAVED);
    let place = Place::new("run/log.csv", SAVED);
    fs::create_dir(place.at("copied")).unwrap();
    fs::copy(place.at("run/log.csv"), place.at("copied/log.csv")).unwrap();
    assert_eq!(place.restored("run", "copied/log.csv"), SAVED);
}

/// A restore does not cut a file back merely because it has the name or the first line of the saved output.
#[test]
fn a_file_that_is_not_surely_the_output_stays_as_it_is() {
    let header = "step,energy\n";
    let stays = |place: &Place, log: &str, text: &str| {
        append(&place.at(log), text);
        assert_eq!(place.restored("run", log), text, "{log}");
    };
    let place = Place::new("run/log.csv", header);
    fs::create_dir(place.at("other")).unwrap();
    stays(&place, "other/log.csv", &format!("{header}1,of another run\n"));
    stays(&place, "run/other.csv", &format!("{header}1,of another table\n"));
    let place = Place::new("run/log.csv", SAVED);
    stays(&place, "run/other.csv", &format!("{SAVED}1,of another table\n"));
    // Another file at the path of the output.
    fs::remove_file(place.at("run/log.csv")).unwrap();
    stays(&place, "run/log.csv", &SAVED.replace('2', "7").repeat(2));
    // Other content was written over the output, by a copy or a shell's `>`.
    let place = Place::new("run/log.csv", SAVED);
    let rewritten = format!("{}3,of something else\n", SAVED.replace('2', "7"));
    fs::write(place.at("run/log.csv"), &rewritten).unwrap();
    assert_eq!(place.restored("run", "run/log.csv"), rewritten);
}

#[test]
fn one_file_is_named_once_however_it_is_spelled() {
    let place = Place::new("run/log.csv", SAVED);
    symlink(place.at("run/log.csv"), place.at("link")).unwrap();
    fs::hard_link(place.at("run/log.csv"), place.at("hard")).unwrap();
    place.start("run", |session| {
        session.protect_output(&place.at("run/log.csv")).unwrap();
        for log in ["link", "hard", "run/../run/log.csv"] {
            let refused = session.protect_output(&place.at(log)).unwrap_err().to_string();
            assert!(refused.contains("is named already as") && refused.contains("run/log.csv"), "{refused}");
        }
    });
}

/// Story: each rank named the log that rank 0 writes. One rank's lines were lost, or every restore failed with
/// OUTPUT_SHORT.
#[test]
fn a_file_that_several_ranks_name_is_refused_on_all_of_them() {
    let job = job(3, 1);
    let path = output(&job, 0);
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        for says in ["out-0.csv is named on rank 0 and on rank 2", "on the rank that writes it"] {
            assert!(text.contains(says), "{text}");
        }
    };
    let name = |rank: usize, session: &mut Session| {
        if rank != 1 {
            session.protect_output(&path).unwrap();
        }
    };
    job.run(|rank, session, state| {
        name(rank, session);
        filled(state, rank, 1);
        // The file does not exist yet.
        refused(session.restore().unwrap_err());
    });
    append(&path, "one\n");
    job.run(|rank, session, state| {
        filled(state, rank, 1);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        name(rank, session);
        for _ in 0..2 {
            refused(session.checkpoint().unwrap_err());
        }
    });
    append(&path, "two\n");
    job.run(|rank, session, _| {
        name(rank, session);
        refused(session.restore().unwrap_err());
    });
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
}

/// Ranks protect a file each. Mainstay refuses them as soon as two of the names lead to one file.
#[test]
fn files_of_ranks_that_become_one_are_refused() {
    let job = job(2, 1);
    job.run(|rank, session, state| {
        append(&output(&job, rank), "one\n");
        session.protect_output(&output(&job, rank)).unwrap();
        filled(state, rank, 1);
        session.checkpoint().unwrap();
        if rank == 1 {
            fs::remove_file(output(&job, 1)).unwrap();
            symlink(output(&job, 0), output(&job, 1)).unwrap();
        }
        let told = session.checkpoint().unwrap_err().to_string();
        assert!(told.contains("is named on rank 0 and on rank 1"), "{told}");
    });
}

#[test]
fn what_cannot_be_cut_back_is_no_output_file() {
    let job = job(1, 1);
    job.run(|rank, session, state| {
        for (path, says) in [("/dev/null", "/dev/null"), ("", "has 0 bytes"), ("/", "/")] {
            let error = session.protect_output(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(says), "{error}");
        }
        let path = output(&job, 0);
        session.protect_output(&path).unwrap();
        assert!(session.protect_output(&path).unwrap_err().to_string().contains("already"));
        // The output becomes a directory later: Mainstay refuses that checkpoint and accepts the next one.
        fs::create_dir(&path).unwrap();
        filled(state, rank, 1);
        assert_eq!(session.checkpoint().unwrap_err().kind(), ErrorKind::InvalidArgument);
        fs::remove_dir(&path).unwrap();
        session.checkpoint().unwrap();
    });
}
