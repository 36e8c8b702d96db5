//! Reads the spaces of a session before anything is written there. Finds the ranks that share them and the revisions in
//! them, and checks that they fit together.

mod fitting;
mod newest;
mod scan;
mod space;
mod wanted;

pub(super) use self::{space::Looked, wanted::Wanted};

use self::fitting::note_joint;
use super::{
    copies,
    domain::Domain,
    epoch::same_id,
    level::Writers,
    level_plan::LevelPlan,
    locking::{self, KeptLocks},
    places::NoteFile,
};
use crate::{
    config::Config,
    device::Device,
    error::Result,
    group::Group,
    space::{GoneBack, Per},
};
use std::{ops::Range, sync::Arc};

impl Looked {
    /// Reads the levels of `plans` in the range `which`, each with its copies. `note` is the note of the space, present
    /// with several levels. `holds`: this rank holds copies of others. `kept`: the job goes on after a failure.
    /// Collective.
    pub(super) fn at_all(
        group: &dyn Group,
        plans: &[LevelPlan],
        which: Range<usize>,
        note: Option<&NoteFile>,
        config: &Config,
        holds: bool,
        mut kept: Option<&mut KeptLocks>,
    ) -> Result<Vec<Looked>> {
        let id = same_id(group)?;
        let back: Arc<[GoneBack]> = note.map(NoteFile::back).unwrap_or_default().into();
        // Revisions to keep for other levels until these have them.
        let feeds = plans[1..].iter().filter(|plan| plan.every > 0).count() as u32;
        let mut looked: Vec<Looked> = Vec::new();
        for index in which {
            let plan = &plans[index];
            let config = config_of(plan, config, index == plans.len() - 1);
            let (every, feeds) = if index == 0 { (1, feeds) } else { (plan.every, 0) };
            let has_others = plans.len() > 1;
            let mut at = |device: &Arc<dyn Device>, writers, feeds| {
                let (kind, back) = (plan.kind, back.clone());
                let device = device.clone();
                let wanted = Wanted { kind, writers, every, has_others, feeds, device, back };
                let domain = Domain::find(group, &*wanted.device, id)?;
                let locks = locking::take(group, &*wanted.device, &domain, kept.as_deref_mut())?;
                Looked::at(group, wanted, config.clone(), domain, locks)
            };
            let level = at(&plan.device, Writers::Owners, feeds)?;
            let holders = copies::holders(group, plan.kind, &level.domain, plan.copies.len() + 1, holds, &[])?;
            looked.push(level);
            for (holders, device) in holders.into_iter().zip(&plan.copies) {
                looked.push(at(device, Writers::Holders(holders), 0)?);
            }
            // A single rank sees all of them; several ranks must exchange their findings.
            if !plan.former.is_empty() && (group.size() == 1 || copies::can_exchange(group)?) {
                for device in &plan.former {
                    looked.push(at(device, Writers::Nobody, 0)?);
                }
            }
        }
        note_joint(&mut looked)?;
        Ok(looked)
    }
}

/// The settings for the level of `plan`. Settings of sizes and files apply only to the farthest level.
fn config_of(plan: &LevelPlan, config: &Config, is_farthest: bool) -> Config {
    let config = Config { keep: plan.keep, ..config.clone() };
    if is_farthest {
        return config;
    }
    Config { per: Per::Rank, portion_bytes: 0, stripe_count: 0, stripe_bytes: 0, ..config }
}
