//! A job recorded on the faulty device, and the checks that hold at any end of the record.

use super::{
    faulty::{Change, Durable, Failure, Faulty, Gate, Loss, Medium, Operation},
    often,
    program::{Mark, Program, Restoring},
    whole,
};
use mainstay_engine::{
    Capture, Compress, Config, Error, ErrorKind, Predictor, Session, Stage, Start,
    group::{Group, Solo, ThreadGroup},
    space::{Per, format::BLOCK_BYTES},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// The error text describes a wrong outcome.
pub type Checked<T> = Result<T, String>;

#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub ranks: usize,
    pub keep: u32,
    pub stage: Stage,
    pub capture: Capture,
    /// The predictor for pages that are saved early.
    pub predictor: Predictor,
    pub compress: Compress,
    /// The large region is written in pieces.
    pub in_pieces: bool,
    /// The state outgrows its portions, which become larger.
    pub grows: bool,
}

impl Shape {
    /// One rank, which keeps one revision.
    pub const ALONE: Shape = Shape {
        ranks: 1,
        keep: 1,
        stage: Stage::Pool,
        capture: Capture::Whole,
        predictor: Predictor::Off,
        compress: Compress::Off,
        in_pieces: false,
        grows: false,
    };

    pub const ALL: [Shape; 8] = {
        let mut all = [Shape::ALONE; 8];
        let mut index = 0;
        while index < 8 {
            all[index].ranks = 1 + index % 2;
            all[index].keep = 1 + index as u32 / 2 % 2;
            all[index].stage = if index / 4 == 0 { Stage::Pool } else { Stage::Direct };
            index += 1;
        }
        all
    };

    pub fn config(self) -> Config {
        Config {
            keep: self.keep,
            stage: self.stage,
            pool_bytes: Some(64 << 10),
            chunk_bytes: Some(16 << 10),
            io_threads: 1,
            portion_bytes: if self.grows { 0 } else { 1 << 20 },
            capture: self.capture,
            predictor: self.predictor,
            compress: self.compress,
            // The jobs continue to overwrite the data of the jobs before.
            start: Start::Fresh,
            // Jobs that keep two revisions have a file for each rank.
            per: if self.keep == 2 { Per::Rank } else { Per::App },
            ..Config::default()
        }
    }

    /// Marks the state as settled, waits until it is saved early, and then changes a part of it after all.
    fn save_early(self, session: &mut Session, program: &mut Program) -> Result<(), Trouble> {
        if self.predictor == Predictor::Off {
            return Ok(());
        }
        program.toggle();
        session.tick()?;
        session.settled("bulk", 0, program.bytes())?;
        let begun = Instant::now();
        while session.speculation()?.waiting > 0 {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(Trouble::new("what is saved early is not through"));
            }
            thread::sleep(Duration::from_micros(200));
        }
        program.toggle();
        Ok(())
    }

    /// A size at which keep+1 of them fit into the portion, and keep+2 do not.
    fn bytes_max(self) -> usize {
        // The list of pieces takes room, too.
        let metadata = if self.in_pieces { 30 } else { 5 };
        (224 - 8) / (self.keep as usize + 1) * 4096 - metadata * 4096
    }

    /// Grows and shrinks, so that the free space is divided into pieces.
    fn bytes(self, step: u64) -> usize {
        if self.grows {
            // The state outgrows its portions twice in a job, and in the first step of the next one.
            return [10_000, 40_000, 30_000, 90_000, 20_000, 150_000, 60_000][step as usize % 7];
        }
        let eighths = [2, 8, 5, 1, 7, 3, 8, 4][step as usize % 8];
        self.bytes_max() * eighths / 8 - 123
    }
}

/// All operations of a job on its medium, and the times at which revisions were reported complete.
pub struct Recording {
    pub shape: Shape,
    pub log: Vec<Operation>,
    /// The mark was acknowledged after this number of operations.
    acknowledged: Vec<(usize, Mark)>,
}

/// The operations that a crash comes after, and the images that it leaves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub points: u64,
    pub cases: u64,
}

impl Recording {
    /// Two openings: the first ends in order, the second goes back once and is not closed.
    pub fn of(shape: Shape) -> Checked<Recording> {
        let medium = Medium::new(true);
        let acknowledged = Mutex::new(Vec::new());
        let acknowledge = |mark| acknowledged.lock().unwrap().push((medium.operations(), mark));
        let save = |session: &mut Session, program: &mut Program, mark, wait| {
            program.fill(session, mark, shape.bytes(mark.step))?;
            shape.save_early(session, program)?;
            program.save(session)?;
            if wait {
                session.wait()?;
                acknowledge(mark);
            }
            Ok::<(), Trouble>(())
        };
        job(&medium, shape, |mut program, mut session| {
            for step in 1..=4 {
                save(&mut session, &mut program, Mark { run: 1, step }, step != 2)?;
            }
            save(&mut session, &mut program, Mark { run: 1, step: 5 }, false)?;
            session.close()?;
            acknowledge(Mark { run: 1, step: 5 });
            Ok(())
        })?;
        job(&medium, shape, |mut program, mut session| {
            expect(program.restore(&mut session), Mark { run: 1, step: 5 })?;
            for step in 6..=7 {
                save(&mut session, &mut program, Mark { run: 2, step }, true)?;
            }
            expect(program.restore(&mut session), Mark { run: 2, step: 7 })?;
            for step in 8..=10 {
                save(&mut session, &mut program, Mark { run: 3, step }, step != 9)?;
            }
            Ok(())
        })?;
        Ok(Recording { shape, log: medium.log(), acknowledged: acknowledged.into_inner().unwrap() })
    }

    /// Crashes after every operation, with every kind of loss, until there are `limit` cases. Without a limit and
    /// outside the campaign, it crashes only after some operations. With `deaf`, the syncs of the device do nothing.
    pub fn crash_everywhere(&self, seeds: u64, deaf: bool, limit: u64) -> Checked<Count> {
        let mut count = Count::default();
        let stride = if deaf || limit < u64::MAX { 1 } else { often(11, 1) };
        self.each_point(deaf, |point, durable| {
            if !point.is_multiple_of(stride) && point != self.log.len() {
                return Ok(true);
            }
            count.points += 1;
            for loss in losses(durable, point, seeds) {
                count.cases += 1;
                let told = |why| format!("{:?}, crash after {point} operations, {loss:?}: {why}", self.shape);
                let told = |why: String| format!("{} (case {})", told(why), count.cases);
                let files = durable.image(loss);
                whole::check(&files).map_err(told)?;
                let medium = Medium::resume(Durable::of(files), true);
                self.recover(&medium, self.floor(point)).map_err(told)?;
                if count.cases >= limit {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(count)
    }

    /// Crashes again while the job after a crash recovers: at every `stride`th point, and after each change of names
    /// and each root. The first crash is a loss of power, or the end of the processes alone. Outside the campaign, each
    /// root has a third of the second crashes.
    pub fn crash_twice(&self, stride: usize) -> Checked<Count> {
        let mut count = Count::default();
        self.each_point(false, |point, durable| {
            let last = point.checked_sub(1).map(|last| &self.log[last].change);
            let renamed = matches!(last, Some(Change::Rename { .. } | Change::SyncDirectory));
            // The next job builds on roots.
            let wrote_root = matches!(last, Some(Change::Write { bytes, .. }) if bytes.len() as u64 == BLOCK_BYTES)
                && matches!(self.log.get(point).map(|next| &next.change), Some(Change::Sync { .. }));
            if point % stride != stride / 2 && !renamed && !wrote_root {
                return Ok(true);
            }
            let seed = point as u64;
            let lost = |loss| Durable::of(durable.image(loss));
            for (first, name) in [(durable.clone(), "processes killed"), (lost(Loss::Seeded(seed)), "power lost")] {
                let medium = Medium::resume(first.clone(), true);
                let floor = self.floor(point);
                let acknowledged = self.recover(&medium, floor)?;
                let mut again = first.orphaned();
                for (second, operation) in medium.log().iter().enumerate() {
                    again.apply(operation);
                    let is_last = second + 1 == medium.operations();
                    let opening = wrote_root && second < 6 && (second + point).is_multiple_of(often(3, 1));
                    if !(second + point / stride).is_multiple_of(stride.div_ceil(4)) && !opening && !is_last {
                        continue;
                    }
                    count.points += 1;
                    for loss in losses(&again, second, 2) {
                        count.cases += 1;
                        let told = |why| {
                            format!(
                                "{:?}, {name} after {point} operations, power after {second} more, {loss:?}: {why}",
                                self.shape
                            )
                        };
                        let files = again.image(loss);
                        whole::check(&files).map_err(told)?;
                        let medium = Medium::resume(Durable::of(files), true);
                        self.recover(&medium, if is_last { Some(acknowledged) } else { floor }).map_err(told)?;
                    }
                }
            }
            Ok(true)
        })?;
        Ok(count)
    }

    /// No write touches a block that a slot leads to. With a buffer, no write touches only a part of a block. This
    /// holds on the medium as it is, and without all unsynced writes.
    pub fn check_writes(&self) -> Checked<u64> {
        let (mut durable, mut writes) = (Durable::default(), 0);
        for (point, operation) in self.log.iter().enumerate() {
            if let Change::Write { file, at, bytes, .. } = &operation.change {
                let is_whole = at.is_multiple_of(BLOCK_BYTES) && (bytes.len() as u64).is_multiple_of(BLOCK_BYTES);
                // The stage without a buffer writes each piece as it is.
                if !is_whole && self.shape.stage != Stage::Direct {
                    return Err(format!("operation {point} writes a part of a block: {} bytes at {at}", bytes.len()));
                }
                let written: BTreeSet<u64> =
                    (at / BLOCK_BYTES..(at + bytes.len() as u64).div_ceil(BLOCK_BYTES)).collect();
                for files in [durable.image(Loss::Nothing), durable.image(Loss::Everything)] {
                    for layout in whole::layouts(&files)?.iter().filter(|layout| layout.file == *file) {
                        for place in &layout.header.portions {
                            let referred = whole::referred(&files, layout, place, false)?.unwrap_or_default();
                            if let Some(block) = referred.intersection(&written).next() {
                                return Err(format!("operation {point} writes block {block}, which a slot leads to"));
                            }
                        }
                    }
                }
                writes += 1;
            }
            durable.apply(operation);
        }
        Ok(writes)
    }

    fn each_point(&self, deaf: bool, mut visit: impl FnMut(usize, &Durable) -> Checked<bool>) -> Checked<()> {
        let mut durable = Durable::default();
        durable.deaf = deaf;
        for point in 0..=self.log.len() {
            if point > 0 {
                durable.apply(&self.log[point - 1]);
            }
            if !visit(point, &durable)? {
                break;
            }
        }
        Ok(())
    }

    fn floor(&self, point: usize) -> Option<Mark> {
        self.acknowledged.iter().filter(|(at, _)| *at <= point).map(|(_, mark)| *mark).max()
    }

    /// A new job finds a revision that is not older than `floor`, the same on all ranks, and saves one more. A third
    /// job finds that one. Returns its mark.
    fn recover(&self, medium: &Medium, floor: Option<Mark>) -> Checked<Mark> {
        let shape = Shape { stage: Stage::Direct, ..self.shape };
        let next = Mark { run: 100 + medium.operations() as u64, step: 1 };
        let found = Mutex::new(BTreeSet::new());
        job(medium, shape, |mut program, mut session| {
            let mark = program.restore(&mut session).map_err(Trouble::from)?;
            found.lock().unwrap().insert(mark);
            program.fill(&mut session, next, 20_000)?;
            program.save(&mut session)?;
            session.wait()?;
            Ok(())
        })?;
        let found: Vec<Option<Mark>> = found.into_inner().unwrap().into_iter().collect();
        if found.len() != 1 || found[0] < floor {
            return Err(format!("{found:?} was restored, {floor:?} had been acknowledged"));
        }
        job(medium, shape, |mut program, mut session| expect(program.restore(&mut session), next))?;
        Ok(next)
    }
}

pub fn losses(durable: &Durable, point: usize, seeds: u64) -> Vec<Loss> {
    let mut losses = vec![Loss::Nothing];
    if durable.has_pending() {
        losses.extend([Loss::Everything, Loss::FirstHalfOfLastKept, Loss::SecondHalfOfLastKept]);
        losses.extend((0..seeds).map(|seed| Loss::Seeded(seed << 32 | point as u64)));
    }
    losses
}

/// An error that ends the work of a rank early.
#[derive(Debug)]
pub struct Trouble(String);

impl Trouble {
    pub fn new(why: impl Into<String>) -> Trouble {
        Trouble(why.into())
    }

    pub fn why(self) -> String {
        self.0
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble(error.to_string())
    }
}

impl From<Restoring> for Trouble {
    fn from(restoring: Restoring) -> Trouble {
        Trouble(match restoring {
            Restoring::Refused(error) => format!("the restore was refused: {error}"),
            Restoring::Wrong(why) => why,
        })
    }
}

pub fn expect(found: Result<Option<Mark>, Restoring>, mark: Mark) -> Result<(), Trouble> {
    let found = found?;
    if found == Some(mark) { Ok(()) } else { Err(Trouble(format!("{found:?} was restored in place of {mark:?}"))) }
}

/// A job with a failing `nth` operation: whatever error it gets, earlier acknowledged revisions are still there, with
/// and without the power. Returns whether the job reached that operation.
pub fn fail_at(nth: u64, failure: Failure, shape: Shape) -> Checked<bool> {
    let medium = Medium::new(true);
    let view = medium.view();
    view.fails_in(nth, failure);
    let mut floor = None;
    let mut program = Program::new(0).in_pieces(shape.in_pieces);
    let mut failed = None;
    let opened = Session::open_on(Box::new(Solo), Arc::new(Faulty(view.clone())), shape.config());
    let mut told = opened.is_err();
    // A disk that is full after the last save loses nothing: the job ends like a killed one, without an error. Data
    // that could not be saved early is saved at the checkpoint.
    let is_early = shape.predictor != Predictor::Off;
    let mut may_be_silent = is_early;
    if let Ok(mut session) = opened {
        program.protect(&mut session).map_err(|error| error.to_string())?;
        for step in 1..=6 {
            let mark = Mark { run: 1, step };
            program.fill(&mut session, mark, shape.bytes(step)).map_err(|error| error.to_string())?;
            shape.save_early(&mut session, &mut program).map_err(Trouble::why)?;
            let saved = program.save(&mut session).and(session.wait());
            // After a failed sync, the session saves nothing more.
            match (saved, &failed) {
                (Ok(()), Some(ErrorKind::SyncFailed)) => return Err(format!("it saved {mark:?} after a failed sync")),
                (Ok(()), _) => floor = Some(mark),
                (Err(error), None) => failed = Some(error.kind()),
                (Err(_), Some(_)) => {}
            }
        }
        may_be_silent = is_early || matches!(failure, Failure::Full) && !view.has_failed();
        // A larger layout that cannot be made costs nothing if the shards still fit into the existing one.
        may_be_silent |= shape.grows && floor == Some(Mark { run: 1, step: 6 });
        told |= session.close().is_err() | failed.is_some();
    }
    if view.has_failed() && !told && !may_be_silent {
        return Err("something failed and nobody was told".into());
    }
    for loss in [Loss::Nothing, Loss::Everything, Loss::Seeded(nth)] {
        let medium = medium.lose_power(loss);
        let found = Mutex::new(None);
        job(&medium, shape, |mut program, mut session| {
            *found.lock().unwrap() = program.restore(&mut session)?;
            Ok(())
        })?;
        let found = found.into_inner().unwrap();
        if found < floor {
            return Err(format!("{found:?} was restored after {floor:?} had been acknowledged, {loss:?}"));
        }
    }
    Ok(view.has_failed())
}

/// A job on a device without locks. Its second revision is held back until a newer job has saved its own. Returns its
/// error; the newer job's revision must be there at the end.
pub fn late_writer(shape: Shape) -> Checked<ErrorKind> {
    let (medium, gate) = (Medium::new(false), Arc::new(Gate::new()));
    let view = medium.gated_view(&gate);
    let newer = Mark { run: 2, step: 2 };
    let told = thread::scope(|scope| {
        let late = scope.spawn(|| -> Result<ErrorKind, Trouble> {
            let mut program = Program::new(0);
            let mut session = Session::open_on(Box::new(Solo), Arc::new(Faulty(view.clone())), shape.config())?;
            program.protect(&mut session)?;
            program.fill(&mut session, Mark { run: 1, step: 1 }, shape.bytes(1))?;
            session.checkpoint()?;
            session.wait()?;
            view.closes_gate_in(1);
            program.fill(&mut session, Mark { run: 1, step: 2 }, shape.bytes(1))?;
            // If the program runs late, its checkpoint was refused before it is staged.
            let late = session.checkpoint().and_then(|_| session.wait());
            late.err().map(|error| error.kind()).ok_or_else(|| Trouble("its revision was taken".into()))
        });
        gate.wait_for_closing();
        let saved = job(&medium, shape, |mut program, mut session| {
            expect(program.restore(&mut session), Mark { run: 1, step: 1 })?;
            program.fill(&mut session, newer, shape.bytes(2))?;
            session.checkpoint()?;
            Ok(session.wait()?)
        });
        gate.open();
        saved.and(late.join().map_err(|_| "the late writer panicked")?.map_err(|Trouble(why)| why))
    })?;
    job(&medium, shape, |mut program, mut session| expect(program.restore(&mut session), newer))?;
    Ok(told)
}

/// Runs a job on `medium`, with a thread for each rank. A rank that does not close ends like a killed one.
pub fn job(
    medium: &Medium,
    shape: Shape,
    work: impl Fn(Program, Session) -> Result<(), Trouble> + Sync,
) -> Checked<()> {
    let program = |rank| Program::new(rank).in_pieces(shape.in_pieces);
    job_of_programs(medium, shape.ranks, (program, |_| shape.config()), work)
}

/// The same as `job`, with `ranks` ranks and these settings.
pub fn job_with(
    medium: &Medium,
    ranks: usize,
    config: &Config,
    work: impl Fn(Program, Session) -> Result<(), Trouble> + Sync,
) -> Checked<()> {
    job_of(medium, ranks, |_| config.clone(), work)
}

/// The same with settings of its own for each rank.
pub fn job_of(
    medium: &Medium,
    ranks: usize,
    config: impl Fn(usize) -> Config + Sync,
    work: impl Fn(Program, Session) -> Result<(), Trouble> + Sync,
) -> Checked<()> {
    job_of_programs(medium, ranks, (Program::new, config), work)
}

/// The same with the programs that `program` makes.
pub fn job_of_programs(
    medium: &Medium,
    ranks: usize,
    (program, config): (impl Fn(usize) -> Program + Sync, impl Fn(usize) -> Config + Sync),
    work: impl Fn(Program, Session) -> Result<(), Trouble> + Sync,
) -> Checked<()> {
    let run = |group: Box<dyn Group>| -> Result<(), Trouble> {
        let device = Arc::new(Faulty(medium.view()));
        let (rank, mut program) = (group.rank(), program(group.rank()));
        let mut session = Session::open_on(group, device, config(rank))?;
        program.protect(&mut session)?;
        work(program, session)
    };
    let ended = if ranks == 1 {
        vec![run(Box::new(Solo))]
    } else {
        thread::scope(|scope| {
            let run = &run;
            let ranks = ThreadGroup::new(ranks).into_iter().map(|group| scope.spawn(move || run(Box::new(group))));
            let ranks: Vec<_> = ranks.collect();
            ranks
                .into_iter()
                .map(|rank| rank.join().unwrap_or_else(|_| Err(Trouble("a rank panicked".into()))))
                .collect()
        })
    };
    ended.into_iter().collect::<Result<(), Trouble>>().map_err(|Trouble(why)| why)
}
