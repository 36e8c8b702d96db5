//! Files that the program appends to.

use super::job::{Rank, Scene, run};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

fn output(scene: &Scene, rank: usize) -> PathBuf {
    scene.folder.path().join(format!("output-{rank}.csv"))
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

pub fn output_shorter(scene: &Scene) {
    let ranks = scene.row.rust;
    let with_output = |work: &(dyn Fn(&mut Rank, &Path) + Sync)| {
        run(ranks, |rank, group| {
            let (mut job, path) = (scene.open(rank, group), output(scene, rank));
            job.session.protect_output(&path).unwrap();
            work(&mut job, &path);
            job.session.close().unwrap();
        });
    };
    with_output(&|job, path| {
        append(path, "one\n");
        job.save(1).unwrap();
        job.session.wait().unwrap();
        append(path, "two\n");
    });
    with_output(&|job, path| {
        if job.rank == 1 {
            fs::write(path, "one").unwrap();
        }
        job.state.step = [50];
        scene.check(job.rank, "restore", &job.session.restore().unwrap_err());
        assert_eq!(job.state.step, [50]);
    });
    assert_eq!(fs::read_to_string(output(scene, 0)).unwrap(), "one\ntwo\n");
    append(&output(scene, 1), "\nmore");
    with_output(&|job, path| {
        job.restores(1);
        assert_eq!(fs::read_to_string(path).unwrap(), "one\n");
    });
}

pub fn output_is_no_file(scene: &Scene) {
    run(scene.row.rust, |rank, group| {
        let mut job = scene.open(rank, group);
        for path in ["/dev/null", "/"] {
            scene.check(rank, "protect", &job.session.protect_output(Path::new(path)).unwrap_err());
        }
        job.save(1).unwrap();
        job.session.close().unwrap();
    });
    scene.comes_back(scene.row.rust, 1);
}
