//! The documents of the commands that tend: `checkpoint`, `copy`, `evacuate`, `hold`, `release`, `prune`, `reserve` and
//! `grow`, `salvage`.

use super::Key;
use serde::Serialize;

#[derive(Serialize)]
pub struct Checkpoint<'a> {
    pub space: &'a str,
    /// It is complete.
    pub revision: u64,
}

#[derive(Serialize)]
pub struct Evacuated<'a> {
    pub space: &'a str,
    pub node: &'a str,
    /// Objects that were there, and are not now.
    pub moved: u64,
    /// Copies of shards that were there, and are on other nodes with this revision.
    pub copies: u64,
    /// Copies that stay on nodes that were left, as the others are too few.
    pub copies_stay: u64,
    /// The first one that has them where they are now; it is complete.
    pub revision: u64,
}

#[derive(Serialize)]
pub struct Held<'a> {
    pub space: &'a str,
    pub dry_run: bool,
    /// Otherwise from the job's next checkpoint on, if the revision is still there then.
    pub counts: bool,
    /// `None` of a dry run.
    pub hold: Option<Hold>,
    /// Where the space has other levels in sight: those on which the revision is held, the nearest first.
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
    /// Where the space has other levels in sight.
    pub level: Option<&'static str>,
    pub copy: Option<u32>,
    pub complete: bool,
    pub bytes: u64,
    pub t1_unix_ns: u64,
    pub goes: bool,
    /// Nothing, if it goes.
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
    /// `copied` (of a dry run: would be), `was_there`, `lost` or `gone`.
    pub state: &'static str,
    /// Why it is lost, or gone.
    pub why: Option<String>,
    /// Which shards were read in another place than the nearest, and why.
    pub elsewhere: Vec<String>,
}

#[derive(Serialize)]
pub struct Reserve<'a> {
    pub space: &'a str,
    pub dry_run: bool,
    pub file_system: &'static str,
    /// 0 where there are none.
    pub stripe_bytes: u64,
    /// `None` if none were asked for.
    pub stripes_in_effect: Option<bool>,
    /// Whether lazy I/O was asked for and granted; `None` of a dry run.
    pub lazy_io: Option<bool>,
    pub files: Vec<ReservedFile<'a>>,
    pub layouts_removed: &'a [String],
}

#[derive(Serialize)]
pub struct ReservedFile<'a> {
    pub file: &'a str,
    pub ranks: &'a [u32],
    pub bytes: u64,
    /// What of it will be written.
    pub used_bytes: u64,
    /// `None` where the file system does not tell.
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

/// A dead pool that stays.
#[derive(Serialize)]
pub struct PoolLeft {
    pub pool: String,
    pub why: String,
}

/// A revision that lacks shards still.
#[derive(Serialize)]
pub struct Incomplete {
    pub space: String,
    #[serde(flatten)]
    pub key: Key,
    pub shards: u32,
    pub missing: Vec<Missing>,
}

/// A stretch of shards.
#[derive(Serialize)]
pub struct Missing {
    pub from: u32,
    pub below: u32,
}

/// What is staged for a space in the memory of this node.
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
    /// Why it is lost, or failed.
    pub why: Option<String>,
}
