//! Threads of the helper for work that takes time, so that it answers meanwhile.

use super::state::Fingerprint;
use crate::{file::Key, kept::Judged, sets::Set, stage::Id, wake::Wake};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::{io, thread};

/// Most publications at a time. Several threads copy each file.
const THREADS: usize = 3;

pub enum Done {
    /// `false`: a newer file has the name already.
    Carried(Id, io::Result<bool>),
    Brought(Id, io::Result<()>),
    Named(Set, Vec<(Id, io::Result<()>)>),
    Filled(Id, io::Result<Option<Fingerprint>>),
    Checked(Fingerprint, Judged),
    Torn(Id),
    Prepared(Key, Id, u64),
}

type Work = Box<dyn FnOnce() -> Done + Send>;

pub struct Workers {
    work: Sender<Work>,
    done: Receiver<Done>,
}

impl Workers {
    pub fn start(wake: Wake) -> Workers {
        let (work, taken) = unbounded::<Work>();
        let (tell, done) = unbounded();
        for _ in 0..THREADS {
            let (taken, tell, wake) = (taken.clone(), tell.clone(), wake.clone());
            thread::spawn(move || {
                for work in taken {
                    let _ = tell.send(work());
                    wake.wake();
                }
            });
        }
        Workers { work, done }
    }

    pub fn begin(&mut self, work: impl FnOnce() -> Done + Send + 'static) {
        // Sending cannot fail: the threads live as long as this value.
        let _ = self.work.send(Box::new(work));
    }

    pub fn done(&mut self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}
