//! A program with its run and step in its state, so that a mixture shows.

use mainstay_engine::{Error, ErrorKind, Region, Session};

/// Newer marks are greater: a run is the time between two openings or rewinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub run: u64,
    pub step: u64,
}

/// The protected memory of one rank: two small regions that share a block, and a large one with a changing size.
pub struct Program {
    rank: usize,
    mark: Box<[u64; 2]>,
    small: Box<[u8; 1000]>,
    bulk: Vec<u8>,
    /// The large one is no region, and is written in pieces.
    in_pieces: bool,
}

impl Program {
    pub fn new(rank: usize) -> Program {
        Program { rank, mark: Box::new([0; 2]), small: Box::new([0; 1000]), bulk: vec![0; 5000], in_pieces: false }
    }

    /// The same program, with a large region that is written in pieces.
    pub fn in_pieces(self, in_pieces: bool) -> Program {
        Program { in_pieces, ..self }
    }

    /// Saves the state; returns the number of the revision.
    pub fn save(&self, session: &mut Session) -> Result<u64, Error> {
        if self.in_pieces {
            session.begin(self.bytes())?;
            for (index, piece) in self.bulk.chunks(9001).enumerate() {
                session.write("bulk", index as u64 * 9001, piece)?;
            }
        }
        session.checkpoint()
    }

    #[allow(unsafe_code)]
    pub fn protect(&mut self, session: &mut Session) -> Result<(), Error> {
        // SAFETY: the regions are on the heap, and the tests keep the program as long as the session. `resize`
        // unprotects before it frees.
        let regions = unsafe {
            [
                Region::new("mark", self.mark.as_mut_ptr().cast(), 16),
                Region::new("bulk", self.bulk.as_mut_ptr(), self.bulk.len() as u64),
                Region::new("small", self.small.as_mut_ptr(), self.small.len() as u64),
            ]
        };
        let [mark, bulk, small] = regions;
        let bulk = (!self.in_pieces).then_some(bulk);
        [Some(mark), bulk, Some(small)].into_iter().flatten().try_for_each(|region| session.protect(region?))
    }

    fn resize(&mut self, session: &mut Session, bytes: usize) -> Result<(), Error> {
        for name in ["mark", "bulk", "small"].into_iter().filter(|name| !self.in_pieces || *name != "bulk") {
            session.unprotect(name)?;
        }
        self.bulk = vec![0; bytes];
        self.protect(session)
    }

    /// Fills the state with the values of `mark`, with a large region of `bytes`.
    pub fn fill(&mut self, session: &mut Session, mark: Mark, bytes: usize) -> Result<(), Error> {
        self.resize(session, bytes)?;
        *self.mark = [mark.run, mark.step];
        // In place: the session knows the address.
        contents(self.rank, mark, &mut *self.small, &mut self.bulk);
        Ok(())
    }

    /// Bytes of the large region.
    pub fn bytes(&self) -> u64 {
        self.bulk.len() as u64
    }

    /// Changes every fifth block of the large region, in place. A second call restores the old contents.
    pub fn toggle(&mut self) {
        self.bulk.chunks_mut(4096).step_by(5).for_each(|block| block[0] ^= 0xff);
    }

    /// Restores any size, and checks that all bytes belong to one mark.
    pub fn restore(&mut self, session: &mut Session) -> Result<Option<Mark>, Restoring> {
        match self.restore_and_tell(session)? {
            Some((_, skipped)) if skipped.iter().any(|what| !is_harmless(what)) => {
                Err(Restoring::Wrong(format!("damage was passed over: {skipped:?}")))
            }
            came => Ok(came.map(|(mark, _)| mark)),
        }
    }

    /// The same if there may be damage. Also returns the reports of skipped revisions.
    pub fn restore_and_tell(&mut self, session: &mut Session) -> Result<Option<(Mark, Vec<String>)>, Restoring> {
        let skipped = loop {
            match session.restore() {
                Ok(None) => return Ok(None),
                Ok(Some(restored)) => {
                    if self.in_pieces {
                        self.bulk = vec![0; session.stream_bytes("bulk").map_err(Restoring::Refused)? as usize];
                        session.read("bulk", 0, &mut self.bulk).map_err(Restoring::Refused)?;
                    }
                    break restored.skipped;
                }
                Err(Error::RegionChanged { saved, .. }) => {
                    let bytes = saved.split(' ').next().and_then(|number| number.parse().ok());
                    let bytes = bytes.ok_or_else(|| Restoring::Wrong(format!("no size in {saved:?}")))?;
                    self.resize(session, bytes).map_err(Restoring::Refused)?;
                }
                // Another rank has to change its size.
                Err(error) if error.kind() == ErrorKind::RegionChanged => {}
                Err(error) => return Err(Restoring::Refused(error)),
            }
        };
        let mark = Mark { run: self.mark[0], step: self.mark[1] };
        let (mut small, mut bulk) = ([0; 1000], vec![0; self.bulk.len()]);
        contents(self.rank, mark, &mut small, &mut bulk);
        if small != *self.small || bulk != self.bulk {
            return Err(Restoring::Wrong(format!("rank {} got a mixture, in part of {mark:?}", self.rank)));
        }
        Ok(Some((mark, skipped)))
    }
}

/// Every third block of the large region stays the same for some steps, or is zero, as in a state that changes in part.
fn contents(rank: usize, mark: Mark, small: &mut [u8], bulk: &mut [u8]) {
    let mut random = fastrand::Rng::with_seed((mark.run << 40) ^ (mark.step << 8) ^ rank as u64);
    random.fill(small);
    for (block, bytes) in bulk.chunks_mut(4096).enumerate() {
        match block % 6 {
            5 => bytes.fill(0),
            2 => fastrand::Rng::with_seed(((mark.step / 3) << 24) ^ ((block as u64) << 8) ^ rank as u64).fill(bytes),
            _ => random.fill(bytes),
        }
    }
}

/// The errors of a restore.
#[derive(Debug)]
pub enum Restoring {
    Refused(Error),
    Wrong(String),
}

/// Reports without damage: a slot that a crash cut short, and a revision that was lost with its node.
fn is_harmless(what: &str) -> bool {
    what.contains("slot") || what.contains("went with the nodes")
}
