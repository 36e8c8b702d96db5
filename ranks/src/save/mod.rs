//! Saving ranks, and bringing them back.
//!
//! The memory of a rank is regions of the session, named by the rank and the place in its slot. All else about it is a
//! stream of its own: registers, areas, files, mailbox. A shard of a revision has the ranks of one process.

mod back;
mod record;
mod regions;

pub(crate) use back::{Back, bring_back, map_areas, protect_areas};
pub(crate) use record::{pair_from_bytes, pair_to_bytes};
pub(crate) use regions::saved_parts;

use crate::{
    Result,
    message::Post,
    rank::{Rank, saved_pair},
    slot::Program,
};
use mainstay_engine::Session;
use record::{JOB, JobRecord, stream};
use regions::Regions;

#[derive(Debug, Default)]
pub(crate) struct Saver {
    regions: Regions,
}

/// The streams of a shard, by their names.
type Streams = Vec<(String, Vec<u8>)>;

impl Saver {
    /// Saves the ranks of this process as its shard of the next revision. Collective. If it fails, the ranks can go on,
    /// and are saved again by a later call.
    pub fn save(
        &mut self,
        session: &mut Session,
        ranks: &mut [Rank],
        post: &mut Post,
        program: &Program,
    ) -> Result<()> {
        let prepared = self.prepare(session, ranks, post, program);
        let streams = prepared.unwrap_or_else(|error| {
            session.refuse(error.into());
            Streams::new()
        });
        let begun = begin(session, &streams);
        if begun.is_ok() {
            // A checkpoint begins only if the one before it has not failed.
            ranks.iter_mut().for_each(|rank| rank.system.removed.before_is_safe());
        }
        let saved = begun.and_then(|()| end(session, &streams));
        if saved.is_err() {
            ranks.iter_mut().for_each(|rank| rank.system.removed.revision_failed());
        }
        saved
    }

    fn prepare(
        &mut self,
        session: &mut Session,
        ranks: &mut [Rank],
        post: &mut Post,
        program: &Program,
    ) -> Result<Streams> {
        let mut streams = vec![(JOB.to_owned(), JobRecord::new(post.slots().ranks, program).to_bytes()?)];
        for rank in ranks.iter_mut() {
            rank.system.begin_revision();
            let pair = saved_pair(rank, post.mailbox(rank.number))?;
            streams.push((stream(rank.number), pair_to_bytes(&pair)?));
        }
        self.regions.follow(session, ranks)?;
        Ok(streams)
    }

    /// A rank leaves this process. Local.
    pub fn give_up(&mut self, session: &mut Session, rank: u32) -> Result<()> {
        self.regions.give_up(session, rank)
    }

    /// All ranks leave this process. Local.
    pub fn give_all_up(&mut self, session: &mut Session) -> Result<()> {
        self.regions.clear(session)
    }

    /// Saves that the job has ended, and waits until that is durable. Collective.
    pub fn save_end(&mut self, session: &mut Session, program: &Program) -> Result<()> {
        self.regions.clear(session)?;
        let streams = vec![(JOB.to_owned(), JobRecord::new(0, program).to_bytes()?)];
        // The first call may report that the checkpoint before has failed, and begin nothing.
        begin(session, &streams).or_else(|_| begin(session, &streams))?;
        let written = end(session, &streams);
        session.wait()?;
        written
    }
}

fn begin(session: &mut Session, streams: &Streams) -> Result<()> {
    session.begin(streams.iter().map(|(_, bytes)| bytes.len() as u64).sum())?;
    Ok(())
}

/// Every process calls it, also after a failed write.
fn end(session: &mut Session, streams: &Streams) -> Result<()> {
    let written = streams.iter().try_for_each(|(name, bytes)| session.write(name, 0, bytes));
    session.checkpoint()?;
    Ok(written?)
}
