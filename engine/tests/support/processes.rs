//! Ranks that are processes: they meet in a directory, where each leaves a file for each collective.

use mainstay_engine::{Error, Result, group::Group};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// After this time, a missing rank counts as dead.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Meeting {
    rank: usize,
    size: usize,
    directory: PathBuf,
    met: Cell<u64>,
    /// Number of messages so far, by sender and receiver.
    letters: RefCell<BTreeMap<(usize, usize), u64>>,
}

impl Meeting {
    pub fn new(rank: usize, size: usize, directory: &Path) -> Meeting {
        Meeting { rank, size, directory: directory.into(), met: Cell::new(0), letters: RefCell::default() }
    }

    /// The name of the next message between the two.
    fn letter(&self, from: usize, to: usize) -> String {
        let mut letters = self.letters.borrow_mut();
        let nth = letters.entry((from, to)).or_default();
        *nth += 1;
        format!("letter-{from}-{to}-{nth}")
    }
}

/// Sends `what` to all ranks that await it.
pub fn say(directory: &Path, what: &str, bytes: &[u8]) {
    // The file is whole as soon as it has its name.
    let whole = directory.join(format!("{what}.whole"));
    fs::write(&whole, bytes).unwrap();
    fs::rename(whole, directory.join(what)).unwrap();
}

pub fn hear(directory: &Path, what: &str) -> Result<Vec<u8>> {
    let since = Instant::now();
    loop {
        match fs::read(directory.join(what)) {
            Ok(bytes) => return Ok(bytes),
            Err(_) if since.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(1)),
            Err(_) => return Err(Error::GroupFailed { what: format!("nobody said {what}") }),
        }
    }
}

impl Group for Meeting {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn ranks_here(&self) -> usize {
        self.size
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        let mine: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        for theirs in self.all_gather(&mine)? {
            for (value, theirs) in values.iter_mut().zip(theirs.as_chunks().0) {
                *value = u64::from_le_bytes(*theirs).max(*value);
            }
        }
        Ok(())
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let nth = self.met.get();
        self.met.set(nth + 1);
        say(&self.directory, &format!("{nth}-{}", self.rank), mine);
        (0..self.size).map(|rank| hear(&self.directory, &format!("{nth}-{rank}"))).collect()
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        *bytes = self.all_gather(bytes)?.swap_remove(root);
        Ok(())
    }
}
