//! The files of a space: finding layouts, making one, removing one.

use super::{
    Aligned,
    format::{BLOCK, BLOCK_BYTES, Header, Slot},
    portion::{Portion, refused},
};
use crate::{
    device::{self, Access, Device, File},
    error::{Error, Result},
};
use std::{io, sync::Arc};

/// One lock byte for each rank of the job that may write.
pub(crate) const LOCK_FILE: &str = "lock";
/// Made for an instant while ranks find out who sees whose files.
pub(crate) const PROBE: &str = "probe-";
const SUFFIX: &str = ".mainstay";
const UNFINISHED: &str = ".unfinished";

/// A file of a layout: all its portions, or those of one node.
#[derive(Debug, Clone)]
pub(crate) struct LayoutFile {
    pub(crate) name: String,
    pub(crate) path: Arc<str>,
    pub(crate) header: Header,
    pub(super) file: Arc<dyn File>,
}

impl LayoutFile {
    pub(crate) fn portions(&self) -> impl Iterator<Item = Portion> + '_ {
        let portion = |place: &_| Portion::new(self.file.clone(), self.path.clone(), &self.header, *place);
        self.header.portions.iter().map(portion)
    }
}

/// All layout files of a space, oldest layout first.
pub(crate) fn layouts(device: &dyn Device, access: Access) -> Result<Vec<LayoutFile>> {
    let mut layouts = Vec::new();
    for name in list(device)?.into_iter().filter(|name| is_layout(name)) {
        layouts.push(open_layout(device, name, access)?);
    }
    layouts.sort_by_key(|layout| (layout.header.layout_number, layout.name.clone()));
    Ok(layouts)
}

/// The names of all files of a space.
pub(crate) fn list(device: &dyn Device) -> Result<Vec<String>> {
    let not_a_space = |why: &str| Error::NotASpace { path: device.path(), why: why.to_owned() };
    device.list().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => not_a_space("there is no such directory"),
        io::ErrorKind::NotADirectory => not_a_space("it is not a directory"),
        _ => Error::io("listing", device.path(), e),
    })
}

pub(crate) fn is_layout(name: &str) -> bool {
    name.starts_with("layout-") && name.ends_with(SUFFIX)
}

pub(crate) fn open_layout(device: &dyn Device, name: String, access: Access) -> Result<LayoutFile> {
    let path: Arc<str> = format!("{}/{name}", device.path()).into();
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::damaged(format!("{path}: cut short in its header")),
        _ => Error::io("reading", &path, e),
    };
    let file = device.open(&name, access).map_err(failed)?;
    let mut block = Aligned::zeroed(BLOCK_BYTES).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
    device::read_full(&*file, &mut block, 0).map_err(failed)?;
    let Ok(block) = <&[u8; BLOCK]>::try_from(&block[..]) else {
        return Err(Error::Internal { what: "a block has another size".into() });
    };
    let table_bytes = Header::table_bytes(block).map_err(|refusal| refused(refusal, &path))?;
    if file.bytes().map_err(failed)? < (BLOCK + table_bytes) as u64 {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut table = Aligned::zeroed(table_bytes as u64).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
    device::read_full(&*file, &mut table, BLOCK_BYTES).map_err(failed)?;
    let header = Header::parse(block, &table).map_err(|refusal| refused(refusal, &path))?;
    Ok(LayoutFile { name, path, header, file })
}

/// Makes a layout file with the given first slot in each portion. It gets its name only when it is
/// whole and durable: a crash before leaves no layout.
pub(crate) fn create_layout(
    device: &dyn Device,
    header: Header,
    leader: usize,
    first: impl Fn(u32) -> Slot,
) -> Result<LayoutFile> {
    // The id keeps it apart from what a job thought dead may still be making under the same number.
    let id = u32::from_be_bytes([0, 1, 2, 3].map(|index| header.layout_id[index]));
    let name = format!("layout-{:06}-{leader:06}-{id:08x}{SUFFIX}", header.layout_number);
    let unfinished = format!("{name}{UNFINISHED}");
    let path: Arc<str> = format!("{}/{name}", device.path()).into();
    let attempt = || -> Result<Arc<dyn File>> {
        let file = device.create(&unfinished, header.file_bytes).map_err(|e| Error::io("making", &path, e))?;
        let bytes = Aligned::holding(&header.build())
            .ok_or_else(|| Error::io("making", &path, io::ErrorKind::OutOfMemory.into()))?;
        device::write_full(&*file, &bytes, 0).map_err(|e| Error::io("writing to", &path, e))?;
        for place in &header.portions {
            Portion::new(file.clone(), path.clone(), &header, *place).write_slot(0, &first(place.rank))?;
        }
        // The name must never lead to a file whose header or slots are not there yet.
        file.sync().map_err(|e| Error::io("syncing", &path, e))?;
        device.rename(&unfinished, &name).map_err(|e| Error::io("naming", &path, e))?;
        // No revision may be acknowledged in a file that a crash can still unname.
        device.sync_directory().map_err(|e| Error::io("syncing", device.path(), e))?;
        Ok(file)
    };
    match attempt() {
        Ok(file) => Ok(LayoutFile { name, path, header, file }),
        Err(error) => {
            let _ = device.remove(&unfinished);
            Err(error)
        }
    }
}

/// Removes a layout that holds nothing that is kept.
pub(crate) fn remove_layout(device: &dyn Device, layout: &LayoutFile) -> Result<()> {
    device.remove(&layout.name).map_err(|e| Error::io("removing", &layout.path, e))
}

/// Clears away what a job that was killed left: before anything else is written, by whoever has the locks.
pub(crate) fn clear_away(device: &dyn Device) -> Result<()> {
    remove_unfinished(device)?;
    // It may have named a layout and not lived to make the name durable.
    device.sync_directory().map_err(|e| Error::io("syncing", device.path(), e))
}

/// Removes what a crash left of layouts and probes that were being made. Only for the newest job: one
/// thought dead that still makes a layout fails at naming it, one that still probes is about to be refused.
fn remove_unfinished(device: &dyn Device) -> Result<()> {
    let names = device.list().map_err(|e| Error::io("listing", device.path(), e))?;
    let is_left =
        |name: &&String| (name.starts_with("layout-") && name.ends_with(UNFINISHED)) || name.starts_with(PROBE);
    for name in names.iter().filter(is_left) {
        match device.remove(name) {
            // Named, or removed, by its maker meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(|e| Error::io("removing", format!("{}/{name}", device.path()), e))?,
        }
    }
    Ok(())
}
