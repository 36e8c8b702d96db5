//! `oracle` on recorded traces, on invented ones with a known result, and on files that are no trace.

use crate::support::{MAINSTAY, Ran};
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// Type, time, and stretches of pages.
type Record = (u64, u64, Vec<(u64, u64)>);

const TICK: u64 = 0x544b_0000;
const MARK: u64 = 0x544b_0001;

fn oracle(trace: &Path, arguments: &[&str]) -> Ran {
    Command::new(MAINSTAY).arg("oracle").arg(trace).args(arguments).output().map(Ran::of).unwrap()
}

fn recorded(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(name)
}

/// The shares of pages that a predictor saved early and in vain.
fn shares(ran: &Ran, predictor: &str) -> (f64, f64) {
    let told = ran.json();
    let all = told["traces"][0]["predictors"].as_array().unwrap();
    let one = all.iter().find(|one| one["predictor"] == predictor).unwrap();
    (one["early_share"].as_f64().unwrap(), one["wasted_share"].as_f64().unwrap())
}

/// Writes a trace of `records`.
fn made(folder: &TempDir, records: impl IntoIterator<Item = Record>) -> std::path::PathBuf {
    let path = folder.path().join("made.trace");
    let words = records.into_iter().flat_map(|(kind, at, stretches)| {
        let pairs = stretches.iter().flat_map(|(first, pages)| [*first, *pages]).collect::<Vec<_>>();
        [vec![kind, at, 0, stretches.len() as u64], pairs].concat()
    });
    fs::write(&path, words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    path
}

/// A program that writes ten pages one after the other in each iteration of ten ticks.
fn sweep(iterations: u64) -> Vec<Record> {
    let steps = (0..iterations * 10).map(|step| {
        let kind = if step % 10 == 9 { MARK } else { TICK };
        (kind, 1000 * (step + 1) + 7, vec![((1 << 30) + step % 10, 1)])
    });
    [(MARK, 7, Vec::new())].into_iter().chain(steps).collect()
}

/// The directory that `mainstay trace` made stands for its traces, in the order of ranks.
#[test]
fn a_directory_stands_for_its_traces() {
    let folder = TempDir::new().unwrap();
    let empty = oracle(folder.path(), &[]);
    assert!(empty.code == 2 && empty.err.contains("has no trace"), "{empty:?}");
    let made = made(&folder, sweep(6));
    for rank in [10, 9] {
        fs::copy(&made, folder.path().join(format!("rank-{rank}.trace"))).unwrap();
    }
    fs::write(folder.path().join("rank-9.regions"), "x").unwrap();
    let told = oracle(folder.path(), &["--json", "--iterations", "2"]).json();
    let names: Vec<_> = told["traces"].as_array().unwrap().iter().map(|one| one["trace"].as_str().unwrap()).collect();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(names, ["made.trace", "rank-9.trace", "rank-10.trace"].map(file));
}

/// Each page is written every 10 ms in all intervals: by its intervals it is never infrequent.
#[test]
fn a_page_that_was_not_written_for_so_long_is_infrequent() {
    let folder = TempDir::new().unwrap();
    let trace = made(&folder, sweep(40));
    let early =
        |more: &[&str]| shares(&oracle(&trace, &[&["--json", "--iterations", "2"], more].concat()), "infrequent").0;
    assert_eq!((early(&[]), early(&["--infrequent", "11ms"])), (0.0, 0.0));
    assert!(early(&["--infrequent", "9ms"]) > 0.5);
}

/// The engine's tests measure the gain of `auto`.
#[test]
fn recorded_programs_are_replayed() {
    for (trace, iterations) in [("bt.W.bin", "20"), ("sp.W.bin", "20"), ("cg.A.bin", "5")] {
        for inside in [&[][..], &["--inside"]] {
            let arguments = [&["--json", "--iterations", iterations], inside].concat();
            let ran = oracle(&recorded(trace), &arguments);
            let ((auto, _), (perfect, none)) = (shares(&ran, "auto"), shares(&ran, "oracle"));
            assert!(
                auto >= 0.9 * perfect && auto <= perfect && none == 0.0,
                "{trace} {arguments:?}: {auto} of {perfect}"
            );
            assert_eq!(shares(&ran, "off"), (0.0, 0.0));
        }
    }
}

/// The oracle knows the intervals from the start. Predictors that use only the past know nothing before they have
/// learnt.
#[test]
fn what_learning_costs_is_told() {
    let folder = TempDir::new().unwrap();
    let trace = made(&folder, sweep(12));
    let gains = |learn: &str, predictor: &str| {
        shares(&oracle(&trace, &["--json", "--iterations", "2", "--share", "0.1", "--learn", learn]), predictor).0
    };
    assert_eq!((gains("0", "oracle"), gains("2", "oracle")), (0.9, 0.9));
    // Of six intervals, `count` needs the first to learn.
    assert_eq!((gains("0", "count"), gains("1", "count")), (0.9 * 5.0 / 6.0, 0.9));
    assert!(gains("0", "auto") < gains("2", "auto") && gains("2", "auto") == 0.9);
}

/// The writer has time for all pages but the last: its write ends the interval.
#[test]
fn what_a_sweep_gains_is_known() {
    let folder = TempDir::new().unwrap();
    let trace = made(&folder, sweep(12));
    let gains = |share| shares(&oracle(&trace, &["--json", "--iterations", "2", "--share", share]), "oracle").0;
    // Ten pages take 0.1 of twenty ticks: five in a tick; or half of the twenty: one.
    assert_eq!((gains("0.1"), gains("0.5")), (0.9, 0.9));
    // One in two ticks: five in the ten of the last iteration.
    assert_eq!(gains("1"), 0.5);
    let at_server = ["--json", "--iterations", "2", "--bandwidth", "4MB", "--processes"];
    let waits = |processes| {
        let told = oracle(&trace, &[&at_server[..], &[processes]].concat()).json();
        told["traces"][0]["predictors"][0]["checkpoint_ns"].as_f64().unwrap()
    };
    assert!((waits("8") / waits("1") - 8.0).abs() < 1e-3, "eight processes write eight times as much");
}

#[test]
fn the_table_and_the_plot_say_the_same() {
    let folder = TempDir::new().unwrap();
    let (trace, plot) = (made(&folder, sweep(12)), folder.path().join("gains.svg"));
    let ran = oracle(&trace, &["--iterations", "2", "--share", "0.1", "--plot", plot.to_str().unwrap()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("4 intervals, 40 KiB written in each") && ran.out.contains("90 %"), "{}", ran.out);
    let svg = fs::read_to_string(plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("infrequent") && svg.matches("<rect").count() > 7, "{svg}");
}

#[test]
fn what_is_no_trace_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let path = made(&folder, sweep(12));
    let whole = fs::read(&path).unwrap();
    let with = |bytes: &[u8], words: &[&str]| {
        fs::write(&path, bytes).unwrap();
        oracle(&path, &[]).refused(2, words);
    };
    with(&whole[..whole.len() - 3], &["cut off"]);
    with(&whole[..whole.len() - 8], &["cut off"]);
    with(&whole.iter().copied().map(|byte| byte ^ 0x5a).collect::<Vec<_>>(), &["no record begins here"]);
    let words: Vec<u64> = whole.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    with(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>(), &["the high byte first"]);
    with(&words.iter().flat_map(|word| (*word as u32).to_le_bytes()).collect::<Vec<_>>(), &["32 bits"]);
    let changed = |at: usize, word: u64| {
        let mut words = words.clone();
        words[at] = word;
        words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()
    };
    // The changed words: the time of the third record, and in the second record the number of stretches and the pages
    // of the first one.
    with(&changed(4 + 6 + 1, 0), &["runs backwards"]);
    with(&changed(4 + 3, u64::MAX), &["is none"]);
    with(&changed(4 + 3, 1 << 30), &["cut off"]);
    with(&changed(4 + 5, u64::MAX), &["beyond all memory"]);
    with(&changed(4 + 5, 1 << 40), &["more pages than"]);
    fs::write(&path, whole).unwrap();
    oracle(&path, &["--iterations", "100"]).refused(1, &["too short"]);
    let told = oracle(&path, &["--share", "0"]);
    assert!(told.code == 2 && told.err.contains("no share"), "{}", told.err);
    oracle(&folder.path().join("none"), &[]).refused(4, &["opening"]);
}
