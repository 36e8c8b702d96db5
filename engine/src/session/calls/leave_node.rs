//! Calls of a job that leaves a node, or spreads over more.

use crate::{
    error::Result,
    session::{HandoverCounts, Session, status_reporter::node_name},
    space::format::Emptied,
};

impl Session {
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
    pub fn hold_copies(&mut self, holds: bool) -> Result<HandoverCounts> {
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
    pub fn has_left(&mut self, came: std::result::Result<(u64, HandoverCounts), String>) -> Result<()> {
        if let Some(listener) = &mut self.ours()?.program.due.listener {
            listener.has_emptied(match came {
                Ok((objects, HandoverCounts { left, stay })) => {
                    Emptied::Moved { objects, copies: left, copies_stay: stay }
                }
                Err(why) => Emptied::Refused(why),
            });
        }
        Ok(())
    }
}
