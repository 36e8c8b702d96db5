//! What a space holds, for those who only look: no group, no lock, no right to write.
//!
//! A job may be writing meanwhile. A reader holds nothing back: blocks that it is about to read may be let go and
//! overwritten.
//!
//! What must hold: nothing is called damaged that was only let go. A block is used again only when neither slot refers
//! to it, so damage found between two equal readings of the slots is damage, and everything else is looked at again.

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
pub use revision::{Lying, RevisionSurvey};
pub use shard::{ShardSurvey, Verified};
pub use space::{LayoutSurvey, SpaceSurvey};
