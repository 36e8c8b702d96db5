//! `model` on given machines and on a space with measured costs: costs, choices, simulation, and plot.

use crate::support::{MAINSTAY, RANKS, Ran, Space};
use mainstay_engine::{Config, LevelPlace, MemoryAfter, Stage};
use serde_json::Value;
use std::{fs, process::Command};
use tempfile::TempDir;

const SECOND_NS: f64 = 1e9;
/// 100 ranks of 1 GB on each node, as a machine that is easy to compute by hand.
const MACHINE: [&str; 20] = [
    "--ranks-per-node",
    "100",
    "--rank-bytes",
    "1GB",
    "--copy",
    "100GB",
    "--network",
    "20GB",
    "--message",
    "2us",
    "--disk",
    "5GB",
    "--file-system",
    "1TB",
    "--node-mtbf",
    "3y",
    "--slowdown",
    "5%",
    "--relaunch",
    "30s",
];

fn model(arguments: &[&str]) -> Ran {
    Command::new(MAINSTAY).arg("model").args(arguments).output().map(Ran::of).unwrap()
}

fn on_machine(arguments: &[&str]) -> Ran {
    model(&[&MACHINE[..], arguments].concat())
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap_or(f64::NAN);
    assert!((value / expected - 1.0).abs() < 1e-3, "{value} instead of {expected}");
}

/// The level and the number of copies of each level of a choice.
fn levels(choice: &Value) -> Vec<(&str, u64)> {
    let all = choice["levels"].as_array().unwrap().iter();
    all.map(|level| (level["level"].as_str().unwrap(), level["copies"].as_u64().unwrap())).collect()
}

fn cost<'a>(told: &'a Value, name: &str) -> &'a Value {
    told["costs"].as_array().unwrap().iter().find(|cost| cost["cost"] == name).unwrap()
}

#[test]
fn a_checkpoint_costs_one_copy_on_any_number_of_ranks() {
    let told = on_machine(&["--failures", "0", "--json"]).json();
    let jobs = told["jobs"].as_array().unwrap();
    let ranks: Vec<u64> = jobs.iter().map(|job| job["ranks"].as_u64().unwrap()).collect();
    assert_eq!(ranks, [1000, 10_000, 100_000, 1_000_000]);
    for (job, space) in jobs.iter().zip([5.0, 10.0, 100.0, 1000.0]) {
        let checkpoints = job["checkpoints"].as_array().unwrap();
        let times = |level: &str, copies: u64| {
            checkpoints.iter().find(|times| times["level"] == level && times["copies"] == copies).unwrap()
        };
        assert!(checkpoints.iter().all(|times| times["perceived_ns"].as_f64().unwrap() < 1.0001 * SECOND_NS));
        near(&times("memory", 1)["durable_ns"], 1.0 * SECOND_NS);
        near(&times("memory", 3)["durable_ns"], 11.0 * SECOND_NS);
        near(&times("disk", 2)["durable_ns"], 46.0 * SECOND_NS);
        near(&times("space", 1)["durable_ns"], (1.0 + space) * SECOND_NS);
    }
    assert_eq!(jobs[3]["nodes"], 10_000);
    assert!(told["measured_in"].is_null() && jobs[0]["choices"][0]["simulated"].is_null(), "{told}");
}

#[test]
fn the_formulas_and_the_simulation_agree() {
    let told = on_machine(&["--ranks", "1e4..1e6", "--failures", "400", "--json"]).json();
    for job in told["jobs"].as_array().unwrap() {
        let choices = job["choices"].as_array().unwrap();
        let best = &choices[0];
        let (formula, simulated) = (best["efficiency"].as_f64().unwrap(), &best["simulated"]);
        assert!((simulated["efficiency"].as_f64().unwrap() / formula - 1.0).abs() < 0.05, "{best}");
        assert!(simulated["failures"].as_u64() >= Some(400) && formula > 0.9, "{best}");
        // One of each set of levels is simulated: seven sets.
        assert_eq!(choices.iter().filter(|choice| !choice["simulated"].is_null()).count(), 7);
        let best = |choice: &Value| choice["efficiency"].as_f64().unwrap();
        assert!(choices.is_sorted_by(|one, other| best(one) > best(other) - 1e-4));
    }
    let large = &told["jobs"][2]["choices"][0];
    assert_eq!(levels(large)[0], ("memory", 2), "{large}");
}

#[test]
fn every_choice_is_printed_or_only_those_that_fit() {
    let one = ["--ranks", "1e5", "--failures", "20"];
    let page = on_machine(&one);
    assert_eq!((page.code, page.err.as_str()), (0, ""));
    let choices = |page: &Ran| page.out.lines().filter(|line| line.contains('%') && line.contains("100000")).count();
    assert_eq!(choices(&page), 1, "{}", page.out);
    assert_eq!(choices(&on_machine(&[&one[..], &["--all"]].concat())), 23);
    for words in ["rank-bytes", "954 MiB", "given", "assumed", "memory × 2"] {
        assert!(page.out.contains(words), "no {words:?} in\n{}", page.out);
    }
    // A pool takes 100 GB of a node; two copies of two revisions take 400 GB, and more for farther levels.
    let told = on_machine(&[&one[..], &["--memory", "100GB", "--json"]].concat()).json();
    let choices = told["jobs"][0]["choices"].as_array().unwrap();
    assert!(!choices.is_empty() && choices.iter().all(|choice| levels(choice)[0].0 != "memory"), "{told}");
    assert!(on_machine(&[&one[..], &["--memory", "1GB"]].concat()).out.contains("none fits into the memory"));
}

#[test]
fn a_seed_repeats_the_simulation() {
    let with = |seed| on_machine(&["--ranks", "1e5", "--failures", "20", "--json", "--seed", seed]).json();
    assert_eq!(with("3"), with("3"));
    assert_ne!(with("3"), with("4"));
}

#[test]
fn the_plot_has_a_line_for_each_set_of_levels() {
    let folder = TempDir::new().unwrap();
    let plot = folder.path().join("efficiency.svg");
    let ran = on_machine(&["--failures", "20", "--plot", plot.to_str().unwrap()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let svg = fs::read_to_string(plot).unwrap();
    for words in ["memory, disk, space", "memory, space", "100000", "<circle"] {
        assert!(svg.contains(words), "no {words:?} in\n{svg}");
    }
    assert!(svg.matches("<circle").count() >= 4 * 7, "{svg}");
}

#[test]
fn a_space_gives_the_costs_that_it_measured() {
    let space = Space::with(1, 2);
    let path = space.path().to_str().unwrap().to_owned();
    let told = model(&[&path, "--failures", "0", "--ranks", "1000", "--json", "--disk", "3GB"]).json();
    assert_eq!(told["measured_in"]["revision"], 2);
    for (name, source) in [
        ("rank-bytes", "measured"),
        ("ranks-per-node", "measured"),
        ("copy", "measured"),
        ("file-system", "measured"),
        ("disk", "given"),
        ("network", "assumed"),
    ] {
        assert_eq!(cost(&told, name)["source"], source, "{name}: {told}");
    }
    assert_eq!(cost(&told, "ranks-per-node")["value"].as_f64(), Some(RANKS as f64));
    let node = &space.mainstay(&["advise", "--json"]).json()["nodes"][0];
    let rate = |time: &str| node["bytes"].as_f64().unwrap() / node[time].as_f64().unwrap() * 1e9;
    near(&cost(&told, "copy")["value"], rate("copy_ns"));
    near(&cost(&told, "file-system")["value"], rate("write_ns"));
    let page = space.mainstay(&["model", "--failures", "0"]);
    assert!(page.code == 0 && page.out.starts_with("measured in revision 2 of lineage 1 of "), "{page:?}");

    let empty = Space::new(1);
    empty.run(|_, _, _| {});
    empty.mainstay(&["model"]).refused(1, &["no complete revision", "give the costs"]);
    let direct = Space { config: Config { stage: Stage::Direct, ..Config::default() }, ..Space::new(1) };
    direct.run(|_, session, _| {
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    let told = direct.mainstay(&["model", "--failures", "0", "--json"]).json();
    assert_eq!(
        (&cost(&told, "copy")["source"], &cost(&told, "file-system")["source"]),
        (&"assumed".into(), &"measured".into())
    );
}

/// Each level has times of its own.
#[test]
fn the_levels_of_a_space_are_measured_each() {
    let mut space = Space::new(2);
    let place = |name: &str| LevelPlace::At(space.directory.path().join(name));
    (space.config.memory, space.config.disk) = (place("memory"), place("disk"));
    (space.config.disk_every, space.config.pfs_every) = (1, 1);
    space.config.memory_after = MemoryAfter::Kept;
    space.run(|_, session, _| {
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    let told = space.mainstay(&["model", "--failures", "0", "--json"]).json();
    for name in ["copy", "disk", "file-system"] {
        assert_eq!(cost(&told, name)["source"], "measured", "{name}: {told}");
    }
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    for (arguments, words) in [
        (["--ranks", "0"], "no number of ranks"),
        (["--ranks", "1e3..10"], "smaller one first"),
        (["--rank-bytes", "0"], "more than 0"),
        (["--copy", "fast"], "no size"),
        (["--node-mtbf", "0s"], "more than 0"),
        (["--slowdown", "31%"], "at most 30 %"),
        (["--processes", "101%"], "no share"),
        (["--outage-mtbf", "rarely"], "no time"),
        (["--metadata", "0"], "--metadata"),
        (["--rank-bytes", "16EiB"], "--rank-bytes"),
    ] {
        let ran = model(&arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.err);
    }
}
