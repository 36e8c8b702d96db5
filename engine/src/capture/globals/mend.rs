//! Mends pointers among the variables, after a restore has put back the values of another run.

use super::{
    Globals, OwnVariables,
    addresses::{Place, base_of, moved},
    addresses_of,
};
use crate::capture::regions::Regions;
use std::ptr;

const WORD: usize = 8;

/// Facts noted before a restore and needed once the variables are filled.
#[derive(Debug, Default)]
pub(crate) struct KeptPointers {
    /// The current places.
    now: Vec<Place>,
    /// The variables that hold the session.
    handles: Vec<(usize, u64)>,
    /// The variables that hold addresses in libraries.
    outer: Vec<(usize, u64)>,
}

/// Pointers that are invalid after a restore.
#[derive(Debug, Default)]
struct Stale {
    words: u64,
    first: usize,
}

impl Globals {
    /// Notes the facts that a restore must not lose. Call it after the current addresses are noted and before the
    /// variables are filled.
    pub(crate) fn keep(&self, regions: &Regions) -> KeptPointers {
        let Some(found) = &self.found else { return KeptPointers::default() };
        let handles = found.addresses.handles();
        let mut kept = KeptPointers { now: found.addresses.all(), ..KeptPointers::default() };
        found.words(regions, |at, value| {
            if handles.contains(&value) {
                kept.handles.push((at, value));
            }
        });
        kept.outer = found.image.outer.iter().map(|at| (*at as usize, read(*at as usize))).collect();
        kept
    }

    /// Mends the pointers after a restore. `has_filled`: the restore has put all variables back. Returns a warning for
    /// the user.
    pub(crate) fn mend(&self, regions: &Regions, kept: KeptPointers, has_filled: bool) -> Option<String> {
        let found = self.found.as_ref()?;
        let stale = if has_filled { found.mend(regions, &kept) } else { Stale::default() };
        kept.handles.iter().for_each(|(at, value)| write(*at, *value));
        (stale.words > 0).then(|| {
            let at = || format!("at {:#x}", stale.first);
            let first = found.image.name_at(stale.first as u64).map_or_else(at, str::to_owned);
            format!(
                "{} restored variable(s) point into this program at its address in the run that saved them, the \
                 first in {first}: link it with -no-pie, or leave them out (mainstay_leave_out)",
                stale.words
            )
        })
    }
}

impl OwnVariables {
    fn mend(&self, regions: &Regions, kept: &KeptPointers) -> Stale {
        let was = self.addresses.all();
        let (old, new) = (base_of(&was), base_of(&kept.now));
        let length = self.image.loaded.end - self.image.loaded.start;
        let begin = self.image.loaded.start.wrapping_sub(new).wrapping_add(old);
        let is_inside = |value: u64| value.wrapping_sub(begin) < length;
        let mut moved = moved(&was, &kept.now);
        // Everything inside the program has moved with it; a followed region may be another part of it now.
        let moves_with = |was: u64, now: u64| now.wrapping_sub(was) == new.wrapping_sub(old);
        moved.retain(|(was, now)| !is_inside(*was) || moves_with(*was, *now));
        // If two places have the same address, either will do.
        moved.sort_by_key(|(was, _)| *was);
        moved.dedup_by_key(|(was, _)| *was);
        let find = |value: u64| moved.binary_search_by_key(&value, |(was, _)| *was).ok().map(|index| moved[index].1);
        let (least, most) = (moved.first().map_or(u64::MAX, |m| m.0), moved.last().map_or(0, |m| m.0));

        for (at, before) in &kept.outer {
            let value = read(*at);
            if !is_inside(value) && find(value).is_none() {
                write(*at, *before);
            }
        }
        let mut stale = Stale::default();
        self.words(regions, |at, value| {
            let named = if least <= value && value <= most { find(value) } else { None };
            if let Some(now) = named {
                write(at, now);
            } else if old != new && is_inside(value) {
                let at_word = |words: &[u64]| words.binary_search(&(at as u64)).is_ok();
                if at_word(&self.image.inner) || at_word(&self.image.outer) {
                    write(at, value.wrapping_sub(old).wrapping_add(new));
                } else {
                    stale.first = if stale.words == 0 { at } else { stale.first };
                    stale.words += 1;
                }
            }
        });
        stale
    }

    /// Calls `each` for each word of the still protected variables that can hold a pointer.
    fn words(&self, regions: &Regions, mut each: impl FnMut(usize, u64)) {
        let protected = self.pieces.iter().filter(|piece| regions.has(&piece.name));
        for range in protected.flat_map(|piece| &piece.ranges).map(addresses_of) {
            for at in
                (range.start.next_multiple_of(WORD)..range.end).step_by(WORD).take_while(|at| at + WORD <= range.end)
            {
                let value = read(at);
                if value != 0 {
                    each(at, value);
                }
            }
        }
    }
}

/// A word of the program's variables. The program's other threads may not write them during a restore.
#[allow(unsafe_code)]
fn read(at: usize) -> u64 {
    // SAFETY: `at` is a multiple of the word's size, inside memory that the program promised to keep readable and
    // writable.
    unsafe { ptr::with_exposed_provenance::<u64>(at).read_unaligned() }
}

#[allow(unsafe_code)]
fn write(at: usize, value: u64) {
    // SAFETY: as in `read`; the variables belong to the restore while it runs.
    unsafe { ptr::with_exposed_provenance_mut::<u64>(at).write_unaligned(value) }
}
