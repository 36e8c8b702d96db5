//! A program with regions. All its bytes depend on the run and the step, so that a mixture of two states shows.

mod memory;
mod outside;

use crate::{
    lock::sleep,
    mark::Mark,
    plan::Calls,
    workload::{Restoring, Workload},
};
use mainstay_engine::{
    Error, ErrorKind, Region, Session,
    space::format::{ElementType, PlaceInWhole},
};
use memory::{Memory, PAGE};
use std::{ops::Range, time::Duration};

const MARK_BYTES: usize = 16;
const SMALL_BYTES: usize = 1000;

/// The division of the state among the ranks.
#[derive(Debug, Clone, Copy)]
enum Division {
    /// Each rank has its own.
    Own { rank: usize },
    /// Each rank has some rows of one global array.
    Global { rank: usize, ranks: usize },
}

/// The protected memory of one rank: two small regions that share a block, and a large one with a changing size.
pub struct Program {
    division: Division,
    /// How the large region is saved.
    calls: Calls,
    /// Bytes of the large region, of all ranks if it is global.
    bytes: usize,
    mark: Memory,
    small: Memory,
    bulk: Memory,
}

/// Bytes of a piece that is written to a stream.
const PIECE: usize = 10_000;
/// Bytes of a row of the global array.
const ROW: usize = 100;
/// The global array has one size, as a restore needs.
const GLOBAL_BYTES: usize = 400 * ROW;
const NAMES: [&str; 3] = ["mark", "bulk", "small"];

impl Program {
    /// A program in which each rank has a state of its own.
    pub fn own(rank: usize, calls: Calls) -> Program {
        Program { calls, ..Program::with(Division::Own { rank }, 5000) }
    }

    /// A program that divides one global array among its ranks.
    pub fn global(rank: usize, ranks: usize) -> Program {
        Program::with(Division::Global { rank, ranks }, GLOBAL_BYTES)
    }

    fn with(division: Division, bytes: usize) -> Program {
        let (mark, small) = (Memory::new(MARK_BYTES, 16), Memory::new(SMALL_BYTES, 32));
        let calls = Calls::Regions;
        let mut program = Program { division, calls, bytes, mark, small, bulk: Memory::new(0, 0) };
        program.make_bulk();
        program
    }

    fn make_bulk(&mut self) {
        let bytes = self.share().len();
        // The region has pages of its own, or begins within a page.
        self.bulk = Memory::new(bytes, if bytes.is_multiple_of(2) { 0 } else { bytes });
    }

    /// The bytes of the large region that this rank has.
    fn share(&self) -> Range<usize> {
        match self.division {
            Division::Own { .. } => 0..self.bytes,
            Division::Global { rank, ranks } => {
                let at = |rank: usize| (self.bytes / ROW * rank / ranks) * ROW;
                at(rank)..at(rank + 1)
            }
        }
    }

    /// Whether the region is protected, not handed over at each save.
    fn protects(&self, name: &str) -> bool {
        name != "bulk" || self.calls == Calls::Regions
    }

    fn resize(&mut self, session: &mut Session, bytes: usize) -> Result<(), Error> {
        NAMES.into_iter().filter(|name| self.protects(name)).try_for_each(|name| session.unprotect(name))?;
        self.bytes = bytes;
        self.make_bulk();
        self.protect(session)
    }

    /// Gets the large region of the restored revision, unless it is protected.
    fn fetch(&mut self, session: &mut Session, revision: u64) -> Result<(), Error> {
        match self.calls {
            Calls::Regions => {}
            Calls::Buffer => {
                let bytes = session.get_bytes(Some(revision), "bulk")?.unwrap_or_default();
                self.resize(session, bytes as usize)?;
                session.get(Some(revision), "bulk", &mut self.bulk)?;
            }
            Calls::Pieces => {
                let bytes = session.stream_bytes("bulk")?;
                self.resize(session, bytes as usize)?;
                session.read("bulk", 0, &mut self.bulk)?;
            }
        }
        Ok(())
    }

    /// The mark of the state, to which all its bytes must belong.
    fn check(&self) -> Result<Mark, String> {
        let word = |at: usize| self.mark[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mark = Mark { run: word(0), step: word(8) };
        let (small, bulk) = self.contents(mark);
        if small != *self.small || bulk != *self.bulk {
            return Err(format!("{:?} has a mixture of states, in part {mark:?}", self.division));
        }
        Ok(mark)
    }

    /// The values of `mark`. Every third block of the large region stays the same for some steps, or is zero, as in a
    /// state that changes in part.
    fn contents(&self, mark: Mark) -> (Vec<u8>, Vec<u8>) {
        let of = match self.division {
            Division::Own { rank } => rank as u64,
            Division::Global { .. } => 99,
        };
        let share = self.share();
        let mut random = fastrand::Rng::with_seed((mark.run << 40) ^ (mark.step << 8) ^ of);
        let (mut small, mut all) = (vec![0; SMALL_BYTES], vec![0; self.bytes]);
        random.fill(&mut small);
        for (block, bytes) in all.chunks_mut(PAGE).enumerate() {
            match block % 6 {
                5 => bytes.fill(0),
                2 => fastrand::Rng::with_seed(((mark.step / 3) << 24) ^ ((block as u64) << 8) ^ of).fill(bytes),
                _ => random.fill(bytes),
            }
        }
        (small, all[share].to_vec())
    }
}

impl Workload for Program {
    fn protect(&mut self, session: &mut Session) -> Result<(), Error> {
        let share = self.share();
        // SAFETY: the memory stays until it is unprotected, or the session is gone.
        #[allow(unsafe_code)]
        let regions = unsafe {
            let whole = |name, memory: &mut Memory| Region::new(name, memory.as_mut_ptr(), memory.len() as u64);
            let bulk = match self.division {
                Division::Own { .. } => whole("bulk", &mut self.bulk),
                Division::Global { .. } => {
                    let shape = [(share.len() / ROW) as u64, ROW as u64];
                    let global_shape = vec![(self.bytes / ROW) as u64, ROW as u64];
                    let place = PlaceInWhole { global_shape, offset: vec![(share.start / ROW) as u64, 0] };
                    Region::placed("bulk", self.bulk.as_mut_ptr(), ElementType::U8, &shape, place)
                }
            };
            [whole("mark", &mut self.mark), bulk, whole("small", &mut self.small)]
        };
        for (_, region) in NAMES.into_iter().zip(regions).filter(|(name, _)| self.protects(name)) {
            session.protect(region?)?;
        }
        match self.division {
            Division::Own { .. } => Ok(()),
            Division::Global { .. } => {
                ["mark", "small"].into_iter().try_for_each(|name| session.same_on_all_ranks(name))
            }
        }
    }

    fn goes_on(&mut self, session: &mut Session, rank: usize, ranks: usize) -> Result<(), Error> {
        if let Division::Global { .. } = self.division {
            NAMES.into_iter().try_for_each(|name| session.unprotect(name))?;
            self.division = Division::Global { rank, ranks };
            self.make_bulk();
            self.protect(session)?;
        }
        Ok(())
    }

    /// The large region has `bytes` if each rank has its own.
    fn fill(&mut self, session: &mut Session, mark: Mark, bytes: usize) -> Result<(), Error> {
        if bytes != self.bytes && matches!(self.division, Division::Own { .. }) {
            self.resize(session, bytes)?;
        }
        self.mark[..8].copy_from_slice(&mark.run.to_le_bytes());
        self.mark[8..].copy_from_slice(&mark.step.to_le_bytes());
        let (small, bulk) = self.contents(mark);
        self.small.copy_from_slice(&small);
        self.bulk.copy_from_slice(&bulk);
        Ok(())
    }

    /// A part of the state comes at the last moment, although the program has said that all is settled.
    fn dawdle(&mut self, session: &mut Session, mark: Mark, ticks: u32) -> Result<(), Error> {
        let late = 0..self.bulk.len() / 3;
        self.bulk[late.clone()].fill(0xee);
        if self.calls == Calls::Regions {
            session.settled("bulk", 0, self.bulk.len() as u64)?;
        }
        for _ in 0..ticks {
            session.tick()?;
            sleep(Duration::from_millis(50));
        }
        let (_, bulk) = self.contents(mark);
        self.bulk[late.clone()].copy_from_slice(&bulk[late]);
        Ok(())
    }

    fn save(&mut self, session: &mut Session) -> Result<u64, Error> {
        match self.calls {
            Calls::Regions => session.checkpoint(),
            Calls::Buffer => session.put("bulk", &self.bulk),
            Calls::Pieces => {
                session.begin(self.bulk.len() as u64)?;
                for (index, piece) in self.bulk.chunks(PIECE).enumerate().rev() {
                    // The checkpoint returns an error of a piece, too.
                    let _ = session.write("bulk", (index * PIECE) as u64, piece);
                }
                session.checkpoint()
            }
        }
    }

    /// Restores a state of any size.
    fn restore(&mut self, session: &mut Session, _run: u64) -> Result<Option<Mark>, Restoring> {
        loop {
            match session.restore() {
                Ok(None) => return Ok(None),
                Ok(Some(restored)) => {
                    self.fetch(session, restored.revision).map_err(Restoring::Refused)?;
                    break;
                }
                Err(Error::RegionChanged { saved, .. }) => {
                    let bytes = saved.split(' ').next().and_then(|number| number.parse().ok());
                    let bytes = bytes.ok_or_else(|| Restoring::Wrong(format!("no size in {saved:?}")))?;
                    self.resize(session, bytes).map_err(Restoring::Refused)?;
                }
                // The size of another rank is wrong: try again once it has changed.
                Err(error) if error.kind() == ErrorKind::RegionChanged => {}
                Err(error) => return Err(Restoring::Refused(error)),
            }
        }
        self.check().map(Some).map_err(Restoring::Wrong)
    }
}
