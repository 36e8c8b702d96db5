//! Decides if an open file is whole or torn, once no process can write it any more.

use super::{
    records::holders::{Origin, Pid},
    records::kernel::{is_any_caught, writers_of},
    state::{Helper, Staged, State},
};
use crate::{
    lease::has_writer,
    stage::{Id, Share},
};
use std::{fs::File, io, time::Instant};

impl Helper {
    /// Decides about a file once, by its holders and by the kernel, no process can write it.
    pub(super) fn judge(&mut self, id: Id) {
        let Some(staged) = self.staged.get(&id).filter(|staged| staged.state == State::Open) else { return };
        if staged.holders.is_any_to_speak() {
            return;
        }
        let is_closed = match File::open(&staged.path).and_then(|file| has_writer(&file)) {
            Ok(has_writer) => Some(!has_writer),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.forget(id),
            // The file belongs to another user, or its file system has no leases: the holders decide alone.
            Err(_) => None,
        };
        // Looking at each process costs more. A process with a mapping asks for a look.
        let silent: Vec<Pid> = staged.holders.silent().collect();
        if is_closed != Some(false) || (staged.record.options.is_silent && silent.len() > 1) {
            silent.into_iter().for_each(|process| self.release_silent(process, id, is_closed == Some(true)));
        }
        if is_closed == Some(false) {
            self.search_holders(id);
        }
        let Some(staged) = self.staged.get_mut(&id).filter(|staged| staged.holders.is_empty()) else { return };
        // The first rank answers for writers of other nodes.
        if is_closed == Some(false) && staged.record.share != Share::Joined {
            return;
        }
        match staged.judged_after {
            // Only a process with the preload library can be in `close`.
            Some(at) if Instant::now() < at && is_any_caught(self.stage.path()) => return,
            Some(_) => staged.is_torn = true,
            None => {}
        }
        match staged.record.share {
            Share::Joined => self.leave_to_leader(id),
            Share::Led if !staged.is_closed_by_all => self.tear(id),
            _ if staged.is_torn => self.tear(id),
            _ => self.complete(id),
        }
    }

    /// Finds the processes that can write a file which nobody holds: one got a descriptor through a socket, or made one past
    /// the library. From now on each is a silent holder. Before, a kill of one gave half a file its name.
    fn search_holders(&mut self, id: Id) {
        const PAUSES: u32 = 10;
        let began = Instant::now();
        let is_due = |staged: &&mut Staged| {
            let is_time = staged.searched_after.is_none_or(|at| at <= began);
            staged.holders.is_empty() && staged.record.share == Share::Whole && is_time
        };
        let Some(staged) = self.staged.get_mut(&id).filter(is_due) else { return };
        let found = writers_of(self.stage.path(), id);
        staged.searched_after = Some(began + began.elapsed() * PAUSES);
        found.iter().for_each(|process| staged.holders.hold_silently(*process, Origin::Forked));
        if !found.is_empty() {
            staged.judged_after = None;
            staged.count_as_changed();
        }
        for process in found {
            self.watch(process);
        }
    }
}
