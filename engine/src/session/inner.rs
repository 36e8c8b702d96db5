//! What a session consists of, and the parts of its work that the other files share.

use super::{
    Record, aggregators::Aggregators, checkpoint::Begun, domain::Domain, due::Due, entry::Ranks, holds::Holds,
    reading::Reading, settle::Attempt,
};
use crate::{
    capture::{Look, Notes, Outputs, Region, Regions},
    commit::{Complete, Ledger, RevisionKey},
    config::Config,
    device::Device,
    error::{Error, Result},
    place::{IoThreads, lock},
    pool::{self, Pool, PoolBound},
    restore::{Seen, Sight},
    space::{
        LayoutFile, Locks,
        format::{Lineage, Profile},
    },
    stage::{Policy, PoolInMaking},
};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};

pub(super) struct Inner {
    // Fields end in this order: first what is under way, last the lock that keeps others out.
    /// Between t1 and t2.
    pub(super) begun: Option<Begun>,
    pub(super) io: IoThreads,
    pub(super) saving: Option<Attempt>,
    /// `None` with a stage that has no buffer of the node.
    pub(super) pool: Option<PoolInMaking>,
    /// A checkpoint is what comes next: the pool's memory is made while the program does something else.
    pub(super) pool_is_foreseen: bool,
    /// From which another process could complete a shard; where there is a pool.
    pub(super) record: Option<pool::Record>,
    pub(super) aggregators: Aggregators,
    pub(super) policy: Policy,
    /// Lowest rank of this node.
    pub(super) node: u32,
    pub(super) current: Option<Current>,
    /// What was restored was shared out to other boxes: its shards need other portions than theirs.
    pub(super) has_other_boxes: bool,
    /// Portions that are only read: of older layouts, and of ranks that are not here.
    pub(super) others: Vec<Ledger>,
    pub(super) layouts: Vec<LayoutFile>,
    pub(super) regions: Regions,
    pub(super) notes: Notes,
    pub(super) outputs: Outputs,
    pub(super) config: Config,
    pub(super) domain: Domain,
    pub(super) lineage: Lineage,
    /// Whether this lineage has begun a revision.
    pub(super) attempted: bool,
    pub(super) next_number: u64,
    /// The newest revisions that all ranks know to be complete, newest first.
    pub(super) complete: Vec<Complete>,
    /// What others hold stays besides.
    pub(super) holds: Holds,
    /// What could not be read when the space was opened.
    pub(super) damage: Vec<String>,
    /// Slots that a crash cut short, or that are damaged: they look alike.
    pub(super) torn: Vec<String>,
    pub(super) last: Option<Record>,
    pub(super) reading: Reading,
    pub(super) due: Due,
    /// Whether earlier jobs left something that this session has not read, and may not push out unread.
    pub(super) unread: bool,
    /// Why no collective call is possible any more: a rank has closed the session alone.
    pub(super) over: Option<Error>,
    pub(super) device: Arc<dyn Device>,
    pub(super) group: Ranks,
    pub(super) _locks: Locks,
}

/// The layout that is written.
pub(super) struct Current {
    pub(super) layout_id: [u8; 16],
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

impl Inner {
    pub(super) fn rank(&self) -> usize {
        self.group.rank()
    }

    pub(super) fn size(&self) -> usize {
        self.group.size()
    }

    pub(super) fn protect(&mut self, region: Region) -> Result<()> {
        self.check_not_begun("protect")?;
        let bytes = self.pooled_bytes_of(&region);
        self.regions.add(region)?;
        self.foresee(bytes);
        Ok(())
    }

    pub(super) fn unprotect(&mut self, name: &str) -> Result<()> {
        self.check_not_begun("unprotect")?;
        let bytes = self
            .regions
            .all()
            .iter()
            .find(|region| region.description.name == name)
            .map(|region| self.pooled_bytes_of(region));
        self.regions.remove(name)?;
        self.foresee_less(bytes.unwrap_or(0));
        Ok(())
    }

    pub(super) fn move_region(&mut self, region: Region) -> Result<()> {
        self.check_not_begun("move")?;
        self.regions.replace(region)
    }

    /// # Safety
    /// As for [`Region::new`].
    #[allow(unsafe_code)]
    pub(super) unsafe fn move_to(&mut self, name: &str, address: *mut u8, shape: Option<&[u64]>) -> Result<()> {
        self.check_not_begun("move")?;
        // SAFETY: the caller's promise is passed on.
        unsafe { self.regions.move_to(name, address, shape) }
    }

    pub(super) fn follow(&mut self, name: &str, look: Look) -> Result<()> {
        self.check_not_begun("follow")?;
        self.regions.follow(name, look)
    }

    pub(super) fn note(&mut self, name: &str, value: &str) -> Result<()> {
        self.check_not_begun("note")?;
        self.notes.set(name, value)
    }

    pub(super) fn protect_output(&mut self, path: &Path) -> Result<()> {
        self.check_not_begun("protect_output")?;
        self.outputs.add(path)
    }

    /// The newest complete revisions once all ranks know that `key` is one: what every root must keep.
    pub(super) fn complete_with(&self, key: Option<RevisionKey>) -> Vec<Complete> {
        let layout = self.current.as_ref().map_or([0; 16], |current| current.layout_id);
        let new = key.map(|key| Complete { key, shards: self.group.size() as u32, layout });
        new.into_iter().chain(self.complete.iter().copied()).take(self.config.keep as usize).collect()
    }

    /// What goes with the next revision besides its items.
    pub(super) fn profile(&self) -> Profile {
        let pool = self.pool.as_ref().map(PoolInMaking::pool);
        Profile {
            node: self.node,
            stage: self.config.stage.code(),
            keep: u16::try_from(self.config.keep).ok(),
            pool_bytes: pool.map_or(0, Pool::made_bytes),
            pool_bound: pool.map_or(PoolBound::default(), |pool| pool.bound()),
            chunk_bytes: pool.map_or(0, |pool| pool.chunk_bytes()),
            threshold_bytes: self.policy.threshold(),
            ..Profile::default()
        }
    }

    /// All that this rank sees.
    pub(super) fn sight(&self) -> Sight {
        let mut sight = Sight { damage: self.damage.clone(), torn: self.torn.clone(), ..Sight::default() };
        self.each_ledger(|ledger| {
            let layout = ledger.portion().layout_id();
            sight.portions.push((layout, ledger.portion().rank()));
            for kept in ledger.found() {
                sight.lineages.push(kept.entry.lineage);
                sight.shards.push(Seen::of(&kept.entry, layout));
            }
        });
        sight
    }

    pub(super) fn each_ledger(&self, mut visit: impl FnMut(&Ledger)) {
        self.others.iter().for_each(&mut visit);
        if let Some(current) = &self.current {
            visit(&lock(&current.ledger));
        }
    }
}
