//! `mainstay status`: of a job with several levels, while it runs and after it; of a job with one level.

use crate::support::{MAINSTAY, RANKS, Ran, Space, field, mainstay, region};
use mainstay_engine::{
    Error, LevelPlace, MemoryAfter, Session,
    group::{Group, ThreadGroup},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(20);

/// A space with a level in memory. Every second revision goes to the space.
fn levels() -> Space {
    let mut space = Space::new(1);
    space.config.memory = LevelPlace::At(space.directory.path().join("memory"));
    space.config.pfs_every = 2;
    space
}

fn save(space: &Space, revisions: u64, then: impl Fn(usize) + Sync) {
    space.run(|rank, session, state| {
        for step in 1..=revisions {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
        then(rank);
    });
}

/// The directory of the level.
fn memory(space: &Space) -> PathBuf {
    let mut found = fs::read_dir(space.directory.path().join("memory")).unwrap();
    found.next().unwrap().unwrap().path()
}

fn newest(document: &Value) -> Vec<Value> {
    document["levels"].as_array().unwrap().iter().map(|level| level["complete"][0]["revision"].clone()).collect()
}

/// Waits until the document fits. The status file is written a moment after an event, and once a second.
fn once(space: &Space, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let document = space.mainstay(&["status", "--json"]).json();
        if is_so(&document) || begun.elapsed() > LIMIT {
            return document;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_job_with_levels_is_told_while_it_runs_and_after_it() {
    let space = levels();
    save(&space, 3, |rank| {
        if rank == 0 {
            let document = once(&space, |document| document["levels"][0]["complete"][0]["revision"] == 3);
            assert_eq!(newest(&document), [3, 2]);
            assert_eq!((&document["in_use"], &document["job"]["ended"]), (&json!(true), &json!(false)));
            assert_eq!(document["job"]["ranks"], RANKS);
            assert_eq!(document["job"]["pid"], std::process::id());
            assert_eq!(document["levels"][0]["directories"], json!([memory(&space)]));
            let left = |loss: &Value| [&loss["of"], &loss["revision"], &loss["level"]].map(Value::clone);
            let losses: Vec<_> = document["losses"].as_array().unwrap().iter().map(left).collect();
            let wanted = [["processes", "3", "memory"], ["node", "2", "space"], ["all_nodes", "2", "space"]];
            assert_eq!(
                losses,
                wanted.map(|[of, revision, level]| {
                    [json!(of), json!(revision.parse::<u64>().unwrap()), json!(level)]
                })
            );
            let page = space.mainstay(&["status"]);
            assert_eq!((page.code, page.err.as_str()), (0, ""), "{page:?}");
            for line in [
                "job     at work: 3 ranks on 1 node",
                "the death of the job's processes: survived, revision 3 from memory\n",
                "(ranks 0 to 2): survived, revision 2 from space, not the newest\n",
                "the loss of all nodes: survived, revision 2 from space, not the newest\n",
            ] {
                assert!(page.out.contains(line), "no {line:?} in {page:?}");
            }
            assert!(!page.out.contains('\u{1b}'));
        }
    });
    // The close has flushed the third revision to the space, and removed the memory. A child that another test starts
    // has the locks of this process for a moment.
    let document = once(&space, |document| document["in_use"] == false);
    assert_eq!(newest(&document), [Value::Null, json!(3)]);
    assert_eq!((&document["in_use"], &document["job"]["ended"]), (&json!(false), &json!(true)));
    assert_eq!(document["lost"], json!([]));
    assert!(fs::read_dir(space.directory.path().join("memory")).unwrap().next().is_none());
    assert!(space.mainstay(&["status"]).out.contains("job     ended in order"));
    // A job with one level follows. The old contents of the file no longer count.
    let one = Space { config: mainstay_engine::Config { memory: LevelPlace::Off, ..space.config.clone() }, ..space };
    save(&one, 1, |_| {});
    let document = one.mainstay(&["status", "--json"]).json();
    assert_eq!((&document["job"], newest(&document)), (&Value::Null, vec![json!(4)]));
}

#[test]
fn what_lay_on_this_node_and_is_gone_is_lost() {
    let mut space = levels();
    space.config.memory_after = MemoryAfter::Kept;
    save(&space, 3, |_| {});
    let document = space.mainstay(&["status", "--json"]).json();
    assert_eq!((newest(&document), &document["lost"]), (vec![json!(3), json!(2)], &json!([])));
    let gone = memory(&space);
    // A place that cannot be read is not called lost.
    fs::set_permissions(&gone, fs::Permissions::from_mode(0o777)).unwrap();
    let doubtful = space.mainstay(&["status", "--json"]);
    assert_eq!((doubtful.code, newest(&doubtful.json())), (1, vec![json!(3), json!(2)]));
    assert!(doubtful.err.contains("owner alone"), "{doubtful:?}");
    fs::remove_dir_all(&gone).unwrap();
    let ran = space.mainstay(&["status", "--json"]);
    assert_eq!((ran.code, newest(&ran.json())), (0, vec![Value::Null, json!(2)]));
    assert_eq!(ran.json()["lost"], json!(["revision 3 in memory: the data on this node is gone"]));
    assert_eq!(ran.json()["losses"][0]["revision"], 2);
}

/// The command counted copies as present on any node, from the report of a job that had ended.
#[test]
fn of_copies_this_node_judges_its_own_and_says_which_it_cannot_see() {
    let mut space = levels();
    (space.config.memory_after, space.config.memory_copies) = (MemoryAfter::Kept, 2);
    save(&space, 3, |_| {});
    let file = space.directory.path().join("space/status");
    let mut told: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    // The third rank was on another node.
    let here = told["job"]["nodes"][0]["host"].clone();
    told["job"]["nodes"] = json!([
        { "name": "n1", "host": here, "ranks": [[0, 2]] },
        { "name": "n2", "host": "another", "ranks": [[2, 3]] },
    ]);
    told["job"]["places"][0]["holders"] = json!([[2, 2, 0]]);
    fs::write(&file, told.to_string()).unwrap();
    let of_n2 = |document: &Value| document["losses"][2]["revision"].clone();
    let document = space.mainstay(&["status", "--json"]).json();
    assert_eq!((&document["unlooked"], of_n2(&document)), (&json!(["n2"]), json!(3)), "{document}");
    let page = space.mainstay(&["status"]).out;
    assert!(page.contains("data on n2 cannot be seen from here"), "{page}");
    let level = fs::read_dir(space.directory.path().join("memory")).unwrap().map(|entry| entry.unwrap().path());
    let copy = level.into_iter().find(|path| path.display().to_string().contains("-copy1")).unwrap();
    fs::remove_dir_all(copy).unwrap();
    let document = space.mainstay(&["status", "--json"]).json();
    assert_eq!(document["lost"], json!(["revision 3 in memory, copy 1: the data on this node is gone"]));
    assert_eq!(of_n2(&document), 2, "{document}");
}

#[test]
fn with_one_level_the_space_itself_tells() {
    let space = Space::with(2, 3);
    assert!(!space.path().join("status").exists());
    let document = space.mainstay(&["status", "--json"]).json();
    assert_eq!((&document["job"], newest(&document)), (&Value::Null, vec![json!(3)]));
    assert_eq!((&document["levels"][0]["level"], &document["losses"]), (&json!("space"), &json!([])));
    let page = space.mainstay(&["status"]);
    let lines: Vec<&str> = page.out.lines().collect();
    let [first, second] = lines[..] else { panic!("{page:?}") };
    assert!(page.code == 0 && first.ends_with("space: ended in order"), "{page:?}");
    assert!(second.starts_with("saved   revision 3, ") && second.ends_with("; older: 2, 1"), "{page:?}");
    // The table of levels comes on request.
    let page = space.mainstay(&["status", "--details"]);
    assert!(page.code == 0 && page.out.starts_with(first) && page.out.contains("passed over"), "{page:?}");
}

/// Saves 2 * `times` revisions; the space refuses every second one. Then rank 0 calls `look`. Returns the results of
/// the closes.
fn failing(space: &Space, times: u64, look: impl Fn() + Sync) -> Vec<Result<(), Error>> {
    let job = |group: ThreadGroup| {
        let rank = group.rank();
        let mut session = Session::open(Box::new(group), &space.path(), space.config.clone()).unwrap();
        let mut state = field(rank, 0);
        session.protect(region(&mut state)).unwrap();
        for step in 1..=2 * times {
            session.checkpoint().unwrap();
            assert_eq!(session.wait().is_err(), step % 2 == 0, "step {step}");
        }
        if rank == 0 {
            look();
        }
        session.close()
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = ThreadGroup::new(RANKS).into_iter().map(|group| scope.spawn(|| job(group))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn saving_that_keeps_failing_is_an_alarm() {
    for (times, code) in [(1, 0), (3, 5)] {
        let mut space = levels();
        // No file system has room for that.
        space.config.portion_bytes = 1 << 50;
        let look = || {
            once(&space, |document| document["levels"][1]["failures_in_a_row"] == times);
            let file = space.directory.path().join("mainstay.prom");
            let arguments = ["status".into(), "--prometheus".into(), file.clone(), space.path()];
            let told = Command::new(MAINSTAY).args(arguments).output().map(Ran::of).unwrap();
            assert_eq!(told.code, code, "{told:?}");
            let alarm = format!(
                "ALARM   saving fails: the level space did not get {times} revisions in a row; none is there: "
            );
            assert_eq!(told.out.starts_with(&alarm), code == 5, "{told:?}");
            let measured = fs::read_to_string(&file).unwrap();
            let of_space = format!("space=\"{}\"", space.path().display());
            for line in [
                format!("mainstay_alarm{{{of_space}}} {}", u8::from(code == 5)),
                format!("mainstay_failures_in_a_row{{{of_space},level=\"space\"}} {times}"),
                format!("mainstay_newest_revision{{{of_space},level=\"memory\"}} {}", 2 * times),
                format!("mainstay_survives{{{of_space},loss=\"all_nodes\"}} 0"),
            ] {
                assert!(measured.lines().any(|other| other == line), "no {line} in\n{measured}");
            }
            for line in measured.lines().filter(|line| !line.starts_with('#')) {
                let (_, value) = line.rsplit_once(' ').unwrap();
                assert!(line.starts_with("mainstay_") && value.parse::<f64>().is_ok(), "{line}");
            }
            let left = fs::read_dir(space.directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
            assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("unfinished")));
        };
        // Revisions in memory cannot move elsewhere, and stay.
        assert!(failing(&space, times, look).iter().all(Result::is_err));
        assert_eq!(space.mainstay(&["status"]).code, code);
    }
}

#[test]
fn nothing_saved_is_an_alarm() {
    let space = Space::new(1);
    space.run(|_, _, _| {});
    let ran = space.mainstay(&["status"]);
    assert_eq!((ran.code, ran.err.as_str()), (5, ""), "{ran:?}");
    assert!(ran.out.starts_with("ALARM   nothing is saved"), "{ran:?}");
    let ran = space.mainstay(&["status", "--json"]);
    assert_eq!((ran.code, ran.json()["alarms"].as_array().unwrap().len()), (5, 1));
    fs::remove_dir_all(space.path()).unwrap();
    space.mainstay(&["status"]).refused(3, &["not a Mainstay space"]);
}

#[test]
fn a_file_that_tells_nonsense_is_told_and_not_believed() {
    let mut space = levels();
    space.config.memory_after = MemoryAfter::Kept;
    save(&space, 2, |_| {});
    let file = space.path().join("status");
    let good: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let mut newer = good.clone();
    newer["version"] = json!(2);
    let mut forged = good.clone();
    forged["job"]["host"] = json!("\u{1b}[31m\nALARM");
    for (text, word) in
        [("{".to_owned(), "it is no valid status"), (newer.to_string(), "version 2"), (forged.to_string(), "a text")]
    {
        fs::write(&file, text).unwrap();
        let ran = space.mainstay(&["status"]);
        assert!(ran.code == 1 && ran.err.contains(word), "{ran:?}");
        // The visible levels are listed all the same.
        assert!(ran.out.contains("memory       2") && !ran.out.contains('\u{1b}'), "{ran:?}");
    }
}

#[test]
fn it_is_watched_until_nobody_reads() {
    let space = levels();
    save(&space, 2, |_| {});
    for arguments in [&["status", "--watch=100ms"][..], &["status", "--watch=100ms", "--json"]] {
        let mut watching =
            Command::new(MAINSTAY).args(arguments).arg(space.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
        let begins = |line: &String| line.starts_with("space ") || line == "{";
        assert_eq!(lines.by_ref().map(Result::unwrap).filter(begins).take(3).count(), 3);
        drop(lines);
        assert!(watching.wait().unwrap().success());
    }
    mainstay(&["status", "--watch=1ms"], &space.path()).refused_usage();
    let nowhere = space.path().join("none/x.prom");
    let nowhere = nowhere.to_str().unwrap();
    mainstay(&["status", "--prometheus", nowhere], &space.path()).refused(4, &["none/x.prom"]);
}
