//! `mainstay show`: a space, and the contents of one revision.

use super::{items::items, phases};
use crate::{
    arguments,
    document::{
        self, Compressed, Layout, ListedHold, Node, PartOnLevel, Revision, SavedEarly, Shares, ShownRevision,
        ShownShard, TableRow,
        nodes::{Part, nodes},
    },
    exit::{Exit, Failure, say},
    output,
    space::{holds, revision::missing, staged},
    text::{self, Align},
    time,
};
use mainstay_engine::{RevisionSurvey, SpaceSurvey, printable, status::was_closed};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// How often to survey the space again, if a running job removes the revision that is being read.
const TRIES: usize = 10;

pub fn show(wanted: &arguments::Show) -> Result<Exit, Failure> {
    let (mut survey, revision) = read(wanted)?;
    survey.clean = was_closed(&wanted.space.path, &survey);
    let staged = staged::of(&survey, &wanted.space.path);
    // A missing revision is a failure only if the user named one.
    let is_lacking = wanted.revision.is_some() && revision.is_none();
    if wanted.space.json {
        let layouts = survey.layouts.iter().map(Layout::of).collect();
        let holds = survey.holds.iter().map(ListedHold::of).collect();
        let table = survey.portions.iter().map(TableRow::of).collect();
        output::json(&document::Show { space: document::Space::of(&survey), holds, staged, layouts, table, revision })?;
    } else if wanted.table {
        output::text(&format!("{}\n{}", space(&survey), table(&survey)))?;
    } else {
        let mut page = space(&survey) + &holds::table(&survey.holds) + &staged::lines(&staged);
        match &revision {
            Some(shown) => page += &revision_page(shown, wanted),
            None => page += "\nno complete revision\n",
        }
        output::text(&page)?;
    }
    survey.damage.iter().for_each(|what| say(what));
    Ok(if survey.damage.is_empty() && !is_lacking { Exit::Good } else { Exit::Lost })
}

fn read(wanted: &arguments::Show) -> Result<(SpaceSurvey, Option<ShownRevision>), Failure> {
    for _ in 0..TRIES {
        let survey = SpaceSurvey::open_all(&wanted.space.path)?;
        let revision = match wanted.revision.and_then(arguments::Revision::number) {
            Some(number) => Some(survey.revision(number).ok_or_else(|| missing(&survey, number))?),
            None => survey.newest(),
        };
        match revision.map(|revision| shown(&survey, revision)) {
            None => return Ok((survey, None)),
            Some(Ok(Some(shown))) => return Ok((survey, Some(shown))),
            Some(Ok(None)) => {}
            Some(Err(failure)) => return Err(failure),
        }
    }
    Err(Failure::lost("the job that has the space open removed each revision while it was read; try again".to_owned()))
}

/// `None` if the revision was removed meanwhile.
fn shown(survey: &SpaceSurvey, revision: &RevisionSurvey) -> Result<Option<ShownRevision>, Failure> {
    let (mut list, mut parts, mut zero_bytes, mut compressed) = (Vec::new(), Vec::new(), 0, Compressed::default());
    for shard in &revision.shards {
        let Some(manifest) = revision.manifest(shard)? else { return Ok(None) };
        parts.extend(manifest.annex.profile.map(|profile| Part { shard: shard.shard, phases: shard.phases, profile }));
        let extents = manifest.items.iter().flat_map(|item| &item.extents);
        zero_bytes += extents.filter(|extent| extent.is_zeros()).map(|extent| extent.bytes).sum::<u64>();
        compressed.add(&manifest);
        list.push(ShownShard::of(shard, manifest));
    }
    let shares = shares(survey, revision)?;
    let nodes = (!parts.is_empty()).then(|| nodes(parts).iter().map(Node::of).collect());
    Ok(Some(ShownRevision { revision: Revision::of(survey, revision), list, nodes, shares, zero_bytes, compressed }))
}

/// The blocks that a revision shares with older ones.
fn shares(survey: &SpaceSurvey, revision: &RevisionSurvey) -> Result<Vec<Shares>, Failure> {
    let mut all = Vec::new();
    for older in survey.revisions.iter().filter(|older| older.key < revision.key) {
        let mut bytes = 0;
        for shard in &revision.shards {
            let Some(other) = older.shards.iter().find(|other| other.shard == shard.shard) else { continue };
            let Some(manifest) = revision.manifest(shard)? else { continue };
            bytes += shard.shares_with(&manifest, other)?;
        }
        if bytes > 0 {
            all.push(Shares { lineage: older.key.lineage.number, revision: older.key.number, bytes });
        }
    }
    all.sort_by_key(|shares| Reverse((shares.lineage, shares.revision)));
    Ok(all)
}

fn space(survey: &SpaceSurvey) -> String {
    let state = match (survey.in_use, survey.clean) {
        (Some(true), _) => "a job has it open",
        (Some(false), true) => "closed in order",
        (Some(false), false) => "not closed in order: the last job died or was stopped",
        (None, _) => "unknown: no right to read its lock",
    };
    let mut page = format!("space   {}\nstate   {state}\n", printable(&survey.path));
    for layout in &survey.layouts {
        let header = &layout.header;
        let (here, of) = (header.portions.len(), header.ranks);
        let portions = header.portions.iter().map(|portion| portion.bytes);
        let (least, most) = (portions.clone().min().unwrap_or(0), portions.max().unwrap_or(0));
        let size = match least == most {
            true => text::bytes(most),
            false => format!("{} to {}", text::bytes(least), text::bytes(most)),
        };
        page += &format!(
            "layout  {}: {} of {}, {size} each, a file of {}, made {}, id {}\n",
            printable(&layout.file),
            text::count(here as u64, "portion"),
            text::count(of.into(), "rank"),
            text::bytes(header.file_bytes),
            time::when_and_where(header.created_unix_ns),
            text::id(&header.layout_id),
        );
    }
    page + &text::lines(&survey.not_here())
}

/// The table of paper 001, newest layout last.
fn table(survey: &SpaceSurvey) -> String {
    let several = survey.layouts.len() > 1;
    let columns = [
        ("rank", Align::Right),
        ("offset_start", Align::Right),
        ("offset_end", Align::Right),
        ("offset_next", Align::Right),
        ("revision", Align::Right),
        ("checksum", Align::Left),
        ("file", Align::Left),
    ];
    let shown = columns.len() - usize::from(!several);
    let rows = survey.portions.iter().map(TableRow::of).map(|row| {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        let checksum = row.checksum.unwrap_or("-".to_owned());
        let mut cells = vec![
            row.rank.to_string(),
            row.offset_start.to_string(),
            row.offset_end.to_string(),
            number(row.offset_next),
            number(row.revision),
            checksum,
            row.file.to_owned(),
        ];
        cells.truncate(shown);
        cells
    });
    text::table(&columns[..shown], rows)
}

fn revision_page(shown: &ShownRevision, wanted: &arguments::Show) -> String {
    let r = &shown.revision;
    let mut page = format!(
        "\nrevision {} of lineage {} (id {}), {}: {} of {}, {}, saved{} {}\n\n",
        r.key.revision,
        r.key.lineage,
        &r.key.lineage_id[..8],
        r.state_name(),
        r.shards_found,
        text::count(r.shards.into(), "shard"),
        text::bytes(r.bytes),
        r.step.map_or(String::new(), |step| format!(" at step {step},")),
        time::when_and_where(r.t1_unix_ns),
    );
    if !r.levels.is_empty() {
        let levels: Vec<String> = r.levels.iter().map(PartOnLevel::words).collect();
        page += &format!("{}\n\n", text::on_levels(&levels));
    }
    page += &changed(shown);
    page += &saved_early(shown);
    page += &copied(shown);
    page += &items(&shown.list, wanted.shards);
    if shown.list.iter().any(|shard| !shard.notes.is_empty()) {
        page += "\n";
        page += &notes(&shown.list);
    }
    if shown.list.iter().any(|shard| !shard.outputs.is_empty()) {
        page += "\n";
        page += &outputs(&shown.list);
    }
    if wanted.phases {
        page += "\n";
        page += &phases::page(shown);
    }
    page
}

/// The bytes that a revision wrote, if it shares the rest with older ones.
fn changed(shown: &ShownRevision) -> String {
    let profiles = shown.list.iter().filter_map(|shard| shard.profile.as_ref());
    let found_by: BTreeSet<_> = profiles.map(|profile| profile.found_by).filter(|name| !name.is_empty()).collect();
    let Compressed { plain_bytes, stored_bytes } = shown.compressed;
    if found_by.is_empty() && shown.shares.is_empty() && shown.zero_bytes == 0 && plain_bytes == 0 {
        return String::new();
    }
    let written = shown.list.iter().fold(0_u64, |sum, shard| sum.saturating_add(shard.phases.written_bytes));
    let mut line = format!("wrote {}", text::bytes(written));
    if !found_by.is_empty() {
        line += &format!(", the changes found by {}", found_by.into_iter().collect::<Vec<_>>().join(" and "));
    }
    for shares in &shown.shares {
        line += &format!("; shares {} with revision {}", text::bytes(shares.bytes), shares.revision);
    }
    if shown.shares.len() > 1 {
        line += ", where bytes that several share count for each";
    }
    if shown.zero_bytes > 0 {
        line += &format!("; {} are zeros, which take no room", text::bytes(shown.zero_bytes));
    }
    if plain_bytes > 0 {
        line += &format!("; {} are compressed into {}", text::bytes(plain_bytes), text::bytes(stored_bytes));
    }
    line + "\n\n"
}

/// The part of a revision that was saved before its checkpoint began.
fn saved_early(shown: &ShownRevision) -> String {
    let told: Vec<_> = shown.list.iter().filter_map(|shard| Some((shard.shard, shard.saved_early.as_ref()?))).collect();
    if told.is_empty() {
        return String::new();
    }
    let sum =
        |of: fn(&SavedEarly) -> u64| text::bytes(told.iter().map(|(_, one)| of(one)).fold(0, u64::saturating_add));
    let mut line = format!(
        "saved early: {} of the {} that the program wrote since the revision before; {} were saved, {} in vain",
        sum(|one| one.early_bytes),
        sum(|one| one.dirty_bytes),
        sum(|one| one.saved_bytes),
        sum(|one| one.in_vain_bytes),
    );
    let mut off = BTreeMap::<&str, usize>::new();
    let all = text::count(told.len() as u64, "rank");
    told.iter().filter(|(_, one)| !one.off.is_empty()).for_each(|(_, one)| *off.entry(one.off).or_default() += 1);
    off.iter().for_each(|(why, ranks)| line += &format!("; off on {ranks} of {all}: {why}"));
    line + "\n\n"
}

/// How the regions were copied for a snapshot, and the number of shards for each way.
fn copied(shown: &ShownRevision) -> String {
    let mut ways: BTreeMap<&str, usize> = BTreeMap::new();
    for profile in shown.list.iter().filter_map(|shard| shard.profile.as_ref()) {
        *ways.entry(profile.copied_by).or_default() += 1;
    }
    ways.remove("");
    let told = |(way, shards): (&str, usize)| {
        let how = match way {
            "clone" => "after the program had gone on, by a clone of it",
            "protection" => "after the program had gone on, under write protection",
            _ => "before the program went on",
        };
        format!("{shards} {} copied {how}", if shards == 1 { "shard" } else { "shards" })
    };
    if ways.is_empty() { String::new() } else { ways.into_iter().map(told).collect::<Vec<_>>().join(", ") + "\n\n" }
}

/// Prints a note once if it is the same on all ranks.
fn notes(shards: &[ShownShard]) -> String {
    let columns = [("shard", Align::Right), ("note", Align::Left), ("value", Align::Left)];
    let alike = shards.len() > 1 && shards.iter().all(|shard| shard.notes == shards[0].notes);
    let rows = shards.iter().take(if alike { 1 } else { shards.len() }).flat_map(|shard| {
        let of = if alike { "all".to_owned() } else { shard.shard.to_string() };
        shard.notes.iter().map(move |(name, value)| vec![of.clone(), text::line(name), text::line(value)])
    });
    text::table(&columns, rows)
}

fn outputs(shards: &[ShownShard]) -> String {
    let columns = [("shard", Align::Right), ("output file", Align::Left), ("length", Align::Right)];
    let rows = shards.iter().flat_map(|shard| {
        let row = |output: &document::Output| {
            vec![shard.shard.to_string(), text::line(&output.path), text::bytes(output.bytes)]
        };
        shard.outputs.iter().map(row)
    });
    text::table(&columns, rows)
}
