//! Reading the record of a process that has ended. The record is read, not mapped: nothing changes between check and
//! use, and a truncated file raises no SIGBUS. A record that does not match its seal counts as none.

use super::{
    Pool, file,
    layout::{ChunkEntry, Constants},
    listing::records_of,
    record_layout::{
        CONTROL_AT, HASHED, IN_TARGET, Owner, Parts, ROWS_AT, SEALED, SegmentFound, ShardFound, TARGETS_MAX, ended_in,
        ended_with, seal_of,
    },
    sealed_plan::{SealedPlan, SealedTarget},
    word::WordRead,
};
use crate::{
    error::Result,
    space::{
        Aligned,
        format::{BLOCK, BLOCK_BYTES, blocks_for},
    },
};
use std::{
    fs::File,
    io,
    mem::offset_of,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// A fully staged shard: its bytes are in chunks, or already in the space.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) rank: u32,
    pub(crate) member: u32,
    pub(crate) plan: SealedPlan,
    pub(crate) segments: Vec<SealedSegment>,
    pub(crate) rows_bytes: u64,
    /// A bit for each target that has ended.
    ended: u32,
    path: PathBuf,
    pool: [u8; 16],
    tag: u32,
}

/// The work left for one target of a sealed shard that has not ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owed<'a> {
    pub(crate) shard: &'a Sealed,
    pub(crate) target: &'a SealedTarget,
    /// The number of the target among the shard's targets.
    index: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SealedSegment {
    /// Offset of the segment in the log.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    chunk: u32,
    chunk_blocks: u32,
    done: u8,
}

impl SealedSegment {
    /// Whether target number `target` has the segment, and the hashes are in their rows.
    pub(crate) fn is_done(&self, target: usize) -> bool {
        self.done & HASHED != 0 && self.done & 1 << target != 0
    }

    /// Whether the segment is at its final place in the shard's only target, and in no chunk.
    pub(crate) fn is_in_target(&self) -> bool {
        self.chunk == IN_TARGET
    }
}

/// The bytes staged in the chunks of a pool, read as a file.
#[derive(Clone, Copy)]
pub(crate) struct StagedBytes<'a> {
    pub(super) file: &'a File,
    pub(super) constants: &'a Constants,
}

impl Pool {
    pub(crate) fn contents(&self) -> StagedBytes<'_> {
        StagedBytes { file: self.shared.file(), constants: &self.shared.constants }
    }

    /// The sealed shards of a member: its own, and those that it keeps for other ranks. Fails if this process is out of
    /// files or memory, because an existing record may have been unreadable.
    pub(crate) fn read_sealed(&self, member: u32) -> Result<Vec<Sealed>> {
        let (directory, id) = (&self.shared.directory, self.id());
        let mut found = Vec::new();
        for rank in records_of(directory, id)? {
            match Sealed::open(directory, id, rank) {
                Err(error) if error.is_of_process() => return Err(error),
                read => found.extend(read.ok().flatten().filter(|sealed| sealed.member == member)),
            }
        }
        Ok(found)
    }

    /// The readable sealed shards of a member.
    pub(crate) fn sealed(&self, member: u32) -> Vec<Sealed> {
        self.read_sealed(member).unwrap_or_default()
    }
}

impl Sealed {
    /// The sealed shard of `rank` beside the pool `id`; `None` if there is none. `PoolRefused`: the record is damaged,
    /// or another user could have made it.
    pub(crate) fn open(directory: &Path, id: [u8; 16], rank: u32) -> Result<Option<Sealed>> {
        let path = file::path_of(directory, id, Some(rank));
        let Some(record) = file::open(&path)? else { return Ok(None) };
        Self::read(&record, &path, id, rank)
    }

    fn read(record: &File, path: &Path, id: [u8; 16], rank: u32) -> Result<Option<Sealed>> {
        let failed = |e| file::failed("reading", path, e);
        let damaged = |why: &str| Err(file::refused(path, why));
        let found = record.metadata().map_err(failed)?;
        // A file can claim to be longer than any memory, so count the blocks that it really has.
        let there = found.len().min(found.blocks().saturating_mul(512));
        if there < BLOCK as u64 {
            return damaged("it is cut short");
        }
        let mut block = [0; BLOCK];
        record.read_exact_at(&mut block, 0).map_err(failed)?;
        let owner = Owner::parse(&block, id, rank).map_err(|why| file::refused(path, why))?;
        let Ok((shard, _)) = ShardFound::read_from_prefix(&block[CONTROL_AT..]) else {
            return damaged("it is cut short");
        };
        if shard.sealed == 0 {
            return Ok(None);
        }
        let contradiction = "its numbers contradict each other";
        let Some(parts) = Parts::new(shard.rows_bytes, shard.segments_max) else { return damaged(contradiction) };
        let fits = parts.plan_at.checked_add(shard.plan_bytes).is_some_and(|end| end <= there);
        if shard.sealed != SEALED || shard.segments > shard.segments_max || !fits {
            return damaged(contradiction);
        }
        let memory = |_| failed(io::ErrorKind::OutOfMemory.into());
        let mut table = SegmentFound::new_vec_zeroed(shard.segments as usize).map_err(memory)?;
        record.read_exact_at(table.as_mut_bytes(), parts.table_at).map_err(failed)?;
        let mut plan = u8::new_vec_zeroed(shard.plan_bytes as usize).map_err(memory)?;
        record.read_exact_at(&mut plan, parts.plan_at).map_err(failed)?;
        if seal_of(&owner, &shard, table.as_bytes(), &plan) != shard.seal {
            return damaged("its seal does not match");
        }
        let Ok(plan) = postcard::from_bytes::<SealedPlan>(&plan) else { return damaged("its plan cannot be read") };
        let in_target = table.iter().any(|found| found.chunk == IN_TARGET);
        if !(1..=TARGETS_MAX).contains(&plan.targets.len()) || in_target && plan.targets.len() > 1 {
            return damaged(contradiction);
        }
        let mut done = u8::new_vec_zeroed(shard.segments as usize).map_err(memory)?;
        record.read_exact_at(&mut done, parts.done_at).map_err(failed)?;
        let segments = table.iter().zip(done).map(|(found, done)| found.segment(done)).collect();
        let ShardFound { rows_bytes, tag, ended, .. } = shard;
        let (member, path, ended) = (owner.member, path.to_owned(), ended_in(ended));
        Ok(Some(Sealed { rank, member, plan, segments, rows_bytes, ended, path, pool: id, tag }))
    }

    /// The path of the pool that the shard is in.
    pub(crate) fn pool(&self) -> PathBuf {
        file::path_of(self.path.parent().unwrap_or(&self.path), self.pool, None)
    }

    /// The work left for each target that has not ended.
    pub(crate) fn owed(&self) -> impl Iterator<Item = Owed<'_>> {
        self.targets().filter(|owed| self.ended & 1 << owed.index == 0)
    }

    /// The targets of the shard that have ended.
    pub(crate) fn ended(&self) -> impl Iterator<Item = Owed<'_>> {
        self.targets().filter(|owed| self.ended & 1 << owed.index != 0)
    }

    fn targets(&self) -> impl Iterator<Item = Owed<'_>> {
        self.plan.targets.iter().enumerate().map(|(index, target)| Owed { shard: self, target, index })
    }

    /// Reads the rows with the hashes of the finished segments. They are large, so they are read only when needed.
    pub(crate) fn read_rows(&self) -> Result<Aligned> {
        let failed = |e| file::failed("reading", &self.path, e);
        let record = file::open(&self.path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let mut rows = Aligned::zeroed(self.rows_bytes).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        record.read_exact_at(&mut rows[..self.rows_bytes as usize], ROWS_AT).map_err(failed)?;
        Ok(rows)
    }

    /// The bytes in the chunk of a segment; `None` if no chunk has the segment any more.
    pub(crate) fn chunk_of(&self, contents: StagedBytes<'_>, segment: u32) -> Result<Option<Aligned>> {
        let path = || format!("segment {segment} of rank {} in the pool", self.rank);
        let failed = |e| crate::Error::io("reading", path(), e);
        let sealed = self.segments.get(segment as usize);
        let Some(SealedSegment { bytes, chunk, chunk_blocks, .. }) = sealed else { return Ok(None) };
        let StagedBytes { file, constants } = contents;
        let chunk_bytes = u64::from(*chunk_blocks) * BLOCK_BYTES;
        let in_chunks = u64::from(*chunk).saturating_mul(chunk_bytes);
        let is_inside = *chunk < constants.chunks && in_chunks.saturating_add(chunk_bytes) <= constants.bytes();
        if constants.id != self.pool || !is_inside || *bytes > chunk_bytes {
            return Ok(None);
        }
        let mut entry = [0; size_of::<ChunkEntry>()];
        let entry_at = constants.chunk_table_at() + *chunk as usize * entry.len();
        file.read_exact_at(&mut entry, entry_at as u64).map_err(failed)?;
        let number = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| entry[at + byte]));
        let WordRead::Taken(word) = WordRead::of(number(offset_of!(ChunkEntry, word)), constants.members) else {
            return Ok(None);
        };
        let its = word.is_filled() && (u32::from(word.member), word.tag) == (self.member, self.tag);
        let holds = number(offset_of!(ChunkEntry, bytes)) == *bytes
            && number(offset_of!(ChunkEntry, segment)) as u32 == segment;
        if !its || !holds {
            return Ok(None);
        }
        let mut held = Aligned::zeroed(*bytes).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        file.read_exact_at(&mut held[..*bytes as usize], constants.chunks_at() + in_chunks).map_err(failed)?;
        // The chunk may have been freed and reused meanwhile; a dead member's word never returns to an earlier value.
        let mut after = [0; size_of::<ChunkEntry>()];
        file.read_exact_at(&mut after, entry_at as u64).map_err(failed)?;
        Ok((after == entry).then_some(held))
    }
}

impl Owed<'_> {
    /// The segments that are not in the space yet.
    pub(crate) fn left(&self) -> impl Iterator<Item = u32> {
        let segments = (0..).zip(&self.shard.segments);
        segments.filter(|(_, segment)| !segment.is_done(self.index)).map(|(index, _)| index)
    }

    /// Notes in the record that this target needs no more work. Only the process that salvages the pool calls it. If
    /// the note fails, the space shows the same as long as it keeps the revision.
    pub(crate) fn end(&self) {
        let noted = file::open(&self.shard.path).ok().flatten().map(|record| {
            let at = (CONTROL_AT + offset_of!(ShardFound, ended)) as u64;
            let mut word = [0; size_of::<u64>()];
            record.read_exact_at(&mut word, at)?;
            record.write_all_at(&ended_with(u64::from_ne_bytes(word), self.index).to_ne_bytes(), at)
        });
        let _ = noted;
    }

    /// Bytes still to be written to complete the shard, without the roots.
    pub(crate) fn left_bytes(&self) -> u64 {
        let left = self.left().map(|segment| &self.shard.segments[segment as usize]);
        let left = left.filter(|segment| !segment.is_in_target()).map(|segment| segment.bytes);
        let meta = self.shard.rows_bytes.saturating_add(self.shard.plan.contents.len() as u64);
        left.fold(blocks_for(meta).saturating_mul(BLOCK_BYTES), u64::saturating_add)
    }
}

impl SegmentFound {
    fn segment(&self, done: u8) -> SealedSegment {
        let Self { offset, bytes, chunk, chunk_blocks } = *self;
        SealedSegment { offset, bytes, chunk, chunk_blocks, done }
    }
}

/// The member that a record belongs to; `None` if the file is no record.
pub(super) fn owner_of(path: &Path, id: [u8; 16], rank: u32) -> Option<u32> {
    let mut block = [0; size_of::<Owner>()];
    file::open(path).ok()??.read_exact_at(&mut block, 0).ok()?;
    Owner::parse(&block, id, rank).ok().map(|owner| owner.member)
}
