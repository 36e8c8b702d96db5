//! Pointers into the program and its libraries, in memory that has the same address in every run.
//!
//! Pointers within such memory stay valid. A position-independent program is loaded elsewhere in each run. Pointers to
//! its functions, constants or classes are then invalid. Libraries are loaded elsewhere in each run of any program.
//! Invariant: nothing is changed.

use super::{
    globals::{NOTE_OF_PLACE, loaded},
    heap::is_of_heap,
    mappings,
    region::Region,
    regions::Regions,
    snapshot::has_same_address,
};
use crate::{error::Result, remark::Remark, space::format::Note};
use std::ops::Range;

static POINTERS: Remark = Remark::new();
const WORD: usize = 8;

/// Pointers in a region: their number, and the offset of the first.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    words: usize,
    first: usize,
}

/// The note of this program's place, saved with memory that has the same address in every run.
pub(crate) fn note_of_program() -> Note {
    let Range { start, end } = loaded();
    Note { name: NOTE_OF_PLACE.to_owned(), value: format!("{start:x}-{end:x}") }
}

/// An error if memory with the same address in every run has pointers into the program as it was loaded when these
/// `notes` were saved, and the program is loaded elsewhere now.
pub(crate) fn check_pointers(regions: &[Region], notes: &[Note]) -> Result<()> {
    let saved = notes.iter().find(|note| note.name == NOTE_OF_PLACE).and_then(|note| range_of(&note.value));
    let Some(saved) = saved.filter(|saved| *saved != loaded()) else { return Ok(()) };
    match in_regions(regions, |word| saved.contains(&word)) {
        None => Ok(()),
        Some((region, Found { words, first })) => Err(region.refused(format!(
            "{words} of its words, the first at byte {first}, point to functions or constants of this program, as in the \
             run that saved them; it is position-independent, and moves in each run: link it with -no-pie and begin \
             anew, or keep no such pointers there"
        ))),
    }
}

/// Warns the user, at the first checkpoint, of pointers that will be invalid in the next run of this program.
pub(crate) fn tell_of_pointers(rank: usize, regions: &Regions) {
    if regions.all().iter().any(stays) {
        POINTERS.make(rank, || pointers_to_tell(regions, &loaded()));
    }
}

fn pointers_to_tell(regions: &Regions, program: &Range<u64>) -> Option<String> {
    let moves = program.start >= MOVED_FROM;
    if let Some((region, Found { words, first })) = in_regions(regions.all(), |word| moves && program.contains(&word)) {
        return Some(format!(
            "{words} words of the region {:?}, the first at byte {first}, point to functions or constants of this program, which \
             is position-independent and moves in its next run: link it with -no-pie, or no restart can use them",
            region.description.name
        ));
    }
    let libraries: Vec<(Range<usize>, String)> =
        mappings::named().ok()?.into_iter().filter(|(_, file)| file.contains(".so")).collect();
    let library = |word: u64| {
        let after = libraries.partition_point(|(pages, _)| pages.end as u64 <= word);
        libraries.get(after).filter(|(pages, _)| pages.start as u64 <= word)
    };
    let (region, Found { words, first }) =
        in_regions(regions.all(), |word| word >= MOVED_FROM && library(word).is_some())?;
    Some(format!(
        "{words} words of the region {:?}, the first at byte {first}, point into shared libraries, which move in the next \
         run: set them again after a restore, or link those libraries into the program",
        region.description.name
    ))
}

/// The system loads position-independent programs above this address, and others far below.
const MOVED_FROM: u64 = 1 << 40;

fn range_of(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// The first region with pointers for which `points` is true, among the regions that have the same address in every
/// run.
fn in_regions(regions: &[Region], points: impl Fn(u64) -> bool) -> Option<(&Region, Found)> {
    let staying = regions.iter().filter(|region| stays(region));
    staying.filter_map(|region| Some((region, pointers_in(region.row()?, &points)?))).next()
}

/// Whether a region has the same address in every run, and its pointers need a look.
fn stays(region: &Region) -> bool {
    !region.is_self_contained() && (has_same_address(region.begins_at()) || is_of_heap(region))
}

/// The words of `memory` for which `points` is true.
fn pointers_in(memory: &[u8], points: impl Fn(u64) -> bool) -> Option<Found> {
    let before = memory.as_ptr().align_offset(WORD).min(memory.len());
    let words = memory[before..].chunks_exact(WORD).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let mut inside = words.enumerate().filter(|(_, word)| points(*word)).map(|(index, _)| before + index * WORD);
    let first = inside.next()?;
    Some(Found { words: 1 + inside.count(), first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_point_into_the_program_are_found() {
        let program = 0x5555_0000_0000..0x5555_0001_0000_u64;
        let points = |word| program.contains(&word);
        let words = [0, program.start, 7, program.end - 1, program.end, program.start - 1];
        let memory: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        let before = memory.as_ptr().align_offset(WORD);
        assert_eq!(before, 0, "an allocator gives words");
        assert_eq!(pointers_in(&memory, points), Some(Found { words: 2, first: 8 }));
        // A region may begin and end within a word.
        assert_eq!(pointers_in(&memory[9..], points), Some(Found { words: 1, first: 15 }));
        assert_eq!(pointers_in(&memory[..15], points), None);
        assert_eq!(pointers_in(&[], points), None);
    }

    /// Story: a program that is linked with -no-pie got no warning, although the guide says to set such pointers again.
    #[test]
    #[allow(unsafe_code)]
    fn pointers_into_libraries_are_told_of_wherever_the_program_lies() {
        let remark_on = |word: usize| {
            let mut words = [0, word, 1];
            let mut regions = Regions::default();
            // SAFETY: it is there as long as the regions.
            let region = unsafe { Region::new("heap/400000000000", words.as_mut_ptr().cast(), 24) };
            regions.add(region.unwrap()).unwrap();
            pointers_to_tell(&regions, &(0x40_0000..0x50_0000))
        };
        let line = remark_on(libc::puts as *const () as usize).unwrap();
        assert!(
            line.contains("1 words of the region \"heap/400000000000\", the first at byte 8, point into shared"),
            "{line}"
        );
        assert_eq!([remark_on(0x40_0010), remark_on(0), remark_on(usize::MAX)], [const { None }; 3]);
    }

    #[test]
    fn a_note_tells_where_the_program_lay() {
        let note = note_of_program();
        assert_eq!(range_of(&note.value), Some(loaded()));
        let here = words_that_point_into_the_program_are_found as *const () as usize as u64;
        assert!(loaded().contains(&here), "{:?}", loaded());
        assert_eq!(range_of("5-x"), None);
    }
}
