//! Room for the next shard on each level that it goes to: looked for at t1, and agreed on once all ranks have told.
//!
//! What must hold: all ranks decide alike which layouts are made and left, and which levels are passed over. A
//! checkpoint waits and fails for the nearest level alone; a farther one that is busy, or has no room, is passed over.

use super::{
    agreement::LevelFacts,
    checkpoint::lost_layout,
    entry::Entry,
    epoch::Epoch,
    held::Asked,
    level::{Level, Levels},
    settle::Attempt,
};
use crate::{
    capture::Size,
    commit::{Allocation, RevisionKey},
    error::{Error, Result},
    group::agree,
    remark::remark,
};

/// What a rank has found on a level at t1.
pub(super) struct Room {
    found: Result<Option<Allocation>>,
    /// On rank 0: the holds, if they differ from those known.
    holds: Option<Vec<Asked>>,
}

impl Room {
    /// The same room, or the error of `pool`.
    pub(super) fn with(self, pool: &Result<()>) -> Room {
        Room { found: pool.clone().and(self.found), ..self }
    }

    pub(super) fn facts(&self) -> LevelFacts {
        LevelFacts {
            no_room: self.found.is_err().into(),
            no_layout: matches!(self.found, Ok(None)).into(),
            holds_changed: self.holds.is_some().into(),
            ..LevelFacts::default()
        }
    }
}

impl Level {
    /// Looks for room for a shard of `size`, which is revision `number`. `None` on a farther level that the revision
    /// does not go to, or that is busy. Local.
    pub(super) fn look_for_room(&mut self, is_nearest: bool, number: u64, size: &Size, epoch: &Epoch) -> Option<Room> {
        if !is_nearest && (!self.takes(number) || self.facts().busy.is_set()) {
            return None;
        }
        // This revision is complete if the other ranks' parts are durable too, as the all-reduce will tell.
        let before = self.saving.as_ref().and_then(Attempt::key);
        let complete = self.complete_with(before, epoch.group.size());
        Some(Room { found: self.allocate(size, &complete), holds: self.changed_holds(epoch) })
    }

    /// Where the next shard goes, and, if a layout was made for it, the file of each rank. `again`: looks for room once
    /// more. An error is the same on all ranks. Collective.
    pub(super) fn agree_on_room(
        &mut self,
        epoch: &Epoch,
        entry: &Entry,
        room: Room,
        told: &LevelFacts,
        size: &Size,
        again: &dyn Fn(&Level) -> Result<Option<Allocation>>,
    ) -> Result<(Allocation, Option<Vec<String>>)> {
        let group = epoch.group.with(entry);
        let Room { mut found, holds } = room;
        let mut no_room = told.no_room.is_set();
        if told.holds_changed.is_set() {
            self.renew_holds(group, epoch.next_number, holds, size)?;
            found = again(self);
            let mut lacking = [u64::from(found.is_err())];
            group.all_max(&mut lacking)?;
            no_room = lacking == [1];
            self.acknowledge(epoch);
        }
        if no_room {
            if !self.leaves_layout() {
                agree(group, found.map(drop))?;
                return Err(lost_layout());
            }
            self.leave_layout(epoch, entry, found)?;
            found = Ok(None);
        }
        let made = if no_room || told.no_layout.is_set() {
            // The first checkpoint sizes the portions.
            let files = self.make_layout(epoch, entry, size)?;
            found = agree(group, again(self).and_then(|room| room.ok_or_else(lost_layout))).map(Some);
            Some(files)
        } else {
            None
        };
        self.has_other_boxes = false;
        self.drop_old_layouts(group.rank());
        Ok((found?.ok_or_else(lost_layout)?, made))
    }

    /// Like `agree_on_room`, for a farther level: `None` if the revision passes the level over. An error is one of the
    /// group. Collective.
    pub(super) fn take_turn(
        &mut self,
        epoch: &Epoch,
        entry: &Entry,
        room: Option<Room>,
        told: &LevelFacts,
        size: &Size,
    ) -> Result<Option<Allocation>> {
        if told.busy.is_set() {
            self.passed_over += 1;
            if self.passed_over == 1 {
                let (level, number) = (self.kind.name(), epoch.next_number);
                let why =
                    format!("the level {level} is busy: revision {number} passes it over, as may others after it");
                remark(epoch.group.rank(), &why);
            }
            return Ok(None);
        }
        let again = |level: &Level| level.allocate(size, &level.complete);
        let room = room.ok_or_else(lost_layout)?;
        match self.agree_on_room(epoch, entry, room, told, size, &again) {
            Ok((allocation, _)) => Ok(Some(allocation)),
            Err(error @ Error::GroupFailed { .. }) => Err(error),
            Err(error) => {
                self.unsaved = Some(Err(error));
                Ok(None)
            }
        }
    }
}

impl Level {
    /// Finds room for a shard of `size` outside of a checkpoint. An error is the same on all ranks. Collective.
    pub(super) fn have_room(&mut self, epoch: &Epoch, entry: &Entry, size: &Size) -> Result<Allocation> {
        let group = epoch.group.with(entry);
        let room = Room { found: self.allocate(size, &self.complete), holds: None };
        let LevelFacts { no_room, no_layout, .. } = room.facts();
        let mut told = [u64::from(no_room.is_set()), u64::from(no_layout.is_set())];
        group.all_max(&mut told)?;
        let told =
            LevelFacts { no_room: (told[0] == 1).into(), no_layout: (told[1] == 1).into(), ..LevelFacts::default() };
        let again = |level: &Level| level.allocate(size, &level.complete);
        self.agree_on_room(epoch, entry, room, &told, size, &again).map(|(allocation, _)| allocation)
    }
}

impl Levels {
    /// Has the nearest level keep the revisions that farther levels are fed with: those under way there, and `next`.
    pub(super) fn keep_for_feeding(&mut self, next: Option<RevisionKey>) {
        let (nearest, farther) = self.split();
        let under_way = farther.iter().filter_map(|level| level.saving.as_ref().and_then(Attempt::key));
        let fed: Vec<RevisionKey> = under_way.chain(next).collect();
        if fed != nearest.fed {
            nearest.fed = fed;
            nearest.hold_known();
        }
    }
}
