//! What members and aggregators tell each other.

use crate::{
    commit::Handed,
    error::Failure,
    place::{Order, Staged},
    space::format::PhaseRecord,
};
use serde::{Deserialize, Serialize};

/// From a member: an order, pieces, and that all is staged; or, at any time, that it gives up.
#[derive(Serialize, Deserialize)]
pub(super) enum Word {
    Order(Box<Order>),
    /// So many bytes come next, and belong there in the log.
    Piece {
        at: u64,
        bytes: u64,
    },
    Staged {
        /// As `Contents` are told.
        contents: Vec<u8>,
        staged: Staged,
    },
    GivenUp(Failure),
}

/// From the aggregator, in each collective call until it was told what became of it.
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
