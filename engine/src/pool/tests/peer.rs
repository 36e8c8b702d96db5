//! A member in a separate process: this test program again, running one test that obeys commands.

use super::{
    super::{RankRecord, word::ChunkState},
    *,
};
use std::{
    env,
    io::{BufRead, BufReader, Write, stdin},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const TASK: &str = "MAINSTAY_TEST_POOL_TASK";

pub(super) struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    pub(super) fn start(task: &str, pool: &Pool) -> Peer {
        let id = u128::from_be_bytes(pool.id());
        let task = format!("{task} {id} {}", pool.shared.directory.display());
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "pool::tests::peer::told_by_another_process", "--nocapture"])
            .env(TASK, task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Peer { child, to, from: BufReader::new(from) }
    }

    pub(super) fn tell(&mut self, what: &str) {
        writeln!(self.to, "{what}").unwrap();
    }

    /// The next line from the peer.
    pub(super) fn hear(&mut self) -> String {
        for line in (&mut self.from).lines() {
            if let Some((_, said)) = line.unwrap().split_once('@') {
                return said.to_owned();
            }
        }
        panic!("the other process ended: {:?}", self.child.wait());
    }

    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn end(mut self) {
        drop(self.to);
        assert!(self.child.wait().unwrap().success());
    }
}

fn say(what: impl std::fmt::Display) {
    println!("@{what}");
}

fn next_line() -> Option<String> {
    stdin().lines().next().transpose().unwrap()
}

#[test]
fn told_by_another_process() {
    let Ok(task) = env::var(TASK) else { return };
    // Ends the peer, even if it waits.
    #[allow(unsafe_code)]
    // SAFETY: the call has no conditions.
    unsafe {
        libc::alarm(60)
    };
    let mut words = task.splitn(3, ' ');
    let (task, id) = (words.next().unwrap(), words.next().unwrap().parse::<u128>().unwrap());
    let directory = Path::new(words.next().unwrap());
    let joined = || Pool::join(directory, id.to_be_bytes(), 1).unwrap();
    match task {
        "pass" => pass(&joined()),
        "fork" => fork(joined()),
        "hold" => hold(&joined()),
        "grow" => {
            let pool = joined();
            pool.make_memory().unwrap();
            hold(&pool);
        }
        "record" => record(&joined()),
        "descriptors" => without_descriptors(&joined()),
        "stranger" => stranger(directory, id.to_be_bytes()),
        _ => panic!("no such task: {task}"),
    }
}

/// Takes a chunk, fills it and gives it back, as often as the command says.
fn pass(pool: &Pool) {
    let rounds: u64 = next_line().unwrap().parse().unwrap();
    for round in 0..rounds {
        let mut chunk = pool.take(&|| {}).unwrap();
        let bytes = chunk.bytes_mut();
        bytes.fill(round as u8);
        assert!(chunk.bytes().iter().all(|&byte| byte == round as u8), "two had the same chunk");
        chunk.fill(1, round as u32, CHUNK).unwrap();
        chunk.await_turn().unwrap();
        chunk.written().unwrap();
    }
    say("passed");
}

/// Holds a chunk in each state that the command names, and one more in no state.
fn hold(pool: &Pool) {
    let mut held = Vec::new();
    while let Some(state) = next_line() {
        let chunk = take(pool);
        if state != format!("{:?}", ChunkState::Filling) {
            chunk.fill(7, held.len() as u32, CHUNK).unwrap();
        }
        if state == format!("{:?}", ChunkState::Writing) {
            chunk.await_turn().unwrap();
        }
        say(chunk.index());
        held.push(chunk);
    }
}

/// Leaves a child behind that prints its id and waits to be ended.
fn fork(pool: Pool) {
    let _chunk = take(&pool);
    // SAFETY: this process does nothing else; its only other thread waits for this one.
    #[allow(unsafe_code)]
    unsafe {
        if libc::fork() == 0 {
            libc::alarm(60);
            let said = format!("@{}\n", libc::getpid());
            libc::write(1, said.as_ptr().cast(), said.len());
            libc::pause();
            libc::_exit(0);
        }
    }
    next_line();
}

/// Stages a shard of one full chunk, and seals it if the command says so.
fn record(pool: &Pool) {
    let mut record = RankRecord::create(pool, 1).unwrap();
    let mut chunk = take(pool);
    chunk.bytes_mut().fill(9);
    let shard = recording::stage(&mut record, &chunk);
    if next_line().unwrap() == "seal" {
        shard.seal(&recording::plan()).unwrap();
    }
    say("staged");
    next_line();
}

/// Seals a shard, and looks for it when the process may open no more files.
fn without_descriptors(pool: &Pool) {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let mut record = RankRecord::create(pool, 1).unwrap();
    let chunk = take(pool);
    recording::stage(&mut record, &chunk).seal(&recording::plan()).unwrap();
    let next = std::fs::File::open("/dev/null").map(|file| std::os::fd::AsRawFd::as_raw_fd(&file) as u64).unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    for more in 0..3 {
        setrlimit(Resource::RLIMIT_NOFILE, next + more, hard).unwrap();
        let read = pool.read_sealed(1);
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        say(match read {
            Err(error) if error.is_of_process() => "refused".to_owned(),
            Err(error) => error.to_string(),
            Ok(sealed) => sealed.len().to_string(),
        });
    }
}

/// Looks at the pool as another user.
fn stranger(directory: &Path, id: [u8; 16]) {
    #[allow(unsafe_code)]
    // SAFETY: the calls have no conditions; all threads of the process change over.
    let changed = unsafe { libc::setgid(65534) == 0 && libc::setuid(65534) == 0 };
    assert!(changed);
    say(Pool::join(directory, id, 1).map_or_else(|e| e.to_string(), |_| "joined".to_owned()));
}
