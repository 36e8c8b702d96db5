//! Makes the portions in memory and touches their pages before the first checkpoint. Otherwise the checkpoint would
//! wait for untouched memory, which takes many times as long as the copy.

use super::{
    copying::swap_sizes, level::Level, need::with_total_need, ranks::Entered, shard_room::ShardSizes,
    state::SessionState,
};
use crate::{
    capture::{Size, size_elsewhere},
    error::{ErrorKind, Result},
};

impl SessionState {
    /// Makes the portions of the nearest level and of its copies for the protected regions, if those levels are in
    /// memory and have no portions yet. `DiskFull`: there is no room for them. The checkpoint reports any other
    /// obstacle. Collective.
    pub(super) fn make_ahead(&mut self, entry: &Entered) -> Result<()> {
        if !self.resources.policy.is_in_portion() || self.levels.nearest().is_laid_out() {
            return Ok(());
        }
        self.try_ahead(entry).or_else(|error| if error.kind() == ErrorKind::DiskFull { Err(error) } else { Ok(()) })
    }

    fn try_ahead(&mut self, entry: &Entered) -> Result<()> {
        let program = &self.program;
        let size = Size::new(program.regions.all(), 0, self.resources.policy.small_below, program.notes.all(), &[]);
        let mut anything = [u64::from(!size.is_empty())];
        self.epoch.group.with(entry).all_max(&mut anything)?;
        if anything == [0] {
            // The size of a stream is known only at t1.
            return Ok(());
        }
        self.make_portions(entry, &size).map_err(|error| {
            let family = self.levels.families().swap_remove(0);
            let levels: Vec<&Level> = self.levels.iter().take(family.end).filter(|level| !level.is_former()).collect();
            with_total_need(self.epoch.group.with(entry), &levels, &size, error)
        })
    }

    fn make_portions(&mut self, entry: &Entered, size: &Size) -> Result<()> {
        let family = self.levels.families().swap_remove(0);
        self.levels.nearest_mut().have_room(&self.epoch, entry, ShardSizes::of_owner(size))?;
        // Size the copies as the checkpoint does, or it would make larger portions at once.
        let size = &if self.resources.changing.is_some() { size_elsewhere(size, None) } else { size.clone() };
        // Messages between two ranks keep their order: sizes would wait behind shards on their way.
        let is_busy = self.levels.iter().any(|level| level.feeding.under_feed.is_some());
        for index in family.skip(1).filter(|_| !is_busy) {
            let (epoch, level) = (&mut self.epoch, self.levels.at_mut(index));
            if !level.is_former() {
                let sizes = swap_sizes(epoch.group.with(entry), &mut epoch.post, level, size, entry)?;
                level.have_room(epoch, entry, ShardSizes::of_writer(size, &sizes))?;
            }
        }
        Ok(())
    }
}
