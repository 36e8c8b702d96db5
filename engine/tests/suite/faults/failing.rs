//! The device fails, or has no room, while a job saves.

use super::{
    device::{Fault, faulty},
    job::{Rank, Scene, run, small},
};
use crate::support::{bytes::Layout, filled};
use mainstay_engine::{Config, Error, ErrorKind, Session, Stage, group::Solo};
use std::{
    thread,
    time::{Duration, Instant},
};

/// A job saves revision 1. Then it saves revision 2 with `fault` on the row's rank, or on rank 0 if the row names none.
/// `tell` returns the error. The memory must not have changed. Without the fault the job saves revision 3.
fn failed_save(scene: &Scene, config: Config, fault: Fault, tell: impl Fn(&mut Rank) -> Error + Sync) {
    failed_save_at(scene, config, scene.row.rank.unwrap_or(0), &|| fault, tell);
}

/// As `failed_save`, with the fault on rank `failing`. `fault` is called after revision 1.
fn failed_save_at(
    scene: &Scene,
    config: Config,
    failing: usize,
    fault: &(dyn Fn() -> Fault + Sync),
    tell: impl Fn(&mut Rank) -> Error + Sync,
) {
    let ranks = scene.row.rust;
    run(ranks, |rank, group| {
        let device = faulty(&scene.space(), true);
        let mut job = Rank::new(rank, Session::open_on(group, device.clone(), config.clone()).unwrap());
        job.save(1).unwrap();
        job.session.wait().unwrap();
        if rank == failing {
            device.between.set(fault());
        }
        // The failing rank may know of the fault at once. All ranks get the error in `tell`.
        let _ = job.save(2);
        let told = tell(&mut job);
        scene.check(rank, &scene.row.call, &told);
        job.holds(2);
        device.between.set(Fault::None);
        job.save(3).unwrap();
        job.session.close().unwrap();
    });
    scene.comes_back(ranks, 3);
}

fn of(stage: Stage) -> Config {
    Config { stage, ..small() }
}

fn by_wait(job: &mut Rank) -> Error {
    let told = job.session.wait().unwrap_err();
    // The error is reported once: the next wait has nothing to wait for.
    job.session.wait().unwrap();
    told
}

pub fn io_error_at_write(scene: &Scene) {
    failed_save(scene, of(Stage::Pool), Fault::Write(libc::EIO), by_wait);
}

pub fn io_error_without_pool(scene: &Scene) {
    failed_save(scene, of(Stage::Direct), Fault::Write(libc::EIO), by_wait);
}

pub fn io_error_of_node(scene: &Scene) {
    failed_save(scene, of(Stage::Node), Fault::Write(libc::EIO), by_wait);
}

pub fn io_error_of_rank(scene: &Scene) {
    failed_save(scene, of(Stage::Rank), Fault::Write(libc::EIO), by_wait);
}

pub fn disk_full_of_node(scene: &Scene) {
    failed_save(scene, of(Stage::Node), Fault::Write(libc::ENOSPC), by_wait);
}

pub fn disk_full_of_rank(scene: &Scene) {
    failed_save(scene, of(Stage::Rank), Fault::Write(libc::ENOSPC), by_wait);
}

pub fn disk_full_at_write(scene: &Scene) {
    failed_save(scene, of(Stage::Pool), Fault::Write(libc::ENOSPC), by_wait);
}

/// The disk is full for the last write of a checkpoint, the root. All writes before it find room.
pub fn disk_full_at_root(scene: &Scene) {
    let slots = || {
        let layout = Layout::read(&scene.layout());
        Fault::WriteAt(libc::ENOSPC, [0, 1].map(|index| layout.slot_at(1, index) as u64))
    };
    failed_save_at(scene, small(), 1, &slots, by_wait);
}

pub fn io_error_not_asked_for(scene: &Scene) {
    failed_save(scene, of(Stage::Pool), Fault::Write(libc::EIO), |job| job.session.checkpoint().unwrap_err());
}

pub fn io_error_told_by_poll(scene: &Scene) {
    failed_save(scene, of(Stage::Pool), Fault::Write(libc::EIO), |job| {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match job.session.poll() {
                Err(error) => {
                    job.session.wait().unwrap_err();
                    return error;
                }
                Ok(durable) => assert!(!durable && Instant::now() < deadline, "poll: {durable}"),
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
}

pub fn io_error_told_at_close(scene: &Scene) {
    run(2, |rank, group| {
        let device = faulty(&scene.space(), true);
        let mut job = Rank::new(rank, Session::open_on(group, device.clone(), small()).unwrap());
        job.save(1).unwrap();
        job.session.wait().unwrap();
        device.between.set(if rank == 1 { Fault::Write(libc::EIO) } else { Fault::None });
        let _ = job.save(2);
        scene.check(rank, "close", &job.session.close().unwrap_err());
    });
    scene.comes_back(2, 1);
}

/// A sync fails while revision 2 is saved. Nothing more can be saved until the space is opened again.
fn failed_sync(scene: &Scene, check: impl Fn(&str, usize, &Error) + Sync) {
    run(2, |rank, group| {
        let device = faulty(&scene.space(), true);
        let mut job = Rank::new(rank, Session::open_on(group, device.clone(), small()).unwrap());
        job.save(1).unwrap();
        job.session.wait().unwrap();
        device.between.set(if rank == 1 { Fault::Sync(libc::EIO) } else { Fault::None });
        let _ = job.save(2);
        check("wait", rank, &job.session.wait().unwrap_err());
        device.between.set(Fault::None);
        for _ in 0..2 {
            check("checkpoint", rank, &job.save(3).unwrap_err());
            job.holds(3);
        }
        let _ = job.session.close();
    });
    scene.comes_back(2, 1);
}

pub fn sync_fails(scene: &Scene) {
    failed_sync(scene, |call, rank, error| {
        if call == "wait" {
            scene.check(rank, call, error);
        }
    });
}

pub fn sync_failed_before(scene: &Scene) {
    failed_sync(scene, |call, rank, error| {
        if call == "checkpoint" {
            scene.check(rank, call, error);
        }
    });
}

pub fn disk_full_at_layout(scene: &Scene) {
    run(2, |rank, group| {
        let device = faulty(&scene.space(), true);
        let mut job = Rank::new(rank, Session::open_on(group, device.clone(), small()).unwrap());
        device.between.set(Fault::Create(libc::ENOSPC));
        scene.check(rank, "checkpoint", &job.save(1).unwrap_err());
        job.holds(1);
        // The disk has room again.
        device.between.set(Fault::None);
        job.save(1).unwrap();
        job.session.close().unwrap();
    });
    scene.comes_back(2, 1);
}

pub fn portion_too_small(scene: &Scene) {
    let grown = vec![7.5_f64; 200_000];
    run(2, |rank, group| {
        let mut job = scene.open(rank, group);
        job.save(1).unwrap();
        job.session.close().unwrap();
    });
    run(2, |rank, group| {
        // With `portion_bytes` the job leaves existing portions as they are.
        let config = Config { portion_bytes: 1 << 20, ..small() };
        let mut job = Rank::new(rank, Session::open(group, &scene.space(), config).unwrap());
        assert_eq!(job.session.restore().unwrap().map(|back| back.revision), Some(1));
        let mut memory = grown.clone();
        if rank == 1 {
            grow(&mut job, &mut memory);
        }
        let error = job.session.checkpoint().unwrap_err();
        scene.check(rank, "checkpoint", &error);
        let numbers: Vec<u64> =
            error.to_string().split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        // The shard alone needs more than the available room that the message names.
        assert!(numbers.iter().any(|n| *n >= 1_600_000) && numbers.iter().any(|n| (1..1_600_000).contains(n)));
        assert!(memory == grown);
        job.holds(1);
        if rank == 1 {
            job.session.unprotect("grown").unwrap();
        }
        job.save(2).unwrap();
        job.session.close().unwrap();
    });
    scene.comes_back(2, 2);
}

/// The room that the message advises is enough as `portion_bytes`. Portions are rounded to 64 KiB, and 64 KiB less is
/// not enough.
pub fn first_shard_too_large(scene: &Scene) {
    let mut memory = vec![7.5_f64; 200_000];
    let mut open = |bytes| {
        let config = Config { portion_bytes: bytes, ..small() };
        let mut job = Rank::new(0, Session::open(Box::new(Solo), &scene.space(), config).unwrap());
        grow(&mut job, &mut memory);
        job
    };
    let mut job = open(3 << 20);
    let error = job.save(1).unwrap_err();
    scene.check(0, "checkpoint", &error);
    job.holds(1);
    assert_eq!(job.session.restore().unwrap().map(|back| back.revision), None);
    drop(job);
    let Error::PortionTooSmall { room, needed, .. } = error else { panic!("{error}") };
    // The two slots take 128 KiB; the catalogues and the rounding of the portion take less.
    assert!((2 * needed + (128 << 10)..2 * needed + (256 << 10)).contains(&room), "{needed} {room}");
    for (bytes, fits) in [(room - (64 << 10), false), (room, true)] {
        std::fs::remove_dir_all(scene.space()).unwrap();
        let mut job = open(bytes);
        assert_eq!((1..4).all(|step| job.save(step).is_ok()), fits, "{bytes}");
        if fits {
            job.session.unprotect("grown").unwrap();
            job.save(4).unwrap();
        }
        job.session.close().unwrap();
    }
    scene.comes_back(1, 4);
}

#[expect(unsafe_code, reason = "a region is memory of the program")]
fn grow(job: &mut Rank, memory: &mut Vec<f64>) {
    let bytes = (memory.len() * 8) as u64;
    // SAFETY: the caller keeps the memory until the region is unprotected.
    let region = unsafe { mainstay_engine::Region::new("grown", memory.as_mut_ptr().cast(), bytes) };
    job.protect(region).unwrap();
}

/// A job opens, restores, saves, and closes on a device that takes pieces of odd length.
fn in_pieces(scene: &Scene, most: usize) {
    for step in [0, 1, 2] {
        let device = faulty(&scene.space(), true);
        device.between.set(Fault::Short(most));
        let mut job = Rank::new(0, Session::open_on(Box::new(Solo), device, small()).unwrap());
        if step > 0 {
            assert!(job.restores(step).skipped.is_empty());
        }
        job.save(step + 1).unwrap();
        job.session.close().unwrap();
    }
    scene.comes_back(1, 3);
}

pub fn short_writes(scene: &Scene) {
    in_pieces(scene, 5000);
}

pub fn short_reads(scene: &Scene) {
    in_pieces(scene, 1001);
}

pub fn io_error_at_read(scene: &Scene) {
    scene.save(1);
    let device = faulty(&scene.space(), true);
    let mut job = Rank::new(0, Session::open_on(Box::new(Solo), device.clone(), small()).unwrap());
    device.between.set(Fault::Read(libc::EIO));
    scene.check(0, "restore", &job.session.restore().unwrap_err());
    device.between.set(Fault::None);
    job.restores(2);
    job.session.close().unwrap();
    scene.comes_back(1, 2);
}

/// The next `reads` reads of a job fail. It comes back to `step`.
fn failing_reads(scene: &Scene, reads: u32, step: u64) {
    scene.save(1);
    let device = faulty(&scene.space(), true);
    let mut job = Rank::new(0, Session::open_on(Box::new(Solo), device.clone(), small()).unwrap());
    device.between.set(Fault::Reads(libc::EIO, reads));
    let restored = job.restores(step);
    if step == 2 {
        assert_eq!(restored.skipped, [""; 0]);
    } else {
        scene.check_report(&restored);
    }
    job.save(5).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 5);
}

pub fn io_error_passes_at_read(scene: &Scene) {
    failing_reads(scene, 2, 2);
}

/// A restore reads the manifest of a revision first.
pub fn io_error_of_newest(scene: &Scene) {
    failing_reads(scene, 4, 1);
    what_could_not_be_read_is_kept();
    what_could_not_be_read_is_not_taken_for_read();
}

fn put(session: &mut Session, number: u8) {
    session.put("buffer", &[number; 9000]).unwrap();
}

/// A space with the revisions 1 and 2, full of their numbers.
fn two_buffers() -> (tempfile::TempDir, Config) {
    let (folder, config) = (tempfile::TempDir::new().unwrap(), Config { keep: 2, ..small() });
    let mut session = Session::open(Box::new(Solo), folder.path(), config.clone()).unwrap();
    [1, 2].into_iter().for_each(|number| put(&mut session, number));
    session.close().unwrap();
    (folder, config)
}

/// Story: a `get` passed over a revision that it could not read. The next checkpoint pushed this revision out, though
/// it was whole.
fn what_could_not_be_read_is_kept() {
    let (folder, config) = two_buffers();
    let device = faulty(folder.path(), true);
    let mut session = Session::open_on(Box::new(Solo), device.clone(), config).unwrap();
    let mut into = [0; 9000];
    device.between.set(Fault::Reads(libc::EIO, 4));
    let got = session.get(None, "buffer", &mut into).unwrap().unwrap();
    assert_eq!((got.revision, got.skipped.len(), into), (1, 1, [1; 9000]));
    put(&mut session, 3);
    session.get(Some(2), "buffer", &mut into).unwrap();
    assert_eq!(into, [2; 9000]);
    session.close().unwrap();
}

/// Story: beside a damaged revision, an unreadable one was reported as damage, and the program could push it out.
fn what_could_not_be_read_is_not_taken_for_read() {
    let (folder, config) = two_buffers();
    let layout = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let layout = layout.into_iter().find(|path| path.extension().is_some_and(|end| end == "mainstay")).unwrap();
    let mut bytes = std::fs::read(&layout).unwrap();
    let at = bytes.chunks(4096).position(|block| *block == [1; 4096]).unwrap() * 4096;
    bytes[at] = 0;
    std::fs::write(&layout, bytes).unwrap();
    let device = faulty(folder.path(), true);
    let mut session = Session::open_on(Box::new(Solo), device.clone(), config).unwrap();
    let mut into = [0; 9000];
    device.between.set(Fault::Reads(libc::EIO, 4));
    let error = session.get(None, "buffer", &mut into).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(session.put("buffer", &[3]).unwrap_err().kind(), ErrorKind::NotRestored);
    assert_eq!(session.get(None, "buffer", &mut into).unwrap().unwrap().revision, 2);
    put(&mut session, 3);
    session.close().unwrap();
}

/// The disk fills after a checkpoint, or after a restore without one.
pub fn disk_full_at_close(scene: &Scene) {
    for saves in [true, false] {
        let device = faulty(&scene.space(), true);
        let mut job = Rank::new(0, Session::open_on(Box::new(Solo), device.clone(), small()).unwrap());
        if saves {
            job.save(1).unwrap();
            job.session.wait().unwrap();
        } else {
            job.restores(1);
        }
        device.between.set(Fault::Write(libc::ENOSPC));
        job.session.close().unwrap();
    }
    scene.comes_back(1, 1);
}

pub fn late_writer(scene: &Scene) {
    let open = || Session::open_on(Box::new(Solo), faulty(&scene.space(), false), small()).unwrap();
    let mut late = Rank::new(0, open());
    late.save(1).unwrap();
    late.session.wait().unwrap();

    // The next run goes on without the late job, in a layout of its own.
    let mut next = Rank::new(0, open());
    next.restores(1);
    filled(&mut next.state, 0, 20);
    next.session.checkpoint().unwrap();
    next.session.wait().unwrap();

    let _ = late.save(30);
    scene.check(0, "wait", &late.session.wait().unwrap_err());
    late.holds(30);
    late.save(31).unwrap_err();
    let _ = late.session.close();

    next.save(21).unwrap();
    next.session.close().unwrap();
    Rank::new(0, open()).restores(21);
}

/// Story: an I/O thread panicked, and its revision ended while other threads still wrote for it. The next revision
/// could get the same blocks.
#[test]
fn a_panic_in_an_io_thread_ends_one_revision_and_no_more() {
    let folder = tempfile::TempDir::new().unwrap();
    let device = faulty(folder.path(), true);
    let session = mainstay_engine::Session::open_on(Box::new(Solo), device.clone(), super::job::small()).unwrap();
    let mut job = super::job::Rank::new(0, session);
    job.save(1).unwrap();
    job.session.wait().unwrap();
    device.between.set(Fault::Panic);
    let told = job.save(2).and_then(|_| job.session.wait()).unwrap_err();
    assert_eq!(told.kind(), mainstay_engine::ErrorKind::Internal);
    let _ = job.session.wait();
    device.between.set(Fault::None);
    job.restores(1);
    job.save(3).unwrap();
    job.session.wait().unwrap();
    job.restores(3);
    job.session.close().unwrap();
}
