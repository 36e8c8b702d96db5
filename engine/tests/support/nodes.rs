//! A recorded job on several nodes, with copies on other nodes and a space behind them. The checks hold at any end of
//! the record, after the loss of any node.

use super::{
    bounded,
    faulty::{Durable, Faulty, Gate, Journal, Loss, Medium, Operation},
    program::{Mark, Program},
    recording::{Checked, Count, Trouble, expect},
    ways::{capture_of, compress_of},
};
use mainstay_engine::{
    Config, Exchange, LevelKind, LevelPlan, MemoryAfter, Session, Start,
    device::Device,
    group::{Group, ThreadGroup},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Barrier, Mutex},
    thread,
};

const BYTES: usize = 20_000;
/// Every second revision goes to the space.
const PFS_EVERY: u64 = 2;

#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The node of each rank.
    pub seats: &'static [usize],
    /// Copies of each shard on the nodes.
    pub copies: usize,
    pub kind: LevelKind,
    pub keep: u32,
    pub exchange: Exchange,
    /// Nodes that can be lost together, if `on_node` gives each rank its rack.
    pub racks: &'static [&'static [usize]],
    /// Each rank calls this with its node before it opens the session.
    pub on_node: fn(usize),
}

impl Shape {
    pub const PAIR: Shape = Shape {
        seats: &[0, 1],
        copies: 2,
        kind: LevelKind::Memory,
        keep: 1,
        exchange: Exchange::Background,
        racks: &[],
        on_node: |_| (),
    };

    fn nodes(self) -> usize {
        self.seats.iter().max().map_or(0, |last| last + 1)
    }

    /// The number of the medium of a copy on a node. Copy 0 is the level itself.
    fn medium(self, node: usize, copy: usize) -> usize {
        node * self.copies + copy
    }

    fn pfs(self) -> usize {
        self.nodes() * self.copies
    }
}

/// The loss when the processes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Nothing,
    Node(usize),
    Rack(usize),
    AllNodes,
    /// Unsynced data on any disk, chosen by the seed.
    Power(u64),
}

/// The operations on each medium, in one order, and the acknowledged marks with their times.
pub struct Recording {
    shape: Shape,
    /// Each operation, with the medium that it was done on.
    log: Vec<(usize, Operation)>,
    /// After this number of operations, the mark was complete on all levels and copies.
    acknowledged: Vec<(usize, Mark)>,
}

impl Recording {
    /// Two openings: the first ends in order, the second is cut off. On disks, three more revisions follow that do not
    /// reach the copies: the revisions in the copies then stay in the levels themselves, too.
    pub fn of(shape: Shape) -> Checked<Recording> {
        let journal = Journal::default();
        let media: Vec<Medium> = (0..=shape.pfs()).map(|index| Medium::noted(&journal, index)).collect();
        let acknowledged = Mutex::new(Vec::new());
        let acknowledge = |mark| acknowledged.lock().unwrap().push((journal.operations(), mark));
        let end = Barrier::new(shape.seats.len());
        let save = |program: &mut Program, session: &mut Session, run, step| {
            let mark = Mark { run, step };
            program.fill(session, mark, BYTES + 3000 * (step % 3) as usize)?;
            session.checkpoint()?;
            session.progress()?;
            // One revision is left to the checkpoint after it, which does not wait for a disk: with a disk, the next
            // would be skipped.
            if step != 2 || shape.kind == LevelKind::Disk {
                session.wait()?;
                acknowledge(mark);
            }
            Ok::<(), Trouble>(())
        };
        job(shape, &media, |_, mut program, mut session| {
            (1..=4).try_for_each(|step| save(&mut program, &mut session, 1, step))?;
            Ok(session.close()?)
        })?;
        let gate = Arc::new(Gate::new());
        job_by(shape, &media, Some(&gate), |rank, mut program, mut session| {
            expect(program.restore(&mut session), Mark { run: 1, step: 4 })?;
            (5..=6).try_for_each(|step| save(&mut program, &mut session, 2, step))?;
            if shape.kind == LevelKind::Disk {
                end.wait();
                if rank == 0 {
                    gate.close();
                }
                end.wait();
                for step in 7..=9 {
                    program.fill(&mut session, Mark { run: 2, step }, BYTES + 3000 * (step % 3) as usize)?;
                    session.checkpoint()?;
                    while !session.poll()? {
                        thread::yield_now();
                    }
                }
            }
            end.wait();
            gate.open();
            Ok(())
        })?;
        let mut logs: Vec<_> = media.iter().map(|medium| medium.log().into_iter()).collect();
        let log = journal.media().into_iter().map(|index| (index, logs[index].next().unwrap())).collect();
        Ok(Recording { shape, log, acknowledged: acknowledged.into_inner().unwrap() })
    }

    /// Ends the job after every `stride`th operation, from `first` on. With `all`, each end is tried with every kind of
    /// loss, otherwise with the next kind only.
    pub fn crash(&self, first: usize, stride: usize, all: bool) -> Checked<Count> {
        let mut durables = vec![Durable::default(); self.shape.pfs() + 1];
        let mut count = Count::default();
        for point in 0..=self.log.len() {
            if let Some((index, operation)) = point.checked_sub(1).map(|last| &self.log[last]) {
                durables[*index].apply(operation);
            }
            if point % stride != first {
                continue;
            }
            count.points += 1;
            let losses = self.losses(point as u64);
            let turn = (count.points as usize) % losses.len();
            for loss in losses.iter().enumerate().filter(|(nth, _)| all || *nth == turn).map(|(_, loss)| *loss) {
                // A missing disk may come back: a start is refused as long as no revision is whole with the copies.
                let is_disk = self.shape.kind == LevelKind::Disk && matches!(loss, Lost::Node(_) | Lost::Rack(_));
                if is_disk && self.floor(point, loss).is_none() {
                    continue;
                }
                count.cases += 1;
                let told =
                    |why| format!("{:?}, after {point} of {} operations, {loss:?}: {why}", self.shape, self.log.len());
                self.recover(&durables, point, loss).map_err(told)?;
            }
        }
        Ok(count)
    }

    fn losses(&self, point: u64) -> Vec<Lost> {
        let nodes = (0..self.shape.nodes()).map(Lost::Node);
        let racks = (0..self.shape.racks.len()).map(Lost::Rack);
        let mut losses: Vec<Lost> = [Lost::Nothing].into_iter().chain(nodes).chain(racks).collect();
        match self.shape.kind {
            LevelKind::Memory => losses.push(Lost::AllNodes),
            _ => losses.push(Lost::Power(point)),
        }
        losses
    }

    /// The oldest mark that a restore may return.
    fn floor(&self, point: usize, lost: Lost) -> Option<Mark> {
        let known = self.acknowledged.iter().filter(|(at, _)| *at <= point).map(|(_, mark)| *mark).max()?;
        if lost != Lost::AllNodes {
            return Some(known);
        }
        let on_pfs = known.step / PFS_EVERY * PFS_EVERY;
        (on_pfs > 0).then_some(Mark { run: if on_pfs > 4 { 2 } else { 1 }, step: on_pfs })
    }

    /// The media as the next job finds them.
    fn left(&self, durables: &[Durable], lost: Lost) -> Vec<Medium> {
        let node_of = |index: usize| (index < self.shape.pfs()).then_some(index / self.shape.copies);
        let medium = |(index, durable): (usize, &Durable)| match (lost, node_of(index)) {
            (Lost::Node(node), Some(of)) if node == of => Medium::new(true),
            (Lost::Rack(rack), Some(of)) if self.shape.racks[rack].contains(&of) => Medium::new(true),
            (Lost::AllNodes, Some(_)) => Medium::new(true),
            // The node's caches are lost with it.
            (Lost::Node(_) | Lost::Rack(_) | Lost::AllNodes, None) => {
                Medium::resume(Durable::of(durable.image(Loss::Everything)), true)
            }
            (Lost::Power(seed), _) => Medium::resume(Durable::of(durable.image(Loss::Seeded(seed))), true),
            _ => Medium::resume(durable.clone(), true),
        };
        durables.iter().enumerate().map(medium).collect()
    }

    /// A job restores the acknowledged mark or a newer one, the same on all ranks, and saves one more. Then another
    /// node is lost: the new revision comes back.
    fn recover(&self, durables: &[Durable], point: usize, lost: Lost) -> Checked<()> {
        let (shape, media, floor) = (self.shape, self.left(durables, lost), self.floor(point, lost));
        let next = Mark { run: 100, step: 1 };
        let found = Mutex::new(BTreeSet::new());
        let end = Barrier::new(shape.seats.len());
        job(shape, &media, |_, mut program, mut session| {
            let mark = program.restore(&mut session)?;
            found.lock().unwrap().insert(mark);
            program.fill(&mut session, next, BYTES + 2000)?;
            session.checkpoint()?;
            session.wait()?;
            end.wait();
            Ok(())
        })?;
        let found: Vec<Option<Mark>> = found.into_inner().unwrap().into_iter().collect();
        if found.len() != 1 || found[0] < floor {
            return Err(format!("{found:?} was restored, {floor:?} had been acknowledged"));
        }
        let other = point % shape.nodes();
        let again: Vec<Medium> = media
            .iter()
            .enumerate()
            .map(|(index, medium)| match index / shape.copies == other && index < shape.pfs() {
                true => Medium::new(true),
                false => medium.end_processes(),
            })
            .collect();
        // A copy on disks may lag. The revision that was restored before stays available for the same time.
        let lagging = if shape.kind == LevelKind::Disk { found[0] } else { None };
        let came = Mutex::new(BTreeSet::new());
        let ended = job(shape, &again, |_, mut program, mut session| {
            let mark = program.restore(&mut session)?;
            came.lock().unwrap().insert(mark);
            if mark.is_some() && mark == lagging { Ok(()) } else { expect(Ok(mark), next) }
        });
        ended.map_err(|why| format!("then without node {other}: {why}"))?;
        let came = came.into_inner().unwrap();
        if came.len() == 1 { Ok(()) } else { Err(format!("then without node {other}: {came:?} was restored")) }
    }
}

fn job(
    shape: Shape,
    media: &[Medium],
    work: impl Fn(usize, Program, Session) -> Result<(), Trouble> + Sync,
) -> Checked<()> {
    job_by(shape, media, None, work)
}

/// `gate` is the gate for the devices of copies.
fn job_by(
    shape: Shape,
    media: &[Medium],
    gate: Option<&Arc<Gate>>,
    work: impl Fn(usize, Program, Session) -> Result<(), Trouble> + Sync,
) -> Checked<()> {
    let run = |group: Box<dyn Group>| -> Result<(), Trouble> {
        let rank = group.rank();
        (shape.on_node)(shape.seats[rank]);
        let device = |index: usize| -> Arc<dyn Device> { Arc::new(Faulty(media[index].view())) };
        let of_copy = |index: usize| -> Arc<dyn Device> {
            let medium = &media[index];
            Arc::new(Faulty(gate.map_or_else(|| medium.view(), |gate| medium.gated_view(gate))))
        };
        let plan =
            |kind, device, every, keep, copies| LevelPlan { kind, device, every, keep, copies, former: Vec::new() };
        let node = shape.seats[rank];
        let copies = (1..shape.copies).map(|copy| of_copy(shape.medium(node, copy))).collect();
        let plans = vec![
            plan(shape.kind, device(shape.medium(node, 0)), 1, shape.keep, copies),
            plan(LevelKind::Pfs, device(shape.pfs()), PFS_EVERY as u32, 1, Vec::new()),
        ];
        let config = Config {
            pool_bytes: Some(128 << 10),
            chunk_bytes: Some(16 << 10),
            io_threads: 1,
            start: Start::Fresh,
            memory_after: MemoryAfter::Kept,
            exchange: shape.exchange,
            capture: capture_of(shape.seats.len() + shape.copies + shape.keep as usize),
            compress: compress_of(shape.seats.len()),
            ..Config::default()
        };
        let mut session = Session::open_levels(group, plans, config)?;
        let mut program = Program::new(rank);
        program.protect(&mut session)?;
        work(rank, program, session)
    };
    let ended: Vec<Result<(), Trouble>> = bounded("a job on several nodes", || {
        thread::scope(|scope| {
            let run = &run;
            let groups = ThreadGroup::new(shape.seats.len()).into_iter();
            let ranks: Vec<_> = groups.map(|group| scope.spawn(move || run(Box::new(group)))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    });
    ended.into_iter().collect::<Result<(), Trouble>>().map_err(Trouble::why)
}
