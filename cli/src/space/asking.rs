//! Asking a running job for a checkpoint, and seeing it through.

use crate::exit::Failure;
use mainstay_engine::{
    status::{Saved, Standing},
    tend::Request,
};
use std::path::{Path, PathBuf};

/// A request to the job that has a space open.
pub struct Asking {
    space: PathBuf,
    request: Request,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The job has not come to its next safe point.
    Waiting,
    /// The revision of this number is on its way.
    Begun(u64),
    /// It can be restored.
    Complete(u64),
}

impl Asking {
    pub fn begin(space: &Path) -> Result<Asking, Failure> {
        Ok(Asking { space: space.to_owned(), request: Request::send(space)? })
    }

    pub fn space(&self) -> &Path {
        &self.space
    }

    pub fn progress(&self) -> Progress {
        let Some(answer) = self.request.answer() else { return Progress::Waiting };
        let is_it = |saved: &Saved| saved.lineage == answer.lineage.number && saved.revision >= answer.number;
        // What cannot be read this moment may be the next.
        let standing = Standing::of(&self.space);
        let complete = standing.is_ok_and(|now| now.levels.iter().any(|level| level.complete.iter().any(is_it)));
        if complete { Progress::Complete(answer.number) } else { Progress::Begun(answer.number) }
    }

    /// Whether a job ever looked for requests here.
    pub fn is_heard(&self) -> bool {
        self.request.listener().is_some()
    }

    /// Gives up: the job is not to save itself long after.
    pub fn withdraw(self) {
        // One that stays costs a checkpoint, and no more.
        let _ = self.request.withdraw();
    }
}
