//! Impossible settings in the file, the environment, or on other ranks.

use super::job::{Scene, run, small};
use mainstay_engine::{Choice, Config, LevelPlace, Session, Surroundings, Value};
use std::{fs, os::unix::fs::symlink, path::PathBuf};

fn file(scene: &Scene) -> PathBuf {
    scene.folder.path().join("mainstay.toml")
}

/// Mainstay refuses the settings of a program in the scene's folder.
fn refused(scene: &Scene, variables: &[(&str, &str)]) {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
    let surroundings = Surroundings { directory: scene.folder.path().to_owned(), variables };
    let error = Config::resolve_in(&Choice::default(), &surroundings).err();
    scene.check(0, "open", &error.unwrap_or_else(|| panic!("{} was taken", scene.row.name)));
}

fn refused_file(scene: &Scene, texts: &[&str]) {
    for text in texts {
        fs::write(file(scene), text).unwrap();
        refused(scene, &[]);
    }
}

pub fn time_out_of_range(scene: &Scene) {
    for key in ["every_seconds", "mtbf_seconds"] {
        for seconds in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e-9, 1e10, f64::MAX] {
            let error = Choice::default().set(key, Value::Float(seconds)).unwrap_err();
            scene.check(0, "open", &error);
        }
    }
}

pub fn setting_unknown(scene: &Scene) {
    refused_file(scene, &["\nkep = 3", "keep = 3\n\"kep\" = 3", "keep = 3\n[kep]\nkeep = 3"]);
}

pub fn setting_ill_typed(scene: &Scene) {
    refused_file(scene, &["\nkeep = '3'", "\nkeep = 3.0", "\nkeep = [3]", "\n[keep]\nvalue = 3", "\nkeep = 12:00:00"]);
}

pub fn settings_no_toml(scene: &Scene) {
    refused_file(scene, &["\nkeep", "\nkeep = ", "\nkeep = three", "\n{\"keep\": 3}", "\n\0"]);
}

pub fn settings_no_file(scene: &Scene) {
    fs::create_dir(file(scene)).unwrap();
    refused(scene, &[]);
    fs::remove_dir(file(scene)).unwrap();
    nix::unistd::mkfifo(&file(scene), nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused(scene, &[]);
    fs::remove_file(file(scene)).unwrap();
    symlink("/dev/zero", file(scene)).unwrap();
    refused(scene, &[]);
}

pub fn settings_file_missing(scene: &Scene) {
    refused(scene, &[("MAINSTAY_CONFIG", "missing.toml")]);
}

pub fn variable_out_of_range(scene: &Scene) {
    refused(scene, &[("MAINSTAY_KEEP", "1001")]);
}

pub fn variable_misspelt(scene: &Scene) {
    refused(scene, &[("MAINSTAY_EVERY_SECOND", "10")]);
}

pub fn levels_in_one_directory(scene: &Scene) {
    scene.save(2);
    run(2, |rank, group| {
        let place = LevelPlace::At(scene.folder.path().join("place"));
        let error =
            Session::open(group, &scene.space(), Config { memory: place.clone(), disk: place, ..small() }).err();
        scene.check(rank, "open", &error.unwrap_or_else(|| panic!("rank {rank} opened")));
    });
    scene.comes_back(2, 2);
}

pub fn settings_differ(scene: &Scene) {
    scene.save(2);
    run(2, |rank, group| {
        let config = Config { keep: 1 + rank as u32, ..small() };
        let error = Session::open(group, &scene.space(), config).err();
        scene.check(rank, "open", &error.unwrap_or_else(|| panic!("rank {rank} opened")));
    });
    scene.comes_back(2, 2);
}
