//! A session: one job at work on one space. It connects the stages, and it is the only part that talks to the group.
//!
//! Invariants: every rank calls the same collective methods in the same order (`entry` reports it otherwise). Every
//! decision that ranks must share comes from a collective, never from observations of one rank.

mod again;
mod agreement;
mod ahead;
mod announcer;
mod attempt;
mod begin;
mod begun;
mod bringing;
mod brought;
mod buffer;
mod carryover;
mod catching_up;
mod changed;
mod checkpoint;
mod choose_revision;
mod chosen;
mod closing;
mod copies;
mod copying;
mod damage;
mod diary;
mod domain;
mod due;
mod earlier;
mod ended_unsaved;
mod entry;
mod epoch;
mod exchange;
mod failing;
mod fetch;
mod flag;
mod held_revisions;
mod holders;
mod holds;
mod later;
mod layout;
mod level;
mod level_plan;
mod levels;
mod locking;
mod looked;
mod missed;
mod need;
mod node;
mod open;
mod outputs;
mod places;
mod program;
mod progress;
mod ranks;
mod reading;
mod record;
mod recover;
mod redistribute;
mod report;
mod requests;
mod resources;
mod restore;
mod run;
mod saved;
mod saver;
mod schedule;
mod settle;
mod shard_room;
mod shards;
mod speculative;
mod state;
mod stepping;
mod telling;
mod tracing;

pub use buffer::Got;
pub use holders::Handed;
pub use level::LevelKind;
pub use level_plan::LevelPlan;
pub use record::Record;
pub use recover::Recovered;
pub use restore::Restored;
pub use run::{Failing, Stepped, run};
pub use saver::Saver;
pub use shards::{ShardItems, ShardsHere};
pub use speculative::Speculation;

use crate::{
    capture::{Allocated, Look, OwnMemory, Region},
    config::Config,
    device::Device,
    error::{Error, Result},
    ground::Instant,
    group::Group,
    rehearsal,
    remark::remark,
    space::format::{Emptied, Item},
};
use carryover::Carryover;
use entry::Call;
use level_plan::Origin;
use state::SessionState;
use std::{
    path::Path,
    process,
    sync::{Arc, Weak},
};
use telling::node_name;

/// One job at work on one space. One thread at a time uses a session, and only in the process that opened it. In a
/// forked child every method is refused, and dropping the session does nothing.
pub struct Session {
    /// `None` once the session is closed or dropped.
    inner: Option<SessionState>,
    /// The process to which the threads, locks and communicator of the session belong.
    pid: u32,
    /// The saver with the exclusive right to begin revisions, if any.
    saver: Weak<()>,
    /// The program has begun revisions that hold more than the regions.
    has_more: bool,
}

impl Session {
    /// Opens the space in the directory `path`, which is made if it is missing. Refused if staged data of a killed job
    /// cannot be completed now, but possibly later. Collective.
    pub fn open(group: Box<dyn Group>, path: &Path, config: Config) -> Result<Session> {
        // An absolute path lets the program change its directory.
        let path = rehearsal::place(path);
        Self::open_from(group, Origin::Path(path), &config)
    }

    /// Opens the space on `device`. Collective.
    pub fn open_on(group: Box<dyn Group>, device: Arc<dyn Device>, config: Config) -> Result<Session> {
        let (copies, former) = (Vec::new(), Vec::new());
        let plan = LevelPlan { kind: LevelKind::Pfs, device, every: 1, keep: config.keep, copies, former };
        Self::open_levels(group, vec![plan], config)
    }

    /// Opens several levels, the nearest first. A checkpoint saves to the nearest level, and waits only for that. The
    /// other levels are fed from there, each at its own pace. Collective.
    pub fn open_levels(group: Box<dyn Group>, levels: Vec<LevelPlan>, config: Config) -> Result<Session> {
        Self::open_from(group, Origin::Levels(levels), &config)
    }

    /// Prints a remark to the user on standard error, on rank 0, if no call can report it as an error. For layers on
    /// top of a session. Local.
    pub fn remark(&self, text: &str) {
        remark(self.rank(), text);
    }

    pub fn rank(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.epoch.group.rank())
    }

    pub fn size(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.epoch.group.size())
    }

    /// Goes on without the ranks that have failed. Call it on every remaining rank after an error of the kind
    /// `GroupFailed`, from this session or from the program's own messages, in any call. The group chooses the ranks
    /// that go on (`Group::shrink`): fewer, or as many with replacements. A replacement comes out of `open` meanwhile.
    ///
    /// Protected regions stay protected, a checkpoint that was begun is given up, and later revisions never mix with
    /// earlier ones. Call `restore` next, on all ranks. If the number of ranks has changed, or the data of each rank,
    /// first protect the new data. If ranks fail during the recovery, it begins again.
    ///
    /// `InvalidArgument`: the setting `recovery` is off, or the group cannot go on; the session stays as it was. After
    /// any other error the session is over: start the job again. (Paper 002, section 4.2.) Collective.
    pub fn recover(&mut self) -> Result<Recovered> {
        let noticed = Instant::now();
        let group = self.ours()?.going_on()?;
        let Some(inner) = self.inner.take() else { return Ok(Recovered::default()) };
        let (inner, recovered) = inner.go_on(group, noticed.elapsed())?;
        self.inner = Some(inner);
        Ok(recovered)
    }

    /// Adds a region to the data that is saved and restored. Local. `DuplicateName`: a region has the name.
    /// `InvalidArgument`, with both names: it shares bytes with another region, and a restore would fill these from
    /// both. Variables found by `protect_globals` may also have a name of their own.
    pub fn protect(&mut self, region: Region) -> Result<()> {
        self.ours()?.protect(region)
    }

    /// Allocates `bytes` zero bytes, in pages of 2 MiB if the system has them. Protect this memory under `name`, whole
    /// or in parts. It stays until `free`, or until the session and all clones of the `OwnMemory` are gone. A snapshot
    /// copies it under write protection, which costs the program far less than a clone, unless `how` says otherwise.
    /// Local.
    ///
    /// `InvalidArgument`: the name has memory already, or its address is taken. `DuplicateName`: a region has the name,
    /// and stays protected.
    pub fn allocate(&mut self, name: &str, bytes: u64, how: Allocated) -> Result<OwnMemory> {
        self.ours()?.allocate(name, bytes, how)
    }

    /// The names of allocated memory that is not freed. Local.
    pub fn allocated(&mut self) -> Result<Vec<String>> {
        Ok(self.ours()?.program.allocated.memory.keys().cloned().collect())
    }

    /// `InvalidArgument` if a region with another name is part of the memory allocated under `name`. For callers
    /// without an `OwnMemory`, because `free` would take this memory away from them. Local.
    pub fn check_free(&mut self, name: &str) -> Result<()> {
        self.ours()?.check_free(name)
    }

    /// Unprotects the region `name`, if it is protected, and releases its memory. The memory is freed once it has no
    /// other owner and no snapshot reads it. Local.
    pub fn free(&mut self, name: &str) -> Result<()> {
        self.ours()?.free(name)
    }

    /// Puts `region` in place of the protected region with its name, after a `realloc` or a change of its size. The
    /// type stays. The place in a global array stays too, unless `region` has one. A followed region moves with the
    /// pointer that it follows; this must already point to the new place. `RegionMissing`: no region has the name.
    /// Local.
    pub fn move_region(&mut self, region: Region) -> Result<()> {
        self.ours()?.program.not_begun("move")?.regions.replace(region)
    }

    /// Moves the region `name` to `address`. `shape`: the new shape in elements, slowest dimension first, if it
    /// changes. The errors are those of `move_region`. Local.
    ///
    /// # Safety
    /// The promise is that of [`Region::new`].
    #[allow(unsafe_code)]
    pub unsafe fn move_to(&mut self, name: &str, address: *mut u8, shape: Option<&[u64]>) -> Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.ours()?.program.not_begun("move")?.regions.move_to(name, address, shape) }
    }

    /// Lets `look` find the current place of the region `name`, given its last place: for programs that swap pointers.
    /// Local.
    ///
    /// `look` is called once here, and must find the region where it is protected. It is called again at t1 of each
    /// checkpoint, and at each restore. After `begin` it is also called at the `checkpoint` that ends it, with the size
    /// from `begin`. An error of `look` is an error of that call, on all ranks. A restore is refused while two regions
    /// are in the same memory. `look` stays in force until the region is unprotected.
    pub fn follow(
        &mut self,
        name: &str,
        look: impl Fn(&Region) -> Result<Region> + Send + Sync + 'static,
    ) -> Result<()> {
        self.ours()?.program.not_begun("follow")?.regions.follow(name, Look::new(look))
    }

    /// As `follow`, for a region that the program can resize. If the region was saved with another shape, a restore
    /// calls `resize` with that shape, slowest side first. Then it calls `look` again, which must find the region in
    /// that shape. The type and the number of sides stay. Boxes of global arrays, and arrays inside larger ones, are
    /// not resized. If `resize` fails, the restore fails on all ranks.
    pub fn follow_resizing(
        &mut self,
        name: &str,
        look: impl Fn(&Region) -> Result<Region> + Send + Sync + 'static,
        resize: impl Fn(&[u64]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.ours()?.program.not_begun("follow")?.regions.follow(name, Look::new(look).resizing(resize))
    }

    /// Finds changes of the region `name` by hashes instead of written pages. For memory that a network card, a GPU or
    /// another process writes past the page tables of this process. In force as long as the region is protected, even
    /// if it moves. No effect unless `capture = "incremental"` and `track` finds pages. `RegionMissing`: no region has
    /// the name. Local.
    pub fn untrack(&mut self, name: &str) -> Result<()> {
        self.ours()?.program.not_begun("untrack")?.regions.untrack(name)
    }

    /// Declares that all ranks have the same bytes in the region `name`, for example a table or parameters. A restore
    /// on another number of ranks then fills the region on all of them. Without this, a region larger than one element
    /// that is no box fails there with `RankCount`.
    ///
    /// In force as long as the region is protected, and noted in each revision. For a restore, the declaration of the
    /// saving or of the restoring program is enough; the restore compares the bytes of all ranks. `RegionMissing`: no
    /// region has the name. `InvalidArgument`: it is a box of a global array. Local.
    pub fn same_on_all_ranks(&mut self, name: &str) -> Result<()> {
        self.ours()?.program.not_begun("same_on_all_ranks")?.regions.same_on_all_ranks(name)
    }

    /// Unprotects the region `name`. Revisions that hold it stay as they are. Local.
    pub fn unprotect(&mut self, name: &str) -> Result<()> {
        self.ours()?.unprotect(name)
    }

    /// Unprotects all regions. Local.
    pub fn unprotect_all(&mut self) -> Result<()> {
        self.ours()?.unprotect_all()
    }

    /// Protects the program's own variables, its .data and .bss, for a restore into a fresh run of the same program.
    /// They become regions with names that begin with `globals/`. Local.
    ///
    /// Left out: memory there of the loader and of other libraries (copies of their variables, such as `stdout` and the
    /// handles of MPI, and the table of their functions), Mainstay's own memory, variables already protected by a name
    /// of their own, and ranges given to `leave_out`. Variables of shared libraries and of threads are not included.
    ///
    /// `handles`: the addresses by which the program knows this session, if variables hold them. A restore mends three
    /// kinds of pointers: these handles, pointers to the beginning of other regions, and pointers into the program that
    /// the linker filled in. All other pointers hold the addresses of the run that saved them.
    ///
    /// `restore` refuses a revision with the globals of another program: `OtherProgram`. `InvalidArgument`: the program
    /// is linked statically, or its file cannot be read. Also if a followed region is among these variables, because
    /// they are restored together with the pointers to them. If a region that has taken variables out of them moves
    /// later, the next checkpoint or restore fails with the same error.
    ///
    /// # Safety
    /// The promise is that of [`Region::new`], for all these variables.
    #[allow(unsafe_code)]
    pub unsafe fn protect_globals(&mut self, handles: &[usize]) -> Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.ours()?.protect_globals(handles) }
    }

    /// Protects the [`heap`](crate::heap) of the process: all memory that it has given out and will give out. The
    /// regions have names that begin with `heap/`. Only one session at a time can do so. Local.
    ///
    /// `restore` brings back the saved heap at the same addresses. Memory that this process got from the heap is gone
    /// then, unless the saved heap has it. The restore needs the same number of ranks. Between `begin` and the
    /// `checkpoint` that ends it, the heap may not grow or shrink: `InvalidArgument`.
    ///
    /// # Safety
    /// No other thread uses the heap during `checkpoint` and `restore`. After `restore` the program uses only heap
    /// memory that was saved.
    #[allow(unsafe_code)]
    pub unsafe fn protect_heap(&mut self) -> Result<()> {
        self.ours()?.protect_heap()
    }

    /// Excludes the `bytes` bytes at `address` from a later `protect_globals`: they are not saved, and a restore leaves
    /// them as they are. Local.
    pub fn leave_out(&mut self, address: usize, bytes: u64) -> Result<()> {
        self.ours()?.program.not_begun("leave_out")?.globals.leave_out(address, bytes)
    }

    /// Stores `value` under `name` in every revision from now on, until it is set anew. Names have 1 to 200 bytes,
    /// values up to 64 KiB; there can be 1000 notes. A restore returns to each rank its own notes. Fails between
    /// `begin` and `checkpoint`, because the checkpoint has its notes already. Local.
    pub fn note(&mut self, name: &str, value: &str) -> Result<()> {
        self.ours()?.program.not_begun("note")?.notes.set(name, value)
    }

    /// Names a file to which the program appends. Call it only on the rank that writes the file: a restore or a
    /// checkpoint refuses a file that several ranks name. Local.
    ///
    /// The file is synced before a revision is published. Its length at t1 is kept, and a restore cuts the file back to
    /// it. So restore before you write to the file, and flush the program's buffers before a checkpoint. A file that
    /// does not exist yet counts as empty. If a file is shorter than it was, `restore` fails before anything is filled.
    ///
    /// Any path to the file will do: Mainstay recognizes it by its inode, its place and its bytes. A file that is not
    /// certainly the same stays as it is, and a line on standard error names it. Files that this session has not named
    /// stay as they are.
    pub fn protect_output(&mut self, path: &Path) -> Result<()> {
        let inner = self.ours()?;
        inner.levels.check_not_own(path)?;
        inner.program.not_begun("protect_output")?.outputs.add(path)
    }

    /// Makes the next collective call do nothing and return `error` on all ranks. For a front end that failed on this
    /// rank before the call, while other ranks are already in it. The other arguments of that call do not count. Of
    /// several errors the first is returned. Local.
    ///
    /// A `due` without a meeting of the ranks leaves the error to the next call. A `checkpoint` that ends a begun one
    /// is local: it returns the error on this rank, and its revision fails on all ranks.
    pub fn refuse(&mut self, error: Error) {
        // If the session belongs to another process, the call itself reports it.
        if let Ok(inner) = self.ours() {
            inner.program.refuse(error);
        }
    }

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

    /// Saves all protected regions as a new revision and returns its number at t2: the program may go on and change its
    /// memory. Collective: one small all-reduce, and nothing after it unless a hold was taken or released since the
    /// last checkpoint.
    ///
    /// A later error of this revision is returned by `wait`, `poll` and `close`, or else by the next `checkpoint`,
    /// which then saves nothing: call it again. Refused (`NotRestored`) if it would remove a revision that an earlier
    /// job saved and this session has not read. The same holds for `begin` and `due`, and for `put` once a revision has
    /// to be removed.
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.refuse_without_saver();
        self.ours()?.answering(|inner| {
            let ready = inner.program.ready();
            inner.checkpoint(ready)
        })
    }

    /// Begins a checkpoint that the program writes in pieces, at t1. `write` the pieces; then `checkpoint` adds the
    /// regions and returns at t2. Returns the number of the revision. Collective.
    ///
    /// `bytes`: the most that this rank will write in pieces. Overlapping bytes count once more, and so do the gaps
    /// between pieces. The first checkpoint of a space sizes the portions by it. If a rank left the last checkpoint
    /// without `checkpoint` or `abandon`, that one is given up, and `begin` fails on all ranks: call it again.
    pub fn begin(&mut self, bytes: u64) -> Result<u64> {
        self.has_more = true;
        self.refuse_without_saver();
        self.ours()?.answering(|inner| {
            let ready = inner.program.ready();
            inner.begin(Call::Begin, bytes, ready)
        })
    }

    /// Whether a checkpoint has begun and not ended. Local.
    pub fn has_begun(&mut self) -> Result<bool> {
        Ok(self.ours()?.program.begun.is_some())
    }

    /// Writes `bytes` at `offset` of the stream `name`. The stream is an item of the revision that was begun, and grows
    /// as it is written. Pieces can have any order and size. If they overlap, the last one counts; skipped bytes are
    /// zero. The program may reuse the memory once the call returns. `checkpoint` also returns an error of this call,
    /// and then saves nothing. Local.
    pub fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.ours()?.write(name, offset, bytes)
    }

    /// The length of the stream `name` as written since `begin`; 0 without any. Local.
    pub fn written_bytes(&mut self, name: &str) -> Result<u64> {
        self.ours()?.program.written_bytes(name)
    }

    /// Gives up the checkpoint that was begun. Collective: all ranks do, or none. Fails if a rank has ended the
    /// checkpoint or none has begun. Nothing of the checkpoint is kept, and the revisions that all ranks have stay as
    /// they were. Its number is used up: the next checkpoint gets the next number. A request from outside is answered
    /// by the next checkpoint.
    pub fn abandon(&mut self) -> Result<()> {
        self.ours()?.abandon()
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

    /// The number of shards in the revision of the last `restore`, and the shards that `read_shard` can read on this
    /// rank without a message. These are the shards in the memory of its node, its own and its copies, or all shards in
    /// files that it sees. If the number of ranks is the same and the level has no copies, only its own shard. Empty
    /// before a restore, and once a checkpoint has begun. Local.
    pub fn shards(&mut self) -> Result<ShardsHere> {
        Ok(self.ours()?.program.restored.shards.here())
    }

    /// Brings the shards `wanted` of the revision of the last `restore` to this rank, for any number of ranks that
    /// saved it. Shards that are only on other nodes are sent into memory of this rank. On a level with copies, a whole
    /// copy is taken. From then on `shard` knows all shards; with an empty `wanted` the call does only that.
    /// Collective, with the wishes of each rank; in force until the next checkpoint begins.
    ///
    /// `InvalidArgument`: nothing was restored, a checkpoint has begun since, or there is no such shard. `Damaged`: no
    /// copy of a shard is whole. `OutOfSight`: a shard is only on other nodes, and the ranks cannot exchange shards.
    pub fn bring_shards(&mut self, wanted: &[u32]) -> Result<()> {
        self.ours()?.bring_shards(wanted)
    }

    /// The contents of the shard that rank number `shard` saved in the revision of the last `restore`. Works for a
    /// shard that `shards` lists, and for any after `bring_shards`. Possible until the next checkpoint begins. Local.
    pub fn shard(&mut self, shard: u32) -> Result<ShardItems> {
        self.ours()?.program.restored.shards.items(shard)
    }

    /// Reads and verifies bytes of the item `name`, a region or a stream, in the shard that rank number `shard` saved
    /// in the revision of the last `restore`. Returns the number of bytes read, fewer than requested only at the item's
    /// end. `InvalidArgument`: `shards` does not list the shard; `bring_shards` brings it. Possible until the next
    /// checkpoint begins. Local.
    pub fn read_shard(&mut self, shard: u32, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.ours()?.program.restored.shards.read(shard, name, offset, into)
    }

    /// The length of an item, as `read_shard` reads it.
    pub fn shard_item_bytes(&mut self, shard: u32, name: &str) -> Result<u64> {
        self.ours()?.program.restored.shards.bytes(shard, name)
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

    /// This rank's node: the name as in `mainstay status`, from `MAINSTAY_NODE` or else from the kernel; the kernel's
    /// name; and the lowest rank on the node. Local.
    pub fn node(&mut self) -> Result<(String, String, usize)> {
        let lowest = self.ours()?.epoch.node as usize;
        let (name, host) = node_name();
        Ok((name, host, lowest))
    }

    /// Sets whether this rank may hold copies of other ranks' shards, as all ranks do at first. Exclude ranks of a node
    /// that is about to fail. Collective, with the wish of each rank.
    ///
    /// Waits for the last revision, and chooses the holders of all copies anew. Copies of the former holders count
    /// until the next revision, which goes to the new holders, is complete. The choice outlasts recoveries. If the
    /// other ranks are on fewer nodes than a shard has copies, excluded ranks still hold copies. An error of the last
    /// revision is returned as by `wait`, and changes nothing. After any other error the session is over.
    pub fn hold_copies(&mut self, holds: bool) -> Result<Handed> {
        self.ours()?.hold_copies(holds)
    }

    /// The node that all objects are to leave before the next checkpoint, if a request says so (`mainstay evacuate`).
    /// Known only on rank 0, from a `due` that returned true until the checkpoint. Local.
    pub fn node_to_leave(&mut self) -> Result<Option<String>> {
        let listener = &self.ours()?.program.due.listener;
        Ok(listener.as_ref().and_then(|listener| listener.node_to_leave()).map(str::to_owned))
    }

    /// Sets the answer to the request of `node_to_leave`, which the next checkpoint sends. It is the number of objects
    /// that have left, with the state of the copies there, or the reason why they stay. On rank 0. Local.
    pub fn has_left(&mut self, came: std::result::Result<(u64, Handed), String>) -> Result<()> {
        if let Some(listener) = &mut self.ours()?.program.due.listener {
            listener.has_emptied(match came {
                Ok((objects, Handed { left, stay })) => Emptied::Moved { objects, copies: left, copies_stay: stay },
                Err(why) => Emptied::Refused(why),
            });
        }
        Ok(())
    }

    /// Saves `bytes` under `name`, with any protected regions, as the next revision, and waits until it is complete:
    /// durable on all ranks. Returns its number. A restore leaves these bytes for `get`, unless a region has their
    /// name. Collective; each rank can give another number of bytes at each call. An error on any rank is returned on
    /// all, and earlier revisions are as they were.
    pub fn put(&mut self, name: &str, bytes: &[u8]) -> Result<u64> {
        self.has_more = true;
        self.refuse_without_saver();
        self.ours()?.answering(|inner| inner.put(name, bytes))
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

    /// Whether to take a checkpoint now, after `step` steps of the program: `true` on all ranks, or on none. Every rank
    /// calls it at the same steps with the same number. A checkpoint is due by the settings `every_steps`, `every` and
    /// `mtbf`, by the signal `checkpoint_signal` on any rank, and by a request from outside (`mainstay checkpoint`).
    ///
    /// While the last revision is not durable on the nearest level of any rank, none is due by steps or time. It is due
    /// at the next step after that, unless `when_busy` says otherwise. A signal or a request is never put off.
    ///
    /// Most calls only count. About every `agree_every`, and when steps make a checkpoint due, a call is collective: a
    /// small all-reduce (`session/schedule.rs` says how the ranks know when). Such a call gives up a checkpoint that
    /// was begun and not ended, and the next call reports that. Refused, like calls that save, if the program has not
    /// restored (`Start::Restored`).
    pub fn due(&mut self, step: u64) -> Result<bool> {
        self.ours()?.due(step)
    }

    /// Marks a moment between two steps of the program, at the border of two phases of a step. Mainstay may look there
    /// at the pages written since the last such moment. With `trace` it records them, and a `predictor` learns from it
    /// which pages can be saved. Otherwise nothing happens. Local, never waits for a write.
    pub fn tick(&mut self) -> Result<()> {
        self.ours()?.tick()
    }

    /// Declares that the program will not write `bytes` bytes of the region `name`, from `offset` on, again before its
    /// next checkpoint. With a `predictor` they are saved at once, in the background (paper 004 calls it user-level
    /// checkpointing). If the program writes them all the same, they are saved again.
    ///
    /// No effect without a `predictor`, or for memory without page tracking. No effect either for bytes that a followed
    /// region did not have when `look` was last called. `RegionMissing`: no region has the name. `InvalidArgument`: the
    /// region has fewer bytes, and is not followed. Local, never waits for a write.
    pub fn settled(&mut self, name: &str, offset: u64, bytes: u64) -> Result<()> {
        self.ours()?.settled(name, offset, bytes)
    }

    /// Statistics of early saving on this rank. Local.
    pub fn speculation(&mut self) -> Result<Speculation> {
        Ok(self.ours()?.speculation())
    }

    /// Waits until the last revision is complete on all ranks. Collective. An error, the same on every rank, means that
    /// the revision is not complete; earlier ones are as they were. After a failed sync, or a failure of the group, the
    /// revision may still be found complete when the space is opened again. A failure is reported to all ranks once,
    /// here or by `checkpoint`. After that `wait` returns `Ok` until the next checkpoint, although the failed revision
    /// is not there.
    pub fn wait(&mut self) -> Result<()> {
        self.ours()?.untraced(|inner| inner.wait_for_all(Call::Wait))
    }

    /// Waits until the last revision sent to the level `level` is complete there on all ranks. Does not wait for levels
    /// behind it. The nearest level is always waited for, and its errors are returned as by `wait`. Collective.
    ///
    /// `InvalidArgument`: the session has no such level, or ranks wait for different ones. Another error, the same on
    /// every rank, means that the level did not get the revision; it is returned once. A revision that found the level
    /// busy at its turn did not go there.
    pub fn wait_for(&mut self, level: LevelKind) -> Result<()> {
        self.ours()?.untraced(|inner| inner.wait_for(level))
    }

    /// Advances the exchange between this rank and others, such as copies to other nodes. For programs that compute for
    /// a long time between two calls of their session. `wait`, `close` or the next checkpoint report failures; an error
    /// here means that the session is over. Local, never waits.
    pub fn progress(&mut self) -> Result<()> {
        self.ours()?.move_on()
    }

    /// Whether this rank's part of the last revision is durable. Also `true` if no revision is being saved: nothing was
    /// saved yet, or all ranks know that the last revision failed. Local, never waits.
    pub fn poll(&mut self) -> Result<bool> {
        self.ours()?.poll()
    }

    /// Sizes and times of the last checkpoint with a durable part of this rank. Local, never waits.
    pub fn last_record(&mut self) -> Result<Option<Record>> {
        Ok(self.ours()?.levels.nearest_mut().last_record())
    }

    /// Ends the session in order. Collective. Waits for the last revision. An error means that the revision, or the end
    /// itself, failed; the session is over all the same. If other ranks make another call meanwhile (`CallMismatch`),
    /// the session is over there too, and they can only close it.
    pub fn close(mut self) -> Result<()> {
        self.ours()?;
        let saved = if rehearsal::is_one() { self.save_the_end() } else { Ok(()) };
        let closed = self.inner.take().map_or(Ok(()), SessionState::close);
        saved.and(closed)
    }

    /// Saves the state at the end of a rehearsal: two runs end at the same step, but may have saved at different ones.
    /// Does nothing if the program's own revisions hold more than its regions, because this revision would lack it.
    /// Collective.
    fn save_the_end(&mut self) -> Result<()> {
        if self.has_more {
            return Ok(());
        }
        let saved = self.ours()?.answering(|inner| {
            // Some ranks may have restored streams, and others none: all get the error.
            let lacks = Error::argument("close", "the end of a rehearsal has no streams");
            let ready = if inner.program.restored.reading.has_streams() { Err(lacks) } else { inner.program.ready() };
            inner.checkpoint(ready)
        });
        match saved {
            Ok(number) => self.ours()?.report.iter().for_each(|report| report.end_saved(number)),
            Err(Error::InvalidArgument { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Ends the session of this rank without the others, for example after an error only on this rank. Its part of the
    /// last revision becomes durable, and the session is not marked as ended in order. With one rank it is
    /// [`close`](Self::close). If the job goes on when ranks fail, this may take 10 s. Local.
    pub fn leave(mut self) -> Result<()> {
        let inner = self.ours()?;
        if inner.epoch.group.size() == 1 { self.close() } else { Ok(()) }
    }

    fn open_from(group: Box<dyn Group>, origin: Origin, config: &Config) -> Result<Session> {
        let inner = SessionState::open(group, &origin, config, Carryover::default())?;
        Ok(Session { inner: Some(inner), pid: process::id(), saver: Weak::new(), has_more: false })
    }

    fn ours(&mut self) -> Result<&mut SessionState> {
        let is_ours = self.pid == process::id();
        match &mut self.inner {
            Some(inner) if is_ours => Ok(inner),
            _ if is_ours => Err(Error::argument("session", "a recovery that failed has ended it; start the job again")),
            _ => {
                let why = format!("it was opened by process {} and not by this child of it; open one here", self.pid);
                Err(Error::argument("session", why))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.pid != process::id() {
            // The communicator, and the threads that a drop would wait for, belong to the parent.
            std::mem::forget(self.inner.take());
        }
    }
}
