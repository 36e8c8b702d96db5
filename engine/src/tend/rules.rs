//! Which revisions stay when a space is pruned. Rules add up: a revision stays if any rule names it.

use crate::{
    commit::RevisionKey,
    mutant::{self, Mutant},
    survey::{HoldState, RevisionSurvey, SpaceSurvey},
};

/// The rules of a prune. Without any rule only the newest complete revision and held ones stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// This many of the newest complete revisions stay.
    pub keep_last: Option<u64>,
    /// Complete revisions with a number that is a multiple of this stay; 0 names none.
    pub keep_every: Option<u64>,
    /// Revisions begun at this time or later (t1, nanoseconds since 1970) stay, complete or not.
    pub older_than_unix_ns: Option<u64>,
}

/// Why a revision stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is the newest complete revision.
    Newest,
    Held,
    Last,
    Every,
    Young,
    /// The revision is incomplete, and newer than every complete one: it may become complete.
    Unfinished,
    /// It is not newer than the revision that the space is rolled back to.
    NotNewer,
    /// It is not one of the named ones.
    NotNamed,
}

/// The fate of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    pub key: RevisionKey,
    /// The id of the revision's layout.
    pub layout: [u8; 16],
    pub complete: bool,
    pub bytes: u64,
    pub t1_unix_ns: u64,
    /// Why the revision stays; it goes if there is no reason.
    pub reasons: Vec<Reason>,
}

impl Fate {
    pub fn goes(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// Applies `rules` to each revision of `survey`, in the survey's order: newest first.
pub fn fates(survey: &SpaceSurvey, rules: &Rules) -> Vec<Fate> {
    let newest = survey.newest().map(|revision| revision.key);
    // A hold counts even before a job has read it.
    let wanted = survey.holds.iter().filter(|held| held.state != HoldState::Expired);
    let held: Vec<RevisionKey> = wanted.map(|held| held.key()).collect();
    let mut rank = 0;
    let fate = |revision: &RevisionSurvey| {
        let key = revision.key;
        let mut reasons = Vec::new();
        let mut stays = |reason, condition: bool| reasons.extend(condition.then_some(reason));
        if revision.complete {
            stays(Reason::Newest, Some(key) == newest);
            stays(Reason::Held, held.contains(&key) && !mutant::is(Mutant::PruneTakesHeld));
            stays(Reason::Last, rules.keep_last.is_some_and(|last| rank < last));
            let multiple = |every: u64| every > 0 && key.number.is_multiple_of(every);
            stays(Reason::Every, rules.keep_every.is_some_and(multiple));
            rank += 1;
        } else {
            stays(Reason::Unfinished, newest.is_none_or(|newest| key > newest));
        }
        let t1_unix_ns = revision.t1_unix_ns();
        stays(Reason::Young, rules.older_than_unix_ns.is_some_and(|time| t1_unix_ns >= time));
        let (layout, complete, bytes) = (revision.layout, revision.complete, revision.bytes());
        Fate { key, layout, complete, bytes, t1_unix_ns, reasons }
    };
    let fates: Vec<Fate> = survey.revisions.iter().map(fate).collect();
    let stays = |key: &RevisionKey| fates.iter().any(|fate| fate.key == *key && !fate.goes());
    debug_assert!(newest.iter().all(stays), "the newest complete revision goes");
    fates
}
