//! The report of a reservation or its plan, and the differences from the request.

use crate::{
    arguments,
    document::{self, ReservedFile},
    exit::{Exit, Failure, say},
    output,
    text::{self, Align},
};
use mainstay_engine::{
    device::{Allocate, FileSystem},
    printable,
    tend::{self, Reservation, Reserved},
};

pub fn tell(room: &arguments::Room, wanted: &Reservation, reserved: &Reserved) -> Result<Exit, Failure> {
    let (space, dry_run) = (&room.space, room.dry_run);
    let path = space.path.to_string_lossy().into_owned();
    if space.json {
        output::json(&document::Reserve {
            space: &path,
            dry_run,
            file_system: reserved.file_system.name(),
            stripe_bytes: reserved.stripe_bytes,
            stripes_in_effect: wanted.stripes.is_chosen().then(|| reserved.file_system.has_stripes()),
            lazy_io: (!dry_run).then(|| reserved.is_lazy()),
            files: reserved.files.iter().map(ReservedFile::of).collect(),
            layouts_removed: &reserved.removed,
        })?;
    } else {
        output::text(&page(&path, reserved, dry_run))?;
    }
    if dry_run {
        return Ok(Exit::Good);
    }
    remarks(wanted, reserved).iter().for_each(|remark| say(remark));
    Ok(Exit::Good)
}

fn page(path: &str, reserved: &Reserved, dry_run: bool) -> String {
    let columns = [
        ("file", Align::Left),
        ("ranks", Align::Right),
        ("length", Align::Right),
        ("used", Align::Right),
        ("granted", Align::Right),
    ];
    let rows = reserved.files.iter().map(|file| {
        vec![
            file.name.clone(),
            file.ranks.len().to_string(),
            text::bytes(file.bytes),
            text::bytes(file.used_bytes),
            file.allocated_bytes.map_or("?".to_owned(), text::bytes),
        ]
    });
    let mut page = format!("space   {}\n", printable(path));
    if reserved.stripe_bytes > 0 {
        let stripe = text::bytes(reserved.stripe_bytes);
        page += &format!("stripe  {stripe}: portions and slots begin at a stripe\n");
    }
    if reserved.is_lazy() {
        page += "lazy    nodes that write to one file need not wait for each other\n";
    }
    page += "\n";
    page += &text::table(&columns, rows);
    let removed = if dry_run { "holds nothing and would be removed" } else { "held nothing and is removed" };
    reserved.removed.iter().for_each(|file| page += &format!("{} {removed}\n", printable(file)));
    if dry_run {
        page += "nothing was changed; the file system was not asked if it grants this room\n";
    }
    page
}

/// The differences from the request.
fn remarks(wanted: &Reservation, reserved: &Reserved) -> Vec<String> {
    let mut remarks = Vec::new();
    if wanted.stripes.is_chosen() && !reserved.file_system.has_stripes() {
        remarks.push(
            match reserved.file_system {
                FileSystem::Lustre { .. } => {
                    "the stripes have no effect: Lustre sets them by its tool `lfs`, which is not installed"
                }
                _ => "the stripes have no effect: this file system has no stripes to choose",
            }
            .to_owned(),
        );
    }
    let of_node = wanted.ranks_per_node.unwrap_or(1);
    if reserved.file_system.shares_badly()
        && !reserved.is_lazy()
        && reserved.files.iter().any(|file| file.ranks.len() > of_node)
    {
        remarks.push(format!(
            "nodes that write to one file of {} wait for each other: --per node avoids that. So does lazy I/O, but this mount grants it to no single file; ceph-fuse has it for all files, by its option client_force_lazyio",
            reserved.file_system.name()
        ));
    }
    let used: u64 = reserved.files.iter().map(|file| file.used_bytes).sum();
    let granted: Option<u64> = reserved.files.iter().map(|file| file.allocated_bytes).sum();
    let short = granted.is_some_and(|granted| granted < used);
    match (wanted.allocate, granted) {
        (Allocate::Sparse, _) => {
            remarks.push("sparse: no room is reserved; a checkpoint without room fails with DISK_FULL".to_owned());
        }
        (Allocate::Blocks, None) => remarks.push(format!(
            "{} reserves no room, even on request: a checkpoint may find none; --allocate zero writes all of it",
            reserved.file_system.name()
        )),
        (_, Some(granted)) if short => remarks.push(format!(
            "the file system agreed but reserved only {} of {}: a checkpoint may find no room",
            text::bytes(granted),
            text::bytes(used)
        )),
        _ => {}
    }
    remarks
}

impl ReservedFile<'_> {
    fn of(file: &tend::ReservedFile) -> ReservedFile<'_> {
        ReservedFile {
            file: &file.name,
            ranks: &file.ranks,
            bytes: file.bytes,
            used_bytes: file.used_bytes,
            allocated_bytes: file.allocated_bytes,
        }
    }
}
