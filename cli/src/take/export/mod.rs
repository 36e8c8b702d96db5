//! `mainstay export`: the items of a revision as files that other tools read.
//!
//! What must hold: every block is verified before a file gets its name; all files are of one revision; a
//! name from the space makes no path that leaves the directory.

mod npy;

use super::{
    array,
    unfinished::{Unfinished, refuse_existing},
};
use crate::{
    arguments::{self, Format},
    document::{self, ExportedFile, Key},
    exit::{Exit, Failure, say},
    output, progress,
    space::revision,
    text,
};
use indicatif::ProgressBar;
use mainstay_engine::{
    Error, Reader, RevisionKey, check_name, printable_path,
    space::format::{ElementType, Item, ItemKind},
};
use std::{
    path::PathBuf,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// How long another newest revision is tried when a running job lets go of each.
const TRY: Duration = Duration::from_secs(5);

/// One shard's items that are wanted, and what they become.
struct Part {
    shard: u32,
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
    if wanted.dry_run {
        return would_export(wanted);
    }
    let start = Instant::now();
    loop {
        let mut reader = Reader::open(&wanted.space.path, wanted.revision, "mainstay export")?;
        if wanted.revision.is_none() {
            reader.damage().iter().for_each(|what| say(what));
        }
        let (key, shards) = (reader.key(), reader.shard_count());
        let parts = parts(wanted, key.number, shards, |shard| Ok(reader.shard(shard)?.items.clone()))?;
        match write(wanted, &mut reader, &parts) {
            Err(Stopped::LetGo(_)) if wanted.revision.is_none() && start.elapsed() < TRY => {}
            Err(Stopped::LetGo(error)) => return Err(Failure::lost(format!("{error}; nothing was exported"))),
            Err(Stopped::Failed(failure)) => return Err(failure),
            Ok(()) => {
                reader.elsewhere().iter().for_each(|what| say(what));
                tell(wanted, reader.path(), key, &parts)?;
                return Ok(Exit::Good);
            }
        }
    }
}

/// Which files would be made. A reader would hold the revision: here it is only looked at.
fn would_export(wanted: &arguments::Export) -> Result<Exit, Failure> {
    revision::read(&wanted.space.path, wanted.revision, |survey, revision| {
        let (number, shards) = (revision.key.number, revision.shard_count);
        let mut manifests = Vec::new();
        for shard in &revision.shards {
            let Some(manifest) = revision.manifest(shard)? else { return Ok(None) };
            manifests.push(manifest);
        }
        let parts = parts(wanted, number, shards, |shard| Ok(manifests[shard as usize].items.clone()))?;
        refuse_existing(&wanted.directory, &names(&parts), wanted.force)?;
        tell(wanted, &survey.path, revision.key, &parts)?;
        Ok(Some(Exit::Good))
    })
}

/// Why the files were not made.
enum Stopped {
    /// A job let the revision go.
    LetGo(Error),
    Failed(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(failure)
    }
}

/// What is wanted of each shard of the revision `number`; `items_of` tells what is in one.
fn parts(
    wanted: &arguments::Export,
    number: u64,
    shards: u32,
    items_of: impl Fn(u32) -> Result<Vec<Item>, Failure>,
) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    if let Some(shard) = wanted.shards.iter().find(|shard| **shard >= shards) {
        let last = shards - 1;
        return Err(Failure::lost(format!("revision {number} has no shard {shard}; there are 0 to {last}")));
    }
    for shard in (0..shards).filter(|shard| wanted.shards.is_empty() || wanted.shards.contains(shard)) {
        let mut items = items_of(shard)?;
        items.retain(|item| wanted.items.is_empty() || wanted.items.contains(&item.name));
        let files = items.iter().map(|item| target(wanted.format, shard, item)).collect::<Result<_, _>>()?;
        parts.push(Part { shard, items, files });
    }
    let is_there = |name: &&String| !parts.iter().any(|part| part.items.iter().any(|item| item.name == **name));
    match wanted.items.iter().find(is_there) {
        Some(name) => Err(Failure::lost(format!(
            "revision {number} has no item {name:?} in these shards (`mainstay show` lists them)"
        ))),
        None => Ok(parts),
    }
}

fn target(format: Format, shard: u32, item: &Item) -> Result<Target, Failure> {
    // It comes from the space, and is about to become a path.
    check_name(&item.name).map_err(|error| Failure::lost(format!("shard {shard}: {error}; it is not exported")))?;
    let (element, shape) = array::of(item);
    let (head, suffix) = match (item.kind, format) {
        // What is in it, only the program knows.
        (ItemKind::Stream, _) => (Vec::new(), "bin"),
        (_, Format::Raw) => (Vec::new(), "raw"),
        (_, Format::Npy) => (npy::header(element, &shape), "npy"),
    };
    let name = PathBuf::from(format!("shard-{shard}/{}.{suffix}", item.name));
    Ok(Target { name, head, element, shape })
}

/// Of the files of all `parts`, in the directory.
fn names(parts: &[Part]) -> Vec<PathBuf> {
    parts.iter().flat_map(|part| part.files.iter().map(|file| file.name.clone())).collect()
}

/// Makes the files of all `parts`, whole or not at all.
fn write(wanted: &arguments::Export, reader: &mut Reader, parts: &[Part]) -> Result<(), Stopped> {
    let names = names(parts);
    refuse_existing(&wanted.directory, &names, wanted.force)?;
    let unfinished = Unfinished::begin(&wanted.directory)?;
    let bar = progress::of_bytes(parts.iter().flat_map(|part| &part.items).map(|item| item.bytes).sum());
    bar.set_message(format!("revision {}", reader.key().number));
    let written = parts.iter().try_for_each(|part| write_part(part, reader, &unfinished, &bar));
    bar.finish_and_clear();
    written?;
    Ok(unfinished.finish(&names, wanted.force)?)
}

fn write_part(part: &Part, reader: &mut Reader, unfinished: &Unfinished, bar: &ProgressBar) -> Result<(), Stopped> {
    for (file, item) in part.files.iter().zip(&part.items) {
        unfinished.make(&file.name, &file.head, item.bytes)?;
    }
    let failure = OnceLock::new();
    let sink = |index: usize, offset: u64, bytes: &[u8]| {
        bar.inc(bytes.len() as u64);
        let file = &part.files[index];
        if failure.get().is_none()
            && let Err(error) = unfinished.write(&file.name, file.head.len() as u64 + offset, bytes)
        {
            let _ = failure.set(error);
        }
    };
    let read = reader.read_all(part.shard, &part.items, &sink);
    if let Some(failure) = failure.into_inner() {
        return Err(failure.into());
    }
    read.map_err(|error| match error {
        error @ Error::RevisionMissing { .. } => Stopped::LetGo(error),
        Error::Unreadable { what } => Failure::lost(format!("{}; nothing was exported", what.join("; "))).into(),
        other => Failure::from(other).into(),
    })
}

fn tell(wanted: &arguments::Export, space: &str, key: RevisionKey, parts: &[Part]) -> Result<(), Failure> {
    let npy = |item: &Item| wanted.format == Format::Npy && item.kind != ItemKind::Stream;
    let all = || parts.iter().flat_map(|part| part.files.iter().zip(&part.items).map(|(f, i)| (part.shard, f, i)));
    if all().any(|(_, file, item)| npy(item) && file.element == ElementType::BF16) {
        say("numpy knows no bf16: such items are arrays of two-byte voids; ml_dtypes has the type to view them as");
    }
    if wanted.space.json {
        let file = |(shard, file, item): (u32, &Target, &Item)| ExportedFile {
            shard,
            item: item.name.clone(),
            file: file.name.to_string_lossy().into_owned(),
            bytes: item.bytes,
            element_type: item.element.name(),
            shape: if npy(item) { file.shape.clone() } else { item.shape.clone() },
            dtype: npy(item).then(|| file.element.numpy()),
        };
        output::json(&document::Export {
            space,
            dry_run: wanted.dry_run,
            directory: wanted.directory.to_string_lossy().into_owned(),
            key: Key::of(key),
            files: all().map(file).collect(),
        })?;
    } else {
        let (count, bytes) = (all().count(), all().map(|(_, _, item)| item.bytes).sum());
        let (number, lineage) = (key.number, key.lineage.number);
        let how = if wanted.dry_run { "would be written, to" } else { "verified, in" };
        let (files, directory) = (if count == 1 { "file" } else { "files" }, printable_path(&wanted.directory));
        output::text(&format!(
            "revision {number} (lineage {lineage}): {count} {files}, {}, {how} {directory}\n",
            text::bytes(bytes)
        ))?;
    }
    Ok(())
}
