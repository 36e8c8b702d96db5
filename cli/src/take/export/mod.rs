//! `mainstay export`: writes the items of a revision to files for other tools.
//!
//! Invariants: every block is verified before a file gets its name; all files are from one revision; no name from the
//! space leads out of the directory.

mod npy;
mod whole;

use super::{
    array, shard_path,
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
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};
use whole::Spread;

/// How long to try the next newest revision, if a running job removes each one.
const TRY: Duration = Duration::from_secs(5);

/// The wanted items of one shard, and their files.
struct Part {
    shard: u32,
    items: Vec<Item>,
    files: Vec<OutputFile>,
}

struct OutputFile {
    name: PathBuf,
    head: Vec<u8>,
    /// Bytes after the head.
    bytes: u64,
    element: ElementType,
    shape: Vec<u64>,
    /// For a file that several shards fill: the places of this shard's bytes.
    spread: Option<Spread>,
}

pub fn export(wanted: &arguments::Export) -> Result<Exit, Failure> {
    if wanted.dry_run {
        return would_export(wanted);
    }
    let start = Instant::now();
    loop {
        let mut reader = Reader::open(&wanted.space.path, wanted.revision.number(), "mainstay export")?;
        let (key, shards) = (reader.key(), reader.shard_count());
        let parts = parts(wanted, key.number, shards, |shard| Ok(reader.shard(shard)?.items.clone()))?;
        match write(wanted, &mut reader, &parts) {
            Err(Stopped::LetGo(_)) if wanted.revision.number().is_none() && start.elapsed() < TRY => {}
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

/// Lists the files of a dry run. It does not hold the revision, as a reader would.
fn would_export(wanted: &arguments::Export) -> Result<Exit, Failure> {
    revision::read(&wanted.space.path, wanted.revision.number(), |survey, revision| {
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

/// The reason that no files were made.
enum Stopped {
    /// A job removed the revision.
    LetGo(Error),
    Failed(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(failure)
    }
}

/// The wanted items of each shard of revision `number`; `items_of` returns the items of one shard.
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
        let files = items
            .iter()
            .map(|item| target(wanted.format, &shard_path(shard, shards), item))
            .collect::<Result<_, _>>()?;
        parts.push(Part { shard, items, files });
    }
    if wanted.whole {
        make_whole(wanted.format, &mut parts)?;
    }
    let is_there = |name: &&String| !parts.iter().any(|part| part.items.iter().any(|item| item.name == **name));
    refuse_clashes(&parts)?;
    match wanted.items.iter().find(is_there) {
        Some(name) => Err(Failure::lost(format!(
            "revision {number} has no item {name:?} in these shards (`mainstay show` lists them)"
        ))),
        None => Ok(parts),
    }
}

/// Refuses two items if one would have the other's path, or a directory of its name.
fn refuse_clashes(parts: &[Part]) -> Result<(), Failure> {
    let all = || parts.iter().flat_map(|part| part.files.iter().zip(&part.items));
    let mut told: BTreeMap<&Path, (&OutputFile, &Item)> = BTreeMap::new();
    let clash = |one: &Item, other: &Item, at: &Path| {
        let (one, other, at) = (&one.name, &other.name, at.display());
        Failure::lost(format!("items {one:?} and {other:?} would both be {at}; export one after the other, by --item"))
    };
    for (file, item) in all() {
        let (first, its_item) = told.entry(&file.name).or_insert((file, item));
        let is_part = first.spread.is_some() && file.spread.is_some() && its_item.name == item.name;
        if !std::ptr::eq(*first, file) && !is_part {
            return Err(clash(its_item, item, &file.name));
        }
    }
    for (file, item) in all() {
        let directory = file.name.ancestors().skip(1).find_map(|above| told.get_key_value(above));
        if let Some((above, (_, other))) = directory {
            return Err(clash(other, item, above));
        }
    }
    Ok(())
}

/// Merges the parts of each array over the shards into one file.
fn make_whole(format: Format, parts: &mut [Part]) -> Result<(), Failure> {
    let placed = parts.iter().flat_map(|part| &part.items).filter(|item| item.place.is_some());
    let names: BTreeSet<String> = placed.map(|item| item.name.clone()).collect();
    for name in names {
        let of_name = |part: &Part| part.items.iter().position(|item| item.name == name);
        let found: Vec<(usize, usize)> =
            parts.iter().enumerate().filter_map(|(at, part)| Some((at, of_name(part)?))).collect();
        let items: Vec<(u32, &Item)> =
            found.iter().map(|(part, item)| (parts[*part].shard, &parts[*part].items[*item])).collect();
        let (element, shape, spreads) = whole::spread(&items).map_err(|why| {
            Failure::lost(format!(
                "item {name:?} is not a whole array: {why}; without --whole each part becomes a file"
            ))
        })?;
        let bytes = shape.iter().product::<u64>() * element.size();
        let (head, suffix) = head(format, element, &shape);
        for ((part, item), spread) in found.into_iter().zip(spreads) {
            let (head, shape, name) = (head.clone(), shape.clone(), PathBuf::from(format!("{name}.{suffix}")));
            parts[part].files[item] = OutputFile { name, head, bytes, element, shape, spread: Some(spread) };
        }
    }
    Ok(())
}

fn head(format: Format, element: ElementType, shape: &[u64]) -> (Vec<u8>, &'static str) {
    match format {
        Format::Raw => (Vec::new(), "raw"),
        Format::Npy => (npy::header(element, shape), "npy"),
    }
}

fn target(format: Format, shard: &str, item: &Item) -> Result<OutputFile, Failure> {
    // The name comes from the space, and becomes a path.
    check_name(&item.name).map_err(|error| Failure::lost(format!("{shard}: {error}; it is not exported")))?;
    let (element, shape) = array::of(item);
    let (head, suffix) = match (item.kind, format) {
        // Only the program knows the meaning of its bytes.
        (ItemKind::Stream, _) => (Vec::new(), "bin"),
        (_, format) => head(format, element, &shape),
    };
    let name = PathBuf::from(format!("{shard}/{}.{suffix}", item.name));
    Ok(OutputFile { name, head, bytes: item.bytes, element, shape, spread: None })
}

/// The files of all `parts`, each once, at the first shard with a part of it.
fn files(parts: &[Part]) -> impl Iterator<Item = (u32, &OutputFile, &Item)> {
    let mut told = BTreeSet::new();
    let all = parts.iter().flat_map(|part| part.files.iter().zip(&part.items).map(|(f, i)| (part.shard, f, i)));
    all.filter(move |(_, file, _)| told.insert(&file.name))
}

/// The paths of these files.
fn names(parts: &[Part]) -> Vec<PathBuf> {
    files(parts).map(|(_, file, _)| file.name.clone()).collect()
}

/// Writes the files of all `parts`, whole or not at all.
fn write(wanted: &arguments::Export, reader: &mut Reader, parts: &[Part]) -> Result<(), Stopped> {
    let names = names(parts);
    refuse_existing(&wanted.directory, &names, wanted.force)?;
    let unfinished = Unfinished::begin(&wanted.directory)?;
    let bar = progress::of_bytes(parts.iter().flat_map(|part| &part.items).map(|item| item.bytes).sum());
    bar.set_message(format!("revision {}", reader.key().number));
    files(parts).try_for_each(|(_, file, _)| unfinished.make(&file.name, &file.head, file.bytes))?;
    // If shards have the same cell, the lowest shard counts, as in a restore.
    let written = parts.iter().rev().try_for_each(|part| write_part(part, reader, &unfinished, &bar));
    bar.finish_and_clear();
    written?;
    Ok(unfinished.finish(&names, wanted.force)?)
}

fn write_part(part: &Part, reader: &mut Reader, unfinished: &Unfinished, bar: &ProgressBar) -> Result<(), Stopped> {
    let failure = OnceLock::new();
    let sink = |index: usize, offset: u64, bytes: &[u8]| {
        bar.inc(bytes.len() as u64);
        let file = &part.files[index];
        let head = file.head.len() as u64;
        let written = || match &file.spread {
            // Zeros, which take no room until they are written.
            None if bytes.iter().all(|byte| *byte == 0) => Ok(()),
            None => unfinished.write(&file.name, [(head + offset, bytes)]),
            Some(spread) => {
                let stretches = spread.stretches(offset, bytes.len());
                unfinished.write(&file.name, stretches.map(|(at, range)| (head + at, &bytes[range])))
            }
        };
        if failure.get().is_none()
            && let Err(error) = written()
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
    let all = || files(parts);
    if all().any(|(_, file, item)| npy(item) && file.element == ElementType::BF16) {
        say("numpy has no bf16: such items are arrays of two-byte voids; view them as the bf16 of ml_dtypes");
    }
    if wanted.space.json {
        let file = |(shard, file, item): (u32, &OutputFile, &Item)| ExportedFile {
            shard: file.spread.is_none().then_some(shard),
            item: item.name.clone(),
            file: file.name.to_string_lossy().into_owned(),
            bytes: file.bytes,
            element_type: item.element.name(),
            shape: if npy(item) || file.spread.is_some() { file.shape.clone() } else { item.shape.clone() },
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
        let (count, bytes) = (all().count(), all().map(|(_, file, _)| file.bytes).sum());
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
