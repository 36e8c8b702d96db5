//! `mainstay evacuate`: moves all objects of a running job, and its copies, off a node.

use super::checkpoint::check_is_open;
use crate::{
    arguments, document,
    exit::{Exit, Failure},
    output,
    space::asking::Asking,
    text::count,
};
use mainstay_engine::{printable, printable_path, space::format::Emptied};

pub fn evacuate(wanted: &arguments::Evacuate) -> Result<Exit, Failure> {
    let (space, node) = (printable_path(&wanted.space.path), printable(&wanted.node));
    check_is_open(&wanted.space.path, "so no object leaves a node")?;
    let asking = Asking::begin_to_leave(&wanted.space.path, &wanted.node)?;
    let (revision, emptied) = asking.until_complete(wanted.timeout)?;
    let (moved, copies, copies_stay) = match emptied {
        Emptied::Moved { objects, copies, copies_stay } => (objects, copies, copies_stay),
        Emptied::Refused(why) => return Err(Failure::refused(format!("nothing has moved: {}", printable(&why)))),
        Emptied::No => {
            return Err(Failure::refused(format!(
                "revision {revision} is complete, and nothing has moved: the program has no objects that move (mainstay_objects_checkpoint), or its Mainstay is too old to empty a node"
            )));
        }
    };
    if wanted.space.json {
        output::json(&document::Evacuated {
            space: &space.to_string(),
            node: node.as_ref(),
            moved,
            copies,
            copies_stay,
            revision,
        })?;
    } else {
        let (moved, copies) = (count(moved, "object"), count(copies, "copy"));
        let mut said = format!("{moved} and {copies} have left node {node}; revision {revision} is complete\n");
        if copies_stay > 0 {
            let stay = if copies_stay == 1 { "stays" } else { "stay" };
            said += &format!(
                "{} {stay} on emptied nodes: the other nodes are fewer than the copies of a shard\n",
                count(copies_stay, "copy")
            );
        }
        output::text(&said)?;
    }
    Ok(Exit::Good)
}
