//! A call of MPI that may never come back, as others fail in it, is watched: it ends the process rather than the job's time.

use crate::{ground::spawn, remark::line};
use std::{process, sync::mpsc, time::Duration};

/// Ends when it is dropped.
pub struct Watch {
    _end: mpsc::Sender<()>,
}

impl Watch {
    /// Ends this process, with a line on standard error that says `doing`, unless the watch ends within so many seconds. `None`:
    /// there is no thread for it.
    pub fn begin(seconds: u32, doing: &str) -> Option<Watch> {
        let (doing, (end, ended)) = (doing.to_owned(), mpsc::channel::<()>());
        let watching = move || {
            if ended.recv_timeout(Duration::from_secs(seconds.into())) == Err(mpsc::RecvTimeoutError::Timeout) {
                line(&format!("{doing} took more than {seconds} s; this process is ended, start the job again"));
                process::abort();
            }
        };
        // The thread sees that nobody can end the watch any more, and is over.
        spawn("mainstay-watch".to_owned(), watching).ok().map(|_| Watch { _end: end })
    }
}
