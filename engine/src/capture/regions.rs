//! The regions of a session: protects, moves, follows and removes them.

use super::{
    follow::Look,
    mappings::Writable,
    overlap::{Places, check_apart, check_apart_from},
    region::{Description, Region},
};
use crate::{
    error::{Error, Result},
    group::Divided,
    space::format::Item,
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
    /// For each followed region, by name, the function that finds its place.
    followed: HashMap<String, Look>,
    /// The places of the regions in the list.
    places: Places,
    /// Some regions have moved, perhaps onto others.
    have_moved: bool,
}

impl Regions {
    /// Adds a region; an error if it overlaps another.
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
            // A region that cannot be found now is compared at the next restore.
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

    /// Removes all regions except those that `stay`.
    pub(super) fn retain(&mut self, stay: impl Fn(&Region) -> bool) {
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut self.list).into_iter().partition(stay);
        self.list = stay;
        for region in go {
            self.places.remove(&region);
            self.names.remove(&region.description.name);
            self.followed.remove(&region.description.name);
        }
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

    /// Moves the region of this name and keeps everything else, or gives it another shape too.
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

    /// From now on, changes of the region of this name are found by its hashes, not by written pages.
    pub(crate) fn untrack(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        self.list[index].untrack();
        Ok(())
    }

    /// Records that all ranks hold the same bytes in the region of this name.
    pub(crate) fn same_on_all_ranks(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        self.list[index] = self.list[index].clone().said_same()?;
        Ok(())
    }

    /// From now on, `look` finds the place of the region of this name.
    pub(crate) fn follow(&mut self, name: &str, look: Look) -> Result<()> {
        look.check(&self.list[self.index(name)?])?;
        self.followed.insert(name.to_owned(), look);
        Ok(())
    }

    pub(crate) fn is_followed(&self, name: &str) -> bool {
        self.followed.contains_key(name)
    }

    /// Looks up the current place of all followed regions.
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

    /// Looks up all followed regions again, for the copy of a checkpoint. The first lookup gave their sizes, which must
    /// not change.
    pub(crate) fn look_again(&mut self) -> Result<()> {
        let before: Vec<_> = self.list.iter().map(|region| region.description.clone()).collect();
        self.look()?;
        let changed = self.list.iter().zip(before).find(|(now, before)| now.description != *before);
        changed.map_or(Ok(()), |(now, before)| {
            let why = format!("it was {} when the checkpoint began; its size stays until that ends", before.kind());
            Err(now.refused(why))
        })
    }

    /// Looks up all followed regions before a restore fills them.
    pub(crate) fn look_to_fill(&mut self) -> Result<()> {
        self.look()?;
        if self.followed.is_empty() && !self.have_moved {
            return Ok(());
        }
        check_apart(&self.list, |region| self.followed.contains_key(&region.description.name))
    }

    /// An error if a restore cannot fill the memory of a region. If the system does not say, no error.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let Some(writable) = Writable::now().ok().filter(|_| !self.list.is_empty()) else { return Ok(()) };
        self.list.iter().try_for_each(|region| {
            let (mut at, end) = (region.begins_at(), region.begins_at() + region.reach());
            while let Some((pages, why)) = writable.lacking(&(at..end)) {
                // The pages may be in a gap of the region.
                match region.stretch_from(pages.start) {
                    Some(stretch) if stretch.start < pages.end => {
                        let why = format!(
                            "{why} at {:#x}, and a restore could not fill it; let it be writable before the restore, or \
                             unprotect the region",
                            stretch.start
                        );
                        return Err(region.refused(why));
                    }
                    Some(stretch) => at = stretch.start,
                    None => break,
                }
            }
            Ok(())
        })
    }

    /// Asks the program to give the regions that it can resize the saved shapes of `items`.
    pub(crate) fn resize(&mut self, items: &[Item]) -> Result<()> {
        let mut is_changed = false;
        for index in 0..self.list.len() {
            let region = &self.list[index];
            let look = self.followed.get(&region.description.name).filter(|look| look.can_resize());
            let item = look.and_then(|_| items.iter().find(|item| item.name == region.description.name));
            let Some((look, item)) = look.zip(item) else { continue };
            if let Some(resized) = look.resized(region, item)? {
                self.put_at(index, resized);
                is_changed = true;
            }
        }
        if !is_changed {
            return Ok(());
        }
        // A resized region may have moved.
        self.look_to_fill()?;
        self.check_writable()
    }

    /// The name of a region other than `but` with bytes in this memory. Followed regions are looked up now.
    pub(crate) fn name_in(&self, memory: &Range<usize>, but: &str) -> Option<&str> {
        let is_own = |region: &Region| memory.contains(&region.begins_at()) && region.description.name == but;
        // Mostly one region begins there, and the memory was allocated for it. The others are then skipped, because
        // there may be many.
        let are_others = match self.places.count_in(memory) {
            0 => false,
            1 => !self.list.iter().any(is_own),
            _ => true,
        };
        if !are_others && self.followed.is_empty() {
            return None;
        }
        let has_bytes = |region: &Region| {
            let at = region.begins_at();
            at < memory.end && memory.start < at + region.reach()
        };
        let lies_in = |region: &&Region| match self.followed.get(&region.description.name) {
            _ if region.description.name == but => false,
            None => has_bytes(region),
            // A region that cannot be found now is reported at the next checkpoint.
            Some(look) => look.at(region).is_ok_and(|now| has_bytes(&now)),
        };
        self.list.iter().find(lies_in).map(|region| region.description.name.as_str())
    }

    pub(crate) fn all(&self) -> &[Region] {
        &self.list
    }

    /// The names of the regions that the program declared the same on all ranks.
    pub(crate) fn said_same(&self) -> Vec<String> {
        let descriptions = self.list.iter().map(|region| &region.description);
        descriptions.filter(|region| region.same_on_all_ranks).map(|region| region.name.clone()).collect()
    }

    /// How ranks divide a state with these regions.
    pub(crate) fn divided(&self) -> Divided {
        let all = || self.list.iter().map(|region| &*region.description);
        let has_boxes = all().any(|region| region.place.is_some());
        let is_the_same = all().any(|region| region.same_on_all_ranks) && all().all(Description::is_divisible);
        if has_boxes || is_the_same { Divided::IntoBoxes } else { Divided::ByRanks }
    }

    fn index(&self, name: &str) -> Result<usize> {
        let found =
            self.names.contains(name).then(|| self.list.iter().position(|region| region.description.name == name));
        found.flatten().ok_or_else(|| {
            let why = "is not protected; give the name of a protected region".to_owned();
            Error::RegionMissing { name: name.to_owned(), why }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    const BYTES: u64 = 4096;

    /// A region that is never read.
    fn region(name: &str, address: usize) -> Region {
        // SAFETY: nothing is read or written.
        #[expect(unsafe_code, reason = "a region is memory")]
        unsafe { Region::new(name, ptr::without_provenance_mut(address), BYTES) }.unwrap()
    }

    fn memory_at(address: usize) -> Range<usize> {
        address..address + BYTES as usize
    }

    /// Story: memory was freed while a region was still protected in it, because another region had the name for which
    /// the memory was allocated.
    #[test]
    fn memory_has_the_region_that_lies_there_whatever_it_was_made_for() {
        let [a, b] = [0x10_0000, 0x20_0000];
        let mut regions = Regions::default();
        regions.add(region("a", a)).unwrap();
        regions.add(region("b", b)).unwrap();
        assert_eq!(regions.name_in(&memory_at(a), "a"), None);
        regions.replace(region("a", b)).unwrap();
        regions.replace(region("b", a)).unwrap();
        assert_eq!(regions.name_in(&memory_at(a), "a"), Some("b"));
        assert_eq!(regions.name_in(&memory_at(b), "b"), Some("a"));
        assert_eq!(regions.name_in(&memory_at(a), "b"), None);
        assert_eq!(regions.name_in(&memory_at(0x30_0000), "c"), None);
    }

    /// Fewer ranks can restart from a state that all of them hold. They cannot if the state also has a region of each
    /// rank's own.
    #[test]
    fn a_state_that_is_said_to_be_the_same_can_be_divided() {
        let mut regions = Regions::default();
        regions.add(region("table", 0x10_0000)).unwrap();
        assert_eq!(regions.divided(), Divided::ByRanks);
        regions.same_on_all_ranks("table").unwrap();
        assert_eq!(regions.divided(), Divided::IntoBoxes);
        // The promise belongs to the region, wherever its memory is.
        regions.replace(region("table", 0x30_0000)).unwrap();
        assert_eq!(regions.divided(), Divided::IntoBoxes);
        regions.add(region("own", 0x20_0000)).unwrap();
        assert_eq!(regions.divided(), Divided::ByRanks);
        regions.same_on_all_ranks("none").unwrap_err();
    }

    #[test]
    fn what_is_followed_is_asked_where_it_lies_now() {
        let [a, b] = [0x10_0000, 0x20_0000];
        let mut regions = Regions::default();
        regions.add(region("a", a)).unwrap();
        regions.add(region("b", b)).unwrap();
        let now = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(b));
        let looked = now.clone();
        let look = move |_: &Region| Ok(region("b", looked.load(std::sync::atomic::Ordering::Relaxed)));
        regions.follow("b", Look::new(look)).unwrap();
        assert_eq!(regions.name_in(&memory_at(a), "a"), None);
        now.store(a, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(regions.name_in(&memory_at(a), "a"), Some("b"));
        assert_eq!(regions.name_in(&memory_at(b), "c"), None);
    }
}
