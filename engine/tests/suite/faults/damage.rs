//! Bytes of the space differ from the written ones. Restoring passes them over, or is an error.

use super::job::{Rank, Scene, run, small};
use crate::support::bytes::Layout;
use mainstay_engine::{Compress, Config, Session, group::Solo, space::format::Slot};

/// Saves two revisions and changes the layout. The job must come back to `step`, report the reason, and go on.
fn passed_over(scene: &Scene, step: u64, change: impl FnOnce(&mut Layout)) {
    let ranks = scene.row.rust;
    scene.save(ranks);
    changed(scene, step, change);
}

/// The same for a scene that has saved its two revisions.
fn changed(scene: &Scene, step: u64, change: impl FnOnce(&mut Layout)) {
    let ranks = scene.row.rust;
    let mut layout = Layout::read(&scene.layout());
    change(&mut layout);
    layout.write();
    run(ranks, |rank, group| {
        let mut job = scene.open(rank, group);
        let restored = job.restores(step);
        assert_eq!(restored.revision, step);
        scene.check_report(&restored);
        job.save(5).unwrap();
        job.session.close().unwrap();
    });
    scene.comes_back(ranks, 5);
}

/// Changes the layout so that nothing can be restored. The job may still save anew.
fn lost(scene: &Scene, change: impl FnOnce(&mut Layout)) {
    let mut layout = Layout::read(&scene.layout());
    change(&mut layout);
    layout.write();
    let mut job = scene.open(0, Box::new(Solo));
    scene.check(0, "restore", &job.session.restore().unwrap_err());
    job.save(6).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 6);
}

pub fn slot_changed(scene: &Scene) {
    // The end in order has put the newest revision into both slots.
    passed_over(scene, 2, |layout| layout.flip(layout.slot_at(0, layout.newest_slot(0)) + 100));
}

pub fn catalogue_changed(scene: &Scene) {
    passed_over(scene, 2, |layout| layout.flip(layout.catalogue_range(0, layout.newest_slot(0)).start + 20));
}

pub fn manifest_changed(scene: &Scene) {
    passed_over(scene, 1, |layout| layout.flip(layout.manifest_range(0, 2).start + 70));
}

pub fn hashes_changed(scene: &Scene) {
    passed_over(scene, 1, |layout| layout.flip(layout.hashes_range(0, 2).start + 33));
}

pub fn data_changed(scene: &Scene) {
    passed_over(scene, 1, |layout| layout.flip(layout.data_range(1, 2).end - 9000));
}

pub fn frame_changed(scene: &Scene) {
    // Compression makes noise only a little shorter.
    let sizes = Config { pool_bytes: Some(1 << 20), chunk_bytes: Some(256 << 10), ..small() };
    scene.save_with(1, &Config { compress: Compress::Zstd, ..sizes });
    changed(scene, 1, |layout| {
        let at = layout.data_range(0, 2).start;
        assert_eq!(&layout.bytes[at..at + 8], b"MSTYFRAM");
        layout.flip(at);
    });
}

pub fn all_data_changed(scene: &Scene) {
    scene.save(1);
    lost(scene, |layout| [1, 2].into_iter().for_each(|revision| layout.flip(layout.data_range(0, revision).start)));
}

pub fn both_slots_destroyed(scene: &Scene) {
    scene.save(1);
    lost(scene, |layout| [0, 1].into_iter().for_each(|index| layout.flip(layout.slot_at(0, index))));
}

pub fn file_cut_short(scene: &Scene) {
    scene.save(1);
    let whole = Layout::read(&scene.layout());
    let portion = whole.place(0).at as usize;
    for length in [8192, portion, portion + 1, portion + 4096] {
        let scene = Scene::of("file_cut_short");
        scene.save(1);
        lost(&scene, |layout| layout.bytes.truncate(length));
    }
    // A cut anywhere after that gives an error or one of the two revisions, and never other bytes.
    let mut random = fastrand::Rng::with_seed(7);
    let (mut whole_count, mut lost_count) = (0, 0);
    for _ in 0..60 {
        let mut cut = whole.clone();
        cut.bytes.truncate(random.usize(portion + 4097..whole.bytes.len()));
        cut.write();
        let mut job = scene.open(0, Box::new(Solo));
        match job.session.restore() {
            Ok(restored) => {
                let restored = restored.expect("a file that was cut short is not an empty one");
                job.holds(restored.revision);
                assert!(restored.revision == 2 || !restored.skipped.is_empty());
                whole_count += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), mainstay_engine::ErrorKind::Damaged, "{error}");
                lost_count += 1;
            }
        }
    }
    println!("60 lengths: {whole_count} came back, {lost_count} were refused");
    assert!(whole_count > 0 && lost_count > 0);
    whole.write();
    scene.comes_back(1, 2);
}

pub fn hostile_slot(scene: &Scene) {
    passed_over(scene, 2, |layout| {
        let index = layout.newest_slot(0);
        let slot = Slot { catalogue_at: layout.place(0).bytes - 4096, catalogue_bytes: 8192, ..layout.slot(0, index) };
        layout.set_slot(0, index, &slot);
    });
}

pub fn hostile_catalogue(scene: &Scene) {
    const ENTRIES: usize = 12;
    passed_over(scene, 2, |layout| {
        let index = layout.newest_slot(0);
        let range = layout.catalogue_range(0, index);
        let mut bytes = layout.bytes[range.clone()].to_vec();
        bytes[ENTRIES..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
        layout.forge_catalogue(0, index, range, &bytes);
    });
}

pub fn hostile_manifest(scene: &Scene) {
    const RUNS: usize = 16;
    passed_over(scene, 1, |layout| {
        let mut bytes = layout.bytes[layout.manifest_range(0, 2)].to_vec();
        bytes[RUNS..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
        layout.forge_manifest(0, 2, &bytes);
    });
    // Every field of the manifest with numbers at the bounds: no value may cause a panic or endless memory.
    let scene = Scene::of("hostile_manifest");
    scene.save(1);
    let whole = Layout::read(&scene.layout());
    let manifest = whole.bytes[whole.manifest_range(0, 2)].to_vec();
    let (mut refused, mut forged) = (0, 0);
    // The profile at the end of a manifest has only durations.
    const PROFILE_BYTES: usize = 512;
    for at in (8..manifest.len() - PROFILE_BYTES - 7).step_by(8) {
        for value in [u64::MAX, 1 << 63, 1 << 40, u64::from(u32::MAX), 0] {
            let mut layout = whole.clone();
            let mut bytes = manifest.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            layout.forge_manifest(0, 2, &bytes);
            layout.write();
            // A version of the future stops the opening.
            let Ok(session) = Session::open(Box::new(Solo), &scene.space(), small()) else {
                forged += 1;
                continue;
            };
            let mut job = Rank::new(0, session);
            match job.session.restore() {
                Ok(restored) if restored.as_ref().is_some_and(|r| r.revision == 1) => {
                    job.holds(1);
                    refused += 1;
                }
                // The value makes another name or shape, or is in a field without a meaning yet.
                _ => forged += 1,
            }
        }
    }
    println!(
        "{} manifests with right checksums: {refused} passed over, {forged} told or without effect",
        refused + forged
    );
    assert!(refused > forged);
}
