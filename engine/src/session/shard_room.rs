//! Room for the next shard on each of its levels. Each rank looks for room at t1, and the ranks agree once all have
//! reported.
//!
//! Invariants: all ranks decide alike which layouts are made and left, and which levels are passed over. A checkpoint
//! waits only for the nearest level, and fails only if that fails. A farther level that is busy or full is passed over.

use super::{
    agreement::LevelFacts,
    attempt::Attempt,
    changed::PlannedShard,
    epoch::Epoch,
    holds::Asked,
    level::{Level, lost_layout},
    levels::Levels,
    ranks::Entered,
};
use crate::{
    capture::Size,
    commit::{Allocation, RevisionKey},
    error::{Error, Result},
    group::{Group, agree},
    remark::remark,
};

/// Sizes of the next shards: this rank's own, and those that it writes on a level.
#[derive(Clone, Copy)]
pub(super) struct ShardSizes<'a> {
    pub(super) own: &'a Size,
    pub(super) written: &'a [Size],
    /// The part of its own shard to write, if not all.
    pub(super) planned: Option<&'a PlannedShard>,
    /// This rank's size with room for references to older revisions, which staging may find. Used if there is that much
    /// room.
    pub(super) to_lead: Option<&'a Size>,
}

impl<'a> ShardSizes<'a> {
    /// For a level on which each rank writes its own portion.
    pub(super) fn of_owner(own: &'a Size) -> ShardSizes<'a> {
        ShardSizes::of_writer(own, std::slice::from_ref(own))
    }

    /// For a level on which ranks write portions of others.
    pub(super) fn of_writer(own: &'a Size, written: &'a [Size]) -> ShardSizes<'a> {
        ShardSizes { own, written, planned: None, to_lead: None }
    }
}

/// Looks once more for room in the current layout of a level. The flag is `grows` of `Level::allocate`.
type FindsRoom<'a> = dyn Fn(&Level, bool) -> Result<Option<Vec<Allocation>>> + 'a;

/// The room that a rank has found on a level at t1.
pub(super) struct Room {
    found: Result<Option<Vec<Allocation>>>,
    /// On rank 0: the holds, if they differ from the known ones.
    holds: Option<Vec<Asked>>,
}

/// A rank's report on a level at t1.
pub(super) enum RoomReport {
    /// The revision does not go there.
    NoTurn,
    /// The previous revision is still being written there. The report stays so even if that ends at this moment.
    Busy,
    Found(Room),
}

impl RoomReport {
    /// Turns the room into an error if there is no `pool`.
    pub(super) fn with(self, pool: &Result<()>) -> RoomReport {
        match self {
            RoomReport::Found(room) => RoomReport::Found(Room { found: pool.clone().and(room.found), ..room }),
            other => other,
        }
    }

    pub(super) fn found(self) -> Option<Room> {
        if let RoomReport::Found(room) = self { Some(room) } else { None }
    }

    pub(super) fn facts(&self) -> LevelFacts {
        match self {
            RoomReport::NoTurn => LevelFacts::default(),
            RoomReport::Busy => LevelFacts { busy: true.into(), ..LevelFacts::default() },
            RoomReport::Found(room) => room.facts(),
        }
    }
}

impl Room {
    fn facts(&self) -> LevelFacts {
        LevelFacts {
            no_room: self.found.is_err().into(),
            no_layout: matches!(self.found, Ok(None)).into(),
            holds_changed: self.holds.is_some().into(),
            ..LevelFacts::default()
        }
    }
}

/// If there is too little room, puts the size that the largest shard of all ranks lacks into the error. The user must
/// make room for all ranks. Collective.
fn with_largest_lack(group: &dyn Group, mut found: Result<()>) -> Result<Result<()>> {
    let mut most = [0];
    if let Err(Error::PortionTooSmall { needed, .. }) = &found {
        most = [*needed];
    }
    group.all_max(&mut most)?;
    if let Err(Error::PortionTooSmall { largest, .. }) = &mut found {
        [*largest] = most;
    }
    Ok(found)
}

impl Level {
    /// Room for shards of these `sizes`, unless a revision is still being written here. Local.
    pub(super) fn look_for_room(&mut self, is_nearest: bool, sizes: ShardSizes<'_>, epoch: &Epoch) -> RoomReport {
        if !is_nearest && self.facts().busy.is_set() {
            return RoomReport::Busy;
        }
        // This revision is complete if the other ranks' parts are durable too. The all-reduce shows that.
        let before = self.saving.as_ref().and_then(Attempt::key);
        let complete = self.complete_with(before, epoch.group.size());
        RoomReport::Found(Room {
            found: self.allocate(sizes, &complete, self.grows()),
            holds: self.changed_holds(epoch),
        })
    }

    /// The room for the next shards. An error is the same on all ranks. Collective.
    pub(super) fn agree_on_room(
        &mut self,
        epoch: &Epoch,
        entry: &Entered,
        room: Room,
        facts: &LevelFacts,
        sizes: ShardSizes<'_>,
        again: &FindsRoom<'_>,
    ) -> Result<Vec<Allocation>> {
        let group = epoch.group.with(entry);
        let Room { mut found, holds } = room;
        let mut no_room = facts.no_room.is_set();
        if facts.holds_changed.is_set() {
            self.renew_holds(group, epoch.next_number, holds, sizes)?;
            found = again(self, self.grows());
            let mut lacking = [u64::from(found.is_err())];
            group.all_max(&mut lacking)?;
            no_room = lacking == [1];
            self.acknowledge(epoch);
        }
        if no_room && !self.grows() {
            agree(group, with_largest_lack(group, found.map(drop))?)?;
            return Err(lost_layout());
        }
        let mut left = self.files.current.clone().filter(|_| no_room && self.files.mends.is_none());
        if no_room {
            self.leave_layout(epoch, entry, found)?;
            left = left.filter(|left| !self.remove_unused(epoch, left.layout_id));
            found = Ok(None);
        }
        if no_room || facts.no_layout.is_set() {
            // The first checkpoint sets the size of the portions, and so does a checkpoint that has outgrown them.
            let made = self.mend_or_make_layout(epoch, entry, sizes.to_lead.unwrap_or(sizes.own));
            let grown = made.is_ok();
            if let Err(error) = made {
                let Some(left) = left.filter(|_| self.files.current.is_none()) else { return Err(error) };
                self.return_to(left);
                if matches!(error, Error::GroupFailed { .. }) {
                    return Err(error);
                }
                found = Err(error);
            }
            // If a larger layout finds no room, a shard may still fit into the present one.
            let room = agree(group, again(self, grown).and_then(|room| room.ok_or_else(lost_layout)));
            found = match (room, found) {
                (Err(error @ Error::GroupFailed { .. }), _) | (Err(error), Ok(_)) | (Err(_), Err(error)) => Err(error),
                (Ok(room), Err(error)) => {
                    let why = "no larger layout could be made, and the shards still fit into the one that is there";
                    remark(group.rank(), &format!("{why}: {error}"));
                    Ok(Some(room))
                }
                (Ok(room), Ok(_)) => Ok(Some(room)),
            };
        }
        self.drop_old_layouts(group.rank());
        found?.ok_or_else(lost_layout)
    }

    /// Like `agree_on_room`, for a farther level: `None` if the revision passes the level over. Only a group error is
    /// returned. Collective.
    pub(super) fn take_turn(
        &mut self,
        epoch: &Epoch,
        entry: &Entered,
        look: RoomReport,
        facts: &LevelFacts,
        sizes: ShardSizes<'_>,
    ) -> Result<Option<Vec<Allocation>>> {
        if facts.busy.is_set() {
            self.pass_over(RevisionKey::new(epoch.lineage, epoch.next_number));
            if self.history.passed_over == 1 {
                let (level, number) = (self.location.kind.name(), epoch.next_number);
                let why =
                    format!("the level {level} is busy: revision {number} passes it over, as may others after it");
                remark(epoch.group.rank(), &why);
            }
            return Ok(None);
        }
        let found = match look {
            // The room was found beside a revision that is not complete after all.
            _ if facts.failed.is_set() || !facts.under_way.is_so() => self.have_room(epoch, entry, sizes),
            RoomReport::Found(room) => {
                let again = |level: &Level, grows| level.allocate(sizes, &level.complete, grows);
                self.agree_on_room(epoch, entry, room, facts, sizes, &again)
            }
            RoomReport::NoTurn | RoomReport::Busy => Err(lost_layout()),
        };
        self.or_note(found)
    }

    /// The room, or `None` and a note that the revision is not saved here. Only a group error is returned.
    fn or_note<T>(&mut self, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error @ Error::GroupFailed { .. }) => Err(error),
            Err(error) => {
                let unsaved = Err(error);
                self.history.failing.again(&unsaved);
                self.history.unsaved = Some(unsaved);
                Ok(None)
            }
        }
    }

    /// Like `have_room`, for a farther level: `None` if there is none. Only a group error is returned. Collective.
    pub(super) fn have_room_or_note(
        &mut self,
        epoch: &Epoch,
        entry: &Entered,
        sizes: ShardSizes<'_>,
    ) -> Result<Option<Vec<Allocation>>> {
        let found = self.have_room(epoch, entry, sizes);
        self.or_note(found)
    }
}

impl Level {
    /// Finds room for shards of these `sizes` outside of a checkpoint. An error is the same on all ranks. Collective.
    pub(super) fn have_room(
        &mut self,
        epoch: &Epoch,
        entry: &Entered,
        sizes: ShardSizes<'_>,
    ) -> Result<Vec<Allocation>> {
        let group = epoch.group.with(entry);
        let room = Room { found: self.allocate(sizes, &self.complete, self.grows()), holds: None };
        let LevelFacts { no_room, no_layout, .. } = room.facts();
        let mut highest = [u64::from(no_room.is_set()), u64::from(no_layout.is_set())];
        group.all_max(&mut highest)?;
        let facts = LevelFacts {
            no_room: (highest[0] == 1).into(),
            no_layout: (highest[1] == 1).into(),
            ..LevelFacts::default()
        };
        let again = |level: &Level, grows| level.allocate(sizes, &level.complete, grows);
        self.agree_on_room(epoch, entry, room, &facts, sizes, &again)
    }
}

impl Levels {
    /// Keeps, on the nearest level, the revisions from which farther levels are fed: those under way there, and `next`.
    pub(super) fn keep_for_feeding(&mut self, next: Option<RevisionKey>) {
        let (nearest, farther) = self.split();
        let kept = std::mem::take(&mut nearest.feeding.fed);
        let is_under_way =
            |(key, _): &(RevisionKey, [u8; 16])| farther.iter().any(|level| level.feeding.under_feed == Some(*key));
        let layout = nearest.files.current.as_ref().map_or([0; 16], |current| current.layout_id);
        nearest.feeding.fed = kept.iter().copied().filter(is_under_way).chain(next.map(|key| (key, layout))).collect();
        if kept != nearest.feeding.fed {
            nearest.hold_known();
        }
    }
}
