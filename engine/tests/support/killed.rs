//! A job on a device in memory that is killed after t2 of its last step, with the contents of its pool at that moment.

use super::{
    faulty::{Durable, Faulty, Gate, Loss, Medium},
    program::{Mark, Program},
    recording::{Checked, job_of_programs},
    ways::{ONE_FILE, Way},
    whole,
};
use mainstay_engine::{
    Capture, Compress, Config, Session, Stage,
    group::{Group, ThreadGroup},
};
use nix::fcntl::{FcntlArg, fcntl};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, Barrier, Mutex},
    thread,
};
use tempfile::TempDir;

const MEMORY: &str = "/dev/shm";
pub const BYTES: usize = 40_000;
pub const LAST: u64 = 4;

/// The kind of job.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub ranks: usize,
    pub keep: u32,
    /// Bytes of the last step. A larger step needs room that two roots have to free.
    pub bytes: usize,
    /// Has room for the whole step. With a smaller pool, the job can be stopped only at t2.
    pub pool_bytes: u64,
    pub way: Way,
    pub capture: Capture,
    pub compress: Compress,
    /// The large region is written in pieces.
    pub in_pieces: bool,
    /// The step before the last is as large as the last, and has gone to a larger layout.
    pub grows: bool,
}

pub const SHAPE: Shape = Shape {
    ranks: 3,
    keep: 1,
    bytes: BYTES,
    pool_bytes: 256 << 10,
    way: ONE_FILE,
    capture: Capture::Whole,
    compress: Compress::Off,
    in_pieces: false,
    grows: false,
};
pub const LARGER: Shape = Shape { bytes: 130_000, pool_bytes: 512 << 10, ..SHAPE };
pub const GROWING: Shape = Shape { grows: true, ..LARGER };

impl Shape {
    /// The settings of one of its ranks, and of any job on one node.
    pub fn config_of(self, rank: usize, pools: &Path) -> Config {
        self.way.all_pools(pools);
        Config { pool_directory: self.way.pools_of(rank, pools), ..self.config(pools) }
    }

    pub fn config(self, pools: &Path) -> Config {
        Config {
            keep: self.keep,
            capture: self.capture,
            compress: self.compress,
            per: self.way.per,
            // The existing layout stays as it is.
            portion_bytes: if self.grows { 0 } else { 1 << 20 },
            pool_bytes: Some(self.pool_bytes),
            // A single block is not compressed.
            chunk_bytes: Some(if self.compress == Compress::Off { 4 << 10 } else { 24 << 10 }),
            io_threads: 2,
            pool_directory: pools.into(),
            ..Config::default()
        }
    }
}

/// A job that was killed as a whole after t2 of step `LAST`.
pub struct Killed {
    pub shape: Shape,
    pub durable: Durable,
    pub pools: TempDir,
}

/// A folder in memory for pools, empty or like `other`.
pub fn pools_like(other: Option<&Path>) -> TempDir {
    let made = tempfile::tempdir_in(MEMORY).unwrap();
    other.into_iter().for_each(|other| copy_pools(other, made.path()));
    made
}

/// Copies the pools and their records as they are at one moment.
fn copy_pools(from: &Path, to: &Path) {
    for (name, bytes) in at_once(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, bytes).unwrap();
        fs::set_permissions(&to, fs::metadata(&from).unwrap().permissions()).unwrap();
    }
}

/// All files of the directory at one moment, as a kill would leave them. A last operation of the device may still end:
/// hashes go into a record, or the pool counts a record less. So the function reads until nothing has changed meanwhile.
fn at_once(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let read = || {
        let mut all = names(directory);
        all.sort();
        all.into_iter().map(|name| (name.clone(), fs::read(directory.join(&name)).unwrap())).collect::<Vec<_>>()
    };
    let mut before = read();
    for _ in 0..1000 {
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
    panic!("{} never stands still", directory.display());
}

/// Files in the directory, and in the folders of its nodes.
pub fn names(directory: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            all.extend(names(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            all.push(name);
        }
    }
    all
}

impl Killed {
    /// Stops all ranks once rank 0 has done `operations` operations on the device for the last step. Without a number,
    /// the device stops at t2. `None` if the step was complete before.
    pub fn after(shape: Shape, operations: Option<u64>) -> Option<Killed> {
        let (medium, gate, pools) = (Medium::new(true), Arc::new(Gate::new()), pools_like(None));
        let together = Barrier::new(shape.ranks);
        let left = Mutex::new(None);
        let program = |rank| Program::new(rank).in_pieces(shape.in_pieces);
        // The portions get their size from a normal step.
        let sizing = |rank| Config { portion_bytes: 0, ..shape.config_of(rank, pools.path()) };
        job_of_programs(&medium, shape.ranks, (program, sizing), |mut program, mut session| {
            program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES)?;
            session.begin(if shape.in_pieces { program.bytes() } else { 0 })?;
            session.abandon()?;
            Ok(session.close()?)
        })
        .unwrap();
        thread::scope(|scope| {
            for group in ThreadGroup::new(shape.ranks) {
                let (medium, gate, pools, together, left) = (&medium, &gate, &pools, &together, &left);
                scope.spawn(move || {
                    let (rank, view) = (group.rank(), medium.gated_view(gate));
                    let config = shape.config_of(rank, pools.path());
                    let device = Arc::new(Faulty(view.clone()));
                    let mut session = Session::open_on(Box::new(group), device, config).unwrap();
                    let mut program = Program::new(rank).in_pieces(shape.in_pieces);
                    program.protect(&mut session).unwrap();
                    for step in 1..=LAST {
                        // The new layout is made in the step before the last. It is made before t2, and in the last
                        // step the job would be stopped forever.
                        let is_large = step == LAST || shape.grows && step + 1 == LAST;
                        let bytes = if is_large { shape.bytes } else { BYTES };
                        program.fill(&mut session, Mark { run: 1, step }, bytes).unwrap();
                        together.wait();
                        match operations {
                            Some(0) if rank == 0 && step == LAST => gate.close(),
                            Some(operations) if rank == 0 && step == LAST => view.closes_gate_in(operations + 1),
                            _ => {}
                        }
                        together.wait();
                        program.save(&mut session).unwrap();
                        if step < LAST {
                            session.wait().unwrap();
                        }
                    }
                    together.wait();
                    if rank == 0 {
                        if operations.is_none() {
                            gate.close();
                        }
                        while !gate.was_closed() && !session.poll().unwrap() {
                            thread::yield_now();
                        }
                        if gate.was_closed() {
                            let copied = pools_like(Some(pools.path()));
                            *left.lock().unwrap() = Some((copied, medium.log()));
                        }
                        gate.open();
                    }
                    together.wait();
                    session.close().unwrap();
                });
            }
        });
        assert_eq!(names(pools.path()), [""; 0]);
        let (pools, log) = left.into_inner().unwrap()?;
        let mut durable = Durable::default();
        log.iter().for_each(|operation| durable.apply(operation));
        Some(Killed { shape, durable: durable.orphaned(), pools })
    }

    pub fn medium(&self) -> Medium {
        Medium::resume(self.durable.clone(), true)
    }

    /// The revision that a job restores on `medium`, the same on all ranks.
    pub fn restored(&self, medium: &Medium, pools: &Path) -> Checked<u64> {
        let found = Mutex::new(BTreeSet::new());
        let config = |rank| Config { stage: Stage::Direct, ..self.shape.config_of(rank, pools) };
        let program = |rank| Program::new(rank).in_pieces(self.shape.in_pieces);
        job_of_programs(medium, self.shape.ranks, (program, config), |mut program, mut session| {
            let restored = program.restore(&mut session)?;
            found.lock().unwrap().insert(restored);
            Ok(())
        })?;
        let found: Vec<Option<Mark>> = found.into_inner().unwrap().into_iter().collect();
        match found[..] {
            [Some(mark)] => Ok(mark.step),
            _ => Err(format!("the ranks restored {found:?}")),
        }
    }

    /// Checks a restore without the pool: `at_least` or newer, whole.
    pub fn check_alone(&self, medium: &Medium, at_least: u64) -> Checked<u64> {
        whole::check(&medium.files())?;
        let step = self.restored(medium, pools_like(None).path())?;
        if step < at_least { Err(format!("step {step} was restored, not {at_least}")) } else { Ok(step) }
    }

    /// Checks a restore with the pool: the newest revision, and it stays there.
    pub fn check_with_pool(&self, durable: &Durable) -> Checked<()> {
        let (medium, pools) = (Medium::resume(durable.clone(), true), pools_like(Some(self.pools.path())));
        match self.restored(&medium, pools.path())? {
            LAST => {}
            step => return Err(format!("step {step} was restored, with the pool")),
        }
        if !names(pools.path()).is_empty() {
            return Err(format!("{:?} is left in memory", names(pools.path())));
        }
        self.check_alone(&medium.lose_power(Loss::Everything), LAST).map(drop)
    }
}

/// Locks a byte of the pool in `pools`, as a process that uses the pool does, until the file is dropped.
pub fn take(pools: &Path, byte: u64) -> fs::File {
    let name = names(pools).into_iter().find(|name| !name.contains('.')).unwrap();
    let pool = fs::OpenOptions::new().read(true).write(true).open(pools.join(name)).unwrap();
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as i64,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(&pool, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    pool
}
