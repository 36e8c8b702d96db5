//! Calls that bring data back: regions, streams, shards and buffers.

use crate::{
    error::{Error, Result},
    reader::Reader,
    session::{Got, ListedRevision, Restored, Session},
    space::format::Item,
};

impl Session {
    /// Fills the protected regions with the newest complete revision that can be read whole, the same on all ranks.
    /// `None` if the space holds none. Collective.
    ///
    /// All ranks together pass over a revision that is damaged, or that a device cannot read even after several tries;
    /// `skipped` lists it. If no revision is left, that is an error, of the kind `Io` if nothing was damaged, and the
    /// regions are undefined. They are also undefined if the group fails, if a rank runs out of files or memory, or if
    /// the root of the new lineage, which comes last, cannot be written. These errors are found before anything is
    /// filled: regions that do not fit, another number of ranks, a shard out of sight, a conflict of lineages.
    pub fn restore(&mut self) -> Result<Option<Restored>> {
        let inner = self.ours()?;
        let restored = inner.reading(|inner| inner.restore(None));
        inner.tick().and(restored)
    }

    /// As `restore`, but only from the revision with this number. The program goes on from there. Newer revisions are
    /// no longer kept from the next checkpoint on, except held ones. `RevisionMissing` on all ranks if it is not there
    /// whole, before anything is filled. Collective, with the same number on all ranks.
    pub fn restore_revision(&mut self, revision: u64) -> Result<Option<Restored>> {
        let inner = self.ours()?;
        let restored = inner.reading(|inner| inner.restore(Some(revision)));
        inner.tick().and(restored)
    }

    /// Goes back to the revision that `restore` would restore, but fills nothing: for a program that divides the saved
    /// shards among its ranks itself. The number of ranks may differ from that of the revision in either direction, and
    /// protected regions stay as they are. `None` if the space holds no revision. Collective.
    ///
    /// The ranks verify every shard and cut output files back, and they pass over damaged revisions as `restore` does.
    /// Then name the shards that this rank takes over by `bring_shards`, and read their regions and streams by
    /// `shards`: `Reader::fill`, `Reader::read`. If a block turns out damaged in that pass, all ranks call `pass_over`
    /// and then `choose` again. The program may checkpoint next.
    pub fn choose(&mut self) -> Result<Option<Restored>> {
        let inner = self.ours()?;
        let chosen = inner.reading(|inner| inner.choose(None));
        inner.tick().and(chosen)
    }

    /// As `choose`, but only the revision with this number, as in `restore_revision`. Collective, with the same number
    /// on all ranks.
    pub fn choose_revision(&mut self, revision: u64) -> Result<Option<Restored>> {
        let inner = self.ours()?;
        let chosen = inner.reading(|inner| inner.choose(Some(revision)));
        inner.tick().and(chosen)
    }

    /// Reads and verifies bytes of the stream `name` in the revision of the last `restore`. Returns the number of bytes
    /// read, fewer than requested only at the end of the stream. Possible until the next checkpoint begins. Local.
    pub fn read(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.ours()?.program.restored.reading.read(name, offset, into)
    }

    /// The streams of this rank in the revision of the last `restore`: names and bytes.
    pub fn streams(&mut self) -> Result<Vec<(String, u64)>> {
        self.ours()?.program.restored.reading.streams()
    }

    /// The length of the stream `name`, as `streams` lists it.
    pub fn stream_bytes(&mut self, name: &str) -> Result<u64> {
        self.ours()?.program.restored.reading.stream_bytes(name)
    }

    /// A reader of the shards of the revision of the last `restore` or `choose`, for any number of ranks that saved it.
    /// It reads without a message the shards that are `here`: those in the memory of this rank's node, or all shards in
    /// files that it sees. If the number of ranks is the same and the level has no copies, only its own shard.
    /// `bring_shards` brings others. The reader has no shards before a restore, and once a checkpoint has begun. Local.
    pub fn shards(&mut self) -> Result<&mut Reader> {
        Ok(&mut self.ours()?.program.restored.shards.reader)
    }

    /// Brings the shards `wanted` of the revision of the last `restore` to this rank, for any number of ranks that
    /// saved it. Shards that are only on other nodes are sent into memory of this rank. On a level with copies, a whole
    /// copy is taken. From then on the reader of `shards` knows the items of all shards; with an empty `wanted` the call does only that.
    /// Collective, with the wishes of each rank; in force until the next checkpoint begins.
    ///
    /// `InvalidArgument`: nothing was restored, a checkpoint has begun since, or there is no such shard. `Damaged`: no
    /// copy of a shard is whole. `OutOfSight`: a shard is only on other nodes, and the ranks cannot exchange shards.
    pub fn bring_shards(&mut self, wanted: &[u32]) -> Result<()> {
        self.ours()?.bring_shards(wanted)
    }

    /// Makes restores take another revision than the last `restore` did, or the same one from a farther level. For a
    /// layer on this session that has read the shards, and found the damage listed in `what`. All ranks call it alike,
    /// and restore again; the result of that lists the damage. `InvalidArgument`: nothing was restored, or a checkpoint
    /// has begun since. Local.
    pub fn pass_over(&mut self, what: Vec<String>) -> Result<()> {
        let program = &mut self.ours()?.program;
        let Some(of) = program.restored.shards.of() else {
            let why = "nothing was restored, or a checkpoint has begun since; call it between the two";
            return Err(Error::argument("pass_over", why));
        };
        program.restored.passed_over.push((of, what));
        Ok(())
    }

    /// Fills the beginning of `into` with the bytes that this rank saved under `name`, a region or a stream, in
    /// `revision`. Without a number, the ranks together try the newest revision first and then older ones, as in
    /// `restore`. `None` if nothing was saved yet. Every block of the shard is verified. If the last revision failed,
    /// or a rank left it unfinished, the call returns that error instead, once: call it again. Collective.
    ///
    /// Nothing else changes: later checkpoints go on as without the call. These errors come before anything is filled:
    /// too little room on any rank, a name that was not saved, a revision that is not there, another number of ranks.
    /// After any other error `into` is undefined.
    pub fn get(&mut self, revision: Option<u64>, name: &str, into: &mut [u8]) -> Result<Option<Got>> {
        self.ours()?.reading(|inner| inner.get(revision, name, into))
    }

    /// The number of bytes that `get` would fill on this rank, if nothing is damaged. Collective.
    pub fn get_bytes(&mut self, revision: Option<u64>, name: &str) -> Result<Option<u64>> {
        self.ours()?.reading(|inner| inner.get_bytes(revision, name))
    }

    /// The complete revisions that `restore_revision` and `choose_revision` can go back to, the newest first, with the
    /// step and the notes of each. The ranks read only the descriptions of their shards, so damaged data shows when a
    /// revision is restored. Nothing else changes. Collective.
    pub fn revisions(&mut self) -> Result<Vec<ListedRevision>> {
        self.ours()?.revisions()
    }

    /// The item that this rank saved under `name`: its type, shape and size. With them you can protect memory of that
    /// size before the restore. The item comes from the revision that `restore` tries first, or from the revision of
    /// this number. `None`: there is no revision, or it has no such item. If another number of ranks saved the
    /// revision, the item is that of the first shard that has one. Collective: all ranks call it equally often, and
    /// each may give another name.
    ///
    /// Only `restore` verifies blocks. If it finds the newest revision damaged, it goes back to an older one, which may
    /// have other sizes. Regions of `follow_resizing` get the older size; for all others the restore fails. Then ask
    /// for the older revision here, protect that size, and call `restore_revision`.
    pub fn saved(&mut self, revision: Option<u64>, name: &str) -> Result<Option<Item>> {
        self.ours()?.reading(|inner| inner.saved(revision, name))
    }
}
