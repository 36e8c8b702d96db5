//! What wards and holders tell each other.

use crate::{
    commit::Handed,
    error::Failure,
    place::{Order, Staged},
    space::format::PhaseRecord,
};
use serde::{Deserialize, Serialize};

/// From a ward: an order, pieces, and that all is staged; or, at any time, that it gives up.
#[derive(Serialize, Deserialize)]
pub(super) enum Word {
    Order(Box<Order>),
    /// These come next, one after another: where in the log they belong, and how many bytes they have.
    Pieces(Vec<(u64, u64)>),
    Staged {
        /// As `Contents` are told.
        contents: Vec<u8>,
        staged: Staged,
    },
    GivenUp(Failure),
}

/// From the holder, in each collective call until the ward was told what became of its shard.
#[derive(Serialize, Deserialize)]
pub(super) enum News {
    /// Nobody waits for it in this call.
    UnderWay,
    Ended(Box<Answer>),
}

/// What became of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) outcome: Result<PhaseRecord, Failure>,
    /// Without an order there was none.
    pub(super) ledger: Option<Handed>,
}
