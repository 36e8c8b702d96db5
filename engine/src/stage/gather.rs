//! Gathers pieces in a buffer until it is full.

use super::{buffer::Buffer, later::Later, source::Source};
use crate::{capture::InputPiece, space::format::BLOCK};

/// A buffer and its contents so far. The bytes get their place in the log only when the buffer leaves.
#[derive(Debug, Default)]
pub(super) struct Gather {
    pub(super) buffer: Option<Buffer>,
    used: usize,
    held: Vec<Gathered>,
}

/// Bytes of one piece, gathered in the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gathered {
    pub(super) handed: InputPiece,
    /// Distance of these bytes from the start of the piece.
    pub(super) from: u64,
    pub(super) bytes: u64,
    pub(super) in_buffer: u64,
}

impl Gather {
    /// Copies as much of `source`, starting `from` bytes after the start of the piece, as fits; returns the number of
    /// bytes. Needs a buffer. With `later`, leaves the copying to a snapshot, if it can do that.
    pub(super) fn add(
        &mut self,
        handed: &InputPiece,
        from: usize,
        source: Source<'_>,
        alignment: u64,
        later: Option<&mut Later>,
    ) -> usize {
        let Some(buffer) = &mut self.buffer else { return 0 };
        let later = later.filter(|_| !matches!(buffer, Buffer::Own(_)));
        let buffer = buffer.bytes_mut();
        let at = self.used.next_multiple_of(alignment as usize).min(buffer.len());
        let taken = (source.len() - from).min(buffer.len() - at);
        if taken > 0 || source.len() == from {
            buffer[self.used..at].fill(0);
            let into = &mut buffer[at..at + taken];
            if !later.is_some_and(|later| later.note(source, from, into)) {
                source.copy(from, into);
            }
            self.held.push(Gathered { handed: *handed, from: from as u64, bytes: taken as u64, in_buffer: at as u64 });
            self.used = at + taken;
        } else {
            // There is no room after the alignment: the rest of the buffer stays empty.
            buffer[self.used..].fill(0);
            self.used = buffer.len();
        }
        taken
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| self.used == buffer.bytes().len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The buffer, padded to whole blocks, with its length and its contents.
    pub(super) fn take(&mut self) -> Option<(Buffer, u64, Vec<Gathered>)> {
        let mut buffer = self.buffer.take()?;
        let whole = self.used.next_multiple_of(BLOCK);
        buffer.bytes_mut()[self.used..whole].fill(0);
        self.used = 0;
        Some((buffer, whole as u64, std::mem::take(&mut self.held)))
    }
}
