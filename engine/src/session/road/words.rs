//! What wards and holders tell each other.

use crate::{
    commit::HandedLedger,
    error::Failure,
    place::{Order, StagingTime},
    space::format::{PhaseRecord, Run},
};
use serde::{Deserialize, Serialize};

/// What a ward says: an order, pieces, and that all is staged; or, at any time, that it gives up.
#[derive(Serialize, Deserialize)]
pub(super) enum Word {
    Order(Box<Order>),
    /// The pieces that come next, one after another: where in the log each belongs, and how many bytes it has.
    Pieces(Vec<(u64, u64)>),
    Staged {
        /// The encoded `Contents`.
        contents: Vec<u8>,
        /// Runs of older revisions that the shard leads to, where that was found out while it was staged.
        led: Vec<Run>,
        staged: StagingTime,
    },
    GivenUp(Failure),
}

/// What a holder says, in each collective call until the ward was told what became of its shard.
#[derive(Serialize, Deserialize)]
pub(super) enum News {
    /// The shard has not ended, and nobody waits for it in this call.
    UnderWay,
    Ended(Box<Answer>),
}

/// What became of a ward's shard.
#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) outcome: Result<PhaseRecord, Failure>,
    /// The ledger of the ward's portion; `None` if no order came with one.
    pub(super) ledger: Option<HandedLedger>,
}
