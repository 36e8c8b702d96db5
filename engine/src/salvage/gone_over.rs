//! Ranks of killed jobs that have no data waiting in memory any more, as found by a salvage or by the start of another
//! job. The space keeps them in its file `salvaged`: the memory is freed by then, and a later command could not tell it
//! from another node's.
//!
//! Invariant: a rank is noted before its pool is removed, and never for a lineage under which it may stage again.

use crate::{
    device::hand_over,
    error::{Error, Result},
    ground::{
        change,
        files::{Open, put_in_place, read_within},
    },
    printable::printable_path,
    space::{SALVAGED_FILE, SALVAGED_UNFINISHED, format::Lineage},
};
use std::{fmt::Write as _, io, ops::RangeInclusive, path::Path};

/// Maximum number of bytes read from the file.
const BYTES_MAX: u64 = 1 << 20;

/// The ranks of killed jobs with records that were checked: no data of theirs waits any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoneOver(Vec<(Lineage, RangeInclusive<u32>)>);

impl GoneOver {
    pub(crate) fn add(&mut self, lineage: Lineage, ranks: &[u32]) {
        for rank in ranks {
            self.add_range(lineage, *rank..=*rank);
        }
    }

    fn add_range(&mut self, lineage: Lineage, ranks: RangeInclusive<u32>) {
        if self.has_all(lineage, &ranks) {
            return;
        }
        let neighbour = self
            .0
            .iter_mut()
            .find(|(other, there)| *other == lineage && there.end().checked_add(1) == Some(*ranks.start()));
        match neighbour {
            Some((_, there)) => *there = *there.start()..=*ranks.end(),
            None => self.0.push((lineage, ranks)),
        }
    }

    /// Adds those of `other`.
    pub fn and(mut self, other: GoneOver) -> GoneOver {
        other.0.into_iter().for_each(|(lineage, ranks)| self.add_range(lineage, ranks));
        self
    }

    pub(crate) fn has(&self, lineage: Lineage, rank: u32) -> bool {
        self.0.iter().any(|(other, ranks)| *other == lineage && ranks.contains(&rank))
    }

    /// The same for all of these. A range in a file may have any length, so this goes from range to range.
    fn has_all(&self, lineage: Lineage, ranks: &RangeInclusive<u32>) -> bool {
        let mut next = Some(*ranks.start());
        while let Some(rank) = next.filter(|rank| ranks.contains(rank)) {
            let its = self.0.iter().filter(|(other, there)| *other == lineage && there.contains(&rank));
            let Some(end) = its.map(|(_, there)| *there.end()).max() else { return false };
            next = end.checked_add(1);
        }
        true
    }

    /// Reads the note of the space in `directory`. A file with other contents counts as empty.
    pub(crate) fn of_space(directory: &Path) -> GoneOver {
        let read =
            read_within(&directory.join(SALVAGED_FILE), BYTES_MAX).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        read.map_or_else(GoneOver::default, |text| GoneOver(text.lines().map_while(parse).collect()))
    }

    /// Adds these `ranks` of `lineage` to the note of the space in `directory`.
    pub(crate) fn note_ranks(directory: &Path, lineage: Lineage, ranks: &[u32]) -> Result<()> {
        let mut gone_over = GoneOver::of_space(directory);
        gone_over.add(lineage, ranks);
        gone_over.note(directory)
    }

    /// Writes those of the newest lineage to the space in `directory`.
    fn note(&self, directory: &Path) -> Result<()> {
        let Some(newest) = self.0.iter().map(|(lineage, _)| lineage.number).max() else { return Ok(()) };
        let mut text = String::new();
        for (Lineage { number, id }, ranks) in self.0.iter().filter(|(lineage, _)| lineage.number == newest) {
            let id = u128::from_be_bytes(*id);
            let _ = writeln!(text, "{number} {id:032x} {} {}", ranks.start(), ranks.end());
        }
        let path = directory.join(SALVAGED_FILE);
        replace(directory, &path, &text).map_err(|e| Error::io("writing", printable_path(&path), e))
    }
}

/// A line: the lineage's number and id, the first rank and the last.
fn parse(line: &str) -> Option<(Lineage, RangeInclusive<u32>)> {
    let [number, id, first, last] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
    let id = u128::from_str_radix(id, 16).ok().filter(|_| id.len() == 32)?.to_be_bytes();
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    Some((Lineage { number: number.parse().ok()?, id }, first..=last))
}

fn replace(directory: &Path, path: &Path, text: &str) -> io::Result<()> {
    let unfinished = directory.join(SALVAGED_UNFINISHED);
    // A leftover of a crash.
    let _ = change::remove(&unfinished);
    let file = change::make(&unfinished, &Open::to_write().new_file())?;
    hand_over(&file, directory);
    change::write(&file, text.as_bytes())?;
    change::sync(&file)?;
    put_in_place(path, |path| change::rename(&unfinished, path))?;
    change::sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{device::Disk, space::clear_away};
    use std::fs;

    #[test]
    fn a_space_notes_the_ranks_of_the_newest_lineage() {
        let folder = tempfile::tempdir().unwrap();
        let of = |number| Lineage { number, id: [number as u8; 16] };
        let mut gone = GoneOver::default();
        gone.add(of(1), &[7]);
        gone.add(of(2), &[0, 1, 3]);
        gone.note(folder.path()).unwrap();
        let read = GoneOver::of_space(folder.path());
        assert!([0, 1, 3].iter().all(|rank| read.has(of(2), *rank)) && !read.has(of(2), 2) && !read.has(of(1), 7));
        assert_eq!(read.clone().and(gone).and(read.clone()).0.len(), 3);
        for odd in ["2 zz 0 1", "2 00 0 1", "x", "", "1 2 3 4 5"] {
            fs::write(folder.path().join(SALVAGED_FILE), odd).unwrap();
            assert_eq!(GoneOver::of_space(folder.path()), GoneOver::default(), "{odd}");
        }
    }

    /// Story: a salvage was killed while it wrote the note of a level in memory, and the file stayed there for ever.
    #[test]
    fn the_next_job_removes_a_note_that_was_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SALVAGED_UNFINISHED), "1 0").unwrap();
        clear_away(&Disk::existing(folder.path())).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
