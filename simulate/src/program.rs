//! The program of a simulated rank, as its job sees it; and one with regions of memory. Its run and step are in its state,
//! so that a mixture shows.

use crate::acts::Act;
use mainstay_engine::{
    Error, ErrorKind, Region, Session,
    space::format::{ElementType, PlaceInWhole},
};
use std::ops::{Deref, DerefMut, Range};

const PAGE: usize = 4096;
const MARK_BYTES: usize = 16;
const SMALL_BYTES: usize = 1000;

/// Newer marks are greater: a run is the time between two openings or rewinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub run: u64,
    pub step: u64,
}

/// The errors of a restore.
#[derive(Debug)]
pub enum Restoring {
    Refused(Error),
    Wrong(String),
}

/// The program of one rank.
pub trait Workload {
    fn protect(&mut self, session: &mut Session) -> Result<(), Error>;
    /// The job goes on after a recovery, with so many ranks.
    fn goes_on(&mut self, session: &mut Session, rank: usize, ranks: usize) -> Result<(), Error>;
    /// Fills the state with the values of `mark`, in about so many bytes.
    fn fill(&mut self, session: &mut Session, mark: Mark, bytes: usize) -> Result<(), Error>;
    fn checkpoint(&mut self, session: &mut Session) -> Result<u64, Error> {
        session.checkpoint()
    }
    /// Restores the state, and checks that all of it belongs to one mark. `run` begins with it.
    fn restore(&mut self, session: &mut Session, run: u64) -> Result<Option<Mark>, Restoring>;
    /// The program ends without a close.
    fn end(&mut self) {}
    /// Lets the objects act, if it has any.
    fn act(&mut self, _act: Act) -> Result<(), Restoring> {
        Ok(())
    }
}

/// Memory that lies in its page as the seed has it, as the engine treats whole pages in another way.
struct Memory {
    all: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize, offset: usize) -> Memory {
        let all = vec![0; bytes + 2 * PAGE];
        let from = all.as_ptr().align_offset(PAGE) + offset % PAGE;
        Memory { all, from, bytes }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.all[self.from..self.from + self.bytes]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.all[self.from..self.from + self.bytes]
    }
}

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
    /// Bytes of the large region, of all ranks if it is global.
    bytes: usize,
    mark: Memory,
    small: Memory,
    bulk: Memory,
}

/// Bytes of a row of the global array.
const ROW: usize = 100;
/// The global array has one size, as a restore needs.
const GLOBAL_BYTES: usize = 400 * ROW;
const NAMES: [&str; 3] = ["mark", "bulk", "small"];

impl Program {
    /// A program in which each rank has a state of its own.
    pub fn own(rank: usize) -> Program {
        Program::with(Division::Own { rank }, 5000)
    }

    /// A program that divides one global array among its ranks.
    pub fn global(rank: usize, ranks: usize) -> Program {
        Program::with(Division::Global { rank, ranks }, GLOBAL_BYTES)
    }

    fn with(division: Division, bytes: usize) -> Program {
        let (mark, small) = (Memory::new(MARK_BYTES, 16), Memory::new(SMALL_BYTES, 32));
        let mut program = Program { division, bytes, mark, small, bulk: Memory::new(0, 0) };
        program.make_bulk();
        program
    }

    fn make_bulk(&mut self) {
        let bytes = self.share().len();
        // Pages of its own, or somewhere.
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

    fn resize(&mut self, session: &mut Session, bytes: usize) -> Result<(), Error> {
        NAMES.into_iter().try_for_each(|name| session.unprotect(name))?;
        self.bytes = bytes;
        self.make_bulk();
        self.protect(session)
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
        regions.into_iter().try_for_each(|region| session.protect(region?))?;
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

    /// With a large region of `bytes` if each rank has its own.
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

    /// Restores any size.
    fn restore(&mut self, session: &mut Session, _run: u64) -> Result<Option<Mark>, Restoring> {
        loop {
            match session.restore() {
                Ok(None) => return Ok(None),
                Ok(Some(_)) => break,
                Err(Error::RegionChanged { saved, .. }) => {
                    let bytes = saved.split(' ').next().and_then(|number| number.parse().ok());
                    let bytes = bytes.ok_or_else(|| Restoring::Wrong(format!("no size in {saved:?}")))?;
                    self.resize(session, bytes).map_err(Restoring::Refused)?;
                }
                // Another rank has to change its size.
                Err(error) if error.kind() == ErrorKind::RegionChanged => {}
                Err(error) => return Err(Restoring::Refused(error)),
            }
        }
        let word = |at: usize| self.mark[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mark = Mark { run: word(0), step: word(8) };
        let (small, bulk) = self.contents(mark);
        if small != *self.small || bulk != *self.bulk {
            return Err(Restoring::Wrong(format!("{:?} got a mixture, in part of {mark:?}", self.division)));
        }
        Ok(Some(mark))
    }
}
