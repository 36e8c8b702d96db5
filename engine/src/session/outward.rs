//! All that a session says to those outside of it who look at its space: how it stands, and what has happened.

use super::{
    diary::Diary,
    levels::Levels,
    telling::{End, Telling, holders_of},
};

/// Who says it; nobody but on rank 0.
#[derive(Default)]
pub(super) struct Outward {
    /// Where the farthest level has a note.
    pub(super) telling: Option<Telling>,
    /// Where the farthest level is a directory.
    pub(super) diary: Option<Diary>,
    /// Levels are opened later, and nothing is written down before.
    pub(super) waits: bool,
}

impl Outward {
    /// Tells how `levels` stand under `lineage`, if that has changed.
    pub(super) fn tell(&mut self, levels: &Levels, lineage: u64, end: Option<End>) {
        let mut writer = None;
        if let Some(telling) = &mut self.telling {
            telling.tell(levels.all(), lineage, end);
            writer = Some(&telling.writer);
        }
        if let Some(diary) = &mut self.diary {
            diary.look(levels.all());
            if end.is_some() {
                diary.closed();
            }
            if !self.waits {
                diary.hand_over(writer);
            }
        }
    }

    /// Waits until the journal has the opening, so that a job which is killed at once is seen to have started.
    pub(super) fn await_opening(&self) {
        match (&self.telling, &self.diary) {
            (Some(telling), _) => telling.writer.await_noted(),
            (None, Some(diary)) => diary.await_noted(),
            (None, None) => {}
        }
    }

    /// Has it told from now on who holds the copies.
    pub(super) fn tell_holders(&self, levels: &Levels) {
        if let Some(telling) = &self.telling {
            telling.writer.holders(holders_of(levels));
        }
    }

    /// Has written what is to be told, and tells no more.
    pub(super) fn close(&mut self) {
        (self.telling, self.diary) = (None, None);
    }
}
