//! A member: hands over what it saves, and learns what became of it.

use super::{
    Aggregators, Part,
    words::{Answer, News, Word},
};
use crate::{
    error::{Error, Failure, Result},
    ground::{Instant, lock},
    group::{Group, hear, tell},
    session::{inner::Inner, level::Level, settle::Attempt},
    stage::{Staging, Way},
};

impl Inner {
    /// Has `aggregator` save what was begun, or tells it that there is nothing to save. Collective.
    pub(super) fn hand_over(&mut self, aggregator: usize, staging: Result<Staging>, ready: Result<()>) -> Result<()> {
        let handed = match staging {
            Ok(staging) => {
                let saving = staging.shard().clone();
                let handed = match ready {
                    Ok(()) => self.hand_over_all(aggregator, staging),
                    Err(error) => {
                        self.means.with_hands(&self.levels, Way::Space, |hands| staging.abandon(hands, error.clone()));
                        Err(error)
                    }
                };
                if let Err(error) = &handed {
                    saving.fail(error.clone());
                }
                self.levels.nearest_mut().saving = Some(Attempt::Running(saving));
                handed
            }
            Err(error) => {
                self.levels.nearest_mut().saving = Some(Attempt::Failed(error.clone()));
                Err(error)
            }
        };
        match &handed {
            // Nobody listens.
            Ok(()) | Err(Error::GroupFailed { .. }) => {}
            Err(error) => tell(self.epoch.group.between_two(), aggregator, &Word::GivenUp(Failure::from(error)))?,
        }
        handed
    }

    fn hand_over_all(&self, aggregator: usize, staging: Staging) -> Result<()> {
        let (group, saving) = (self.epoch.group.between_two(), staging.shard().clone());
        tell(group, aggregator, &Word::Order(Box::new(saving.order(aggregator))))?;
        let send = |mut at: u64, blocks: &[u8]| {
            for piece in blocks.chunks(self.epoch.aggregators.piece_bytes as usize) {
                tell(group, aggregator, &Word::Piece { at, bytes: piece.len() as u64 })?;
                group.send(aggregator, piece)?;
                at += piece.len() as u64;
            }
            Ok(())
        };
        let (regions, profile) = (self.program.regions.all(), self.profile());
        let staged =
            self.means.with_hands(&self.levels, Way::Rank(&send), |hands| staging.hand_over(hands, regions, profile));
        let (contents, staged) = staged?;
        let staged_at = Instant::now();
        saving.sync_outputs()?;
        tell(group, aggregator, &Word::Staged { contents: contents.encode(), staged })?;
        saving.note_staged(staged, contents);
        saving.note_resumed(staged_at.elapsed());
        Ok(())
    }
}

impl Level {
    /// What `aggregator` knows of what was handed over; whether it has come to its end. Collective.
    pub(super) fn hear_news(&self, group: &dyn Group, aggregator: usize) -> bool {
        let outcome = match hear(group, aggregator) {
            Ok(News::UnderWay) => return false,
            Ok(News::Ended(answer)) => {
                let Answer { outcome, ledger } = *answer;
                if let (Some(ledger), Some(current)) = (ledger, &self.current) {
                    lock(&current.ledger).take_back(aggregator, ledger);
                }
                outcome.map_err(|failed| failed.on(aggregator))
            }
            Err(error) => Err(error),
        };
        if let Some(Attempt::Running(saving)) = &self.saving {
            saving.end_as_told(outcome);
        }
        true
    }
}

impl Aggregators {
    /// Whether the shard that was handed over is durable. Nobody says so before the next collective call; so the
    /// medium is asked. Local.
    pub(in crate::session) fn is_seen_durable(&self, level: &Level) -> Result<bool> {
        let (Part::Member { waits: true, .. }, Some(Attempt::Running(saving)), Some(current)) =
            (&self.part, &level.saving, &level.current)
        else {
            return Ok(false);
        };
        if let Some(error) = saving.failure() {
            return Err(error.clone());
        }
        let ledger = lock(&current.ledger);
        if !ledger.shows(saving.sequence())? {
            return Ok(false);
        }
        // Its writer's sync may be under way still.
        ledger.portion().sync().map(|()| true)
    }
}
