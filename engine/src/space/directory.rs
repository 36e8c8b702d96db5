//! The files of a space: finding, making and removing layouts.

use super::{
    Aligned, LayoutFile, draw_id,
    format::{BLOCK, BLOCK_BYTES, Header, Slot},
    portion::refused,
    space_of_level, stretches,
};
use crate::{
    device::{self, Access, Allocate, Device, File, Naming, NewFile, Stripes, dangling},
    error::{Error, Result},
    mutant::{self, Mutant},
    printable::printable,
};
use std::{collections::BTreeMap, io, sync::Arc};

/// One lock byte for each rank of the job that may write.
pub(crate) const LOCK_FILE: &str = "lock";
/// In a space with other levels before it: the file with the id of those levels.
pub(crate) const LEVELS_FILE: &str = "levels";
/// Its copy, used if the file is lost.
pub(crate) const LEVELS_COPY: &str = "levels.copy";
/// In a space with other levels before it: the file with the state of its job, for outside readers.
pub(crate) const STATUS_FILE: &str = "status";
/// The file `status` while it is being written.
pub(crate) const STATUS_UNFINISHED: &str = "status.unfinished";
/// The file that lists the events in the space, one a line.
pub(crate) const JOURNAL_FILE: &str = "journal";
/// The file that lists the ranks that have no data of a killed job waiting in memory any more.
pub(crate) const SALVAGED_FILE: &str = "salvaged";
/// The file `salvaged` while it is being written.
pub(crate) const SALVAGED_UNFINISHED: &str = "salvaged.unfinished";
/// The file `journal` while it is being shortened.
pub(crate) const JOURNAL_UNFINISHED: &str = "journal.unfinished";
/// Start of the names of temporary files, by which ranks find out which of them share a directory.
const PROBE: &str = "probe-";
const SUFFIX: &str = ".mainstay";
const UNFINISHED: &str = ".unfinished";
/// Bytes of zeros in one write.
const ZEROS_BYTES: u64 = 4 << 20;

/// All layout files of a space, oldest layout first.
pub(crate) fn layouts(device: &dyn Device, access: Access) -> Result<Vec<LayoutFile>> {
    layouts_and_strays(device, access, false).map(|(layouts, _)| layouts)
}

/// Files that are skipped, because their contents may be elsewhere: in the directory of a level, or in a space that a
/// session opens with further levels. In a space without other levels they are an error.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    /// Messages about files that belong to another space.
    pub(crate) foreign: Vec<String>,
    /// Files that have a damaged header, or that are in memory and cut short.
    pub(crate) damaged: Vec<Stray>,
}

/// A damaged file that is skipped.
#[derive(Debug)]
pub(crate) struct Stray {
    /// The message about it.
    pub(crate) text: String,
    /// The short id of its layout and its rank, from its name.
    pub(crate) of: Option<(u32, u32)>,
}

/// Like `layouts`, with the skipped files. `has_others`: the session has further levels.
pub(crate) fn layouts_and_strays(
    device: &dyn Device,
    access: Access,
    has_others: bool,
) -> Result<(Vec<LayoutFile>, Strays)> {
    let (mut layouts, mut strays) = (Vec::new(), Strays::default());
    let is_level = space_of_level(device.directory()).is_some();
    let passes_over = is_level || has_others;
    // A file in memory is mapped whole: the missing part can be neither read nor written.
    let is_mapped = is_level && device.directory().is_memory();
    for name in list(device)?.into_iter().filter(|name| is_layout(name)) {
        // A file of a space may have portions of many ranks, regardless of its name.
        let of = named_in(&name).filter(|_| is_level);
        let mut stray = |text| strays.damaged.push(Stray { text, of });
        match open_layout(device, name, access) {
            Ok(layout) => match layout.foreign_text(device) {
                Some(text) => strays.foreign.push(text),
                None if is_mapped && layout.is_cut() => stray(layout.cut_text()),
                None => layouts.push(layout),
            },
            Err(Error::Damaged { what }) if passes_over => stray(what.join("; ")),
            Err(Error::NotASpace { path, why }) if passes_over => stray(format!("{path}: {why}")),
            Err(error) => return Err(error),
        }
    }
    layouts.sort_by_key(|layout| (layout.header.layout_number, layout.name.clone()));
    match contradictions(&layouts) {
        what if what.is_empty() => Ok((layouts, strays)),
        what => Err(Error::Damaged { what }),
    }
}

/// Contradictions between files that claim to belong to one layout, in which each rank has one portion.
pub(crate) fn contradictions(layouts: &[LayoutFile]) -> Vec<String> {
    let (mut heads, mut places, mut what) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for LayoutFile { path, header, .. } in layouts {
        let (id, head) = (header.layout_id, (header.layout_number, header.ranks));
        let (first, other) = heads.entry(id).or_insert((head, path));
        if *first != head {
            what.push(format!("{path}: it has the layout id of {other}, but another number or count of ranks"));
        }
        for place in &header.portions {
            if let Some(other) = places.insert((id, place.rank), path) {
                what.push(format!("{path}: the portion of rank {} is in {other} too", place.rank));
                break;
            }
        }
    }
    what
}

/// A file of the space, for messages: its name may be made up.
fn path_of(device: &dyn Device, name: &str) -> String {
    format!("{}/{}", device.path(), printable(name))
}

/// The names of all files of a space.
pub(crate) fn list(device: &dyn Device) -> Result<Vec<String>> {
    let not_a_space = |why: &str| Error::NotASpace { path: device.path(), why: why.to_owned() };
    device.list().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            not_a_space(dangling(device.directory()).as_deref().unwrap_or("there is no such directory"))
        }
        io::ErrorKind::NotADirectory => not_a_space("it is not a directory"),
        _ => Error::io("listing", device.path(), e),
    })
}

pub(crate) fn is_layout(name: &str) -> bool {
    name.starts_with("layout-") && name.ends_with(SUFFIX)
}

/// Whether a file called `name` in the directory of a space belongs to the space, so that no other program may make or
/// replace it.
pub fn is_of_space(name: &str) -> bool {
    let others = [LOCK_FILE, LEVELS_FILE, LEVELS_COPY, STATUS_FILE, JOURNAL_FILE, SALVAGED_FILE];
    is_layout(name) || others.contains(&name)
}

pub(crate) fn open_layout(device: &dyn Device, name: String, access: Access) -> Result<LayoutFile> {
    let path: Arc<str> = path_of(device, &name).into();
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::damaged(format!("{path}: cut short in its header")),
        // The file was listed. If its name is gone by now, another process has removed the layout.
        io::ErrorKind::NotFound if e.get_ref().is_some() => Error::damaged(format!("{path}: {e}")),
        _ => Error::io("reading", &path, e),
    };
    let file = device.open(&name, access, None).map_err(failed)?;
    let mut block = Aligned::zeroed(BLOCK_BYTES).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
    device::read_full(&*file, &mut block, 0).map_err(failed)?;
    let Ok(block) = <&[u8; BLOCK]>::try_from(&block[..]) else {
        return Err(Error::Internal { what: "a block has another size".into() });
    };
    let table_bytes = Header::table_bytes(block).map_err(|refusal| refused(refusal, &path))?;
    let bytes = file.bytes().map_err(failed)?;
    if bytes < (BLOCK + table_bytes) as u64 {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut table = Aligned::zeroed(table_bytes as u64).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
    device::read_full(&*file, &mut table, BLOCK_BYTES).map_err(failed)?;
    let header = Header::parse(block, &table).map_err(|refusal| refused(refusal, &path))?;
    // Bytes after its end do not belong to the layout.
    let bytes = bytes.min(header.file_bytes);
    let directory = Some(device.directory().clone());
    Ok(LayoutFile { name, path, header, directory, file, is_mapping_awaited: Arc::default(), bytes })
}

/// How a layout's files are made.
pub(crate) struct Making<'a> {
    pub(crate) allocate: Allocate,
    pub(crate) stripes: Stripes,
    /// For a file in memory: see `NewFile`.
    pub(crate) when_mapped: bool,
    /// Called with the number of further zero bytes written.
    pub(crate) progress: &'a dyn Fn(u64),
}

/// The name of a layout's file; `rank` is the lowest rank in it.
pub(crate) fn layout_name(number: u64, rank: usize, id: [u8; 16]) -> String {
    format!("layout-{number:06}-{rank:06}-{:08x}{SUFFIX}", short(id))
}

/// The short id of the layout and the lowest rank, parsed from a file's `name`.
fn named_in(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.strip_suffix(SUFFIX)?.split('-').skip(2);
    let (rank, id) = (parts.next()?.parse().ok()?, u32::from_str_radix(parts.next()?, 16).ok()?);
    Some((id, rank)).filter(|_| parts.next().is_none())
}

/// The pattern of that name for any layout id.
pub(crate) fn layout_pattern(number: u64, rank: usize) -> String {
    format!("layout-{number:06}-{rank:06}-*{SUFFIX}")
}

/// The pattern of the names of all files of a layout, for a message.
pub(crate) fn files_of_layout(id: [u8; 16]) -> String {
    format!("layout-*-{:08x}{SUFFIX}", short(id))
}

/// Whether the layout has a file here, judged by names alone: opening a file could make its writers wait.
pub(crate) fn names_layout(device: &dyn Device, id: [u8; 16]) -> Result<bool> {
    let end = format!("-{:08x}{SUFFIX}", short(id));
    Ok(list(device)?.iter().any(|name| is_layout(name) && name.ends_with(&end)))
}

/// The short id tells this layout from one that a job thought dead may still be making with the same number.
pub(crate) fn short(id: [u8; 16]) -> u32 {
    u32::from_be_bytes([0, 1, 2, 3].map(|index| id[index]))
}

/// Makes a layout file with the given first slot in each portion. The file gets its name only when it is whole and
/// durable: a crash before that leaves no layout.
pub(crate) fn create_layout(
    device: &dyn Device,
    header: Header,
    making: &Making<'_>,
    first: impl Fn(u32) -> Slot,
) -> Result<LayoutFile> {
    let layout = make_unnamed(device, header, making)?;
    let written = write_first_slots(&layout, |rank| Some(first(rank)));
    written.and_then(|()| name_layout(device, &layout)).inspect_err(|_| remove_unnamed(device, &layout))?;
    Ok(layout)
}

/// Makes a layout file without slots. It has an unfinished name until `name_layout`, which its portions' first slots
/// precede.
pub(crate) fn make_unnamed(device: &dyn Device, header: Header, making: &Making<'_>) -> Result<LayoutFile> {
    let header = Header { space_id: space_of_level(device.directory()).unwrap_or_default(), ..header };
    let lowest = header.portions.first().map_or(0, |place| place.rank as usize);
    let name = layout_name(header.layout_number, lowest, header.layout_id);
    let unfinished = unfinished(&name);
    let path: Arc<str> = path_of(device, &name).into();
    let Making { allocate, stripes, when_mapped, .. } = *making;
    let stretches = stretches(&header);
    let wanted = NewFile { bytes: header.file_bytes, stretches, allocate, stripes, when_mapped };
    let bytes = wanted.room_bytes(device.directory().is_memory());
    let attempt = || -> Result<LayoutFile> {
        let file = device
            .open(&unfinished, Access::Write, Some(&wanted))
            .map_err(|e| Error::io("making", &path, e).for_want_of(bytes, || device.directory().available_bytes()))?;
        if allocate == Allocate::Zero {
            // The room that the file already takes is free again after its removal.
            let free = || Some(device.directory().available_bytes()?.saturating_add(file.allocated_bytes().ok()?));
            write_zeros(&*file, &wanted, making.progress)
                .map_err(|e| Error::io("writing zeros to", &path, e).for_want_of(bytes, free))?;
        }
        let bytes = Aligned::holding(&header.build())
            .ok_or_else(|| Error::io("making", &path, io::ErrorKind::OutOfMemory.into()))?;
        device::write_full(&*file, &bytes, 0).map_err(|e| {
            Error::io("writing to", &path, e).for_want_of(bytes.len() as u64, || device.directory().available_bytes())
        })?;
        let bytes = header.file_bytes;
        let (directory, header) = (Some(device.directory().clone()), header.clone());
        let (name, path, is_mapping_awaited) = (name.clone(), path.clone(), Arc::default());
        Ok(LayoutFile { name, path, header, directory, file, is_mapping_awaited, bytes })
    };
    attempt().inspect_err(|_| drop(device.name(Naming::Remove(&unfinished))))
}

/// The layout file `name` while it has no name.
pub(crate) fn open_unnamed(device: &dyn Device, name: &str) -> Result<LayoutFile> {
    open_layout(device, unfinished(name), Access::Write)
}

/// Writes the first slots of the portions for which `first` has one, and syncs them.
pub(crate) fn write_first_slots(layout: &LayoutFile, first: impl Fn(u32) -> Option<Slot>) -> Result<()> {
    for portion in layout.portions() {
        first(portion.rank()).map_or(Ok(()), |slot| portion.write_slot(0, &slot).map(drop))?;
    }
    // The name must never lead to a file without header or slots.
    layout.file.sync().map_err(|e| Error::io("syncing", &layout.path, e))
}

/// Gives a layout file its name. The file must be whole and durable.
pub(crate) fn name_layout(device: &dyn Device, layout: &LayoutFile) -> Result<()> {
    device
        .name(Naming::Rename { from: &unfinished(&layout.name), to: &layout.name })
        .map_err(|e| Error::io("naming", &layout.path, e))?;
    if mutant::is(Mutant::DirectoryNotSynced) {
        return Ok(());
    }
    // No revision may be acknowledged in a file that a crash could still unname.
    device.sync_directory().map_err(|e| Error::io("syncing", device.path(), e))
}

/// Removes a layout file that has no name.
pub(crate) fn remove_unnamed(device: &dyn Device, layout: &LayoutFile) {
    let _ = device.name(Naming::Remove(&unfinished(&layout.name)));
}

fn unfinished(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

fn write_zeros(file: &dyn File, wanted: &NewFile, progress: &dyn Fn(u64)) -> io::Result<()> {
    let zeros = Aligned::zeroed(ZEROS_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
    for stretch in &wanted.stretches {
        let mut at = stretch.start;
        while at < stretch.end {
            let part = (stretch.end - at).min(ZEROS_BYTES);
            device::write_full(file, &zeros[..part as usize], at)?;
            progress(part);
            at += part;
        }
    }
    Ok(())
}

/// Removes a layout that keeps nothing.
pub(crate) fn remove_layout(device: &dyn Device, layout: &LayoutFile) -> Result<()> {
    device.name(Naming::Remove(&layout.name)).map_err(|e| Error::io("removing", &layout.path, e))
}

/// Removes all visible files of the layout with this number and id.
pub(crate) fn remove_layouts_of(device: &dyn Device, number: u64, id: [u8; 16]) -> Result<()> {
    let (begin, end) = (format!("layout-{number:06}-"), format!("-{:08x}{SUFFIX}", short(id)));
    for name in list(device)?.iter().filter(|name| name.starts_with(&begin) && name.ends_with(&end)) {
        device.name(Naming::Remove(name)).map_err(|e| Error::io("removing", path_of(device, name), e))?;
    }
    Ok(())
}

/// A name for a temporary probe file.
pub(crate) fn probe_name() -> Result<String> {
    Ok(format!("{PROBE}{:032x}", u128::from_le_bytes(draw_id()?)))
}

/// The temporary files that the ranks of one opening make for the others to see.
pub(crate) struct Probes {
    begin: String,
}

impl Probes {
    pub(crate) fn new(id: [u8; 16]) -> Probes {
        Probes { begin: format!("{PROBE}{:032x}.", u128::from_be_bytes(id)) }
    }

    pub(crate) fn name(&self, rank: usize) -> String {
        format!("{}{rank}", self.begin)
    }

    /// The rank that made the probe `name`; `None` if the file is no probe, or belongs to another opening.
    pub(crate) fn rank(&self, name: &str) -> Option<usize> {
        name.strip_prefix(&self.begin)?.parse().ok()
    }
}

/// Removes the leftovers of a killed job: before anything else is written, by the process that holds the locks.
pub(crate) fn clear_away(device: &dyn Device) -> Result<()> {
    remove_unfinished(device)?;
    // The job may have named a layout and died before the name was durable.
    device.sync_directory().map_err(|e| Error::io("syncing", device.path(), e))
}

/// Removes unfinished layouts, probes, statuses, journals and notes of salvages left by a crash. Only for the newest job: a
/// job thought dead that still makes a layout fails at naming it, and one that still probes is about to be refused.
fn remove_unfinished(device: &dyn Device) -> Result<()> {
    let names = device.list().map_err(|e| Error::io("listing", device.path(), e))?;
    let is_left = |name: &&String| {
        let is_layout = name.starts_with("layout-") && name.ends_with(UNFINISHED);
        is_layout
            || name.starts_with(PROBE)
            || [STATUS_UNFINISHED, JOURNAL_UNFINISHED, SALVAGED_UNFINISHED].contains(&&name[..])
    };
    for name in names.iter().filter(is_left) {
        match device.name(Naming::Remove(name)) {
            // The file's maker has named or removed it meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(|e| Error::io("removing", path_of(device, name), e))?,
        }
    }
    Ok(())
}
