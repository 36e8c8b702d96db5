//! Reserving a space before there is a job, and giving a space more room: a layout is made offline, as a job makes its
//! own.
//!
//! Invariant: a layout that holds a revision stays. A new layout takes effect by the names of its files alone; a crash
//! between two of them leaves a layout that no job goes on in.

use super::{
    ShardSize,
    emptied::{holds_nothing, remove},
    opening::{lineage_after, lock, open_all, see_free},
};
use crate::{
    commit::{Ledger, OpenedLedger},
    device::{Access, Allocate, Device, Disk, FileSystem, Naming, Stripes, stripe_bytes},
    error::{Error, Result},
    printable::printable,
    space::{
        Arrangement, LOCK_FILE, LayoutFile, Making, Per, create_layout, data_from, draw_id,
        format::{BLOCK_BYTES, Header, Lineage, Slot},
        layout_pattern, layouts, probe_name, remove_layouts_of, stretches,
    },
    survey::SpaceSurvey,
};
use std::{fs, path::Path};

/// The requested room of a space, and how to allocate it.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// Blocks of each rank's portion, in addition to its slots.
    pub blocks: Vec<u64>,
    pub per: Per,
    /// Number of consecutive ranks on a node. A job finds this out by itself; before there is a job the caller must
    /// give it.
    pub ranks_per_node: Option<usize>,
    pub allocate: Allocate,
    pub stripes: Stripes,
}

/// The result of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    pub files: Vec<ReservedFile>,
    pub file_system: FileSystem,
    /// Bytes of a stripe; 0 if there are none.
    pub stripe_bytes: u64,
    /// Names of the files of empty layouts that the new layout replaces.
    pub removed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedFile {
    pub name: String,
    pub ranks: Vec<u32>,
    /// Length of the file.
    pub bytes: u64,
    /// Number of its bytes that will be written.
    pub used_bytes: u64,
    /// Bytes that the file system has allocated; `None` if it does not report them.
    pub allocated_bytes: Option<u64>,
    /// Whether nodes can write to the file without waiting for one another (lazy I/O).
    pub is_lazy: bool,
}

impl Reserved {
    /// Whether nodes can write to all of the files without waiting for one another.
    pub fn is_lazy(&self) -> bool {
        self.files.iter().all(|file| file.is_lazy)
    }
}

impl Reservation {
    /// Room for keep+2 shards of these sizes, one size for each rank.
    pub fn for_shards(shards: &[ShardSize], keep: u32) -> Reservation {
        Self::of_blocks(shards.iter().map(|shard| shard.portion_blocks(keep)).collect())
    }

    /// Room for keep+2 shards of one size, for each of `ranks` ranks.
    pub fn alike(shard: &ShardSize, ranks: usize, keep: u32) -> Reservation {
        Self::of_blocks(vec![shard.portion_blocks(keep); ranks])
    }

    /// For each of `ranks` ranks, as much room as the largest portion of the newest layout in `directory` has.
    pub fn as_before(directory: &Path, ranks: usize) -> Result<Reservation> {
        let survey = SpaceSurvey::open(directory)?;
        let newest = survey.layouts.iter().map(|layout| layout.header.layout_number).max();
        let headers = survey.layouts.iter().map(|layout| &layout.header);
        let of_newest = headers.filter(|header| Some(header.layout_number) == newest);
        let blocks = of_newest.flat_map(|header| {
            header.portions.iter().map(|place| (place.bytes - data_from(header.slot_stride)) / BLOCK_BYTES)
        });
        let Some(largest) = blocks.max() else {
            return Err(Error::NotASpace {
                path: printable(&survey.path).into_owned(),
                why: "there is no layout in it".to_owned(),
            });
        };
        Ok(Self::of_blocks(vec![largest; ranks]))
    }

    pub fn ranks(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of all portions, without their slots.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().fold(0, |sum: u64, blocks| sum.saturating_add(blocks.saturating_mul(BLOCK_BYTES)))
    }

    fn of_blocks(blocks: Vec<u64>) -> Reservation {
        let (per, allocate, stripes) = (Per::default(), Allocate::default(), Stripes::default());
        Reservation { blocks, per, ranks_per_node: None, allocate, stripes }
    }

    /// The same, with as many ranks on a node as share a file of the newest layout, unless the caller has set the
    /// number.
    fn on_nodes_of(&self, before: &[LayoutFile]) -> Reservation {
        let newest =
            before.iter().map(|file| &file.header).max_by_key(|header| (header.layout_number, header.portions.len()));
        let each = newest.map(|header| header.portions.len()).filter(|_| self.per == Per::Node);
        Reservation { ranks_per_node: self.ranks_per_node.or(each), ..self.clone() }
    }

    /// The ranks that share each file.
    fn files(&self, file_system: &FileSystem) -> Result<Vec<Vec<usize>>> {
        let ranks: Vec<usize> = (0..self.ranks()).collect();
        if ranks.is_empty() {
            return Err(Error::argument("ranks", "there is none; a job has one rank or more"));
        }
        let each = match (self.per, self.ranks_per_node) {
            (Per::App, _) | (Per::Auto, None) => ranks.len(),
            (Per::Rank, _) => 1,
            (Per::Auto, Some(_)) if !file_system.shares_badly() => ranks.len(),
            (Per::Node | Per::Auto, Some(each)) if each > 0 => each,
            (Per::Node | Per::Auto, _) => {
                let why = "give the number of ranks on a node: before there is a job it is unknown";
                return Err(Error::argument("ranks_per_node", why));
            }
        };
        Ok(ranks.chunks(each).map(<[usize]>::to_vec).collect())
    }
}

/// Reserves the space in `directory`, and makes it if it is missing, for a job with this number of ranks. Replaces a
/// layout that was reserved before and holds nothing yet; refuses a space that holds revisions. Calls `progress` with
/// the number of further zero bytes written.
pub fn reserve(directory: &Path, wanted: &Reservation, progress: &dyn Fn(u64)) -> Result<Reserved> {
    if directory.as_os_str().is_empty() {
        return Err(Error::argument("path", "it is empty; give the directory of the space"));
    }
    // Refuse a wrong reservation before anything is made.
    wanted.files(&FileSystem::Other)?;
    let was_there = directory.exists();
    let made = Disk::make(directory)?;
    reserve_on(&made, wanted, progress).inspect_err(|_| {
        if !was_there {
            take_back(&made);
        }
    })
}

/// Removes the directory that was made for an attempt that failed, unless another process uses it by now.
pub(crate) fn take_back(made: &Disk) {
    let Ok(_locks) = lock(made) else { return };
    if made.list().is_ok_and(|names| names == [LOCK_FILE]) {
        let _ = made.name(Naming::Remove(LOCK_FILE)).and_then(|()| fs::remove_dir::<&Path>(made.directory()));
    }
}

/// The result that `reserve` would have now, or the reason for a refusal. Changes nothing; the space that the file
/// system grants is unknown before it is asked.
pub fn reservable(directory: &Path, wanted: &Reservation) -> Result<Reserved> {
    if directory.as_os_str().is_empty() {
        return Err(Error::argument("path", "it is empty; give the directory of the space"));
    }
    let there = directory.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    if there != directory {
        return planned(&Disk::existing(there), wanted, &[], &[]);
    }
    let device = Disk::existing(directory);
    see_free(&device)?;
    let before = layouts(&device, Access::Read)?;
    refuse_used(&device, &before)?;
    planned(&device, wanted, &before, &before)
}

/// Like `reserve`, on `device`.
pub fn reserve_on(device: &dyn Device, wanted: &Reservation, progress: &dyn Fn(u64)) -> Result<Reserved> {
    let _locks = lock(device)?;
    let before = layouts(device, Access::Read)?;
    refuse_used(device, &before)?;
    make(device, wanted, &before, &before, progress)
}

/// Refuses a space that holds revisions, or may come to hold some.
fn refuse_used(device: &dyn Device, before: &[LayoutFile]) -> Result<()> {
    if before.is_empty() {
        return Ok(());
    }
    let survey = SpaceSurvey::open_on(device)?;
    if !survey.damage.is_empty() {
        return Err(Error::Damaged { what: survey.damage });
    }
    if before.iter().all(|file| holds_nothing(&survey, file.header.layout_id, |_| false)) {
        return Ok(());
    }
    let why = "a job has saved to it, or begun to; `mainstay grow` gives a space more room";
    Err(Error::argument(device.path(), why))
}

/// Gives the space in `directory` another layout beside its current one, for the next job. The old layout is removed
/// once the new one holds a complete revision and the old one none that is kept or held; an old layout without
/// revisions is removed at once. Refused while a job has the space open.
pub fn grow(directory: &Path, wanted: &Reservation, progress: &dyn Fn(u64)) -> Result<Reserved> {
    // Survey first: a directory that is no space gets no lock file.
    SpaceSurvey::open(directory)?;
    grow_on(&Disk::existing(directory), wanted, progress)
}

/// Fails if `grow` would be refused now for any new layout: a job has the space open, or the space has no layout to
/// grow from. Changes nothing.
pub fn can_grow(directory: &Path) -> Result<()> {
    let device = Disk::existing(directory);
    see_free(&device).and_then(|()| of_grown(&device)).map(drop)
}

/// The result that `grow` would have now, or the reason for a refusal. Changes nothing, like `reservable`.
pub fn growable(directory: &Path, wanted: &Reservation) -> Result<Reserved> {
    let device = Disk::existing(directory);
    see_free(&device)?;
    let (before, empty) = of_grown(&device)?;
    planned(&device, &wanted.on_nodes_of(&before), &before, &empty)
}

/// Like `grow`, on `device`.
pub fn grow_on(device: &dyn Device, wanted: &Reservation, progress: &dyn Fn(u64)) -> Result<Reserved> {
    let _locks = lock(device)?;
    let (before, empty) = of_grown(device)?;
    make(device, &wanted.on_nodes_of(&before), &before, &empty, progress)
}

/// Like `grow_on`, under locks that the caller holds, and also if there is no layout yet.
pub(crate) fn make_room(device: &dyn Device, wanted: &Reservation) -> Result<Reserved> {
    let before = layouts(device, Access::Read)?;
    let (before, empty) = if before.is_empty() { (before, Vec::new()) } else { of_grown(device)? };
    make(device, wanted, &before, &empty, &|_| ())
}

/// The existing layouts, and the empty ones among them.
fn of_grown(device: &dyn Device) -> Result<(Vec<LayoutFile>, Vec<LayoutFile>)> {
    let survey = SpaceSurvey::open_on(device)?;
    let before = layouts(device, Access::Read)?;
    if before.is_empty() {
        return Err(Error::NotASpace { path: device.path(), why: "there is no layout in it".to_owned() });
    }
    let is_empty = |file: &&LayoutFile| holds_nothing(&survey, file.header.layout_id, |_| false);
    let empty = before.iter().filter(is_empty).cloned().collect();
    Ok((before, empty))
}

/// The layout that `make` would make, as far as known without asking the file system.
fn planned(device: &dyn Device, wanted: &Reservation, before: &[LayoutFile], empty: &[LayoutFile]) -> Result<Reserved> {
    let file_system = device.directory().file_system();
    let stripe_bytes = if file_system.has_stripes() { wanted.stripes.bytes } else { 0 };
    let arrangement = arrangement([0; 16], wanted, before, stripe_bytes);
    let file = |ranks: Vec<usize>| {
        let header = arrangement.header(&ranks, ranks[0] == 0);
        ReservedFile {
            name: layout_pattern(header.layout_number, ranks[0]),
            ranks: ranks.iter().map(|rank| *rank as u32).collect(),
            bytes: header.file_bytes,
            used_bytes: used_bytes(&header),
            allocated_bytes: None,
            is_lazy: false,
        }
    };
    let files = wanted.files(&file_system)?.into_iter().map(file).collect();
    let removed = empty.iter().map(|file| file.name.clone()).collect();
    Ok(Reserved { files, file_system, stripe_bytes, removed })
}

fn arrangement(id: [u8; 16], wanted: &Reservation, before: &[LayoutFile], stripe_bytes: u64) -> Arrangement {
    let layout_number = before.last().map_or(0, |file| file.header.layout_number) + 1;
    Arrangement { layout_id: id, layout_number, stripe_bytes, is_sized: true, blocks: wanted.blocks.clone() }
}

fn used_bytes(header: &Header) -> u64 {
    stretches(header).iter().map(|stretch| stretch.end - stretch.start).sum()
}

/// Makes a layout newer than those of `before`, then removes the layouts of `empty`. Removes the leftovers of an
/// interrupted reservation first.
fn make(
    device: &dyn Device,
    wanted: &Reservation,
    before: &[LayoutFile],
    empty: &[LayoutFile],
    progress: &dyn Fn(u64),
) -> Result<Reserved> {
    let file_system = device.directory().file_system();
    let files = wanted.files(&file_system)?;
    let stripe_bytes = stripe_bytes(device, wanted.stripes, &probe_name()?);
    let stripe_bytes = stripe_bytes.map_err(|e| Error::io("asking for the stripes of files in", device.path(), e))?;
    let arrangement = arrangement(draw_id()?, wanted, before, stripe_bytes);
    let opened = open_all(before)?;
    let lineage = lineage_after(&opened)?;
    // Remove leftovers first: the new layout may need their room.
    let (cut_off, empty): (Vec<LayoutFile>, Vec<LayoutFile>) =
        empty.iter().cloned().partition(|file| was_cut_off(file, before, &opened));
    let mut removed = remove(device, &cut_off)?;
    let made = create_all(device, &arrangement, &files, lineage, wanted, progress);
    let files = made.inspect_err(|_| {
        let _ = remove_layouts_of(device, arrangement.layout_number, arrangement.layout_id);
    })?;
    removed.extend(remove(device, &empty)?);
    Ok(Reserved { files, file_system, stripe_bytes, removed })
}

/// Whether files of the layout of `file` are missing, and no job has opened that layout.
fn was_cut_off(file: &LayoutFile, before: &[LayoutFile], opened: &[OpenedLedger]) -> bool {
    let id = file.header.layout_id;
    let of_layout = before.iter().filter(|other| other.header.layout_id == id);
    let portions: usize = of_layout.map(|other| other.header.portions.len()).sum();
    let mut ledgers = opened.iter().map(|opened| &opened.ledger).filter(|ledger| ledger.portion().layout_id() == id);
    portions < file.header.ranks as usize && ledgers.all(Ledger::is_unused)
}

fn create_all(
    device: &dyn Device,
    arrangement: &Arrangement,
    files: &[Vec<usize>],
    lineage: Lineage,
    wanted: &Reservation,
    progress: &dyn Fn(u64),
) -> Result<Vec<ReservedFile>> {
    let tells = device.directory().file_system().sets_aside();
    // No job writes to a new layout yet: without locks, the clean slot tells a job that it may use it.
    let first = |rank| Slot { clean: true, ..Ledger::first_slot(arrangement.layout_id, rank, lineage) };
    let making = Making { allocate: wanted.allocate, stripes: wanted.stripes, when_mapped: false, progress };
    let create = |ranks: &Vec<usize>| {
        let header = arrangement.header(ranks, ranks[0] == 0);
        // Each file is closed once it is made.
        create_layout(device, header, &making, first).and_then(|file| reserved_file(&file, tells))
    };
    files.iter().map(create).collect()
}

fn reserved_file(file: &LayoutFile, tells: bool) -> Result<ReservedFile> {
    Ok(ReservedFile {
        name: file.name.clone(),
        ranks: file.header.portions.iter().map(|place| place.rank).collect(),
        bytes: file.header.file_bytes,
        used_bytes: used_bytes(&file.header),
        allocated_bytes: if tells { Some(file.allocated_bytes()?) } else { None },
        is_lazy: file.is_lazy(),
    })
}
