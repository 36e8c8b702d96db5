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

impl Saver {
    /// Saves the ranks of this process as its shard of the next revision. Collective.
    pub fn save(
        &mut self,
        session: &mut Session,
        ranks: &mut [Rank],
        post: &mut Post,
        program: &Program,
    ) -> Result<()> {
        let mut streams = vec![(JOB.to_owned(), JobRecord::new(post.slots().ranks, program).to_bytes()?)];
        for rank in ranks.iter_mut() {
            rank.system.begin_revision();
            let pair = saved_pair(rank, post.mailbox(rank.number))?;
            streams.push((stream(rank.number), pair_to_bytes(&pair)?));
        }
        self.regions.follow(session, ranks)?;
        checkpoint(session, &streams)
    }

    /// A rank leaves this process. Local.
    pub fn give_up(&mut self, session: &mut Session, rank: u32) -> Result<()> {
        self.regions.give_up(session, rank)
    }

    /// All ranks leave this process. Local.
    pub fn give_all_up(&mut self, session: &mut Session) -> Result<()> {
        self.regions.clear(session)
    }

    /// Saves that the job has ended. Collective.
    pub fn save_end(&mut self, session: &mut Session, program: &Program) -> Result<()> {
        self.regions.clear(session)?;
        checkpoint(session, &[(JOB.to_owned(), JobRecord::new(0, program).to_bytes()?)])
    }
}

fn checkpoint(session: &mut Session, streams: &[(String, Vec<u8>)]) -> Result<()> {
    session.begin(streams.iter().map(|(_, bytes)| bytes.len() as u64).sum())?;
    for (name, bytes) in streams {
        session.write(name, 0, bytes)?;
    }
    session.checkpoint()?;
    Ok(())
}
