//! Watches a call of MPI that may never return because other ranks fail in it. Ends the process rather than wasting the
//! job's time.

use crate::{ground::spawn, remark::say};
use std::{process, sync::mpsc, time::Duration};

/// The watch ends when it is dropped.
pub struct Watch {
    _end: mpsc::Sender<()>,
}

impl Watch {
    /// Ends this process, with a line on standard error about `doing`, unless the watch ends within this many seconds.
    /// `None`: no thread could be started.
    pub fn begin(seconds: u32, doing: &str) -> Option<Watch> {
        let (doing, (end, ended)) = (doing.to_owned(), mpsc::channel::<()>());
        let watching = move || {
            if ended.recv_timeout(Duration::from_secs(seconds.into())) == Err(mpsc::RecvTimeoutError::Timeout) {
                say(&format!("{doing} took more than {seconds} s; this process ends, start the job again"));
                process::abort();
            }
        };
        // The thread sees that the watch cannot be ended any more, and ends.
        spawn("mainstay-watch".to_owned(), watching).ok().map(|_| Watch { _end: end })
    }
}
