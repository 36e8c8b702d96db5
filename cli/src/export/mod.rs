//! `mainstay export`: the items of a revision as files that other tools read.
//!
//! What must hold: every block is verified before a file gets its name; all files are of one revision; a
//! name from the space makes no path that leaves the directory.

mod npy;

use crate::{
    arguments::{self, Format},
    array, chosen,
    document::{self, ExportedFile, hex},
    exit::{Exit, Failure, say},
    hold::expiry,
    output, text,
    unfinished::{Unfinished, refuse_existing},
};
use mainstay_engine::{
    RevisionSurvey, ShardSurvey, SpaceSurvey, Verified, check_name,
    space::format::{ElementType, Hold, Item, ItemKind, Manifest},
    tend::{self, Holding},
};
use std::{path::PathBuf, sync::OnceLock, time::Duration};

/// A hold of an export that was broken off ends by itself.
const HOLD: Duration = Duration::from_secs(3600);

/// One shard's items that are wanted, and what they become.
struct Part<'a> {
    shard: &'a ShardSurvey,
    items: Vec<Item>,
    files: Vec<Target>,
}

struct Target {
    name: PathBuf,
    head: Vec<u8>,
    element: ElementType,
    shape: Vec<u64>,
}

pub fn export(wanted: &arguments::Export) -> Result<Exit, Failure> {
    chosen::read(&wanted.space.path, wanted.revision, |survey, revision| {
        let hold = if survey.is_at_work() { hold(wanted, revision) } else { None };
        let exported = export_revision(wanted, survey, revision);
        if let Some(hold) = hold {
            // It ends by itself.
            let _ = tend::release_one(&wanted.space.path, &hold);
        }
        Ok(exported?.then_some(Exit::Good))
    })
}

/// Holds what is about to be read, where that is allowed and there is room for it.
fn hold(wanted: &arguments::Export, revision: &RevisionSurvey) -> Option<Hold> {
    let held = tend::hold(&wanted.space.path, revision.key, "mainstay export", expiry(HOLD), Duration::ZERO);
    match held {
        Ok(Holding::Counts(hold) | Holding::Pending(hold)) => Some(hold),
        _ => None,
    }
}

/// Whether it could be read; otherwise the job let it go.
fn export_revision(
    wanted: &arguments::Export,
    survey: &SpaceSurvey,
    revision: &RevisionSurvey,
) -> Result<bool, Failure> {
    let Some(parts) = parts(wanted, revision)? else { return Ok(false) };
    let names: Vec<PathBuf> = parts.iter().flat_map(|part| part.files.iter().map(|file| file.name.clone())).collect();
    refuse_existing(&wanted.directory, &names, wanted.force)?;
    let unfinished = Unfinished::begin(&wanted.directory)?;
    for part in &parts {
        if !write(part, &unfinished)? {
            return Ok(false);
        }
    }
    unfinished.finish(&names, wanted.force)?;
    tell(wanted, survey, revision, &parts)?;
    Ok(true)
}

/// What is wanted of each shard; `None` if the job let the revision go.
fn parts<'a>(wanted: &arguments::Export, revision: &'a RevisionSurvey) -> Result<Option<Vec<Part<'a>>>, Failure> {
    let number = revision.key.number;
    if let Some(shard) = wanted.shards.iter().find(|shard| **shard >= revision.shard_count) {
        let last = revision.shard_count - 1;
        return Err(Failure::lost(format!("revision {number} has no shard {shard}; there are 0 to {last}")));
    }
    let mut parts = Vec::new();
    for shard in &revision.shards {
        if !wanted.shards.is_empty() && !wanted.shards.contains(&shard.shard) {
            continue;
        }
        let Some(Manifest { mut items, .. }) = shard.manifest()? else { return Ok(None) };
        items.retain(|item| wanted.items.is_empty() || wanted.items.contains(&item.name));
        let files = items.iter().map(|item| target(wanted.format, shard.shard, item)).collect::<Result<_, _>>()?;
        parts.push(Part { shard, items, files });
    }
    let is_there = |name: &&String| !parts.iter().any(|part| part.items.iter().any(|item| item.name == **name));
    match wanted.items.iter().find(is_there) {
        Some(name) => Err(Failure::lost(format!(
            "revision {number} has no item {name:?} in these shards (`mainstay show` lists them)"
        ))),
        None => Ok(Some(parts)),
    }
}

fn target(format: Format, shard: u32, item: &Item) -> Result<Target, Failure> {
    // It comes from the space, and is about to become a path.
    check_name(&item.name).map_err(|error| Failure::lost(format!("shard {shard}: {error}; it is not exported")))?;
    let (element, shape) = array::of(item);
    let (head, suffix) = match (item.kind, format) {
        // What is in it, only the program knows.
        (ItemKind::File, _) => (Vec::new(), "bin"),
        (_, Format::Raw) => (Vec::new(), "raw"),
        (_, Format::Npy) => (npy::header(element, &shape), "npy"),
    };
    let name = PathBuf::from(format!("shard-{shard}/{}.{suffix}", item.name));
    Ok(Target { name, head, element, shape })
}

/// Whether the shard could be read; otherwise the job let it go.
fn write(part: &Part<'_>, unfinished: &Unfinished) -> Result<bool, Failure> {
    for (file, item) in part.files.iter().zip(&part.items) {
        unfinished.make(&file.name, &file.head, item.bytes)?;
    }
    let failure = OnceLock::new();
    let sink = |index: usize, offset: u64, bytes: &[u8]| {
        let file = &part.files[index];
        if failure.get().is_none()
            && let Err(error) = unfinished.write(&file.name, file.head.len() as u64 + offset, bytes)
        {
            let _ = failure.set(error);
        }
    };
    let read = part.shard.read(&part.items, &sink)?;
    if let Some(failure) = failure.into_inner() {
        return Err(failure);
    }
    match read {
        Verified::Whole => Ok(true),
        Verified::LetGo => Ok(false),
        Verified::Damaged { what } => Err(Failure::lost(format!("{}; nothing was exported", what.join("; ")))),
    }
}

fn tell(
    wanted: &arguments::Export,
    survey: &SpaceSurvey,
    revision: &RevisionSurvey,
    parts: &[Part<'_>],
) -> Result<(), Failure> {
    let npy = |item: &Item| wanted.format == Format::Npy && item.kind != ItemKind::File;
    let all =
        || parts.iter().flat_map(|part| part.files.iter().zip(&part.items).map(|(f, i)| (part.shard.shard, f, i)));
    if all().any(|(_, file, item)| npy(item) && file.element == ElementType::BF16) {
        say("numpy knows no bf16: such items are arrays of two-byte voids; ml_dtypes has the type to view them as");
    }
    if wanted.space.json {
        let file = |(shard, file, item): (u32, &Target, &Item)| ExportedFile {
            shard,
            item: item.name.clone(),
            file: file.name.display().to_string(),
            bytes: item.bytes,
            element_type: item.element.name(),
            shape: if npy(item) { file.shape.clone() } else { item.shape.clone() },
            dtype: npy(item).then(|| npy::dtype(file.element)),
        };
        output::json(&document::Export {
            space: &survey.path,
            directory: wanted.directory.display().to_string(),
            revision: revision.key.number,
            lineage: revision.key.lineage.number,
            lineage_id: hex(&revision.key.lineage.id),
            files: all().map(file).collect(),
        })?;
    } else {
        let (count, bytes) = (all().count(), all().map(|(_, _, item)| item.bytes).sum());
        let (number, lineage) = (revision.key.number, revision.key.lineage.number);
        let (files, directory) = (if count == 1 { "file" } else { "files" }, wanted.directory.display());
        output::text(&format!(
            "revision {number} (lineage {lineage}): {count} {files}, {}, verified, in {directory}\n",
            text::bytes(bytes)
        ))?;
    }
    Ok(())
}
