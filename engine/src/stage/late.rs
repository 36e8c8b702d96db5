//! Staging data that is compared with an older revision only as it comes. Pieces of a stream are joined to whole blocks
//! of it, and blocks that an older revision has are referred to instead of staged. The same goes for a plan of regions,
//! which is made at the end.
//!
//! Invariant: whole blocks of a stream are in whole blocks of the log, so that the next revision finds them there, and
//! take no more room than their bytes. Partial blocks are gathered aside until they fill whole ones.

use super::{
    comparing::{ASIDE_BYTES, Comparing, Tail, WAITING_BYTES_MAX},
    source::Source,
    staging::{Staging, StagingTools},
};
use crate::{
    capture::{Contents, InputPiece, Part},
    error::{Error, Result},
    space::format::{BLOCK, BLOCK_BYTES, Extent},
};

impl Staging {
    /// Stages a piece of a stream.
    pub(super) fn put_in_blocks(
        &mut self,
        tools: &mut StagingTools<'_>,
        comparing: &mut Comparing,
        handed: InputPiece,
        bytes: &[u8],
    ) -> Result<()> {
        let (item, offset) = handed.place();
        let mut tail = match comparing.tails.remove(&item) {
            Some(tail) => {
                comparing.waiting_bytes -= tail.bytes.len();
                tail
            }
            None => Tail { handed, bytes: Vec::new() },
        };
        if tail.ends() != offset {
            self.put_aside(tools, comparing, tail.handed, &tail.bytes)?;
            tail = Tail { handed, bytes: Vec::new() };
        }
        // No other piece of this stream came in between, so the whole tail counts as if it came now.
        tail.handed = handed.at(tail.begins());
        let mut rest = bytes;
        while !rest.is_empty() {
            let begins = tail.begins();
            if tail.bytes.is_empty() && begins.is_multiple_of(BLOCK_BYTES) && rest.len() >= BLOCK {
                let (blocks, behind) = rest.split_at(rest.len() / BLOCK * BLOCK);
                self.put_blocks(tools, comparing, tail.handed, blocks)?;
                (tail.handed, rest) = (tail.handed.at(begins + blocks.len() as u64), behind);
                continue;
            }
            let block = begins.next_multiple_of(BLOCK_BYTES);
            let end = block + BLOCK_BYTES;
            let (now, behind) = rest.split_at(rest.len().min((end - tail.ends()) as usize));
            tail.bytes.extend_from_slice(now);
            rest = behind;
            if tail.ends() == end {
                let (before, whole) = tail.bytes.split_at((block - begins) as usize);
                self.put_aside(tools, comparing, tail.handed, before)?;
                self.put_blocks(tools, comparing, tail.handed.at(block), whole)?;
                tail.bytes.clear();
                tail.handed = tail.handed.at(end);
            }
        }
        if !tail.bytes.is_empty() {
            comparing.waiting_bytes += tail.bytes.len();
            comparing.tails.insert(item, tail);
        }
        if comparing.waiting_bytes > WAITING_BYTES_MAX { self.put_tails(tools, comparing) } else { Ok(()) }
    }

    /// Stages the bytes that wait for the rest of their block, and gathers them aside.
    fn put_tails(&mut self, tools: &mut StagingTools<'_>, comparing: &mut Comparing) -> Result<()> {
        comparing.waiting_bytes = 0;
        let tails = std::mem::take(&mut comparing.tails);
        tails.into_values().try_for_each(|tail| self.put_aside(tools, comparing, tail.handed, &tail.bytes))
    }

    /// Stages all waiting bytes: no more pieces of streams will come.
    pub(super) fn end_streams(&mut self, tools: &mut StagingTools<'_>, comparing: &mut Comparing) -> Result<()> {
        self.put_tails(tools, comparing)?;
        self.empty_aside(tools, comparing)
    }

    /// Gathers partial blocks until they fill whole ones.
    fn put_aside(
        &mut self,
        tools: &mut StagingTools<'_>,
        comparing: &mut Comparing,
        handed: InputPiece,
        bytes: &[u8],
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let taken = (bytes.len() - done).min(ASIDE_BYTES - comparing.aside.len());
            comparing.aside.extend_from_slice(&bytes[done..done + taken]);
            comparing.held.push((handed.behind(done as u64), taken));
            done += taken;
            if comparing.aside.len() == ASIDE_BYTES {
                self.empty_aside(tools, comparing)?;
            }
        }
        Ok(())
    }

    fn empty_aside(&mut self, tools: &mut StagingTools<'_>, comparing: &mut Comparing) -> Result<()> {
        let mut from = 0;
        for (handed, bytes) in std::mem::take(&mut comparing.held) {
            self.stage_bytes(tools, &handed.part(0, 1), Source::Row(&comparing.aside[from..from + bytes]))?;
            from += bytes;
        }
        comparing.aside.clear();
        Ok(())
    }

    /// Stages whole blocks of a stream, except zeros and the blocks that an older revision has.
    fn put_blocks(
        &mut self,
        tools: &mut StagingTools<'_>,
        comparing: &mut Comparing,
        handed: InputPiece,
        blocks: &[u8],
    ) -> Result<()> {
        let offset = handed.place().1;
        debug_assert!(offset.is_multiple_of(BLOCK_BYTES) && blocks.len().is_multiple_of(BLOCK), "not whole blocks");
        let first = offset / BLOCK_BYTES;
        let mut from = 0;
        for (number, block) in (0..).zip(blocks.chunks_exact(BLOCK)) {
            let at = match self.log.can_lead(&handed) {
                true => comparing.late.find(self.log.name(&handed), first + number, block),
                false => None,
            };
            let Some(at) = at else { continue };
            let here = number as usize * BLOCK;
            self.put_changed(tools, handed, &blocks[..here], from)?;
            self.log.lay_elsewhere(&handed, here as u64, BLOCK_BYTES, at);
            from = here + BLOCK;
        }
        self.put_changed(tools, handed, blocks, from)
    }

    /// Stages `blocks` from `from` on.
    fn put_changed(
        &mut self,
        tools: &mut StagingTools<'_>,
        handed: InputPiece,
        blocks: &[u8],
        from: usize,
    ) -> Result<()> {
        if from == blocks.len() {
            return Ok(());
        }
        self.stage_bytes(tools, &handed.part(from as u64, BLOCK_BYTES), Source::Row(&blocks[from..]))
    }

    /// Stages zeros in the gap of a stream; whole blocks of them are not stored.
    pub(super) fn put_gap(&mut self, tools: &mut StagingTools<'_>, handed: InputPiece, bytes: u64) -> Result<()> {
        let (begins, zeros) = (handed.place().1, [0; BLOCK]);
        let (block, end) = (begins.next_multiple_of(BLOCK_BYTES), (begins + bytes) / BLOCK_BYTES * BLOCK_BYTES);
        let (head, tail) = if block < end && self.log.can_lead(&handed) {
            self.log.lay_elsewhere(&handed, block - begins, end - block, Extent::ZEROS);
            (block - begins, begins + bytes - end)
        } else {
            (bytes, 0)
        };
        for (from, bytes) in [(0, head), (bytes - tail, tail)] {
            for part in (0..bytes).step_by(BLOCK) {
                let zeros = &zeros[..(bytes - part).min(BLOCK_BYTES) as usize];
                self.stage_bytes(tools, &handed.behind(from + part), Source::Row(zeros))?;
            }
        }
        Ok(())
    }

    /// The place of a part of a region that is unchanged since the older revision, which has its blocks from `block` of
    /// the portion on; `None` if one of them is already referred to.
    pub(super) fn place_late(comparing: &mut Comparing, block: Option<u64>, part: &Part) -> Option<u64> {
        comparing.late.take(block?, part.bytes / BLOCK_BYTES)
    }

    /// The staged and the shared contents, as the allocation has them. If the shard cannot refer to older revisions,
    /// their blocks are read and staged too.
    pub(super) fn settle(
        &mut self,
        tools: &mut StagingTools<'_>,
        comparing: &Comparing,
        contents: Contents,
    ) -> Result<Contents> {
        let lost = || Error::Internal { what: "a shard refers to blocks that its older revision lacks".to_owned() };
        let (contents, shared) = comparing.late.settle(contents).ok_or_else(lost)?;
        let delta = contents.shared.end - contents.shared.start;
        // The program wrote more than it had announced: other levels have no room for it.
        self.shard.has_room(contents.blocks * BLOCK_BYTES, delta * BLOCK_BYTES)?;
        if shared.is_empty() || self.shard.lead_late(&contents, &shared) {
            return Ok(contents);
        }
        let (shard, mut at) = (self.shard.clone(), self.log.begin_unled());
        shard.read_older(&shared, |blocks| {
            self.stage_bytes(tools, &at, Source::Row(blocks))?;
            at = at.behind(blocks.len() as u64);
            Ok(())
        })?;
        self.leave_all(tools)?;
        contents.unled(self.log_bytes() / BLOCK_BYTES, &self.log.end_unled()).ok_or_else(lost)
    }
}
