//! The rooms of a session (`docs/decisions/0011-rooms-of-a-session.md`), and the methods that need several of them.

use super::{
    announcer::Announcer, changed::ChangeTracker, deferred_levels::LaterLevels, epoch::Epoch, level_plan::Origin,
    levels::Levels, program::Program, ranks::Entered, report::Report, resources::Resources,
};
use crate::{
    capture::{Allocated, OwnMemory, Region, SavedHeap, check_name, note_of_program},
    error::{Error, Result},
    ground::lock,
    group::agree,
    pool::Pool,
    remark::remark,
    space::format::{Note, PoolBound, Profile},
    stage::PoolInMaking,
    status::Recovery,
};

pub(super) struct SessionState {
    // Fields are dropped in this order: work under way first, the locks of the levels last.
    pub(super) program: Program,
    pub(super) resources: Resources,
    pub(super) epoch: Epoch,
    /// Reports are written before the locks of the levels are released.
    pub(super) announcer: Announcer,
    pub(super) levels: Levels,
    pub(super) later: Option<LaterLevels>,
    /// On rank 0 of a job that `mainstay run` has started.
    pub(super) report: Option<Report>,
    pub(super) origin: Origin,
    /// Facts about the recovery, if the ranks go on after a failure and the program has not restored yet. The same on
    /// all ranks.
    pub(super) recovering: Option<Recovery>,
}

impl SessionState {
    pub(super) fn protect(&mut self, region: Region) -> Result<()> {
        let bytes = self.resources.pooled_bytes_of(&region);
        self.program.not_begun("protect")?.regions.add(region)?;
        self.resources.foresee(bytes);
        Ok(())
    }

    pub(super) fn unprotect(&mut self, name: &str) -> Result<()> {
        let regions = &mut self.program.not_begun("unprotect")?.regions;
        let region = regions.all().iter().find(|region| region.description.name == name);
        let bytes = region.map_or(0, |region| self.resources.pooled_bytes_of(region));
        regions.remove(name)?;
        self.resources.foresee_less(bytes);
        Ok(())
    }

    pub(super) fn allocate(&mut self, name: &str, bytes: u64, how: Allocated) -> Result<OwnMemory> {
        check_name(name)?;
        if self.program.allocated.laid_out_before.contains(name) {
            self.check_free(name)?;
            self.free(name)?;
        }
        let Program { regions, allocated, notes, .. } = self.program.not_begun("alloc")?;
        if allocated.memory.contains_key(name) {
            let why = "it has memory already; free that first, or take another name";
            return Err(Error::argument(format!("region {name:?}"), why));
        }
        if regions.has(name) {
            return Err(Error::DuplicateName { name: name.to_owned() });
        }
        let memory = OwnMemory::new(name, bytes, how)?;
        if how.same_address {
            let Note { name, value } = note_of_program();
            notes.set(&name, &value)?;
        }
        allocated.memory.insert(name.to_owned(), memory.clone());
        Ok(memory)
    }

    pub(super) fn free(&mut self, name: &str) -> Result<()> {
        let program = self.program.not_begun("free")?;
        if !program.allocated.memory.contains_key(name) {
            let why = "has no memory that was allocated for it; free what was allocated, once".to_owned();
            return Err(Error::RegionMissing { name: name.to_owned(), why });
        }
        if program.regions.has(name) {
            self.unprotect(name)?;
        }
        self.program.allocated.memory.remove(name);
        self.program.allocated.laid_out_before.remove(name);
        Ok(())
    }

    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        let Some(memory) = self.program.allocated.memory.get(name) else { return Ok(()) };
        self.program.regions.name_in(&memory.range(), name).map_or(Ok(()), |other| {
            let why = format!("{other:?} is protected in its memory; unprotect that first");
            Err(Error::argument(format!("region {name:?}"), why))
        })
    }

    /// Unprotects all regions.
    pub(super) fn unprotect_all(&mut self) -> Result<()> {
        let regions = std::mem::take(&mut self.program.not_begun("unprotect")?.regions);
        let bytes = regions.all().iter().fold(0, |sum: u64, region| sum + self.resources.pooled_bytes_of(region));
        self.resources.foresee_less(bytes);
        self.program.globals.unprotect(&mut self.program.notes);
        if let Some(heap) = self.program.heap.take() {
            heap.unprotect(&mut self.program.notes);
        }
        Ok(())
    }

    /// Unprotects everything for the next layout. `again`: after a failure.
    pub(super) fn begin_layout(&mut self, again: bool) -> Result<()> {
        self.unprotect_all()?;
        if again {
            self.program.allocated.laid_out_before = self.program.allocated.memory.keys().cloned().collect();
        }
        Ok(())
    }

    /// Protects the program's own variables as regions, all or none.
    ///
    /// # Safety
    /// The promise of [`Region::new`] applies to each variable that is not left out.
    #[allow(unsafe_code)]
    pub(super) unsafe fn protect_globals(&mut self, handles: &[usize]) -> Result<()> {
        let Program { regions, globals, notes, .. } = self.program.not_begun("protect_globals")?;
        // SAFETY: the caller's promise is passed on.
        let protected = unsafe { globals.protect(regions, notes, handles) }?;
        let names: Vec<String> = protected.iter().map(|region| region.description.name.clone()).collect();
        for (index, region) in protected.into_iter().enumerate() {
            if let Err(error) = self.protect(region) {
                names[..index].iter().try_for_each(|name| self.unprotect(name))?;
                self.program.globals.unprotect(&mut self.program.notes);
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn protect_heap(&mut self) -> Result<()> {
        let program = self.program.not_begun("protect_heap")?;
        program.heap = Some(SavedHeap::claim(&mut program.notes)?);
        let Note { name, value } = note_of_program();
        program.notes.set(&name, &value)?;
        program.look_at_heap()?;
        let bytes = self.resources.pooled_bytes_of_heap(&self.program.regions);
        self.resources.foresee(bytes);
        Ok(())
    }

    /// The profile of the next revision, stored with its items.
    pub(super) fn profile(&self) -> Profile {
        let (config, pool) = (&self.program.config, self.resources.pool.as_ref().map(PoolInMaking::pool));
        let pool = pool.filter(|_| !self.resources.policy.is_in_portion());
        Profile {
            node: self.epoch.node,
            stage: config.stage.code(),
            found_by: self.resources.changing.as_ref().map(ChangeTracker::found_by).unwrap_or_default(),
            keep: u16::try_from(config.keep).ok(),
            pool_bytes: pool.map_or(0, Pool::wanted_bytes),
            pool_bound: pool.map_or(PoolBound::default(), |pool| pool.bound()),
            chunk_bytes: pool.map_or(0, |pool| pool.chunk_bytes()),
            threshold_bytes: self.resources.policy.threshold(),
            ..Profile::default()
        }
    }

    /// Begins a new lineage in the open spaces: later revisions never mix with those that this job saved before.
    /// Collective.
    pub(super) fn begin_lineage(&mut self, entry: &Entered) -> Result<()> {
        self.epoch.renew(entry)?;
        let lineage = self.epoch.lineage;
        let pool = self.resources.pool.as_ref().map(PoolInMaking::pool);
        let noted = pool.map_or(Ok(()), |pool| pool.note_space(&*self.levels.nearest().location.device, lineage));
        if let Some(note) = &mut self.levels.note {
            note.begin(self.epoch.group.with(entry), lineage.number)?;
        }
        let begun = self.levels.iter_mut().try_for_each(|level| {
            level.holds.forget_acknowledgement();
            let complete: Vec<_> = level.complete.iter().map(|complete| complete.key).collect();
            level.current_ledgers().try_for_each(|ledger| lock(ledger).begin(lineage, &complete))
        });
        agree(self.epoch.group.with(entry), noted.and(begun))
    }

    /// Updates the status for outside readers, and warns the user if saving keeps failing. Local.
    pub(super) fn tell(&mut self) {
        self.announcer.tell(&self.levels, self.epoch.lineage.number, None);
        // With one level, the call that saves reports each failure.
        let has_one_level = self.levels.iter().nth(1).is_none();
        for level in self.levels.iter_mut().filter(|_| !has_one_level) {
            let newest = level.complete.first().map(|complete| complete.key.number);
            if let Some(shout) = level.history.failing.shout(level.location.kind, newest) {
                remark(self.epoch.group.rank(), &shout);
            }
        }
    }
}
