//! The documents of the commands that tend: `checkpoint`, `copy`, `evacuate`, `hold`, `release`, `prune`, `reserve` and
//! `grow`, `salvage`.

use super::Key;
use serde::Serialize;

#[derive(Serialize)]
pub struct Checkpoint<'a> {
    pub space: &'a str,
    /// The revision is complete.
    pub revision: u64,
}

#[derive(Serialize)]
pub struct Evacuated<'a> {
    pub space: &'a str,
    pub node: &'a str,
    /// Objects that were on the node and have left it.
    pub moved: u64,
    /// Copies of shards that were on the node, and are on other nodes with this revision.
    pub copies: u64,
    /// Copies that stay on emptied nodes, because the other nodes are too few.
    pub copies_stay: u64,
    /// The first complete revision with the objects in their new places.
    pub revision: u64,
}

#[derive(Serialize)]
pub struct Held<'a> {
    pub space: &'a str,
    pub dry_run: bool,
    /// If false: from the job's next checkpoint on, if the revision is still there then.
    pub counts: bool,
    /// `None` for a dry run.
    pub hold: Option<Hold>,
    /// If the space has other levels in sight: the levels that hold the revision, nearest first.
    pub levels: Vec<String>,
    #[serde(flatten)]
    pub key: Key,
}

#[derive(Serialize)]
pub struct Released<'a> {
    pub space: &'a str,
    pub dry_run: bool,
    pub released: Vec<Hold>,
}

#[derive(Serialize)]
pub struct Hold {
    pub id: String,
    #[serde(flatten)]
    pub key: Key,
    pub created_unix_ns: u64,
    pub expires_unix_ns: Option<u64>,
    pub note: String,
}

#[derive(Serialize)]
pub struct Prune<'a> {
    pub space: &'a str,
    pub dry_run: bool,
    pub revisions: Vec<PrunedRevision>,
    pub layouts_removed: Vec<String>,
}

#[derive(Serialize)]
pub struct PrunedRevision {
    #[serde(flatten)]
    pub key: Key,
    /// Only if the space has other levels in sight.
    pub level: Option<&'static str>,
    pub copy: Option<u32>,
    pub complete: bool,
    pub bytes: u64,
    pub t1_unix_ns: u64,
    pub goes: bool,
    /// Empty if the revision goes.
    pub stays_for: Vec<&'static str>,
}

#[derive(Serialize)]
pub struct Copy {
    pub space: String,
    pub other: String,
    pub dry_run: bool,
    pub revisions: Vec<CopiedRevision>,
}

#[derive(Serialize)]
pub struct CopiedRevision {
    #[serde(flatten)]
    pub key: Key,
    pub shards: u32,
    pub bytes: u64,
    pub t1_unix_ns: u64,
    /// `copied` (or would be, in a dry run), `was_there`, `lost` or `gone`.
    pub state: &'static str,
    /// The reason for `lost` or `gone`.
    pub why: Option<String>,
    /// The shards that were not read from the nearest place, and the reason.
    pub elsewhere: Vec<String>,
}

#[derive(Serialize)]
pub struct Reserve<'a> {
    pub space: &'a str,
    pub dry_run: bool,
    pub file_system: &'static str,
    /// 0 without stripes.
    pub stripe_bytes: u64,
    /// `None` if no stripes were asked for.
    pub stripes_in_effect: Option<bool>,
    /// Lazy I/O was asked for and granted; `None` for a dry run.
    pub lazy_io: Option<bool>,
    pub files: Vec<ReservedFile<'a>>,
    pub layouts_removed: &'a [String],
}

#[derive(Serialize)]
pub struct ReservedFile<'a> {
    pub file: &'a str,
    pub ranks: &'a [u32],
    pub bytes: u64,
    /// Bytes that a job will write.
    pub used_bytes: u64,
    /// `None` if the file system does not report it.
    pub allocated_bytes: Option<u64>,
}

#[derive(Serialize)]
pub struct Salvage {
    pub pool_directory: String,
    pub dry_run: bool,
    pub shards: Vec<SalvagedShard>,
    pub incomplete: Vec<Incomplete>,
    pub pools_removed: usize,
    pub pools_left: usize,
    pub left: Vec<PoolLeft>,
}

/// The pool of a dead job, which stays.
#[derive(Serialize)]
pub struct PoolLeft {
    pub pool: String,
    pub why: String,
}

/// A revision that still lacks shards.
#[derive(Serialize)]
pub struct Incomplete {
    pub space: String,
    #[serde(flatten)]
    pub key: Key,
    pub shards: u32,
    pub missing: Vec<Missing>,
}

/// A range of shards.
#[derive(Serialize)]
pub struct Missing {
    pub from: u32,
    pub below: u32,
}

/// Staged data of a space in the memory of this node.
#[derive(Serialize)]
pub struct Staged {
    #[serde(flatten)]
    pub key: Key,
    pub shards: u32,
    pub shards_staged: Vec<u32>,
}

#[derive(Serialize)]
pub struct SalvagedShard {
    pub space: String,
    #[serde(flatten)]
    pub key: Key,
    pub shard: u32,
    /// `completed` (in a dry run `completable`), `was_complete`, `lost`, `space_gone`, `in_use` or `failed`.
    pub fate: &'static str,
    /// The reason for `lost` or `failed`.
    pub why: Option<String>,
}
