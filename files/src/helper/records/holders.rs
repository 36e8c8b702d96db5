//! The processes that can write a staged file.
//!
//! A holder reports the close of each of its descriptors. A *silent* holder reports none: a supervisor answers for its
//! program (`silent.rs`), or it only has a mapping. The kernel shows when it has released the file.
//!
//! A process that ends without a report was killed, and its file is torn. The same holds if a process that opened the file
//! by itself exits with another status than 0. A process that has inherited the file may exit with any status: its program
//! may not know of the file.

use std::collections::BTreeMap;

pub type Pid = i32;

/// The way in which a process got the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It has opened the name by itself.
    Opened,
    /// It is a fork of a holder, and runs the same program.
    Forked,
    /// Its program was started with the file open.
    Started,
}

#[derive(Debug, Clone, Copy)]
struct Holder {
    /// 0: it is silent.
    descriptors: u32,
    origin: Origin,
    /// The process that opened the file ends this one, and decides about the file.
    is_excused: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Holders(BTreeMap<Pid, Holder>);

impl Holders {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn processes(&self) -> impl Iterator<Item = Pid> {
        self.0.keys().copied()
    }

    pub fn silent(&self) -> impl Iterator<Item = Pid> {
        self.0.iter().filter(|(_, holder)| holder.descriptors == 0).map(|(process, _)| *process)
    }

    pub fn is_silent(&self, process: Pid) -> bool {
        self.0.get(&process).is_some_and(|holder| holder.descriptors == 0)
    }

    /// Whether a holder will report its close.
    pub fn is_any_to_speak(&self) -> bool {
        self.0.values().any(|holder| holder.descriptors > 0)
    }

    pub fn has(&self, process: Pid) -> bool {
        self.0.contains_key(&process)
    }

    fn enter(&mut self, process: Pid, origin: Origin) -> &mut Holder {
        self.0.entry(process).or_insert(Holder { descriptors: 0, origin, is_excused: false })
    }

    /// Adds a process that the previous helper knew, perhaps as the one that opened the file.
    pub fn find(&mut self, process: Pid, descriptors: u32) {
        self.enter(process, Origin::Opened).descriptors += descriptors;
    }

    /// Adds a process that has opened the name.
    pub fn open(&mut self, process: Pid) {
        self.hold_silently(process, Origin::Opened);
        self.hold(process);
    }

    /// Counts one more descriptor of the process, by a copy or by a fork.
    pub fn hold(&mut self, process: Pid) {
        self.enter(process, Origin::Forked).descriptors += 1;
    }

    /// Adds a process that can write the file, and will not report its close.
    pub fn hold_silently(&mut self, process: Pid, origin: Origin) {
        let holder = self.enter(process, origin);
        if origin == Origin::Opened {
            holder.origin = origin;
        }
    }

    /// Makes all holders silent: a supervisor answers for them.
    pub fn silence(&mut self) {
        self.0.values_mut().for_each(|holder| holder.descriptors = 0);
    }

    /// Sets the descriptors of a process after `exec`. Its mappings are gone. `true`: it was a holder.
    pub fn start(&mut self, process: Pid, descriptors: u32) -> bool {
        let before = self.0.remove(&process);
        if descriptors > 0 {
            let has_opened = before.is_some_and(|before| before.origin == Origin::Opened);
            let origin = if has_opened { Origin::Opened } else { Origin::Started };
            self.0.insert(process, Holder { descriptors, origin, is_excused: false });
        }
        before.is_some()
    }

    /// Counts one descriptor less. `true`: it was the last one of the process. A process with mappings becomes silent.
    pub fn close(&mut self, process: Pid, has_mappings: bool) -> bool {
        let Some(holder) = self.0.get_mut(&process) else { return true };
        holder.descriptors = holder.descriptors.saturating_sub(1);
        let was_last = holder.descriptors == 0;
        if was_last && !has_mappings {
            self.0.remove(&process);
        }
        was_last
    }

    pub fn drop_process(&mut self, process: Pid) -> bool {
        self.0.remove(&process).is_some()
    }

    /// Records that `killer` is about to end `process`. A fork of the program that opened the file is a part of that program.
    /// The program still has the file open, and decides about it.
    pub fn excuse(&mut self, killer: Pid, process: Pid) {
        let decides = self.0.get(&killer).is_some_and(|one| one.origin == Origin::Opened && one.descriptors > 0);
        if let Some(holder) = self.0.get_mut(&process).filter(|one| decides && one.origin == Origin::Forked) {
            holder.is_excused = true;
        }
    }

    /// Whether the end of the process is in order. `left`: the exit status that it announced.
    pub fn may_end(&self, process: Pid, left: Option<i32>) -> bool {
        self.0.get(&process).is_none_or(|holder| match left {
            Some(status) => status == 0 || holder.origin != Origin::Opened,
            None => holder.is_excused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_counts_by_its_origin() {
        let mut holders = Holders::default();
        holders.open(1);
        holders.hold(2);
        holders.hold(3);
        holders.start(3, 1);
        holders.start(1, 1);
        for (process, is_opener) in [(1, true), (2, false), (3, false)] {
            assert!(holders.may_end(process, Some(0)) && !holders.may_end(process, None));
            assert_eq!(holders.may_end(process, Some(1)), !is_opener);
        }
        // The opener may end a fork of its program, but no other program.
        [2, 3].into_iter().for_each(|process| holders.excuse(1, process));
        assert!(holders.may_end(2, None) && !holders.may_end(3, None));
        holders.hold(4);
        holders.excuse(2, 4);
        assert!(!holders.may_end(4, None));
        // The opener has closed the file already, so it decides no more.
        assert!(holders.close(1, true));
        holders.excuse(1, 4);
        assert!(!holders.may_end(4, None));
    }

    #[test]
    fn a_holder_with_a_mapping_is_silent_after_its_last_close() {
        let mut holders = Holders::default();
        holders.open(1);
        holders.hold(1);
        assert!(!holders.close(1, true) && holders.close(1, true));
        assert!(!holders.is_any_to_speak() && holders.silent().eq([1]));
        holders.open(1);
        assert!(holders.is_any_to_speak() && holders.close(1, false) && holders.is_empty());
        assert!(holders.close(1, false));
    }
}
