//! A layout file as bytes: finds its parts, changes them, and seals them again.

use mainstay_engine::space::format::{BLOCK, Catalogue, Entry, Header, Manifest, PortionPlace, Slot, hash};
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// One layout file in memory.
#[derive(Clone)]
pub struct Layout {
    path: PathBuf,
    pub bytes: Vec<u8>,
}

impl Layout {
    pub fn read(path: &Path) -> Layout {
        Layout { path: path.to_owned(), bytes: fs::read(path).unwrap() }
    }

    /// The only layout of a space.
    pub fn of(space: &Path) -> Layout {
        let files = fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path());
        let is_layout = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "mainstay");
        Layout::read(&files.into_iter().find(is_layout).unwrap())
    }

    /// Writes the current bytes to the file.
    pub fn write(&self) {
        fs::write(&self.path, &self.bytes).unwrap();
    }

    pub fn flip(&mut self, at: usize) {
        self.bytes[at] ^= 0x10;
    }

    pub fn header(&self) -> Header {
        let block = self.block(0);
        let table = Header::table_bytes(block).unwrap();
        Header::parse(block, &self.bytes[BLOCK..][..table]).unwrap()
    }

    fn block(&self, at: usize) -> &[u8; BLOCK] {
        self.bytes[at..][..BLOCK].try_into().unwrap()
    }

    pub fn place(&self, rank: usize) -> PortionPlace {
        self.header().portions[rank]
    }

    pub fn slot_at(&self, rank: usize, index: usize) -> usize {
        let header = self.header();
        header.portions[rank].at as usize + index * header.slot_stride as usize
    }

    pub fn slot(&self, rank: usize, index: usize) -> Slot {
        let place = self.place(rank);
        Slot::parse(self.block(self.slot_at(rank, index)), self.header().layout_id, place.rank, place.bytes).unwrap()
    }

    pub fn newest_slot(&self, rank: usize) -> usize {
        usize::from(self.slot(rank, 1).sequence > self.slot(rank, 0).sequence)
    }

    pub fn set_slot(&mut self, rank: usize, index: usize, slot: &Slot) {
        let at = self.slot_at(rank, index);
        self.bytes[at..][..BLOCK].copy_from_slice(&slot.build());
    }

    pub fn damage_slot(&mut self, rank: usize, index: usize) {
        let at = self.slot_at(rank, index);
        self.bytes[at] ^= 1;
    }

    /// A stretch of a portion, in the file.
    fn range(&self, rank: usize, at: u64, bytes: u64) -> Range<usize> {
        let from = (self.place(rank).at + at) as usize;
        from..from + bytes as usize
    }

    pub fn catalogue_range(&self, rank: usize, index: usize) -> Range<usize> {
        let slot = self.slot(rank, index);
        self.range(rank, slot.catalogue_at, slot.catalogue_bytes)
    }

    pub fn catalogue(&self, rank: usize, index: usize) -> Catalogue {
        let bytes = &self.bytes[self.catalogue_range(rank, index)];
        Catalogue::parse(bytes, &hash(bytes), self.place(rank).bytes).unwrap()
    }

    pub fn entry(&self, rank: usize, revision: u64) -> Entry {
        let catalogue = self.catalogue(rank, self.newest_slot(rank));
        catalogue.entries.into_iter().find(|entry| entry.number == revision).unwrap()
    }

    pub fn manifest_range(&self, rank: usize, revision: u64) -> Range<usize> {
        let entry = self.entry(rank, revision);
        self.range(rank, entry.manifest_at, entry.manifest_bytes)
    }

    pub fn manifest(&self, rank: usize, revision: u64) -> Manifest {
        Manifest::parse(&self.bytes[self.manifest_range(rank, revision)], self.place(rank).bytes).unwrap()
    }

    /// The ranges of a revision's items in the file. Zeros are stored nowhere.
    pub fn item_ranges(&self, rank: usize, revision: u64) -> Vec<Range<usize>> {
        let items = self.manifest(rank, revision).items;
        let extents = items.iter().flat_map(|item| &item.extents).filter(|extent| !extent.is_zeros());
        extents.map(|extent| self.range(rank, extent.at, extent.bytes)).collect()
    }

    pub fn hashes_range(&self, rank: usize, revision: u64) -> Range<usize> {
        let run = self.manifest(rank, revision).runs[0];
        self.range(rank, run.hashes_at, run.blocks * 16)
    }

    pub fn data_range(&self, rank: usize, revision: u64) -> Range<usize> {
        let run = self.manifest(rank, revision).runs[0];
        self.range(rank, run.first_block * BLOCK as u64, run.blocks * BLOCK as u64)
    }

    /// Seals the header's block, and the table that follows it, after a change.
    pub fn seal_header(&mut self) {
        const TABLE_HASH: usize = 56;
        let table_bytes = Header::bytes_for(self.bytes[52] as usize) as usize - BLOCK;
        let table = hash(&self.bytes[BLOCK..][..table_bytes]);
        self.bytes[TABLE_HASH..][..16].copy_from_slice(&table);
        self.seal_block(0);
    }

    pub fn seal_block(&mut self, at: usize) {
        let sum = hash(&self.bytes[at..at + BLOCK - 16]);
        self.bytes[at + BLOCK - 16..at + BLOCK].copy_from_slice(&sum);
    }

    /// Replaces a revision's manifest with another one, with all checksums right. It may be longer, up to the room
    /// behind it in the metadata.
    pub fn forge_manifest(&mut self, rank: usize, revision: u64, bytes: &[u8]) {
        let Entry { manifest_at, meta_at, meta_bytes, .. } = self.entry(rank, revision);
        assert!(manifest_at + bytes.len() as u64 <= meta_at + meta_bytes, "no room for {} bytes", bytes.len());
        let range = self.range(rank, manifest_at, bytes.len() as u64);
        let catalogues = [0, 1].map(|index| (self.catalogue_range(rank, index), self.catalogue(rank, index)));
        self.bytes[range].copy_from_slice(bytes);
        for (index, (range, mut catalogue)) in catalogues.into_iter().enumerate() {
            for entry in catalogue.entries.iter_mut().filter(|entry| entry.number == revision) {
                entry.manifest_hash = hash(bytes);
                entry.manifest_bytes = bytes.len() as u64;
            }
            self.forge_catalogue(rank, index, range, &catalogue.build());
        }
    }

    pub fn forge_catalogue(&mut self, rank: usize, index: usize, range: Range<usize>, bytes: &[u8]) {
        let slot = Slot { catalogue_hash: hash(bytes), ..self.slot(rank, index) };
        self.bytes[range].copy_from_slice(bytes);
        self.set_slot(rank, index, &slot);
    }
}
