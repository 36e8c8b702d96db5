//! Saving ranks, and bringing them back.
//!
//! The memory of a rank is regions of the session, named by the rank and the place in its slot. Its registers, areas, files
//! and mailbox are its record, which is a region, too. A shard of a revision has the ranks of one process.
#![allow(unsafe_code)]

mod back;
mod record;
mod regions;

pub(crate) use back::{Back, bring_back, check_fits, map_areas, protect_areas};
#[cfg(feature = "fuzzing")]
pub(crate) use record::JobRecord as SavedJob;
pub(crate) use record::{pair_from_bytes, pair_to_bytes};
pub(crate) use regions::saved_parts;

use crate::{
    Result,
    message::Post,
    rank::{Rank, saved_pair},
    slot::Program,
    system::remove_second,
};
use mainstay_engine::{Region, Session};
use record::{JOB, JobRecord, record_name};
use regions::Regions;

#[derive(Debug, Default)]
pub(crate) struct Saver {
    regions: Regions,
    /// The records of the last checkpoint, with their names. Each is a region of the session.
    records: Records,
}

type Records = Vec<(String, Vec<u8>)>;

impl Saver {
    /// Saves the ranks of this process as its shard of the next revision. Collective. After an error the ranks can
    /// go on, and a later call saves them again.
    pub fn save(
        &mut self,
        session: &mut Session,
        ranks: &mut [Rank],
        post: &mut Post,
        program: &Program,
    ) -> Result<()> {
        if let Err(error) = self.prepare(session, ranks, post, program) {
            session.refuse(error.into());
        }
        let saved = session.checkpoint();
        for rank in ranks {
            match saved {
                // A checkpoint reports a failure of the one before it.
                Ok(_) => rank.system.removed.previous_is_safe(),
                Err(_) => rank.system.removed.revision_failed(),
            }
        }
        saved.map(drop).map_err(Into::into)
    }

    fn prepare(&mut self, session: &mut Session, ranks: &mut [Rank], post: &mut Post, program: &Program) -> Result<()> {
        let mut records = vec![(JOB.to_owned(), JobRecord::new(post.slots().ranks, program).to_bytes()?)];
        for rank in ranks.iter_mut() {
            rank.system.begin_revision();
            let pair = saved_pair(rank, post.mailbox(rank.number))?;
            records.push((record_name(rank.number), pair_to_bytes(&pair)?));
        }
        self.regions.follow(session, ranks)?;
        self.replace_records(session, records)
    }

    fn replace_records(&mut self, session: &mut Session, records: Records) -> Result<()> {
        while let Some((name, _)) = self.records.last() {
            session.unprotect(name)?;
            self.records.pop();
        }
        for (name, mut bytes) in records {
            // SAFETY: the bytes stay where they are until `replace_records` has given the region up.
            let region = unsafe { Region::new(&name, bytes.as_mut_ptr(), bytes.len() as u64)? };
            session.protect(region.self_contained())?;
            self.records.push((name, bytes));
        }
        Ok(())
    }

    /// A rank leaves this process. Local.
    pub fn give_up(&mut self, session: &mut Session, rank: u32) -> Result<()> {
        self.regions.give_up(session, rank)
    }

    /// All ranks leave this process. Local.
    pub fn give_all_up(&mut self, session: &mut Session) -> Result<()> {
        self.replace_records(session, Records::new())?;
        self.regions.clear(session)
    }

    /// Saves the end of the job, waits until it is durable, and removes the second names of the files `lost`. If this
    /// process is killed before that, the next start removes them. Collective.
    pub fn save_end(&mut self, session: &mut Session, lost: Vec<Vec<u8>>, program: &Program) -> Result<()> {
        self.regions.clear(session)?;
        let record = JobRecord::of_end(program, lost);
        self.replace_records(session, vec![(JOB.to_owned(), record.to_bytes()?)])?;
        // The first call may report the failure of an earlier checkpoint, and save nothing.
        session.checkpoint().or_else(|_| session.checkpoint())?;
        session.wait()?;
        record.lost.iter().for_each(|path| remove_second(path));
        Ok(())
    }
}

impl Drop for Saver {
    /// Leaks the records: the session still has them as regions, and may be reading them.
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.records));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Library;
    use mainstay_engine::{Config, group::Solo};
    use std::{fs, os::unix::ffi::OsStrExt};

    /// A job was killed between the two, and the second names stayed for ever.
    #[test]
    fn the_next_start_removes_second_names_that_the_end_has_left() {
        let folder = tempfile::tempdir().unwrap();
        let (lost, second) = (folder.path().join("table"), folder.path().join(".table.mainstay"));
        let program = Program::find(&["true".into()], &Library::default()).unwrap();
        let open = || Session::open(Box::new(Solo), &folder.path().join("space"), Config::default()).unwrap();
        let mut session = open();
        fs::write(&second, "").unwrap();
        let lost = vec![lost.as_os_str().as_bytes().to_vec()];
        Saver::default().save_end(&mut session, lost, &program).unwrap();
        assert!(!second.exists());
        session.close().unwrap();
        fs::write(&second, "").unwrap();
        let mut session = open();
        assert!(bring_back(&mut session, &program, 0, (0, 1)).unwrap().is_none());
        assert!(!second.exists());
        session.close().unwrap();
    }
}
