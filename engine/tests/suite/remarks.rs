//! A problem that no call can refuse is a line on standard error: once, by rank 0.

use crate::support::{between::Watched, gate::Gate, run};
use mainstay_engine::{
    Config, Error, LevelKind, LevelPlace, LevelPlan, MemoryAfter, Region, Session, StepOutcome, WhenBusy,
    device::Disk,
    group::{Solo, ThreadGroup},
};
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// This variable names the space, in a process that is the job.
const TASK: &str = "MAINSTAY_TEST_REMARKS";
const RANKS: usize = 3;

/// The lines on standard error of a job that runs with these variables.
fn told(variables: &[(&str, &str)]) -> Vec<String> {
    told_by("remarks::job", variables)
}

/// The same for the job `job`.
fn told_by(job: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MAINSTAY_")) {
        command.env_remove(name);
    }
    command.args(["--exact", job, "--nocapture"]).env(TASK, folder.path().join("space")).current_dir(folder.path());
    let ran = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{text}");
    text.lines().filter(|line| line.starts_with("mainstay: ")).map(str::to_owned).collect()
}

/// Opens the space twice, and calls `due` at ten steps.
#[test]
fn job() {
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let config = Config::resolve(&mainstay_engine::Choice::default()).unwrap().config;
    let config = &Config { pool_bytes: Some(1 << 20), ..config };
    for _ in 0..2 {
        thread::scope(|scope| {
            for group in ThreadGroup::new(RANKS) {
                let space = &space;
                scope.spawn(move || {
                    let mut session = Session::open(Box::new(group), space, config.clone()).unwrap();
                    for step in 0..10 {
                        session.due(step).unwrap();
                    }
                    session.close().unwrap();
                });
            }
        });
    }
}

/// Starts a program in steps twice, each time for one more step.
#[test]
fn job_in_steps() {
    struct Own(Session);
    impl AsMut<Session> for Own {
        fn as_mut(&mut self) -> &mut Session {
            &mut self.0
        }
    }
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let config = &Config { pool_bytes: Some(1 << 20), every_steps: 1, ..Config::default() };
    for end in [1, 2] {
        thread::scope(|scope| {
            for group in ThreadGroup::new(RANKS) {
                let space = &space;
                scope.spawn(move || {
                    let mut own = Own(Session::open(Box::new(group), space, config.clone()).unwrap());
                    let step =
                        |_: &mut Own, number| Ok(if number == end { StepOutcome::Over } else { StepOutcome::Done });
                    mainstay_engine::run(&mut own, |_: &mut Own| Ok::<(), Error>(()), |_: &mut Own, _| {}, step)
                        .unwrap();
                    own.0.close().unwrap();
                });
            }
        });
    }
}

#[test]
fn a_program_in_steps_tells_what_came_back() {
    assert_eq!(told_by("remarks::job_in_steps", &[]), ["mainstay: restored revision 1, after 1 step"]);
}

#[test]
fn that_pages_are_not_told_is_said_with_the_reason_unless_hashes_were_asked_for() {
    let traced = [("MAINSTAY_CAPTURE", "incremental"), ("MAINSTAY_TRACE", "traces")];
    let by_hashes = |more: &[(&str, &str)]| {
        let all = told(&[&traced[..], more].concat());
        all.into_iter().filter(|line| line.contains("found by hashes")).collect::<Vec<_>>()
    };
    for track in ["auto", "pages"] {
        let lines = by_hashes(&[("MAINSTAY_TRACK", track)]);
        assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("they are traced")), "{lines:?}");
    }
    assert_eq!(by_hashes(&[("MAINSTAY_TRACK", "hashes")]), [""; 0]);
}

#[test]
fn that_nothing_makes_a_checkpoint_due_is_told_once() {
    let told = told(&[]);
    assert_eq!(told.len(), 1, "{told:?}");
    for word in ["no setting", "every_steps", "every_seconds", "mtbf_seconds", "mainstay checkpoint"] {
        assert!(told[0].contains(word), "no {word:?} in {told:?}");
    }
}

/// Six hundred steps passed without a checkpoint and without a message.
#[test]
fn each_session_that_asked_and_saved_nothing_tells_why() {
    let asked = |why: &str| {
        format!(
            "mainstay: no checkpoint was saved: the program asked 10 times if one is due, up to step 9, and {why} or save"
        )
    };
    let never = |rules: &str| asked(&format!("none became due ({rules}); set a shorter interval,"));
    for (variable, value, rules) in [
        ("EVERY_STEPS", "100", "every_steps = 100"),
        ("EVERY_SECONDS", "1h", "every_seconds = 3600"),
        ("CHECKPOINT_SIGNAL", "USR2", "checkpoint_signal = USR2"),
    ] {
        let told = told(&[(&format!("MAINSTAY_{variable}"), value)]);
        assert_eq!(told.len(), 2, "one line for each session: {told:?}");
        assert!(told.iter().all(|line| line.starts_with(&never(rules))), "{told:?}");
    }
    let told = told(&[("MAINSTAY_EVERY_STEPS", "3")]);
    assert!(told.len() == 2 && told.iter().all(|line| line.contains("one was due 3 times")), "{told:?}");
}

/// Protects, restores, calls `due` at `steps` and saves if a checkpoint is due. The state holds the number of the step.
fn go_on(space: &Path, config: &Config, steps: &[u64], more: impl FnOnce(&mut Session)) {
    let mut state = [7_u8; 100];
    let mut session = Session::open(Box::new(Solo), space, config.clone()).unwrap();
    // SAFETY: the state outlives the session.
    #[expect(unsafe_code, reason = "regions are memory of the program")]
    session.protect(unsafe { Region::new("state", state.as_mut_ptr(), 100).unwrap() }).unwrap();
    session.restore().unwrap();
    for step in steps {
        if session.due(*step).unwrap() {
            session.checkpoint().unwrap();
        }
    }
    more(&mut session);
    session.close().unwrap();
}

/// Sessions, some of which lose the count of their steps.
#[test]
fn job_of_which_steps_do_not_come_back() {
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let config = Config::resolve(&mainstay_engine::Choice::default()).unwrap().config;
    let config = Config { pool_bytes: Some(1 << 20), when_busy: WhenBusy::Now, ..config };
    go_on(&space, &config, &[1, 2, 7], |_| {});
    // All of these follow: the next step, the same step at the top of a loop, and a later step.
    for steps in [[8, 14], [14, 21], [40, 42]] {
        go_on(&space, &config, &steps, |_| {});
    }
    go_on(&space, &config, &[1, 2, 7], |_| {});
    go_on(&space, &config, &[8, 14, 15, 16, 17, 18], |session| {
        session.restore().unwrap().unwrap();
        session.due(19).unwrap();
        session.due(20).unwrap();
        session.restore().unwrap().unwrap();
        session.due(15).unwrap();
    });
}

/// `step = i + 1` makes another object in Python, and an unprotected step begins anew: no message came.
#[test]
fn a_count_of_steps_that_did_not_come_back_is_told_with_both_numbers() {
    let told = told_by("remarks::job_of_which_steps_do_not_come_back", &[("MAINSTAY_EVERY_STEPS", "7")]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("was saved at step 42") && told[0].contains("at step 1:"), "{told:?}");
    assert!(told[1].contains("was saved at step 14") && told[1].contains("at step 19,"), "{told:?}");
    for word in ["protect", "Python", "follow"] {
        assert!(told.iter().all(|line| line.contains(word)), "no {word:?} in {told:?}");
    }
}

/// Opens a space, and then replaces the handler of its signal.
#[test]
fn job_that_goes_deaf() {
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let config = Config::resolve(&mainstay_engine::Choice::default()).unwrap().config;
    let number = config.checkpoint_signal.unwrap().number();
    let mut session = Session::open(Box::new(Solo), &space, config).unwrap();
    session.due(1).unwrap();
    // SAFETY: the signal calls nothing.
    #[expect(unsafe_code, reason = "a program sets handlers so")]
    unsafe {
        libc::signal(number, libc::SIG_IGN)
    };
    session.due(2).unwrap();
    session.due(3).unwrap();
    session.leave().unwrap();
}

/// The signal was off, and its senders waited in vain.
#[test]
fn a_handler_that_takes_the_place_of_ours_is_told_once() {
    let told = told_by(
        "remarks::job_that_goes_deaf",
        &[("MAINSTAY_CHECKPOINT_SIGNAL", "USR2"), ("MAINSTAY_AGREE_SECONDS", "0")],
    );
    let deaf: Vec<_> = told.iter().filter(|line| line.contains("a handler of its own for USR2")).collect();
    assert!(deaf.len() == 1 && deaf[0].contains("before the session is opened"), "{told:?}");
}

/// The disk of rank 1 takes no write while checkpoints become due. Only the second session makes up for that.
#[test]
fn job_that_puts_off() {
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let config = Config { every_steps: 1, pool_bytes: Some(1 << 20), agree_every: Duration::ZERO, ..Config::default() };
    for (makes_up, first) in [(false, 6), (true, 26)] {
        run(2, |rank, group| {
            let mut state = [7_u8; 100];
            let disk = Watched::new(Disk::make(&space).unwrap(), Gate::new(1));
            let gate = disk.between.clone();
            let mut session = Session::open_on(group, Arc::new(disk), config.clone()).unwrap();
            // SAFETY: the state outlives the session.
            #[expect(unsafe_code, reason = "regions are memory of the program")]
            session.protect(unsafe { Region::new("state", state.as_mut_ptr(), 100).unwrap() }).unwrap();
            session.restore().unwrap();
            // Each rank writes to the layout that the first checkpoint makes.
            session.checkpoint().unwrap();
            session.wait().unwrap();
            assert!(session.due(first).unwrap());
            if rank == 1 {
                gate.shut();
            }
            session.checkpoint().unwrap();
            assert!((first + 1..first + 5).all(|step| !session.due(step).unwrap()));
            if rank == 1 {
                gate.come();
            }
            if makes_up {
                session.checkpoint().unwrap();
            }
            session.close().unwrap();
            if rank == 1 {
                gate.nobody_waited();
            }
        });
    }
}

/// Five checkpoints were due and one was saved, as in the first program of every new user.
#[test]
fn a_checkpoint_that_was_put_off_and_not_made_up_for_is_told() {
    let told = told_by("remarks::job_that_puts_off", &[]);
    assert_eq!(told.len(), 1, "{told:?}");
    for word in ["due at step 7", "newest that is saved is step 6", "save before the end", "when_busy"] {
        assert!(told[0].contains(word), "no {word:?} in {told:?}");
    }
}

#[test]
fn variables_that_are_no_settings_are_told_once() {
    let rule = ("MAINSTAY_EVERY_STEPS", "100");
    let told = |variables: &[(&str, &str)]| {
        let all = told(variables).into_iter();
        all.filter(|line| !line.contains("no checkpoint was saved")).collect::<Vec<_>>()
    };
    let one = told(&[rule, ("MAINSTAY_ROOT", "/opt/mainstay")]);
    assert!(one.len() == 1 && one[0].starts_with("mainstay: MAINSTAY_ROOT is no setting"), "{one:?}");
    let odd = told(&[rule, ("MAINSTAY_ROOT", "/opt"), ("MAINSTAY_\u{1b}[31m", "x"), ("MAINSTAY_NODE", "a")]);
    assert!(odd.len() == 1 && odd[0].contains("MAINSTAY_\\u{1b}[31m, MAINSTAY_ROOT are no settings"), "{odd:?}");
    let ours =
        [rule, ("MAINSTAY_NODE", "a"), ("MAINSTAY_RUN_REPORT", "/dev/null"), ("MAINSTAY_FILES_STAGE", "/dev/shm")];
    assert_eq!(told(&ours), [""; 0]);
}

/// Saves in memory, and opens the space again with the settings of the variables.
#[test]
fn job_with_memory() {
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let folder = space.parent().unwrap().to_owned();
    let mut state = [7_u8; 100];
    let found = Config::resolve(&mainstay_engine::Choice::default()).unwrap().config;
    let with =
        |memory| Config { memory, memory_after: MemoryAfter::Kept, pool_directory: folder.clone(), ..found.clone() };
    let mut session = Session::open(Box::new(Solo), &space, with(LevelPlace::At(folder.join("memory")))).unwrap();
    // SAFETY: the state outlives the session.
    #[expect(unsafe_code, reason = "regions are memory of the program")]
    session.protect(unsafe { Region::new("state", state.as_mut_ptr(), 100).unwrap() }).unwrap();
    session.checkpoint().unwrap();
    session.close().unwrap();
    for _ in 0..2 {
        Session::open(Box::new(Solo), &space, with(found.memory.clone())).unwrap().close().unwrap();
    }
}

/// Such a job began with an older state than the one that was there, without a message.
#[test]
fn a_level_that_is_there_and_not_asked_for_is_told_once() {
    let rule = ("MAINSTAY_EVERY_STEPS", "100");
    let without = told_by("remarks::job_with_memory", &[rule]);
    assert_eq!(without.len(), 1, "{without:?}");
    for word in ["memory/mainstay-level-", "is not looked at", "the setting memory is not given"] {
        assert!(without[0].contains(word), "no {word:?} in {without:?}");
    }
    // The setting names another place, which is empty. The restored revision shows that.
    assert_eq!(told_by("remarks::job_with_memory", &[rule, ("MAINSTAY_MEMORY", "auto")]), [""; 0]);
}

/// Opens a space with copies in memory twice: all ranks are on this node.
#[test]
fn job_with_copies() {
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let folder = space.parent().unwrap().to_owned();
    let found = Config::resolve(&mainstay_engine::Choice::default()).unwrap().config;
    let (memory, pool_bytes) = (LevelPlace::At(folder.join("memory")), Some(1 << 20));
    let config = &Config { memory, pool_bytes, pool_directory: folder, ..found };
    for _ in 0..2 {
        thread::scope(|scope| {
            for group in ThreadGroup::new(RANKS) {
                let space = &space;
                scope.spawn(move || Session::open(Box::new(group), space, config.clone()).unwrap().close().unwrap());
            }
        });
    }
}

#[test]
fn that_copies_share_the_fate_of_one_node_is_told_once() {
    let rule = ("MAINSTAY_EVERY_STEPS", "100");
    let told = "mainstay: 2 copies on the level memory, and 1 node: they share its fate";
    assert_eq!(told_by("remarks::job_with_copies", &[rule]), [told]);
    assert_eq!(told_by("remarks::job_with_copies", &[rule, ("MAINSTAY_MEMORY_COPIES", "1")]), [""; 0]);
}

/// Saves in memory, and to a space that takes no write while several revisions arrive.
#[test]
fn job_with_a_level_that_is_busy() {
    let Some(space) = env::var_os(TASK).map(PathBuf::from) else { return };
    let mut state = [7_u8; 100];
    let (memory, slow) = (Disk::make(&space.with_file_name("memory")).unwrap(), Disk::make(&space).unwrap());
    let slow = Watched::new(slow, Gate::new(1));
    let plan = |kind, device, keep| LevelPlan { kind, device, every: 1, keep, copies: Vec::new(), former: Vec::new() };
    let plans = vec![plan(LevelKind::Memory, Arc::new(memory), 2), plan(LevelKind::Pfs, Arc::new(slow.clone()), 1)];
    let config = Config { pool_bytes: Some(1 << 20), ..Config::default() };
    let mut session = Session::open_levels(Box::new(Solo), plans, config).unwrap();
    // SAFETY: the state outlives the session.
    #[expect(unsafe_code, reason = "regions are memory of the program")]
    session.protect(unsafe { Region::new("state", state.as_mut_ptr(), 100).unwrap() }).unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    slow.between.shut();
    for revision in 2..=6 {
        assert_eq!(session.checkpoint().unwrap(), revision);
    }
    slow.between.come();
    session.close().unwrap();
    slow.between.nobody_waited();
}

#[test]
fn that_a_level_is_passed_over_is_told_the_first_time() {
    let told = "mainstay: the level space is busy: revision 3 passes it over, as may others after it";
    assert_eq!(told_by("remarks::job_with_a_level_that_is_busy", &[]), [told]);
}
