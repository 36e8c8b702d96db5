//! New processes, and exits in order.
//!
//! A child has the descriptors of its parent. The parent may close its own at once, and the child may be killed with the
//! file open. So the helper must know the child before the supervisor answers any other call.

use super::{
    caller::Caller,
    listener::Notice,
    supervisor::{Reply, Supervisor},
};
use crate::{helper::staged_held_by, stage::Id};
use std::{
    collections::{BTreeSet, HashSet},
    fs, thread,
    time::{Duration, Instant},
};

/// Time for a fork: a process of many gigabytes copies its page tables slowly.
const CHILD_LIMIT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_micros(50);

impl Supervisor<'_> {
    pub(super) fn fork(&mut self, notice: &Notice, caller: &Caller, is_thread_at: Option<u64>) -> Reply {
        let flags = is_thread_at.and_then(|at| caller.numbers::<1>(at)).map_or(0, |[flags]| flags);
        if flags & i64::from(libc::CLONE_THREAD) != 0 || !self.asker.has_holders() {
            return Reply::Pass;
        }
        let process = caller.process();
        let held = match self.asker.is_holder(process) {
            true => staged_held_by(self.wanted.stage.path(), process),
            false => BTreeSet::new(),
        };
        if held.is_empty() {
            return Reply::Pass;
        }
        // The supervisor holds the files itself, until the helper knows the child.
        held.iter().for_each(|id| self.asker.hold(*id));
        let before = children(caller.task);
        self.listener.pass(notice);
        match wait_for_child(notice, &before) {
            Some(child) => {
                held.iter().for_each(|id| self.asker.inherits(*id, child));
            }
            // The fork failed, or the child was killed at once: the supervisor cannot see which.
            None => held.iter().for_each(|id: &Id| self.asker.lost(*id)),
        }
        Reply::Sent
    }

    /// The process exits. It still waits in its call, so the helper sees the files that it has closed.
    pub(super) fn exit(&mut self, caller: &Caller, status: i32, of_thread: bool) -> Reply {
        let process = caller.process();
        if self.asker.is_holder(process) && (!of_thread || caller.is_alone()) {
            self.asker.leaves(process, status & 0xff);
        }
        Reply::Pass
    }
}

/// The children of the thread.
fn children(task: i32) -> HashSet<i32> {
    let text = fs::read_to_string(format!("/proc/{task}/task/{task}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn wait_for_child(notice: &Notice, before: &HashSet<i32>) -> Option<i32> {
    let until = Instant::now() + CHILD_LIMIT;
    loop {
        let has_returned = has_returned(notice);
        if let Some(child) = children(notice.task).into_iter().find(|child| !before.contains(child)) {
            return Some(child);
        }
        if has_returned || Instant::now() > until {
            return None;
        }
        thread::sleep(LOOK);
    }
}

/// Whether the thread has left its call, or is gone. A running thread may still be in its call.
fn has_returned(notice: &Notice) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{}/syscall", notice.task)) else { return true };
    let number = text.split_whitespace().next().and_then(|number| number.parse::<i64>().ok());
    number.is_some_and(|number| number != notice.number)
}
