//! Surveys a space without a group, a lock or write permission.
//!
//! A job may be writing meanwhile. A survey does not stop the job, so blocks may be freed and overwritten before they
//! are read.
//!
//! Invariant: a removed revision is never called damaged. A block is used again only when neither slot refers to it.
//! Damage found between two equal readings of the slots is therefore real; everything else is read again.

mod below;
mod hold_survey;
mod levels;
mod look;
mod places;
mod portion;
mod revision;
mod shard;
mod space;

pub use hold_survey::{HoldState, HoldSurvey};
pub use places::{Place, Places};
pub use portion::{NewestShard, PortionSurvey};
pub use revision::{RevisionPart, RevisionSurvey};
pub use shard::{ShardSurvey, Verified};
pub use space::{LayoutSurvey, SpaceSurvey};
