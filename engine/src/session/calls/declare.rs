//! Calls that declare the program's state: regions, memory, globals, the heap, notes and output files.

use crate::{
    capture::{Allocated, Look, OwnMemory, Region},
    error::Result,
    session::Session,
};
use std::path::Path;

impl Session {
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

    /// Declares that any number of ranks can take over the shards of this job, because the program divides them anew
    /// itself (`choose`, `bring_shards`). If ranks fail then, the job goes on with fewer ranks where the group has no
    /// replacement at hand, even though no region is a box. In force until the session ends, also after recoveries. A
    /// `restore` on another number of ranks still refuses regions that belong to one rank. Call it alike on all ranks.
    /// Local.
    pub fn any_number_of_ranks(&mut self) -> Result<()> {
        self.ours()?.program.restored.suits_any_ranks = true;
        Ok(())
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
}
