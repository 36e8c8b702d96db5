//! `advise` on levels, failures and memory, without a space and with one.

use crate::support::{MAINSTAY, Ran, Space};
use mainstay_engine::{Config, Stage};
use serde_json::Value;
use std::process::Command;

const HOUR_NS: f64 = 3.6e12;
const SHARD: u64 = 256 << 20;

fn advise(arguments: &[&str]) -> Ran {
    Command::new(MAINSTAY).arg("advise").args(arguments).output().map(Ran::of).unwrap()
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap_or(f64::NAN);
    assert!((value / expected - 1.0).abs() < 1e-3, "{value} instead of {expected}");
}

/// The example of paper 002, section 4.3.
const EXAMPLE: [&str; 10] =
    ["--nodes", "5000", "--node-mtbf", "175200h", "--run", "400h", "--run-with", "1200h", "--interval", "6min"];

#[test]
fn the_example_of_the_paper_comes_out() {
    let page = advise(&EXAMPLE);
    assert_eq!((page.code, page.err.as_str()), (0, ""));
    assert!(page.out.contains("99.9989 %") && page.out.contains("0.000977 %"), "{}", page.out);
    let told = advise(&[&EXAMPLE[..], &["--json"]].concat()).json();
    near(&told["reliability"]["fails_without_checkpoints"], 0.999989);
    near(&told["reliability"]["fails_with_buddies"], 9.7736e-6);
    assert!(told.get("levels").is_none() && told.get("memory").is_none() && told.get("space").is_none(), "{told}");
}

#[test]
fn the_formulas_are_refused_where_they_do_not_hold() {
    let with = |name: &str, value: &'static str| {
        let at = EXAMPLE.iter().position(|word| *word == name).unwrap();
        let mut words = EXAMPLE;
        words[at + 1] = value;
        advise(&words)
    };
    with("--run", "175200h").refused(2, &["do not hold"]);
    with("--run-with", "200000h").refused(2, &["do not hold"]);
    with("--nodes", "4999").refused(2, &["pairs"]);
    with("--interval", "1201h").refused(2, &["at most the length of the run"]);
    with("--interval", "0s").refused(2, &["more than 0"]);
    with("--node-mtbf", "0s").refused(2, &["do not hold"]);
}

#[test]
fn levels_have_intervals_of_their_own_and_one_pattern() {
    let arguments = [
        "--mtbf",
        "6h",
        "--level",
        "space:cost=40s,restart=3min",
        "--level",
        "memory:cost=300ms,restart=5s,survives=90%",
    ];
    let told = advise(&[&arguments[..], &["--json"]].concat()).json();
    let [memory, pfs] = [&told["levels"][0], &told["levels"][1]];
    assert_eq!((&memory["level"], &pfs["level"]), (&"memory".into(), &"space".into()));
    near(&memory["left_share"], 0.9);
    near(&pfs["left_share"], 0.1);
    // sqrt(2 · 0.3 s · 24,000 s) and sqrt(2 · 40 s · 216,000 s).
    near(&memory["young_ns"], 120e9);
    near(&pfs["young_ns"], 4156.92e9);
    assert!(pfs["daly_ns"].as_f64() > pfs["young_ns"].as_f64().map(|ns| ns - 40e9), "{pfs}");
    assert_eq!(memory["every"], 1);
    let every = pfs["every"].as_u64().unwrap();
    assert!((30..=40).contains(&every), "{every}");
    near(&told["mtbf_ns"], 6.0 * HOUR_NS);
    // To first order the shares are 0.5 % and 1.92 %. The loss is 0.9 · 5 s + 0.1 · 180 s in each 6 h.
    let lost = told["lost_share"].as_f64().unwrap();
    assert!((lost - 0.0250).abs() < 0.0005, "{lost}");
    assert_eq!(told["unsurvived_share"], 0.0);

    let page = advise(&arguments);
    assert_eq!((page.code, page.err.as_str()), (0, ""));
    for words in ["a failure of the job every 6 h", "90 %", "time lost: 2.5", &every.to_string()] {
        assert!(page.out.contains(words), "no {words:?} in\n{}", page.out);
    }
    assert!(!page.out.contains("no revision is left"), "{}", page.out);
}

#[test]
fn a_job_fails_as_often_as_any_of_its_nodes() {
    let told =
        advise(&["--nodes", "100", "--node-mtbf", "600h", "--level", "disk:cost=1s,survives=80%", "--json"]).json();
    near(&told["mtbf_ns"], 6.0 * HOUR_NS);
    near(&told["unsurvived_share"], 0.2);
    let page = advise(&["--mtbf", "6h", "--level", "disk:cost=1s,survives=80%"]).out;
    assert!(page.contains("no level survives 20 % of the failures"), "{page}");
    let page = advise(&["--mtbf", "6h", "--level", "disk:cost=10s", "--level", "pfs:cost=20s"]).out;
    assert!(page.lines().any(|line| line.contains("space") && line.contains("less is lost without it")), "{page}");
}

/// The run's length and the interval come from the levels if the call does not state them.
#[test]
fn a_run_takes_what_the_levels_say() {
    let machine = ["--nodes", "1000", "--node-mtbf", "20000h", "--run", "100h", "--level", "memory:cost=500ms"];
    let told = advise(&[&machine[..], &["--json"]].concat()).json();
    assert_eq!(told["reliability"]["interval_ns"], told["interval_ns"]);
    near(&told["reliability"]["run_with_ns"], 100.0 * HOUR_NS / (1.0 - told["lost_share"].as_f64().unwrap()));
}

#[test]
fn memory_is_counted_by_copies_and_revisions() {
    let shard = ["--shard", "256MiB", "--copies", "2", "--keep", "2", "--json"];
    let memory = &advise(&shard).json()["memory"];
    assert_eq!((&memory["bytes"], &memory["feeding_bytes"]), (&(6 * SHARD).into(), &(7 * SHARD).into()));
    // Each of the levels behind the first can be fed with a revision of its own.
    let three = ["memory", "disk", "pfs"].map(|level| ["--level".to_owned(), format!("{level}:cost=1s")]).concat();
    let three: Vec<&str> = three.iter().map(String::as_str).collect();
    let three = advise(&[&shard[..], &["--mtbf", "6h"], &three[..]].concat()).json();
    assert_eq!(three["memory"]["feeding_bytes"], 8 * SHARD);
    let alone = advise(&[&shard[..], &["--mtbf", "6h", "--level", "memory:cost=1s"]].concat()).json();
    assert!(alone["memory"]["feeding_bytes"].is_null() && alone["memory"]["bytes"] == memory["bytes"], "{alone}");
    assert!(advise(&shard[..6]).out.contains("1.5 GiB, 2 copies of 2 + 1 revisions of 256 MiB; 1.8 GiB while"));
    advise(&["--shard", "16EiB", "--copies", "16"]).refused(2, &["--shard"]);
}

#[test]
fn what_is_not_said_is_asked_for() {
    for (arguments, words) in [
        (&[][..], &["SPACE"][..]),
        (&["--level", "pfs:cost=1s"], &["--mtbf"]),
        (&["--mtbf", "1h", "--level", "pfs"], &["space:cost=TIME"]),
        (&["--mtbf", "1h", "--level", "tape:cost=1s"], &["memory, disk, space"]),
        (&["--mtbf", "1h", "--level", "pfs:cost=1s", "--level", "pfs:cost=2s"], &["twice"]),
        (&["--mtbf", "1h", "--level", "pfs:cost=0s"], &["more than 0"]),
        (&["--mtbf", "0s", "--level", "pfs:cost=1s"], &["more than 0"]),
        (&["--mtbf", "1h", "--level", "pfs:cost=1s,survives=0%"], &["none survives"]),
        (&["--run", "1h"], &["--node-mtbf"]),
        (&["--nodes", "2", "--node-mtbf", "9h", "--run", "1h"], &["--run-with"]),
        (&["--nodes", "2", "--node-mtbf", "9h", "--run", "1h", "--run-with", "2h"], &["--interval"]),
        (&["--nodes", "0", "--node-mtbf", "9h", "--run", "1h"], &["--nodes"]),
        (&["--mtbf", "a while", "--level", "pfs:cost=1s"], &["no time"]),
    ] {
        let ran = advise(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(words.iter().all(|word| ran.err.contains(word)), "{arguments:?}: {}", ran.err);
    }
}

/// The checkpoints of a space give their measured cost. The advice about the pool stays.
#[test]
fn a_cost_that_is_not_stated_is_the_measured_one() {
    let space = Space::with(1, 2);
    let told = space.mainstay(&["advise", "--mtbf", "6h", "--level", "disk", "--json"]).json();
    let slowest = told["nodes"].as_array().unwrap().iter().map(|node| node["perceived_ns"].as_u64()).max().unwrap();
    assert_eq!(told["levels"][0]["checkpoint_ns"].as_u64(), slowest);
    assert!(told["setting"].is_string() && told["space"].is_string(), "{told}");
    // Without a level, the advice says how often to save to the space. `advise` printed advice about the pool alone.
    let of_space = space.mainstay(&["advise", "--mtbf", "6h", "--json"]).json();
    assert_eq!(of_space["levels"][0]["checkpoint_ns"].as_u64(), slowest);
    assert!(of_space["interval_ns"].as_u64() > Some(0), "{of_space}");
    let page = space.mainstay(&["advise", "--mtbf", "6h"]).out;
    assert!(page.contains("a checkpoint every "), "{page}");
    // The advice comes also if no pool was in use.
    let direct = Space { config: Config { stage: Stage::Direct, ..Config::default() }, ..Space::new(1) };
    direct.run(|_, session, _| {
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    direct.mainstay(&["advise"]).refused(1, &["the stage direct"]);
    let told = direct.mainstay(&["advise", "--mtbf", "6h", "--json"]).json();
    assert!(told["interval_ns"].as_u64() > Some(0), "{told}");
}
