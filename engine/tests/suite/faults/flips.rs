//! A byte anywhere in the file is changed: an error, or a revision bit for bit, never other bytes.

use super::job::{Rank, Scene, small};
use crate::support::{bytes::Layout, often};
use mainstay_engine::{Config, ErrorKind, Session, Stage, group::Solo};
use std::ops::Range;

/// Names and ranges of the parts of a layout file.
fn parts(layout: &Layout) -> Vec<(&'static str, Range<usize>)> {
    let block = |at: usize| at..at + 4096;
    vec![
        ("header", 0..4096),
        ("portion table", 4096..8192),
        ("slot 0", block(layout.slot_at(0, 0))),
        ("slot 1", block(layout.slot_at(0, 1))),
        ("catalogue of slot 0", layout.catalogue_range(0, 0)),
        ("catalogue of slot 1", layout.catalogue_range(0, 1)),
        ("manifest of revision 1", layout.manifest_range(0, 1)),
        ("manifest of revision 2", layout.manifest_range(0, 2)),
        ("hashes of revision 1", layout.hashes_range(0, 1)),
        ("hashes of revision 2", layout.hashes_range(0, 2)),
        ("data of revision 1", layout.data_range(0, 1)),
        ("data of revision 2", layout.data_range(0, 2)),
        ("anywhere", 0..layout.bytes.len()),
    ]
}

#[test]
fn a_changed_byte_never_passes_silently() {
    let flips = often(24, 160);
    let scene = Scene::of("data_changed");
    scene.save(1);
    let whole = Layout::read(&scene.layout());
    let mut random = fastrand::Rng::with_seed(2024);
    let config = Config { stage: Stage::Direct, ..small() };
    for (part, range) in parts(&whole) {
        let (mut refused, mut newest, mut older) = (0, 0, 0);
        for _ in 0..flips {
            let mut changed = whole.clone();
            let at = random.usize(range.clone());
            changed.bytes[at] ^= 1 << random.u8(0..8);
            changed.write();
            let session = match Session::open(Box::new(Solo), &scene.space(), config.clone()) {
                Ok(session) => session,
                Err(error) => {
                    let known = [ErrorKind::Damaged, ErrorKind::NotASpace, ErrorKind::NewerVersion];
                    assert!(known.contains(&error.kind()), "{part}, byte {at}: {error}");
                    refused += 1;
                    continue;
                }
            };
            let mut job = Rank::new(0, session);
            match job.session.restore() {
                Ok(restored) => {
                    let restored = restored.unwrap_or_else(|| panic!("{part}, byte {at}: nothing was found, silently"));
                    job.holds(restored.revision);
                    let told = !restored.skipped.is_empty();
                    assert!(restored.revision == 2 || told, "{part}, byte {at}: fell back without a word");
                    let read = !part.contains("revision 1") && part != "anywhere";
                    assert!(told || !read, "{part}, byte {at}: passed silently");
                    if restored.revision == 2 { newest += 1 } else { older += 1 }
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{part}, byte {at}: {error}");
                    refused += 1;
                }
            }
        }
        println!("{flips} bytes, {part}: {refused} refused, {newest} restored the newest, {older} the older revision");
    }
}
