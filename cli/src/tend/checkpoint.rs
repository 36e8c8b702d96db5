//! `mainstay checkpoint`: has a running job save itself.

use crate::{
    arguments, document,
    exit::{Exit, Failure},
    output,
    space::asking::{Asking, Progress},
};
use mainstay_engine::{SpaceSurvey, printable_path};
use std::{
    thread,
    time::{Duration, Instant},
};

const POLL: Duration = Duration::from_millis(20);

pub fn checkpoint(wanted: &arguments::Checkpoint) -> Result<Exit, Failure> {
    let space = printable_path(&wanted.space.path);
    if SpaceSurvey::is_in_use(&wanted.space.path)? == Some(false) {
        return Err(Failure::lost(format!("no job has {space} open: there is nobody to ask for a checkpoint")));
    }
    let asking = Asking::begin(&wanted.space.path)?;
    let start = Instant::now();
    let mut progress = asking.progress();
    while !matches!(progress, Progress::Complete(_)) {
        if start.elapsed() > wanted.timeout {
            return Err(too_late(asking, progress, wanted));
        }
        thread::sleep(POLL);
        progress = asking.progress();
        if progress == Progress::Waiting && SpaceSurvey::is_in_use(&wanted.space.path)? == Some(false) {
            asking.withdraw();
            return Err(Failure::lost(format!("the job that had {space} open ended without another checkpoint")));
        }
    }
    let Progress::Complete(revision) = progress else { unreachable!("the loop ends with a complete revision") };
    if wanted.space.json {
        output::json(&document::Checkpoint { space: &space.to_string(), revision })?;
    } else {
        output::text(&format!("revision {revision} is complete\n"))?;
    }
    Ok(Exit::Good)
}

fn too_late(asking: Asking, progress: Progress, wanted: &arguments::Checkpoint) -> Failure {
    let after = humantime::format_duration(wanted.timeout);
    let message = match progress {
        Progress::Begun(revision) => format!("revision {revision} was begun, and is not complete after {after}"),
        _ if asking.is_heard() => format!(
            "the job has not come to a safe point within {after}: its steps take longer, or it waits for something; \
             the request is withdrawn"
        ),
        _ => format!(
            "nobody looked for requests within {after}: the program must call mainstay_due (in Python: session.due) \
             in its loop; the request is withdrawn"
        ),
    };
    asking.withdraw();
    Failure::lost(message)
}
