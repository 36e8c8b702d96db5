//! Whole buffers: `put` saves one as the next revision, `get` reads it back from any revision that still exists.
//! PFS-delegation (paper 001, section IV.B) works this way; `mainstay_pfs.h` offers it under the paper's names.
//!
//! Invariants: reading changes no saved state, and checkpoints go on unaffected; all ranks read the same revision, or
//! none.

use super::{
    choose_revision::{Choices, ask_for_one},
    damage::Attempted,
    entry::Call,
    level::Level,
    ranks::Entered,
    restore::pour_together,
    shard_transfers::ShardTransfers,
    state::SessionState,
};
use crate::{
    capture::Region,
    commit::Complete,
    error::{Error, Result, named},
    group::{Group, agree},
    restore::Targets,
    space::format::{Item, Manifest},
};

/// The most revisions that an error message lists.
const REVISIONS_MAX: usize = 20;

/// The result of `get`, apart from the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub revision: u64,
    /// Bytes of this rank that `get` filled in.
    pub bytes: u64,
    /// Damaged or unreadable parts of the space, and newer revisions that were passed over.
    pub skipped: Vec<String>,
}

impl SessionState {
    pub(super) fn put(&mut self, name: &str, bytes: &[u8]) -> Result<u64> {
        let added = self.program.ready().and_then(|()| {
            // SAFETY: a checkpoint only reads the region, which is removed below, while `bytes` is still borrowed.
            #[allow(unsafe_code)]
            let region = unsafe { Region::new(name, bytes.as_ptr().cast_mut(), bytes.len() as u64) };
            self.program.regions.add(region?.put())
        });
        let is_in = added.is_ok();
        let begun = self.begin(Call::Put, 0, added);
        let staged = begun.as_ref().map_or(Ok(0), |_| self.finish(Ok(())));
        if is_in {
            // After t2 nothing refers to the memory any more.
            self.program.regions.remove(name)?;
        }
        // A checkpoint begins on all ranks or on none. If it failed only here, other ranks may be further on and wait
        // for this rank.
        begun?;
        self.wait_for_all(Call::Put)?;
        staged
    }

    pub(super) fn get(&mut self, revision: Option<u64>, name: &str, into: &mut [u8]) -> Result<Option<Got>> {
        let (entry, found) = self.look(Call::Get, revision)?;
        let group = self.epoch.group.with(&entry);
        let read = |level: &Level, candidate: &Complete, transfers: &mut ShardTransfers| {
            level.get_one(group, candidate, transfers, name, into)
        };
        let (came, skipped) = self.levels.newest(group, &mut self.epoch.post, &found, read)?;
        let Some((chosen, bytes)) = came else { return Ok(None) };
        if revision.is_none() && !skipped.is_unread() {
            // Damaged revisions that were passed over are no longer kept. The revision that was read whole is.
            self.levels.go_back_to(&found, &chosen);
        }
        let revision = chosen.complete.key.number;
        Ok(Some(Got { revision, bytes, skipped: skipped.into_what() }))
    }

    pub(super) fn get_bytes(&mut self, revision: Option<u64>, name: &str) -> Result<Option<u64>> {
        let (entry, found) = self.look(Call::GetBytes, revision)?;
        let group = self.epoch.group.with(&entry);
        let (came, _) = self.levels.newest(group, &mut self.epoch.post, &found, |level, candidate, transfers| {
            level.check_ranks(group, candidate)?;
            let (portion, manifest) = level.read_shard(group, candidate, transfers)?;
            let bytes = match &manifest {
                Ok(manifest) => item_of(manifest, name, candidate).map(|item| item.bytes),
                Err(_) => Ok(0),
            };
            let bytes = agree(group, bytes)?;
            pour_together(group, &portion, &manifest, None)?;
            Ok(bytes)
        })?;
        Ok(came.map(|(_, bytes)| bytes))
    }

    /// The revisions that can be read: `revision` alone, or all of them for `None`. Collective.
    pub(super) fn look(&mut self, call: Call, revision: Option<u64>) -> Result<(Entered, Choices)> {
        let entry = self.wait_in(call)?;
        self.open_later(&entry)?;
        let group = self.epoch.group.with(&entry);
        ask_for_one(group, revision)?;
        let found = self.find(group, revision)?;
        Ok((entry, found))
    }

    /// The complete revisions that all ranks see, the newest first: `revision` alone, or all of them for `None`.
    /// Collective.
    pub(super) fn find(&self, group: &dyn Group, revision: Option<u64>) -> Result<Choices> {
        let mut found = self.levels.find_complete(group)?;
        let Some(revision) = revision else { return Ok(found) };
        let mut there: Vec<u64> = found.all.iter().map(|chosen| chosen.complete.key.number).collect();
        there.dedup();
        found.all.retain(|chosen| chosen.complete.key.number == revision);
        if found.all.is_empty() {
            let path = self.levels.farthest().location.device.path();
            return Err(Error::RevisionMissing { path, why: self.why_missing(revision, &there) });
        }
        Ok(found)
    }

    fn why_missing(&self, revision: u64, there: &[u64]) -> String {
        let why = if revision == 0 {
            "is none, numbers begin at 1".to_owned()
        } else if revision >= self.epoch.next_number {
            "has not been written yet".to_owned()
        } else {
            format!("is gone, as keep is {}, or was never complete", self.levels.nearest().keep())
        };
        let mut numbers: Vec<String> = there.iter().rev().take(REVISIONS_MAX).map(u64::to_string).collect();
        if there.len() > REVISIONS_MAX {
            numbers.push("and newer ones".to_owned());
        }
        let numbers = if numbers.is_empty() { "none yet".to_owned() } else { numbers.join(", ") };
        format!("revision {revision} {why}; there are: {numbers}")
    }
}

impl Level {
    /// Refuses a revision of another number of ranks. The answer is the same on all ranks.
    fn check_ranks(&self, group: &dyn Group, candidate: &Complete) -> Result<()> {
        let (saved, now, revision) = (candidate.shards, group.size() as u32, candidate.key.number);
        if saved == now {
            return Ok(());
        }
        let why = "a whole buffer comes back only to the rank that saved it; a reader (mainstay_reader_open, in Python \
                   mainstay.read) gives the buffer of any rank to anybody";
        Err(Error::RankCount { path: self.location.device.path(), revision, saved, now, why: why.to_owned() })
    }

    /// Fills `into` with this rank's part of `candidate`, and returns the number of bytes.
    fn get_one(
        &self,
        group: &dyn Group,
        candidate: &Complete,
        transfers: &ShardTransfers,
        name: &str,
        into: &mut [u8],
    ) -> Attempted<u64> {
        self.check_ranks(group, candidate)?;
        let (portion, manifest) = self.read_shard(group, candidate, transfers)?;
        let room = match &manifest {
            Ok(manifest) => room_for(manifest, name, candidate, into).map(Some),
            Err(_) => Ok(None),
        };
        let room = agree(group, room)?;
        let targets = room.as_ref().map(|(item, region)| Targets::of(item, region));
        pour_together(group, &portion, &manifest, targets.as_ref())?;
        Ok(room.map_or(0, |(item, _)| item.bytes))
    }
}

fn item_of<'a>(manifest: &'a Manifest, name: &str, candidate: &Complete) -> Result<&'a Item> {
    manifest.items.iter().find(|item| item.name == name).ok_or_else(|| {
        let there = named(manifest.items.iter().map(|item| item.name.as_str()));
        let why = format!("is not in revision {}, which has on this rank: {there}", candidate.key.number);
        Error::RegionMissing { name: name.to_owned(), why }
    })
}

/// The item called `name`, and the part of `into` that it fills.
fn room_for<'a>(
    manifest: &'a Manifest,
    name: &str,
    candidate: &Complete,
    into: &mut [u8],
) -> Result<(&'a Item, Region)> {
    let item = item_of(manifest, name, candidate)?;
    if item.bytes > into.len() as u64 {
        let (room, saved, revision) = (into.len(), item.bytes, candidate.key.number);
        let why =
            format!("room for {room} bytes, and this rank saved {saved} in revision {revision}; give it room for all");
        return Err(Error::argument("buffer", why));
    }
    // SAFETY: the region is within `into`, which is ours until the call ends, and is dropped before that.
    #[allow(unsafe_code)]
    let region = unsafe { Region::new(name, into.as_mut_ptr(), item.bytes) };
    Ok((item, region?))
}
