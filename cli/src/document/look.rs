//! The documents of the commands that look: `ls`, `show`, `verify`, `export`, `view`.

use super::{Hold, Key, Node, Phases, Profile, SavedEarly, Staged, hex};
use mainstay_engine::{
    LayoutSurvey, LevelKind, PortionSurvey, RevisionSurvey, ShardSurvey, SpaceSurvey, count,
    space::format::{Item, ItemKind, Manifest},
    status::was_closed,
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The fields about the space in all documents.
#[derive(Serialize)]
pub struct Space<'a> {
    pub space: &'a str,
    pub in_use: Option<bool>,
    pub clean: bool,
    pub damage: &'a [String],
}

#[derive(Serialize)]
pub struct Ls<'a> {
    #[serde(flatten)]
    pub space: Space<'a>,
    pub holds: Vec<ListedHold>,
    pub staged: Vec<Staged>,
    pub revisions: Vec<Revision>,
}

#[derive(Serialize)]
pub struct Show<'a> {
    #[serde(flatten)]
    pub space: Space<'a>,
    pub holds: Vec<ListedHold>,
    pub staged: Vec<Staged>,
    pub layouts: Vec<Layout<'a>>,
    pub table: Vec<TableRow<'a>>,
    pub revision: Option<ShownRevision>,
}

/// The portion of a rank and its contents; offsets are in the file.
#[derive(Serialize)]
pub struct TableRow<'a> {
    pub file: &'a str,
    pub rank: u32,
    pub offset_start: u64,
    pub offset_end: u64,
    pub offset_next: Option<u64>,
    pub revision: Option<u64>,
    pub lineage: Option<u64>,
    pub bytes: Option<u64>,
    pub checksum: Option<String>,
}

#[derive(Serialize)]
pub struct Verify<'a> {
    #[serde(flatten)]
    pub space: Space<'a>,
    pub good: bool,
    pub revisions: Vec<VerifiedRevision>,
}

#[derive(Serialize)]
pub struct ListedHold {
    #[serde(flatten)]
    pub hold: Hold,
    pub state: &'static str,
}

#[derive(Serialize)]
pub struct Export<'a> {
    pub space: &'a str,
    pub dry_run: bool,
    pub directory: String,
    #[serde(flatten)]
    pub key: Key,
    pub files: Vec<ExportedFile>,
}

#[derive(Serialize)]
pub struct ExportedFile {
    /// `None` for an array that all shards share.
    pub shard: Option<u32>,
    pub item: String,
    /// Path in the directory.
    pub file: String,
    pub bytes: u64,
    pub element_type: &'static str,
    pub shape: Vec<u64>,
    /// dtype in numpy; `None` for a raw file or a stream.
    pub dtype: Option<&'static str>,
}

#[derive(Serialize)]
pub struct View<'a> {
    pub space: &'a str,
    pub dry_run: bool,
    pub file: String,
    #[serde(flatten)]
    pub key: Key,
    /// If false, the file points into the space.
    pub copied: bool,
    pub verified: bool,
    pub hold: Option<ViewHold>,
    pub datasets: Vec<ShownDataset>,
    pub left_out: Vec<LeftOut>,
}

#[derive(Serialize)]
pub struct ViewHold {
    pub counts: bool,
    #[serde(flatten)]
    pub hold: Hold,
}

#[derive(Serialize)]
pub struct ShownDataset {
    /// Path in the file.
    pub path: String,
    /// `None` for an array over the shards, which has no kind.
    pub shard: Option<u32>,
    pub item: String,
    pub kind: Option<&'static str>,
    pub element_type: &'static str,
    pub shape: Vec<u64>,
}

#[derive(Serialize)]
pub struct LeftOut {
    /// `None` for an array over the shards.
    pub shard: Option<u32>,
    pub item: String,
    pub why: String,
}

#[derive(Serialize)]
pub struct Revision {
    #[serde(flatten)]
    pub key: Key,
    pub state: RevisionState,
    pub held: bool,
    pub shards: u32,
    pub shards_found: usize,
    pub bytes: u64,
    pub t1_unix_ns: u64,
    /// The program's last argument of `due`; `None` if it gave none.
    pub step: Option<u64>,
    pub perceived_ns: Option<u64>,
    pub durable_ns: Option<u64>,
    /// The places of the revision, nearest level first; empty if no other level is in sight.
    pub levels: Vec<PartOnLevel>,
}

/// The part of a revision in sight on a level, or on a copy of one.
#[derive(Serialize)]
pub struct PartOnLevel {
    pub level: &'static str,
    /// 0 is the level itself.
    pub copy: u32,
    pub shards_found: usize,
    pub whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RevisionState {
    Newest,
    Complete,
    Incomplete,
}

#[derive(Serialize)]
pub struct Layout<'a> {
    pub file: &'a str,
    pub number: u64,
    pub id: String,
    pub ranks: u32,
    pub bytes: u64,
    pub created_unix_ns: u64,
    pub portions: Vec<Portion>,
}

#[derive(Serialize)]
pub struct Portion {
    pub rank: u32,
    pub at: u64,
    pub bytes: u64,
}

#[derive(Serialize)]
pub struct ShownRevision {
    #[serde(flatten)]
    pub revision: Revision,
    /// The number of shards already has the name `shards`.
    #[serde(rename = "shard_list")]
    pub list: Vec<ShownShard>,
    /// `None` without profiles.
    pub nodes: Option<Vec<Node>>,
    /// Blocks shared with older revisions that still exist, newest first.
    pub shares: Vec<Shares>,
    /// Bytes of the items that are zeros and stored nowhere.
    pub zero_bytes: u64,
    pub compressed: Compressed,
}

/// Bytes of the compressed blocks, and their stored bytes.
#[derive(Serialize, Default)]
pub struct Compressed {
    pub plain_bytes: u64,
    pub stored_bytes: u64,
}

/// Bytes of the blocks that two revisions share.
#[derive(Serialize)]
pub struct Shares {
    pub lineage: u64,
    pub revision: u64,
    pub bytes: u64,
}

#[derive(Serialize)]
pub struct ShownShard {
    pub shard: u32,
    pub bytes: u64,
    pub phases: Phases,
    pub profile: Option<Profile>,
    /// `None` if nothing could be saved early.
    pub saved_early: Option<SavedEarly>,
    pub items: Vec<ShownItem>,
    pub notes: BTreeMap<String, String>,
    pub outputs: Vec<Output>,
}

/// A file that the program appends to, and its length.
#[derive(Serialize)]
pub struct Output {
    pub path: String,
    pub bytes: u64,
}

#[derive(Serialize)]
pub struct ShownItem {
    pub name: String,
    pub kind: &'static str,
    pub element_type: &'static str,
    pub shape: Vec<u64>,
    /// Shape of the global array, and the start of the box in it.
    pub global_shape: Option<Vec<u64>>,
    pub offset: Option<Vec<u64>>,
    /// The program has said that all ranks have the same bytes.
    pub same_on_all_ranks: bool,
    pub bytes: u64,
    pub extents: Vec<Extent>,
}

/// A range of the portion; without `at`, of zeros.
#[derive(Serialize)]
pub struct Extent {
    pub at: Option<u64>,
    pub bytes: u64,
    /// Some of these bytes are compressed.
    pub compressed: bool,
}

#[derive(Serialize)]
pub struct VerifiedRevision {
    #[serde(flatten)]
    pub key: Key,
    /// Only if the space has other levels in sight.
    pub level: Option<&'static str>,
    pub copy: Option<u32>,
    pub shards: u32,
    pub shards_found: usize,
    pub verdict: Verdict,
    pub bytes: u64,
    pub damage: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    Damaged,
    LetGo,
}

impl<'a> Space<'a> {
    pub fn of(survey: &'a SpaceSurvey) -> Space<'a> {
        Space {
            space: &survey.path,
            in_use: survey.in_use,
            clean: was_closed(Path::new(&survey.path), survey),
            damage: &survey.damage,
        }
    }
}

impl Revision {
    pub fn of(survey: &SpaceSurvey, revision: &RevisionSurvey) -> Revision {
        Revision {
            key: Key::of(revision.key),
            state: RevisionState::of(survey, revision),
            held: revision.held,
            shards: revision.shard_count,
            shards_found: revision.shards.len(),
            bytes: revision.bytes(),
            t1_unix_ns: revision.t1_unix_ns(),
            step: revision.step(),
            perceived_ns: revision.perceived_ns(),
            durable_ns: revision.durable_ns(),
            levels: PartOnLevel::of(revision),
        }
    }
}

impl PartOnLevel {
    fn of(revision: &RevisionSurvey) -> Vec<PartOnLevel> {
        let mut levels: BTreeMap<(LevelKind, u32), BTreeSet<u32>> = BTreeMap::new();
        for part in &revision.parts {
            let shards = levels.entry((part.place.level, part.place.copy)).or_default();
            shards.extend(part.shards.iter().map(|shard| shard.shard));
        }
        let is_whole = |shards: &BTreeSet<u32>| shards.len() as u64 == u64::from(revision.shard_count);
        let parts = |((level, copy), shards): ((LevelKind, u32), BTreeSet<u32>)| PartOnLevel {
            level: level.name(),
            copy,
            shards_found: shards.len(),
            whole: is_whole(&shards),
        };
        levels.into_iter().map(parts).collect()
    }

    /// `memory`, or `memory, copy 1 (2 shards)`.
    pub fn words(&self) -> String {
        let copy = if self.copy == 0 { String::new() } else { format!(", copy {}", self.copy) };
        let shards = count(self.shards_found as u64, "shard");
        let part = if self.whole { String::new() } else { format!(" ({shards})") };
        format!("{}{copy}{part}", self.level)
    }
}

impl Revision {
    /// Its state in words.
    pub fn state_name(&self) -> String {
        format!("{}{}", self.state.name(), if self.held { ", held" } else { "" })
    }
}

impl RevisionState {
    pub fn of(survey: &SpaceSurvey, revision: &RevisionSurvey) -> RevisionState {
        match revision.complete {
            true if survey.newest().is_some_and(|newest| newest.key == revision.key) => RevisionState::Newest,
            true => RevisionState::Complete,
            false => RevisionState::Incomplete,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RevisionState::Newest => "newest",
            RevisionState::Complete => "complete",
            RevisionState::Incomplete => "incomplete",
        }
    }
}

impl Layout<'_> {
    pub fn of(layout: &LayoutSurvey) -> Layout<'_> {
        let header = &layout.header;
        let portions = header.portions.iter().map(|p| Portion { rank: p.rank, at: p.at, bytes: p.bytes });
        Layout {
            file: &layout.file,
            number: header.layout_number,
            id: hex(&header.layout_id),
            ranks: header.ranks,
            bytes: header.file_bytes,
            created_unix_ns: header.created_unix_ns,
            portions: portions.collect(),
        }
    }
}

impl TableRow<'_> {
    pub fn of(portion: &PortionSurvey) -> TableRow<'_> {
        let newest = portion.newest.as_ref();
        TableRow {
            file: &portion.file,
            rank: portion.rank,
            offset_start: portion.offset_start,
            offset_end: portion.offset_end,
            offset_next: portion.offset_next,
            revision: newest.map(|newest| newest.key.number),
            lineage: newest.map(|newest| newest.key.lineage.number),
            bytes: newest.map(|newest| newest.bytes),
            checksum: newest.map(|newest| hex(&newest.checksum)),
        }
    }
}

impl ShownShard {
    pub fn of(shard: &ShardSurvey, manifest: Manifest) -> ShownShard {
        let outputs = manifest.annex.outputs.iter();
        ShownShard {
            shard: shard.shard,
            bytes: shard.bytes,
            phases: Phases::of(&shard.phases),
            profile: manifest.annex.profile.as_ref().map(Profile::of),
            saved_early: manifest.annex.saved_early.as_ref().map(SavedEarly::of),
            items: manifest.items.iter().map(|item| ShownItem::of(item, &manifest)).collect(),
            notes: manifest.annex.notes.into_iter().map(|note| (note.name, note.value)).collect(),
            outputs: outputs
                .map(|o| Output { path: String::from_utf8_lossy(&o.name).into_owned(), bytes: o.bytes })
                .collect(),
        }
    }
}

impl Compressed {
    pub fn add(&mut self, manifest: &Manifest) {
        let (plain, stored) = manifest.compressed_bytes();
        self.plain_bytes += plain;
        self.stored_bytes += stored;
    }
}

impl ShownItem {
    fn of(item: &Item, manifest: &Manifest) -> ShownItem {
        let (global_shape, offset) = item.place.clone().map(|place| (place.global_shape, place.offset)).unzip();
        ShownItem {
            name: item.name.clone(),
            kind: item_kind(item.kind),
            element_type: item.element.name(),
            shape: item.shape.clone(),
            global_shape,
            offset,
            same_on_all_ranks: item.same_on_all_ranks,
            bytes: item.bytes,
            extents: item
                .extents
                .iter()
                .map(|e| Extent {
                    at: (!e.is_zeros()).then_some(e.at),
                    bytes: e.bytes,
                    compressed: manifest.is_compressed(e),
                })
                .collect(),
        }
    }
}

/// The kind of the item, in a word.
pub fn item_kind(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Region => "region",
        ItemKind::Object => "object",
        ItemKind::Stream => "stream",
    }
}
