//! The program's own variables, its .data and .bss, as regions by their names. C and Fortran programs keep their arrays
//! there.
//!
//! A fresh run of the same program has other addresses, and so have its session and its other regions. A table of these
//! addresses is saved beside the variables (`addresses`). After a restore, variables that hold a saved address get the
//! current one (`mend`).
//!
//! Invariant: only bytes of the program are touched. A pointer to a known place points to that place after a restore.

mod addresses;
mod image;
mod landmarks;
mod mend;
mod pieces;
mod symbols;

use super::{notes::Notes, ranges::Range, region::Region, regions::Regions};
use crate::{
    error::{Error, Result},
    space::format::Note,
};
use addresses::Addresses;
use image::Image;
#[cfg(feature = "fuzzing")]
pub(crate) use image::read_any;
pub use landmarks::Landmarks;
use pieces::{Piece, pieces};
use std::{collections::HashMap, ops};

/// The note that identifies the program of the variables.
const NOTE: &str = "globals/program";
/// The note of the program's place in memory.
pub(super) const NOTE_OF_PLACE: &str = "globals/loaded";

/// The program's variables, once they are protected, and the memory left out of them.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    left_out: Vec<Range>,
    found: Option<OwnVariables>,
}

#[derive(Debug)]
struct OwnVariables {
    image: Image,
    addresses: Addresses,
    pieces: Vec<Piece>,
    /// The addresses, by name, of regions that were taken out of the globals.
    taken_out: HashMap<String, u64>,
}

impl Globals {
    /// Leaves the variables at `address` out: a checkpoint does not save them, and a restore does not change them.
    pub(crate) fn leave_out(&mut self, address: usize, bytes: u64) -> Result<()> {
        if self.found.is_some() {
            let why = "the globals are protected already; leave memory out before that";
            return Err(Error::argument("leave_out", why));
        }
        let end = (address as u64).checked_add(bytes).filter(|_| address != 0 || bytes == 0);
        let end = end.ok_or_else(|| Error::argument("leave_out", "the address is beyond all memory"))?;
        self.left_out.push(address as u64..end);
        Ok(())
    }

    /// Protects the variables, except those that are protected by a name of their own. `handles` are the addresses by
    /// which the program knows its session. Returns the new regions.
    ///
    /// # Safety
    /// The promise of [`Region::new`] holds for all variables of the program that are not left out.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn protect(
        &mut self,
        regions: &Regions,
        notes: &mut Notes,
        handles: &[usize],
    ) -> Result<Vec<Region>> {
        if self.found.is_some() {
            return Err(Error::argument("protect_globals", "the globals are protected already"));
        }
        let image = Image::of_this_process()?;
        let lies_inside = |region: &&Region| has_bytes(region) && image.lies_inside(region);
        if let Some(region) = regions.all().iter().filter(lies_inside).find(|region| is_followed(regions, region)) {
            return Err(belongs_to_globals(region));
        }
        let taken_out = regions.all().iter().filter(lies_inside).map(|region| {
            let name = region.description.name.clone();
            (name, region.begins_at() as u64)
        });
        let taken_out = taken_out.collect();
        let named = regions.all().iter().filter(has_bytes).map(|region| {
            let at = region.begins_at() as u64;
            at..at + region.reach() as u64
        });
        let out: Vec<Range> = self.left_out.iter().cloned().chain(named).collect();
        let pieces = pieces(&image, &out);
        let addresses = Addresses::new(image.base, handles);
        let mut protected = vec![addresses.region()?];
        for Piece { name, ranges } in &pieces {
            // SAFETY: the caller's promise is passed on.
            protected.push(unsafe { Region::in_stretches(name, ranges)? }.found_by_us());
        }
        notes.set(NOTE, &image.identity)?;
        self.found = Some(OwnVariables { image, addresses, pieces, taken_out });
        Ok(protected)
    }

    /// Ends the protection of the variables.
    pub(crate) fn unprotect(&mut self, notes: &mut Notes) {
        self.found = None;
        notes.remove(NOTE);
        notes.remove(landmarks::NOTE);
    }

    /// Refuses a revision with variables of another program.
    pub(crate) fn check(&self, notes: &[Note], revision: u64) -> Result<()> {
        let saved = notes.iter().find(|note| note.name == NOTE);
        match (saved, &self.found) {
            (Some(saved), Some(found)) if saved.value != found.image.identity => {
                Err(Error::OtherProgram { revision, saved: saved.value.clone(), now: found.image.identity.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Whether this program protects its variables and a shard with these `notes` holds some. The state of one rank is
    /// then no state for another.
    pub(crate) fn are_in(&self, notes: &[Note]) -> bool {
        self.found.is_some() && notes.iter().any(|note| note.name == NOTE)
    }

    /// Notes all current addresses: before a checkpoint, and before a restore. An error if a region has left the
    /// variables that it took out of the globals, because they would not be saved; or if a followed region is among the
    /// variables.
    pub(crate) fn note_addresses(&mut self, regions: &mut Regions) -> Result<()> {
        let Some(found) = &mut self.found else { return Ok(()) };
        if !regions.has(addresses::NAME) {
            return Ok(());
        }
        // A put buffer has another address each time, and is not protected during a restore.
        let is_apart = |region: &&Region| !region.is_put() && !region.is_found_by_us();
        for region in regions.all().iter().filter(is_apart).filter(has_bytes) {
            found.check_place(region, regions)?;
        }
        found.addresses.note(regions.all().iter().filter(is_apart));
        regions.replace_as(found.addresses.region()?)
    }

    /// Notes the places of this run, for the comparison with another.
    pub(crate) fn note_landmarks(&self, regions: &Regions, notes: &mut Notes) -> Result<()> {
        let Some(found) = &self.found else { return Ok(()) };
        let regions = regions.all().iter().filter(|region| !region.is_found_by_us());
        let text = landmarks::text(found.addresses.handles(), regions);
        notes.set(landmarks::NOTE, &text.map_err(|error| Error::io("reading", "/proc/self/maps", error))?)
    }
}

impl OwnVariables {
    fn check_place(&self, region: &Region, regions: &Regions) -> Result<()> {
        let at = region.begins_at() as u64;
        let has_left = self.taken_out.get(&region.description.name).is_some_and(|was| *was != at);
        // A region that stays may also have its own name: it is restored as one of the globals too.
        let moves_inside = is_followed(regions, region) && self.image.lies_inside(region);
        if has_left || moves_inside { Err(belongs_to_globals(region)) } else { Ok(()) }
    }
}

fn has_bytes(region: &&Region) -> bool {
    region.description.bytes > 0
}

fn is_followed(regions: &Regions, region: &Region) -> bool {
    regions.is_followed(&region.description.name)
}

fn belongs_to_globals(region: &Region) -> Error {
    region.refused(
        "it follows or moves among the program's own variables, which mainstay_protect_globals saves together with the \
         pointers to them; do not protect it by a name of its own, or protect the variables one by one"
            .to_owned(),
    )
}

/// Whether a note is about the variables: their program, or places in memory.
pub(crate) fn is_note_of_globals(note: &Note) -> bool {
    [NOTE, NOTE_OF_PLACE, landmarks::NOTE].contains(&note.name.as_str())
}

/// The memory of the running program.
pub(super) fn loaded() -> Range {
    image::loaded()
}

/// `range` as addresses of this process.
fn addresses_of(range: &Range) -> ops::Range<usize> {
    range.start as usize..range.end as usize
}
