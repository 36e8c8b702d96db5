//! `mainstay ls`: one line a revision.

use crate::{
    arguments,
    document::{self, ListedHold, PartOnLevel, Revision, RevisionState},
    exit::{Exit, Failure, say},
    output,
    space::{holds, staged},
    text::{self, Align},
    time,
};
use mainstay_engine::SpaceSurvey;

pub fn ls(wanted: &arguments::Ls) -> Result<Exit, Failure> {
    let survey = SpaceSurvey::open_all(&wanted.space.path)?;
    let revisions: Vec<Revision> = survey.revisions.iter().map(|r| Revision::of(&survey, r)).collect();
    let staged = staged::of(&survey, &wanted.space.path);
    if wanted.space.json {
        let holds = survey.holds.iter().map(ListedHold::of).collect();
        output::json(&document::Ls { space: document::Space::of(&survey), holds, staged, revisions })?;
    } else {
        let revisions = if revisions.is_empty() { "no revision\n".to_owned() } else { table(&revisions) };
        output::text(
            &(revisions + &text::lines(&survey.not_here()) + &holds::table(&survey.holds) + &staged::lines(&staged)),
        )?;
    }
    survey.damage.iter().for_each(|what| say(what));
    Ok(if survey.damage.is_empty() { Exit::Good } else { Exit::Lost })
}

fn table(revisions: &[Revision]) -> String {
    let several = revisions.iter().any(|r| !r.levels.is_empty());
    let saved = time::column("saved");
    let columns = [
        ("revision", Align::Right),
        ("lineage", Align::Right),
        ("state", Align::Left),
        ("shards", Align::Right),
        ("size", Align::Right),
        (&saved, Align::Left),
        ("perceived", Align::Right),
        ("durable", Align::Right),
        ("levels", Align::Left),
    ];
    let shown = columns.len() - usize::from(!several);
    let row = |r: &Revision| {
        let shards = match r.state {
            RevisionState::Incomplete => format!("{} of {}", r.shards_found, r.shards),
            _ => r.shards.to_string(),
        };
        let levels: Vec<String> = r.levels.iter().map(PartOnLevel::words).collect();
        let mut cells = vec![
            r.key.revision.to_string(),
            r.key.lineage.to_string(),
            r.state_name(),
            shards,
            text::bytes(r.bytes),
            time::when(r.t1_unix_ns),
            text::duration_if_known(r.perceived_ns),
            text::duration_if_known(r.durable_ns),
            levels.join("; "),
        ];
        cells.truncate(shown);
        cells
    };
    text::table(&columns[..shown], revisions.iter().map(row))
}
