//! The session's reports for readers of its space: the status and the journal.

use super::{
    diary::Diary,
    levels::Levels,
    status_reporter::{End, StatusReporter, holders_of},
};

/// The writers of status and journal. Empty except on rank 0.
#[derive(Default)]
pub(super) struct Announcer {
    /// The status; present if the farthest level has a note.
    pub(super) reporter: Option<StatusReporter>,
    /// The journal; present if the farthest level is a directory.
    pub(super) diary: Option<Diary>,
    /// Some levels are opened later; until then nothing is written.
    pub(super) waits: bool,
}

impl Announcer {
    /// Reports the state of `levels` under `lineage`, if it has changed.
    pub(super) fn tell(&mut self, levels: &Levels, lineage: u64, end: Option<End>) {
        let mut writer = None;
        if let Some(reporter) = &mut self.reporter {
            reporter.tell(levels.all(), lineage, end);
            writer = Some(&reporter.writer);
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

    /// Waits until the journal records the opening. Then a job that is killed at once is known to have started.
    pub(super) fn await_opening(&self) {
        match (&self.reporter, &self.diary) {
            (Some(reporter), _) => reporter.writer.await_noted(),
            (None, Some(diary)) => diary.await_noted(),
            (None, None) => {}
        }
    }

    /// Puts the holders of the copies into the status.
    pub(super) fn tell_holders(&self, levels: &Levels) {
        if let Some(reporter) = &self.reporter {
            reporter.writer.holders(holders_of(levels));
        }
    }

    /// Writes everything that is pending, and reports nothing more.
    pub(super) fn close(&mut self) {
        (self.reporter, self.diary) = (None, None);
    }
}
