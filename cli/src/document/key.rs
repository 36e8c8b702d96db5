//! The revision of a document.

use super::hex;
use mainstay_engine::RevisionKey;
use serde::Serialize;

#[derive(Serialize)]
pub struct Key {
    pub revision: u64,
    pub lineage: u64,
    pub lineage_id: String,
}

impl Key {
    pub fn of(key: RevisionKey) -> Key {
        Key { revision: key.number, lineage: key.lineage.number, lineage_id: hex(&key.lineage.id) }
    }
}
