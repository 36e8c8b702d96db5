//! The opened path is no space, is not ours to open, or is damaged.

use super::{
    device::{Fault, faulty},
    job::{Rank, Scene, run, small},
};
use crate::support::{around::Around, bytes::Layout};
use mainstay_engine::{
    Config, Result, Session, SpaceSurvey,
    device::{Access, Device, LockOutcome},
    group::Solo,
    space::{
        Per,
        format::{BLOCK, Header},
    },
};
use nix::fcntl::{FcntlArg, fcntl};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

pub fn path_is_a_file(scene: &Scene) {
    fs::write(scene.space(), "mine").unwrap();
    scene.refused(scene.row.rust);
    assert_eq!(fs::read(scene.space()).unwrap(), b"mine");
}

pub fn path_is_empty(scene: &Scene) {
    let error = Session::open(Box::new(Solo), Path::new(""), small()).err().unwrap();
    scene.check(0, "open", &error);
}

pub fn layout_is_foreign(scene: &Scene) {
    scene.save(1);
    let foreign = scene.space().join("layout-000007-000000.mainstay");
    fs::write(&foreign, vec![b'x'; 9000]).unwrap();
    scene.refused(1);
    fs::remove_file(&foreign).unwrap();
    scene.comes_back(1, 2);
}

/// Changes the layout of a space with two revisions, checks that the space is refused, and undoes the change.
fn refused_while(scene: &Scene, change: impl Fn(&mut Layout)) {
    let whole = Layout::read(&scene.layout());
    let mut changed = whole.clone();
    change(&mut changed);
    changed.write();
    scene.refused(1);
    let after = Layout::read(&scene.layout());
    assert!(after.bytes == changed.bytes, "a layout that was refused was written to");
    whole.write();
}

pub fn newer_version(scene: &Scene) {
    scene.save(1);
    refused_while(scene, |layout| {
        layout.bytes[8] = 2;
        layout.seal_block(0);
    });
    scene.comes_back(1, 2);
}

pub fn newer_version_or_damage(scene: &Scene) {
    scene.save(1);
    refused_while(scene, |layout| layout.bytes[8] = 2);
    scene.comes_back(1, 2);
}

pub fn unknown_feature(scene: &Scene) {
    scene.save(1);
    refused_while(scene, |layout| {
        layout.bytes[12] = 4;
        layout.seal_block(0);
    });
    scene.comes_back(1, 2);
}

pub fn header_cut_short(scene: &Scene) {
    scene.save(1);
    for length in [0, 1, 7, 8, 4095, 4096, 4097, 8191] {
        refused_while(scene, |layout| layout.bytes.truncate(length));
    }
    scene.comes_back(1, 2);
}

pub fn header_changed(scene: &Scene) {
    scene.save(1);
    for at in (12..BLOCK).step_by(97).chain([BLOCK - 1]) {
        refused_while(scene, |layout| layout.flip(at));
    }
    scene.comes_back(1, 2);
}

pub fn portion_table_changed(scene: &Scene) {
    scene.save(1);
    for at in (BLOCK..2 * BLOCK).step_by(97).chain([2 * BLOCK - 1]) {
        refused_while(scene, |layout| layout.flip(at));
    }
    scene.comes_back(1, 2);
}

pub fn rank_in_two_files(scene: &Scene) {
    scene.save(1);
    let copy = scene.space().join("layout-000001-000007-00000000.mainstay");
    std::fs::copy(scene.layout(), &copy).unwrap();
    scene.refused(1);
    std::fs::remove_file(&copy).unwrap();
    scene.comes_back(1, 2);
}

pub fn hostile_portion_table(scene: &Scene) {
    scene.save(1);
    let header = Layout::read(&scene.layout()).header();
    let place = header.portions[0];
    let hostile = [
        // Rank, offset and length.
        (9, place.at, place.bytes),
        (0, u64::MAX - 4095, place.bytes),
        (0, place.at, u64::MAX - 4095),
        (0, place.at + 1, place.bytes),
        (0, place.at, 4096),
        (0, place.at, header.file_bytes + 4096),
    ];
    let scene_says = |rank| if rank == 0 { scene.row.clone() } else { without_rank(scene) };
    for (rank, at, bytes) in hostile {
        let scene = Scene { row: scene_says(rank), folder: tempfile::TempDir::new_in("/dev/shm").unwrap() };
        scene.save(1);
        refused_while(&scene, |layout| {
            let record = [u64::from(rank as u32).to_le_bytes(), at.to_le_bytes(), bytes.to_le_bytes()].concat();
            layout.bytes[BLOCK..][..24].copy_from_slice(&record);
            layout.seal_header();
        });
    }
    scene.comes_back(1, 2);
}

/// The row for a rank that does not exist instead of rank 0.
fn without_rank(scene: &Scene) -> super::table::Row {
    let mut row = scene.row.clone();
    row.says.retain(|says| !says.contains("rank 0"));
    row
}

pub fn hostile_header(scene: &Scene) {
    const PORTIONS: usize = 52;
    scene.save(1);
    for portions in [2_u32, 100_000, 1 << 24, u32::MAX] {
        refused_while(scene, |layout| {
            layout.bytes[PORTIONS..][..4].copy_from_slice(&portions.to_le_bytes());
            layout.seal_block(0);
            assert!(Header::bytes_for(portions as usize) > 8192 || portions == 2);
        });
    }
    scene.comes_back(1, 2);
}

pub fn made_by_another_user(scene: &Scene) {
    if !nix::unistd::geteuid().is_root() {
        tell!("passed over: only root can give a directory to another user");
        return;
    }
    scene.save(1);
    fs::set_permissions(scene.folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    chown(scene.space(), Some(65533), None).unwrap();
    scene.refused(1);
    chown(scene.space(), Some(0), None).unwrap();
    scene.comes_back(1, 2);
}

pub fn lineage_conflict(scene: &Scene) {
    let other = Scene::of("lineage_conflict");
    scene.save(1);
    other.save(1);
    let copy = scene.space().join("layout-000002-000000.mainstay");
    fs::copy(other.layout(), &copy).unwrap();
    scene.refused(1);
    fs::remove_file(copy).unwrap();
    scene.comes_back(1, 2);
}

pub fn in_use_by_this_program(scene: &Scene) {
    let mut first = scene.open(0, Box::new(Solo));
    first.save(1).unwrap();
    scene.refused(1);
    // The first session goes on undisturbed.
    first.save(2).unwrap();
    first.session.close().unwrap();
    scene.comes_back(1, 2);
}

pub fn in_use_by_a_half_dead_job(scene: &Scene) {
    scene.save(2);
    // Rank 1 and its lock are left of the job.
    let alive = scene.disk().lock_file("lock", Access::Write).unwrap();
    assert_eq!(alive.try_lock(1).unwrap(), LockOutcome::Done);
    scene.refused(scene.row.rust);
    drop(alive);
    scene.comes_back(2, 2);
}

/// Story: such a lock kept a job from starting, and no message named its holder.
pub fn lock_read_by_another(scene: &Scene) {
    scene.save(1);
    let reader = fs::File::open(scene.space().join("lock")).unwrap();
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1 << 40,
        l_pid: 0,
    };
    fcntl(&reader, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    assert_eq!(SpaceSurvey::is_in_use(&scene.space()).unwrap(), Some(false), "a reader is no job");
    scene.refused(1);
    drop(reader);
    scene.comes_back(1, 2);
}

pub fn layout_of_an_odd_name(scene: &Scene) {
    scene.save(1);
    let odd = scene.space().join("layout-\x1b[31m\x07\n\u{202e}\u{200b}.mainstay");
    fs::write(&odd, vec![b'x'; 9000]).unwrap();
    scene.refused(1);
    fs::remove_file(&odd).unwrap();
    scene.comes_back(1, 2);
}

pub fn shm_is_full(scene: &Scene) {
    scene.save(1);
    let config = Config { pool_bytes: Some(1 << 50), ..small() };
    let error = Session::open(Box::new(Solo), &scene.space(), config).err().unwrap();
    scene.check(0, "open", &error);
    scene.comes_back(1, 2);
}

pub fn mark_cleared_away(scene: &Scene) {
    scene.save(2);
    let pools = scene.folder.path().join("pools");
    fs::create_dir(&pools).unwrap();
    run(2, |rank, group| {
        let directory = pools.clone();
        let around = move |meet: &mut dyn FnMut() -> Result<()>| {
            meet()?;
            let marks = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
            marks.for_each(|mark| drop(fs::remove_file(mark)));
            Ok(())
        };
        let config = Config { pool_directory: pools.clone(), ..small() };
        let error = Session::open(Box::new(Around { group, around }), &scene.space(), config).err().unwrap();
        scene.check(rank, "open", &error);
    });
    assert_eq!(fs::read_dir(&pools).unwrap().count(), 0);
    scene.comes_back(2, 2);
}

pub fn io_error_at_open(scene: &Scene) {
    scene.save(2);
    run(2, |rank, group| {
        let device = faulty(&scene.space(), true);
        device.between.set(if rank == 1 { Fault::Read(libc::EIO) } else { Fault::None });
        let error = Session::open_on(group, device.clone(), small()).err().unwrap();
        scene.check(rank, "open", &error);
    });
    run(2, |rank, group| {
        let device: std::sync::Arc<dyn Device> = faulty(&scene.space(), true);
        Rank::new(rank, Session::open_on(group, device, small()).unwrap()).restores(2);
    });
}

pub fn layout_file_out_of_sight(scene: &Scene) {
    run(2, |rank, group| {
        let config = Config { per: Per::Rank, ..small() };
        let mut job = Rank::new(rank, Session::open(group, &scene.space(), config).unwrap());
        for step in [1, 2] {
            job.save(step).unwrap();
            job.session.wait().unwrap();
        }
        job.session.close().unwrap();
    });
    let names = scene.disk().list().unwrap();
    let name = names.iter().find(|name| name.starts_with("layout-000001-000001-")).unwrap();
    let (there, away) = (scene.space().join(name), scene.space().with_file_name("away"));
    fs::rename(&there, &away).unwrap();
    scene.refused(2);
    fs::rename(&away, &there).unwrap();
    scene.comes_back(2, 2);
}
