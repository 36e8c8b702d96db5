//! The report of `mainstay view` on its file.

use super::{contents::Contents, link, shard::Dataset};
use crate::{
    arguments,
    document::{self, Key, ShownDataset, item_kind},
    exit::{Failure, say},
    output,
    space::holds,
    text,
    text::count,
};
use mainstay_engine::{RevisionSurvey, SpaceSurvey, printable_path, space::format::Hold};
use std::path::Path;

/// Number of items to name one by one.
const LINES_MAX: usize = 20;

pub fn tell(
    wanted: &arguments::View,
    file: &Path,
    survey: &SpaceSurvey,
    revision: &RevisionSurvey,
    contents: &Contents<'_>,
    hold: Option<&(Hold, bool)>,
) -> Result<(), Failure> {
    for left in contents.left_out.iter().take(LINES_MAX) {
        let of = left.shard.map_or("all shards".to_owned(), |shard| format!("shard {shard}"));
        say(&format!("{} of {of} is left out: {}", text::line(&left.item), left.why));
    }
    if let Some(more) = contents.left_out.len().checked_sub(LINES_MAX + 1) {
        say(&format!("and {} more are left out (--json lists them)", more + 1));
    }
    let number = revision.key.number;
    if wanted.dry_run && !wanted.space.json {
        let (count, bytes) = sum(contents);
        let (what, size) = (shown(count, contents.arrays.len()), text::bytes(bytes));
        return Ok(output::text(&format!(
            "revision {number} (lineage {}): {what}, {size}, would be shown by {}; nothing was changed\n",
            revision.key.lineage.number,
            printable_path(file),
        ))?);
    }
    if let Some((hold, false)) = hold {
        say(&format!(
            "revision {number} is to be held {}: that counts from the next checkpoint of the job that has the space \
             open; until then the job may overwrite the data of the file (`mainstay ls` shows the hold)",
            holds::until(hold)
        ));
    }
    if wanted.space.json {
        return Ok(output::json(&document(wanted, file, survey, revision, contents, hold))?);
    }
    let (count, bytes) = sum(contents);
    let verified = if wanted.no_verify && !wanted.copy { "not verified" } else { "verified" };
    let how = if wanted.copy { "copied into" } else { "to be read in place by" };
    let mut page = format!(
        "revision {number} (lineage {}): {}, {}, {verified}, {how} {}\n",
        revision.key.lineage.number,
        shown(count, contents.arrays.len()),
        text::bytes(bytes),
        printable_path(file),
    );
    if !wanted.copy {
        page += "readers of the file do not see later damage to the space: `mainstay verify` does\n";
    }
    if wanted.relative {
        page += &format!("tools find the space by its relative name with {} in their environment\n", link::PREFIX);
    }
    match hold.filter(|_| !wanted.copy) {
        Some((hold, true)) => {
            let until = holds::until(hold);
            page +=
                &format!("held {until}: mainstay release {} --revision {number}\n", printable_path(&wanted.space.path));
        }
        Some((_, false)) => {}
        None if wanted.copy => {}
        None => page += "not held: a job may overwrite the data of the file\n",
    }
    Ok(output::text(&page)?)
}

/// The number of items and bytes.
fn sum(contents: &Contents<'_>) -> (usize, u64) {
    let datasets = contents.shards.iter().flat_map(|shard| &shard.datasets);
    (datasets.clone().count(), datasets.map(|dataset| dataset.item.bytes).sum())
}

fn shown(items: usize, arrays: usize) -> String {
    let items = count(items as u64, "item");
    match arrays {
        0 => items,
        _ => format!("{items} and {} over the shards", count(arrays as u64, "array")),
    }
}

fn document<'a>(
    wanted: &arguments::View,
    file: &Path,
    survey: &'a SpaceSurvey,
    revision: &RevisionSurvey,
    contents: &Contents<'_>,
    hold: Option<&(Hold, bool)>,
) -> document::View<'a> {
    let of_shard = |shard, dataset: &Dataset| ShownDataset {
        path: format!("/{}", dataset.path),
        shard: Some(shard),
        item: dataset.item.name.clone(),
        kind: Some(item_kind(dataset.item.kind)),
        element_type: dataset.element.name(),
        shape: dataset.shape.clone(),
    };
    let shards = contents.shards.iter();
    let items = shards.flat_map(|shard| shard.datasets.iter().map(|d| of_shard(shard.survey.shard, d)));
    let arrays = contents.arrays.iter().map(|array| ShownDataset {
        path: format!("/{}", array.name),
        shard: None,
        item: array.name.clone(),
        kind: None,
        element_type: array.element.name(),
        shape: array.shape.clone(),
    });
    let left_out = contents.left_out.iter();
    document::View {
        space: &survey.path,
        dry_run: wanted.dry_run,
        file: file.to_string_lossy().into_owned(),
        key: Key::of(revision.key),
        copied: wanted.copy,
        verified: !wanted.dry_run && (wanted.copy || !wanted.no_verify),
        hold: hold.map(|(hold, counts)| document::ViewHold { counts: *counts, hold: document::Hold::of(hold) }),
        datasets: items.chain(arrays).collect(),
        left_out: left_out
            .map(|left| document::LeftOut { shard: left.shard, item: left.item.clone(), why: left.why.clone() })
            .collect(),
    }
}
