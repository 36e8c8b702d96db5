//! The regions of a session: protected, moved, followed, and taken out again.

use super::{
    apart::{Places, check_apart, check_apart_from},
    follow::Look,
    region::Region,
};
use crate::{
    error::{Error, Result},
    group::Divided,
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

/// The regions of a session, in the order in which they were protected.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    list: Vec<Region>,
    names: HashSet<String>,
    /// For each region that is followed, by name, the function that tells where it lies.
    followed: HashMap<String, Look>,
    /// Where they lie, as in the list.
    places: Places,
    /// Some have been moved, perhaps to where others are.
    have_moved: bool,
}

impl Regions {
    /// Adds a region; refused if it has bytes of one that is there.
    pub(crate) fn add(&mut self, region: Region) -> Result<()> {
        let name = &region.description.name;
        if self.names.contains(name) {
            return Err(Error::DuplicateName { name: name.clone() });
        }
        self.check_apart_from_all(&region)?;
        self.names.insert(name.clone());
        self.places.add(&region);
        self.list.push(region);
        Ok(())
    }

    fn check_apart_from_all(&self, region: &Region) -> Result<()> {
        if !self.places.meet(region) {
            return Ok(());
        }
        for other in &self.list {
            // One that cannot tell where it is now is compared at the next restore.
            match self.followed.get(&other.description.name).map(|look| look.at(other)) {
                Some(Ok(now)) => check_apart_from(region, &now)?,
                Some(Err(_)) => {}
                None => check_apart_from(region, other)?,
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        let region = self.list.remove(index);
        self.places.remove(&region);
        self.names.remove(name);
        self.followed.remove(name);
        Ok(())
    }

    /// Puts `region` in the place of the region of its name, which must have the same shape.
    pub(crate) fn replace(&mut self, region: Region) -> Result<()> {
        let name = region.description.name.clone();
        let index = self.index(&name)?;
        let region = region.in_place_of(&self.list[index])?;
        self.followed.get(&name).map_or(Ok(()), |look| look.check(&region))?;
        self.put_at(index, region);
        self.have_moved = true;
        Ok(())
    }

    /// Puts `region`, of any shape, in the place of the region of its name.
    pub(super) fn replace_as(&mut self, region: Region) -> Result<()> {
        let index = self.index(&region.description.name)?;
        self.put_at(index, region);
        Ok(())
    }

    fn put_at(&mut self, index: usize, region: Region) {
        self.places.remove(&self.list[index]);
        self.places.add(&region);
        self.list[index] = region;
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Moves the region of this name, with everything else as it was, or with another shape.
    ///
    /// # Safety
    /// As for [`Region::new`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn move_to(&mut self, name: &str, address: *mut u8, shape: Option<&[u64]>) -> Result<()> {
        let old = &self.list[self.index(name)?];
        // SAFETY: the caller's promise is passed on.
        let moved = unsafe {
            match shape {
                None => old.at(address, None),
                Some(shape) => old.shaped(address, shape),
            }
        };
        self.replace(moved?)
    }

    /// Has changes of the region of this name found by its hashes, and not by the pages that were written.
    pub(crate) fn untrack(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        self.list[index].untrack();
        Ok(())
    }

    /// Has `look` say where the region of this name lies, from now on.
    pub(crate) fn follow(&mut self, name: &str, look: Look) -> Result<()> {
        look.check(&self.list[self.index(name)?])?;
        self.followed.insert(name.to_owned(), look);
        Ok(())
    }

    pub(crate) fn is_followed(&self, name: &str) -> bool {
        self.followed.contains_key(name)
    }

    /// Finds out where all that is followed lies now.
    pub(crate) fn look(&mut self) -> Result<()> {
        if self.followed.is_empty() {
            return Ok(());
        }
        let now = |(index, region): (usize, &Region)| {
            let look = self.followed.get(&region.description.name)?;
            Some(look.at(region).map(|now| (index, now)))
        };
        let now: Vec<(usize, Region)> = self.list.iter().enumerate().filter_map(now).collect::<Result<_>>()?;
        now.into_iter().for_each(|(index, region)| self.put_at(index, region));
        Ok(())
    }

    /// Finds out once more where all that is followed lies, for the copy of a checkpoint: the first look told its sizes.
    pub(crate) fn look_again(&mut self) -> Result<()> {
        let before: Vec<_> = self.list.iter().map(|region| region.description.clone()).collect();
        self.look()?;
        let changed = self.list.iter().zip(before).find(|(now, before)| now.description != *before);
        changed.map_or(Ok(()), |(now, before)| {
            let why = format!("it was {} when the checkpoint began; its size stays until that ends", before.kind());
            Err(now.refused(why))
        })
    }

    /// Finds out where all that is followed lies, before a restore fills the regions.
    pub(crate) fn look_to_fill(&mut self) -> Result<()> {
        self.look()?;
        if self.followed.is_empty() && !self.have_moved {
            return Ok(());
        }
        check_apart(&self.list, |region| self.followed.contains_key(&region.description.name))
    }

    /// The name of a region other than `but` that has bytes of this memory; where those lie that are followed, they are not asked.
    pub(crate) fn name_in(&self, memory: &Range<usize>, but: &str) -> Option<&str> {
        if self.places.count_in(memory) <= usize::from(self.names.contains(but)) {
            return None;
        }
        let lies_in = |region: &&Region| {
            let (name, at) = (&region.description.name, region.begins_at());
            at < memory.end && memory.start < at + region.reach() && name != but && !self.followed.contains_key(name)
        };
        self.list.iter().find(lies_in).map(|region| region.description.name.as_str())
    }

    pub(crate) fn all(&self) -> &[Region] {
        &self.list
    }

    /// How a state with these regions is divided among ranks.
    pub(crate) fn divided(&self) -> Divided {
        let is_box = |region: &Region| region.description.place.is_some();
        if self.list.iter().any(is_box) { Divided::IntoBoxes } else { Divided::ByRanks }
    }

    fn index(&self, name: &str) -> Result<usize> {
        let found =
            self.names.contains(name).then(|| self.list.iter().position(|region| region.description.name == name));
        found.flatten().ok_or_else(|| {
            let why = "is not protected; give a name that is".to_owned();
            Error::RegionMissing { name: name.to_owned(), why }
        })
    }
}
