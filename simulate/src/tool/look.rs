//! Reading a space from outside, and comparing it with the promises.

use super::{Done, Space, Trouble, Work};
use crate::lock::locked;
use mainstay_engine::{
    Error,
    status::{Journal, Standing},
};

impl Work {
    /// Reads the status, the newest revision, and all held ones.
    pub(super) fn look(&self, space: &Space) -> Done {
        let held = locked(&space.judge).all_held();
        for (number, mark) in held {
            let found = self.read(&space.path, Some(number));
            let is_held = || locked(&space.judge).all_held().contains(&(number, mark));
            match found {
                Ok((_, found)) if found == mark => {}
                Err(Trouble::Refused(error)) if !is_held() => self.cluster.tell(|| format!("{number}: {error}")),
                Err(Trouble::Refused(error)) if self.tool.fault.is_some() => return Err(error.into()),
                Err(Trouble::Refused(error)) => {
                    return Err(Trouble::Wrong(format!("held revision {number} cannot be read: {error}")));
                }
                found => {
                    let found = found?;
                    return Err(Trouble::Wrong(format!("held revision {number} was {mark:?}, and is {found:?}")));
                }
            }
        }
        self.look_at_newest(space)?;
        Standing::of(&space.path)?;
        Journal::read(&space.path)?;
        Ok(())
    }

    /// Reads the newest revision. After a job it is compared with the promises. Beside a job it is not: the job may remove
    /// it meanwhile.
    fn look_at_newest(&self, space: &Space) -> Done {
        let floor = locked(&space.judge).floor(true);
        let found = match self.read(&space.path, None) {
            Ok((key, mark)) => {
                self.cluster.tell(|| format!("the newest is {}, {mark:?}", key.number));
                Some(mark)
            }
            Err(Trouble::Refused(Error::RevisionMissing { .. } | Error::NotASpace { .. })) => None,
            Err(trouble) => return Err(trouble),
        };
        if self.tool.time.is_some() {
            return Ok(());
        }
        locked(&space.judge).looked(found, floor).map_err(Trouble::Wrong)
    }
}
