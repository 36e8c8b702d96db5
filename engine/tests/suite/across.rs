//! A revision comes back even if no level has all its shards, as long as the levels have them together: each shard from
//! the nearest level that has it whole, on the same or another number of ranks; and it stays until a newer one is
//! complete.

use crate::support::{
    bounded,
    faulty::{Faulty, Loss, Medium, View},
    often,
    program::{Mark, Program},
    recording::{Checked, Trouble},
    spread::Spread,
    ways::{capture_of, compress_of},
    whole,
};
use mainstay_engine::{
    Config, LevelKind, LevelPlan, MemoryAfter, Session, Start,
    device::{Access, Device},
    group::{Group, ThreadGroup},
};
use std::{
    sync::{Arc, Barrier, Mutex},
    thread,
};

const BYTES: usize = 30_000;
const KINDS: [LevelKind; 3] = [LevelKind::Memory, LevelKind::Disk, LevelKind::Pfs];

/// Nodes with memory and a disk each, and a space that all nodes see.
#[derive(Clone)]
struct Nodes {
    /// The memory and the disk of each node.
    own: Vec<[Medium; 2]>,
    pfs: Medium,
    /// Each level takes every so many revisions; 0: it takes none.
    every: [u32; 3],
    keep: [u32; 3],
    /// The node of each rank.
    seats: Vec<usize>,
    calls: Calls,
}

/// The calls by which a program saves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    Checkpoint,
    /// `begin`, then `checkpoint`; nothing is written in pieces.
    Two,
    /// `begin`, the large data in pieces, then `checkpoint`.
    InPieces,
}

impl Nodes {
    /// Puts each rank on a node of its own.
    fn new(ranks: usize, every: [u32; 3]) -> Nodes {
        let own = (0..ranks).map(|_| [Medium::new(true), Medium::new(true)]).collect();
        let (keep, seats, calls) = ([1; 3], (0..ranks).collect(), Calls::Checkpoint);
        Nodes { own, pfs: Medium::new(true), every, keep, seats, calls }
    }

    fn views(&self) -> Vec<[Arc<View>; 3]> {
        let of = |seat: &usize| [self.own[*seat][0].view(), self.own[*seat][1].view(), self.pfs.view()];
        self.seats.iter().map(of).collect()
    }

    fn sessions(
        &self,
        views: &[[Arc<View>; 3]],
        work: impl Fn(usize, Session) -> Result<(), Trouble> + Sync,
    ) -> Checked<()> {
        let run = |group: Box<dyn Group>| -> Result<(), Trouble> {
            let rank = group.rank();
            let plan = |level: usize| LevelPlan {
                kind: KINDS[level],
                device: Arc::new(Faulty(views[rank][level].clone())),
                every: self.every[level],
                keep: self.keep[level],
                copies: Vec::new(),
                former: Vec::new(),
            };
            let config = Config {
                pool_bytes: Some(128 << 10),
                chunk_bytes: Some(16 << 10),
                io_threads: 1,
                start: Start::Fresh,
                memory_after: MemoryAfter::Kept,
                capture: capture_of(self.own.len() + self.keep[0] as usize),
                compress: compress_of(self.own.len()),
                ..Config::default()
            };
            work(rank, Session::open_levels(group, (0..3).map(plan).collect(), config)?)
        };
        let ended: Vec<Result<(), Trouble>> = bounded("a job on several nodes and levels", || {
            thread::scope(|scope| {
                let run = &run;
                let groups = ThreadGroup::new(self.seats.len()).into_iter();
                let ranks: Vec<_> = groups.map(|group| scope.spawn(move || run(Box::new(group)))).collect();
                ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
            })
        });
        ended.into_iter().collect::<Result<(), Trouble>>().map_err(Trouble::why)
    }

    fn job(
        &self,
        views: &[[Arc<View>; 3]],
        work: impl Fn(Program, Session) -> Result<(), Trouble> + Sync,
    ) -> Checked<()> {
        self.sessions(views, |rank, mut session| {
            let mut program = Program::new(rank).in_pieces(self.calls == Calls::InPieces);
            program.protect(&mut session)?;
            work(program, session)
        })
    }

    /// Restores, then saves `steps` and waits for each. All ranks end at once. Returns the numbers of the revisions.
    fn save(&self, run: u64, steps: std::ops::RangeInclusive<u64>) -> Checked<Vec<u64>> {
        let (end, numbers) = (Barrier::new(self.seats.len()), Mutex::new(Vec::new()));
        self.job(&self.views(), |mut program, mut session| {
            program.restore_and_tell(&mut session).map_err(Trouble::from)?;
            let mut mine = Vec::new();
            for step in steps.clone() {
                // All steps have one size. A restore of an unreadable revision has already changed regions when
                // Mainstay tries the next revision.
                program.fill(&mut session, Mark { run, step }, BYTES)?;
                if self.calls == Calls::Two {
                    session.begin(0)?;
                }
                mine.push(program.save(&mut session)?);
                session.wait()?;
            }
            *numbers.lock().unwrap() = mine;
            end.wait();
            Ok(())
        })?;
        Ok(numbers.into_inner().unwrap())
    }

    /// Returns the restored step, equal on all ranks, and the reports of the restore. The ranks make missing shards
    /// again before they end.
    fn restored(&self) -> Checked<(Option<u64>, Vec<String>)> {
        let found = Mutex::new(Vec::new());
        let end = Barrier::new(self.seats.len());
        self.job(&self.views(), |mut program, mut session| {
            let came = program.restore_and_tell(&mut session).map_err(Trouble::from)?;
            session.wait()?;
            let (mark, told) = came.map_or((None, Vec::new()), |(mark, told)| (Some(mark.step), told));
            found.lock().unwrap().push((mark, told));
            end.wait();
            Ok(())
        })?;
        let mut found = found.into_inner().unwrap();
        assert!(found.iter().all(|(step, _)| *step == found[0].0), "the ranks restored {found:?}");
        Ok(found.swap_remove(0))
    }

    /// The nodes after all processes have ended. The levels in `lost`, pairs of node and level, are empty.
    fn after(&self, lost: &[(usize, usize)]) -> Nodes {
        let left = |node: usize, level: usize| match lost.contains(&(node, level)) {
            true => Medium::new(true),
            false => self.own[node][level].end_processes(),
        };
        let own = (0..self.own.len()).map(|node| [left(node, 0), left(node, 1)]).collect();
        Nodes { own, pfs: self.pfs.end_processes(), ..self.clone() }
    }
}

/// Changes the data of every portion and leaves the slots. With `all` it changes the manifests and catalogues, too.
fn damage(medium: &Medium, all: bool) {
    let (files, device) = (medium.files(), Faulty(medium.view()));
    for layout in whole::layouts(&files).unwrap() {
        let name = files.names.iter().find(|(_, file)| **file == layout.file).unwrap().0;
        let file = device.open(name, Access::Write, None).unwrap();
        for place in &layout.header.portions {
            // Manifests and catalogues are at the end of a portion.
            let bytes = if all { place.bytes } else { place.bytes * 3 / 4 };
            for at in (place.at + (1 << 17)..place.at + bytes).step_by(4096) {
                file.write_at(&[0xa5; 4096], at).unwrap();
            }
        }
        file.sync().unwrap();
    }
}

#[test]
fn shards_that_are_lost_on_one_level_come_from_another_and_are_made_again() {
    for keep in [1, 2] {
        let nodes = Nodes { keep: [keep; 3], ..Nodes::new(3, [1, 1, 0]) };
        nodes.save(1, 1..=4).unwrap();
        for lost in [vec![(0, 0), (1, 1)], vec![(0, 0), (1, 0), (2, 1)], vec![(2, 0), (0, 1), (1, 1)]] {
            let left = nodes.after(&lost);
            let (step, told) = left.restored().unwrap();
            assert_eq!(step, Some(4), "without {lost:?}: {told:?}");
            // The restore has put all shards back into memory: the job does without its disks.
            let left = left.after(&[(0, 1), (1, 1), (2, 1)]);
            assert_eq!(left.restored().unwrap().0, Some(4), "then without disks, after {lost:?}");
            let left = left.after(&[]);
            left.save(2, 5..=6).unwrap();
            assert_eq!(left.after(&[]).restored().unwrap().0, Some(6), "after {lost:?}");
        }
    }
}

#[test]
fn shards_that_are_damaged_on_one_level_are_read_from_another_and_told() {
    for keep in [1, 2] {
        let nodes = Nodes { keep: [keep; 3], ..Nodes::new(2, [1, 1, 3]) };
        nodes.save(1, 1..=4).unwrap();
        for (memory, disk) in [(0, 1), (1, 0)] {
            let left = nodes.after(&[]);
            damage(&left.own[memory][0], false);
            damage(&left.own[disk][1], false);
            for _ in 0..2 {
                let (step, told) = left.after(&[]).restored().unwrap();
                assert_eq!(step, Some(4), "{told:?}");
                assert!(told.iter().any(|what| what.contains(&format!("shard {memory}"))), "{told:?}");
            }
            let left = left.after(&[]);
            left.save(2, 5..=5).unwrap();
            let left = left.after(&[(0, 1), (1, 1)]);
            assert_eq!(left.restored().unwrap().0, Some(5));
        }
    }
}

/// A damaged shard has blocks that have not changed since. A checkpoint must not share them, or the next revision would
/// be damaged, too. The test covers data that the program passes between `begin` and `checkpoint`, and all other data.
#[test]
fn what_is_compared_as_it_comes_is_written_whole_where_a_shard_was_damaged() {
    // With so many levels and revisions a checkpoint saves only the changes.
    for (keep, calls) in [1, 3].into_iter().flat_map(|keep| [Calls::Two, Calls::InPieces].map(|calls| (keep, calls))) {
        let nodes = Nodes { keep: [keep; 3], calls, ..Nodes::new(2, [1, 1, 0]) };
        nodes.save(1, 1..=4).unwrap();
        for (memory, disk) in [(0, 1), (1, 0)] {
            let left = nodes.after(&[]);
            damage(&left.own[memory][0], false);
            damage(&left.own[disk][1], false);
            let left = left.after(&[]);
            let saved = left.save(2, 5..=5);
            saved.unwrap_or_else(|why| panic!("keep {keep}, {calls:?}, memory of {memory}: {why}"));
            let (step, told) = left.after(&[(0, 1), (1, 1)]).restored().unwrap();
            assert_eq!(step, Some(5), "keep {keep}, {calls:?}, memory of {memory}: {told:?}");
        }
    }
}

/// A revision comes from two levels together. Neither level may remove its part until a newer revision is complete.
#[test]
fn what_came_from_two_levels_stays_until_the_next_is_complete() {
    for (keep, lost) in [(1, vec![(0, 0), (1, 1)]), (2, vec![(1, 0), (0, 1)])] {
        let nodes = Nodes { keep: [keep; 3], ..Nodes::new(2, [1, 1, 0]) };
        nodes.save(1, 1..=4).unwrap();
        for (victim, level) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for operation in (1..60).step_by(often(17, 7)) {
                let left = nodes.after(&lost);
                let views = left.views();
                let _ = left.job(&views, |mut program, mut session| {
                    program.restore(&mut session).map_err(Trouble::from)?;
                    views[victim][level].dies_in(operation);
                    for step in 5..=6 {
                        program.fill(&mut session, Mark { run: 2, step }, BYTES)?;
                        session.checkpoint()?;
                        session.wait()?;
                    }
                    Ok(())
                });
                let (step, told) = left.after(&[]).restored().unwrap();
                let case = format!("keep {keep}, rank {victim}, level {level}, operation {operation}");
                assert!(step >= Some(4), "{case}: {step:?} came back, {told:?}");
            }
        }
    }
}

/// Boxes, and each rank's own data, come back on other numbers of ranks. Half of the shards are on the disk of one
/// node, the others in the memory of the other.
#[test]
fn other_ranks_read_shards_of_several_levels() {
    const GLOBAL: [u64; 2] = [12, 3000];
    let mark = Mark { run: 1, step: 7 };
    let own = |rank: usize| -> Vec<u8> { (0..20_000 + 5000 * rank).map(|at| (at * (rank + 3) / 7) as u8).collect() };
    let nodes = |seats: &[usize]| Nodes { seats: seats.to_vec(), ..Nodes::new(2, [1, 1, 0]) };
    for lost in [[(0, 0), (1, 1)], [(1, 0), (0, 1)]] {
        let (boxes, streams) = (nodes(&[0, 0, 1, 1]), nodes(&[0, 0, 1, 1]));
        let saved = boxes.sessions(&boxes.views(), |rank, mut session| {
            let mut program = Spread::new(&GLOBAL, rank, 4);
            program.protect(&mut session)?;
            program.fill(mark);
            session.checkpoint()?;
            Ok(session.wait()?)
        });
        saved.unwrap();
        let saved = streams.sessions(&streams.views(), |rank, mut session| {
            session.begin(own(rank).len() as u64)?;
            session.write("particles", 0, &own(rank))?;
            session.checkpoint()?;
            Ok(session.wait()?)
        });
        saved.unwrap();
        for seats in [vec![0, 1], vec![1, 0, 1], vec![0, 1, 0, 1, 0, 1]] {
            let again = Nodes { seats: seats.clone(), ..boxes.after(&lost) };
            let restored = again.sessions(&again.views(), |rank, mut session| {
                let mut program = Spread::new(&GLOBAL, rank, seats.len());
                program.protect(&mut session)?;
                let came = program.restore(&mut session)?;
                assert_eq!(came.map(|mark| mark.step), Some(7), "on {seats:?} without {lost:?}");
                program.fill(Mark { run: 2, step: 8 });
                session.checkpoint()?;
                Ok(session.wait()?)
            });
            restored.unwrap_or_else(|why| panic!("boxes on {seats:?} without {lost:?}: {why}"));
            let again = Nodes { seats: seats.clone(), ..streams.after(&lost) };
            let read = again.sessions(&again.views(), |rank, mut session| {
                session.restore()?.expect("a revision");
                let wanted: Vec<u32> =
                    (0..4).filter(|shard| rank == 0 || *shard as usize % seats.len() == rank).collect();
                session.bring_shards(&wanted)?;
                for shard in wanted {
                    let expected = own(shard as usize);
                    let mut into = vec![0; expected.len()];
                    assert_eq!(session.shards()?.read(shard, "particles", 0, &mut into)?, expected.len());
                    assert!(into == expected, "shard {shard} on rank {rank} of {seats:?} without {lost:?}");
                }
                Ok(())
            });
            read.unwrap_or_else(|why| panic!("streams on {seats:?} without {lost:?}: {why}"));
        }
    }
}

/// Runs jobs that save and end, lose or damage levels of some nodes, restore, die in the next checkpoint, and restore
/// again. Each restore must bring the newest revision that the levels have together, or a newer one.
fn random_job(seed: u64) -> Checked<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let ranks = random.usize(2..=3);
    let mut nodes = Nodes::new(ranks, [1, random.u32(1..=2), random.u32(0..=3)]);
    nodes.keep = [random.u32(1..=2), 1, 1];
    let mut step = 0;
    for run in 1..=3 {
        let count = random.u64(1..=4);
        let numbers = nodes.save(2 * run, step + 1..=step + count)?;
        // The newest step of this job on each level.
        let newest = |level: usize| {
            let takes = |number: &u64| nodes.every[level] > 0 && number.is_multiple_of(u64::from(nodes.every[level]));
            numbers.iter().rposition(takes).map(|at| step + 1 + at as u64)
        };
        let newest = [0, 1, 2].map(newest);
        step += count;
        let all: Vec<(usize, usize)> = (0..ranks).flat_map(|node| [(node, 0), (node, 1)]).collect();
        let hurt: Vec<(usize, usize)> = all.into_iter().filter(|_| random.u8(0..3) == 0).collect();
        let (damaged, lost): (Vec<_>, Vec<_>) = hurt.iter().copied().partition(|_| random.bool());
        let is_whole = |step: u64| {
            let has = |node: usize, level: usize| newest[level] == Some(step) && !hurt.contains(&(node, level));
            newest[2] == Some(step) || (0..ranks).all(|node| has(node, 0) || has(node, 1))
        };
        let floor = newest.into_iter().flatten().filter(|step| is_whole(*step)).max();
        nodes = nodes.after(&lost);
        damaged.iter().for_each(|(node, level)| damage(&nodes.own[*node][*level], random.bool()));
        let told = format!("run {run}, {ranks} ranks, newest {newest:?}, lost {lost:?}, damaged {damaged:?}");
        // Once or twice: the first restore must change nothing.
        for _ in 0..random.u8(1..=2) {
            match nodes.restored() {
                Ok((came, skipped)) if came < floor => {
                    return Err(format!("{told}: {came:?} came back, and not {floor:?}; {skipped:?}"));
                }
                Ok(_) => {}
                // Mainstay may refuse the start if a missing disk may come back, or if all that is left is damaged.
                Err(why) if floor < newest[0].max(newest[1]) && why.contains("out of sight") => return Ok(()),
                Err(_) if floor.is_none() && !damaged.is_empty() => return Ok(()),
                Err(why) => return Err(format!("{told}, {floor:?} was there: {why}")),
            }
            nodes = nodes.after(&[]);
        }
        let views = nodes.views();
        views[random.usize(0..ranks)][random.usize(0..3)].dies_in(random.u64(1..150));
        let _ = nodes.job(&views, |mut program, mut session| {
            program.restore_and_tell(&mut session).map_err(Trouble::from)?;
            for step in step + 1..=step + 3 {
                program.fill(&mut session, Mark { run: 2 * run + 1, step }, BYTES)?;
                session.checkpoint()?;
                session.progress()?;
            }
            Ok(())
        });
        step += 3;
        nodes = nodes.after(&[]);
        if random.bool() {
            nodes.own.iter_mut().flatten().for_each(|medium| *medium = medium.lose_power(Loss::Everything));
            nodes.pfs = nodes.pfs.lose_power(Loss::Everything);
        }
        let (came, skipped) = nodes.restored().map_err(|why| format!("{told}, then killed: {why}"))?;
        if came < floor {
            return Err(format!("{told}, then killed: {came:?} came back, and not {floor:?}; {skipped:?}"));
        }
        nodes = nodes.after(&[]);
    }
    Ok(())
}

#[test]
fn random_losses_leave_what_the_levels_have_together() {
    for seed in 0..often(5, 60) {
        random_job(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
#[ignore = "long: make campaign"]
fn very_many_losses_leave_what_the_levels_have_together() {
    for seed in 1000..5000 {
        random_job(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
