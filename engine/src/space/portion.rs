//! One rank's part of a layout file: reading and writing by offsets within the portion.

use super::{
    Aligned, LayoutFile,
    format::{
        BLOCK, BLOCK_BYTES, Catalogue, Entry, Hash, Hashing, Manifest, PortionPlace, Refusal, Slot, blocks_for, hash,
    },
    packed_manifest::unpack_manifest,
};
use crate::{
    device::{self, Directory, File, MapNew, Mapped},
    error::{Error, Result},
    ground::sleep,
};
use serde::{Deserialize, Serialize};
use std::{
    fmt, io,
    ops::{Deref, Range},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Distance of the slots in new layouts, so large that one torn or misdirected write never hits both.
pub(crate) const SLOT_STRIDE: u64 = 64 << 10;

/// Waits before each retry of a failed read, in ms.
const READ_AGAIN_AFTER_MS: [u64; 3] = [10, 40, 160];

/// Offset of the data in a portion.
pub(crate) const fn data_from(slot_stride: u64) -> u64 {
    2 * slot_stride
}

#[derive(Debug, Clone)]
pub(crate) struct Portion {
    directory: Option<Arc<Directory>>,
    file: Arc<dyn File>,
    is_mapping_awaited: Arc<AtomicBool>,
    /// Length of the file when it was opened; it never changes.
    file_bytes: u64,
    path: Arc<str>,
    place: PortionPlace,
    layout_id: [u8; 16],
    slot_stride: u64,
    is_verified: bool,
}

/// Description of a portion that is sent in parts.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PortionShape {
    pub(crate) shard: u32,
    pub(crate) bytes: u64,
    pub(crate) layout_id: [u8; 16],
    pub(crate) slot_stride: u64,
}

/// Bytes with a verified hash, in the blocks that they were read with: rows of hashes are too large to copy.
#[derive(Debug)]
pub(crate) struct Checked {
    blocks: Arc<Aligned>,
    wanted: Range<usize>,
}

impl Deref for Checked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.blocks[self.wanted.clone()]
    }
}

impl LayoutFile {
    pub(crate) fn portions(&self) -> impl Iterator<Item = Portion> + '_ {
        self.header.portions.iter().map(|place| Portion::new(self, *place))
    }
}

impl Portion {
    pub(crate) fn new(layout: &LayoutFile, place: PortionPlace) -> Portion {
        let LayoutFile { directory, file, is_mapping_awaited, path, header, bytes, .. } = layout;
        Portion {
            directory: directory.clone(),
            file: file.clone(),
            is_mapping_awaited: is_mapping_awaited.clone(),
            file_bytes: *bytes,
            path: path.clone(),
            place,
            layout_id: header.layout_id,
            slot_stride: header.slot_stride,
            is_verified: false,
        }
    }

    /// The same portion in private memory of this process, where each block is verified before any reference to it.
    pub(super) fn verified(self) -> Portion {
        Portion { is_verified: true, ..self }
    }

    /// Whether bytes read here need no further verification.
    pub(crate) fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// A portion that fills a whole file.
    pub(super) fn of_file(
        file: Arc<dyn File>,
        path: Arc<str>,
        place: PortionPlace,
        layout_id: [u8; 16],
        slot_stride: u64,
    ) -> Portion {
        Portion {
            directory: None,
            file,
            is_mapping_awaited: Arc::default(),
            file_bytes: place.bytes,
            path,
            place,
            layout_id,
            slot_stride,
            is_verified: false,
        }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.place.rank
    }

    /// The data about the portion that another rank needs to read parts of it that it receives.
    pub(crate) fn shape(&self) -> PortionShape {
        let PortionPlace { rank, bytes, .. } = self.place;
        PortionShape { shard: rank, bytes, layout_id: self.layout_id, slot_stride: self.slot_stride }
    }

    pub(crate) fn place(&self) -> PortionPlace {
        self.place
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn layout_id(&self) -> [u8; 16] {
        self.layout_id
    }

    /// The blocks that data and metadata may use: start, end.
    pub(crate) fn data_blocks(&self) -> (u64, u64) {
        (data_from(self.slot_stride) / BLOCK_BYTES, self.place.bytes / BLOCK_BYTES)
    }

    pub(crate) fn read_slot(&self, index: usize) -> Result<Slot> {
        let at = self.slot_stride * index as u64;
        let block = self.read(at, BLOCK_BYTES)?;
        let block: &[u8; BLOCK] = block[..BLOCK].try_into().map_err(|_| self.out_of_memory(BLOCK_BYTES))?;
        let of = format!("slot {index}");
        let slot = Slot::parse(block, self.layout_id, self.place.rank, self.place.bytes)
            .map_err(|refusal| self.refuse(refusal, &of))?;
        if slot.catalogue_bytes > 0 {
            self.check_data(slot.catalogue_at, &of)?;
        }
        Ok(slot)
    }

    /// Whether that slot was never written.
    pub(crate) fn is_unwritten(&self, index: usize) -> bool {
        let block = self.read(self.slot_stride * index as u64, BLOCK_BYTES);
        block.is_ok_and(|block| block[..BLOCK].iter().all(|byte| *byte == 0))
    }

    pub(crate) fn write_slot(&self, index: usize, slot: &Slot) -> Result<u64> {
        let block = Aligned::holding(&slot.build()).ok_or_else(|| self.out_of_memory(BLOCK_BYTES))?;
        self.write(self.slot_stride * index as u64, &block)
    }

    pub(crate) fn read_catalogue(&self, slot: &Slot) -> Result<Catalogue> {
        let bytes = self.read(slot.catalogue_at, slot.catalogue_bytes)?;
        let of = format!("catalogue at {}", slot.catalogue_at);
        let catalogue =
            Catalogue::parse(&bytes[..slot.catalogue_bytes as usize], &slot.catalogue_hash, self.place.bytes)
                .map_err(|refusal| self.refuse(refusal, &of))?;
        catalogue.entries.iter().try_for_each(|entry| self.check_data(entry.meta_at, &of))?;
        Ok(catalogue)
    }

    pub(crate) fn read_manifest(&self, entry: &Entry) -> Result<Manifest> {
        let of = format!("manifest of revision {} at {}", entry.number, entry.manifest_at);
        let bytes = self.read_checked(entry.manifest_at, entry.manifest_bytes, &entry.manifest_hash, &of)?;
        self.parse_manifest(&bytes, &of)
    }

    /// Parses a manifest, and checks that it refers only to data of this portion.
    pub(crate) fn parse_manifest(&self, bytes: &[u8], of: &str) -> Result<Manifest> {
        let plain = unpack_manifest(bytes).map_err(|refusal| self.refuse(refusal, of))?;
        let manifest = Manifest::parse(&plain, self.place.bytes).map_err(|refusal| self.refuse(refusal, of))?;
        let firsts = manifest.runs.iter().map(|run| run.first_block);
        let mut firsts = firsts.chain(manifest.frames.iter().map(|frame| frame.first_block));
        firsts.try_for_each(|first| self.check_data(first * BLOCK_BYTES, of))?;
        Ok(manifest)
    }

    /// Checks that a stretch from a slot begins on a block and does not overlap the slots.
    fn check_data(&self, at: u64, of: &str) -> Result<()> {
        if at < data_from(self.slot_stride) || !at.is_multiple_of(BLOCK_BYTES) {
            return Err(self.refuse(Refusal::Damaged(format!("it refers to offset {at}, which cannot hold data")), of));
        }
        Ok(())
    }

    /// Reads bytes at any offset and checks their hash.
    pub(crate) fn read_checked(&self, at: u64, bytes: u64, expected: &Hash, of: &str) -> Result<Checked> {
        let read = self.read_anywhere(at, bytes)?;
        self.check(&hash(&read), expected, of)?;
        Ok(read)
    }

    /// Like `read_checked`, for several `parts` that ascend and are close together, in one read; `of`: the name of a
    /// part in messages.
    pub(crate) fn read_checked_together(
        &self,
        parts: &[(Range<u64>, Hash)],
        of: impl Fn(usize) -> String,
    ) -> Result<Vec<Checked>> {
        let (Some((first, _)), Some((last, _))) = (parts.first(), parts.last()) else { return Ok(Vec::new()) };
        let from = first.start / BLOCK_BYTES * BLOCK_BYTES;
        let blocks = Arc::new(self.read(from, last.end - from)?);
        let part = |(index, (part, expected)): (usize, &(Range<u64>, Hash))| {
            let wanted = (part.start - from) as usize..(part.end - from) as usize;
            let found = Checked { blocks: blocks.clone(), wanted };
            if hash(&found) != *expected {
                self.check(&hash(&found), expected, &of(index))?;
            }
            Ok(found)
        };
        parts.iter().enumerate().map(part).collect()
    }

    /// Like `read_checked`, for bytes that may be too many to hold at once: returns the hash of each part of
    /// `part_bytes`, with which `read_checked` reads that part again.
    pub(crate) fn check_in_parts(
        &self,
        at: u64,
        bytes: u64,
        part_bytes: u64,
        expected: &Hash,
        of: &str,
    ) -> Result<Vec<Hash>> {
        let (mut whole, mut parts, mut done) = (Hashing::default(), Vec::new(), 0);
        while done < bytes {
            let part = self.read_anywhere(at + done, part_bytes.min(bytes - done))?;
            whole.add(&part);
            parts.push(hash(&part));
            done += part.len() as u64;
        }
        self.check(&whole.hash(), expected, of)?;
        Ok(parts)
    }

    fn check(&self, found: &Hash, expected: &Hash, of: &str) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(self.refuse(Refusal::Damaged("its checksum does not match".into()), of))
    }

    /// Reads bytes at any offset, through the blocks that hold them.
    fn read_anywhere(&self, at: u64, bytes: u64) -> Result<Checked> {
        let from = at / BLOCK_BYTES * BLOCK_BYTES;
        let blocks = self.read(from, at - from + bytes)?;
        Ok(Checked { blocks: Arc::new(blocks), wanted: (at - from) as usize..(at - from + bytes) as usize })
    }

    /// Reads the blocks that hold `bytes` bytes from the block-aligned offset `at`.
    fn read(&self, at: u64, bytes: u64) -> Result<Aligned> {
        let inside = at.checked_add(bytes).is_some_and(|end| end <= self.place.bytes);
        // The lengths come from the medium, so compare them with the file's length before any allocation. The length is
        // the one from opening: asking again would cost a metadata operation at every checkpoint.
        if !inside || self.place.at.saturating_add(at).saturating_add(bytes) > self.file_bytes {
            return Err(self.truncated(at, self.file_bytes));
        }
        let mut buffer = Aligned::lasting(bytes).ok_or_else(|| self.out_of_memory(bytes))?;
        self.read_into(at, &mut buffer)?;
        Ok(buffer)
    }

    /// Fills `buffer` from offset `at`. If the device fails a read, retries before it reports the failure.
    pub(crate) fn read_into(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        let mut tries = 1;
        loop {
            let error = match device::read_full(&*self.file, buffer, self.place.at + at) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match READ_AGAIN_AFTER_MS.get(tries - 1).filter(|_| may_pass(&error)) {
                Some(pause_ms) => sleep(Duration::from_millis(*pause_ms)),
                None if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.truncated(at, self.file.bytes().unwrap_or(0)));
                }
                None if tries > 1 => return Err(self.io_error(&format!("reading {tries} times"), at, error)),
                None => return Err(self.io_error("reading", at, error)),
            }
            tries += 1;
        }
    }

    /// Writes `bytes` at offset `at`; returns the number of writes.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<u64> {
        assert!(at + bytes.len() as u64 <= self.place.bytes, "a write past the end of a portion");
        device::write_full(&*self.file, bytes, self.place.at + at)
            .map_err(|e| self.io_error("writing to", at, e).for_want_of(bytes.len() as u64, || self.available_bytes()))
    }

    /// Maps `bytes` bytes at offset `at`, both in whole blocks. Fails if the file cannot be mapped, or if memory is
    /// short.
    pub(crate) fn map(&self, at: u64, bytes: u64) -> Result<Mapped> {
        assert!(at + bytes <= self.place.bytes, "a mapping past the end of a portion");
        let failed = |e| self.io_error("mapping", at, e).for_want_of(self.file_bytes, || self.available_bytes());
        let mapped = self.file.map(self.place.at + at, bytes, MapNew::First(self.file_bytes));
        self.is_mapping_awaited.store(false, Ordering::Release);
        mapped.map_err(failed)
    }

    /// The portion, if it is mapped already.
    pub(crate) fn mapped(&self) -> Option<Mapped> {
        self.file.map(self.place.at, self.place.bytes, MapNew::Nothing).ok()
    }

    /// Announces that a thread will map the portion's file; until it has, `is_mapping_awaited` returns true.
    pub(crate) fn await_mapping(&self) {
        self.is_mapping_awaited.store(true, Ordering::Release);
    }

    /// Whether mapping the portion now would wait for a thread that allocates its memory.
    pub(crate) fn is_mapping_awaited(&self) -> bool {
        self.is_mapping_awaited.load(Ordering::Acquire)
    }

    /// A mapping of all blocks of the portion; errors as of `map`.
    pub(crate) fn map_all(&self) -> Result<Mapped> {
        let (from, to) = self.data_blocks();
        self.map(from * BLOCK_BYTES, (to - from) * BLOCK_BYTES)
    }

    /// Writes `bytes` padded to whole blocks.
    pub(crate) fn write_padded(&self, at: u64, bytes: &[u8]) -> Result<u64> {
        let padded = Aligned::holding(bytes).ok_or_else(|| self.out_of_memory(bytes.len() as u64))?;
        debug_assert_eq!(padded.len() as u64, blocks_for(bytes.len() as u64) * BLOCK_BYTES);
        self.write(at, &padded)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| self.io_error("syncing", 0, e))
    }

    /// Whether writing to the portion uses the program's processor time.
    pub(crate) fn takes_processor(&self) -> bool {
        self.directory.as_ref().is_some_and(|directory| directory.takes_processor())
    }

    fn available_bytes(&self) -> Option<u64> {
        self.directory.as_ref()?.available_bytes()
    }

    /// Keeps the portion's file open, so that a checkpoint costs no metadata operation.
    pub(crate) fn stay_open(&self) -> Result<()> {
        self.file.stay_open().map_err(|e| self.io_error("opening", 0, e))
    }

    pub(crate) fn refuse(&self, refusal: Refusal, of: &str) -> Error {
        refused(refusal, &format!("{self}, {of}"))
    }

    fn truncated(&self, at: u64, size: u64) -> Error {
        Error::damaged(format!("{self}: cut short, nothing at offset {at} of the portion (the file has {size} bytes)"))
    }

    fn io_error(&self, doing: &str, at: u64, source: io::Error) -> Error {
        Error::io(doing, format!("{self} at offset {at} of the portion"), source)
    }

    pub(crate) fn out_of_memory(&self, bytes: u64) -> Error {
        Error::io("allocating", format!("{bytes} bytes for {self}"), io::ErrorKind::OutOfMemory.into())
    }
}

impl fmt::Display for Portion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (portion of rank {})", self.path, self.place.rank)
    }
}

/// Whether a retry of the read may succeed.
fn may_pass(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EREMOTEIO | libc::ETIMEDOUT | libc::EAGAIN))
}

/// Turns a refusal of bytes read at `place` into an error.
pub(super) fn refused(refusal: Refusal, place: &str) -> Error {
    match refusal {
        Refusal::Foreign(why) => Error::NotASpace {
            path: place.to_owned(),
            why: format!("{why}; move this file away if its directory is a space"),
        },
        Refusal::Newer { found, known, hint } => Error::NewerVersion { path: place.to_owned(), found, known, hint },
        Refusal::Damaged(why) => Error::damaged(format!("{place}: {why}")),
    }
}
