//! A simulated cluster, with programs of each kind: the promises are kept, a seed gives the same run each time, and wrong
//! variants are found.

use std::{
    env,
    process::{Command, Output},
    time::{Duration, Instant},
};

/// Runs in one process, at most. The heap of killed processes stays until its end.
const BATCH: u64 = 500;

/// The programs of the simulated ranks.
struct Kind {
    name: &'static str,
    /// `make test` runs the seeds below this.
    seeds: u64,
    /// Wrong variants, each with a seed that shows it. After a change of the plans, `--mutant NAME` finds another.
    found: &'static [(&'static str, u64)],
}

/// Regions, streams and buffers, with commands beside the jobs.
const REGIONS: Kind = Kind {
    name: "regions",
    seeds: 500,
    found: &[
        ("SlotByParity", 441),
        ("SlotNotSynced", 4),
        ("DirectoryNotSynced", 7),
        ("NoId", 4),
        ("MinimumInsteadOfIntersection", 3),
        ("OlderDroppedAtOnce", 13),
        ("CommittedTooEarly", 0),
        ("PieceLeftOut", 1),
        ("CopiesNotAwaited", 9),
        ("CopyNotPublished", 1),
        ("CopyCountsTooEarly", 27),
        ("HolderBeside", 9),
        ("HolderInDomain", 42),
        ("LineageNotRenewed", 2),
        ("NumberUsedAgain", 3),
        ("MemoryFreedUnsaved", 4),
        ("LeftOnDisks", 4),
        ("LocksIgnored", 1),
        ("HoldsForgotten", 5),
        ("PruneTakesHeld", 23),
        ("SalvageWithoutChunks", 2),
        ("NoteNotSynced", 3),
        ("AgreementLeftOut", 2),
        ("SlotOverNewest", 167),
        ("LayoutDroppedEarly", 5),
        ("WaitsForNothing", 88),
        ("FailureNotTold", 76),
        ("RollbackLeavesNewest", 105),
        ("FartherNotAwaited", 160),
    ],
};

/// Objects: each is on one rank and has the right state after every move, recovery and restore.
const OBJECTS: Kind = Kind {
    name: "objects",
    seeds: 310,
    found: &[
        ("OlderEpochTaken", 307),
        ("MovedStays", 1),
        ("MoveNotNoted", 1),
        ("EpochNotAgreed", 90),
        ("MessagesNotSaved", 0),
    ],
};

/// Messages of ranks in slots: each arrives once and in order, as MPI matches it, while ranks move, are saved, and come
/// back on other hosts.
const SLOTS: Kind = Kind {
    name: "slots",
    seeds: 1190,
    found: &[
        ("NewestFirst", 1),
        ("WaitingNotSaved", 24),
        ("TakenNotSaved", 81),
        ("MovedNotPlaced", 4),
        ("DrainedTooEarly", 0),
    ],
};

impl Kind {
    fn simulate(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_mainstay-simulate")).args(["--kind", self.name]).args(words).output().unwrap()
    }

    /// The campaign goes on with other seeds for the time in MAINSTAY_CAMPAIGN_SECONDS, or an hour.
    fn keeps_its_promises(&self) {
        let seconds = env::var("MAINSTAY_CAMPAIGN_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3600);
        let until = env::var_os("CAMPAIGN").map(|_| Instant::now() + Duration::from_secs(seconds));
        let mut from = 0;
        while from < self.seeds || until.is_some_and(|until| Instant::now() < until) {
            let count = if from < self.seeds { BATCH.min(self.seeds - from) } else { BATCH };
            let ran = self.simulate(&["--from", &from.to_string(), "--count", &count.to_string()]);
            let text = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
            assert!(ran.status.success(), "{text}");
            from += count;
        }
    }

    /// Each variant fails with a seed of `make test`, with which the right engine succeeds: with the recorded one, or with
    /// another where the kernel reports less. A crash of the process is a find, too: a wrong engine may do anything.
    fn finds_wrong_variants(&self) {
        let is_right = |name: &str, from: u64, count: u64| {
            let range = ["--from", &from.to_string(), "--count", &count.to_string()];
            self.simulate(&[&["--mutant", name][..], &range].concat()).status.success()
        };
        let is_hidden = |(name, seed): &&(&str, u64)| is_right(name, *seed, 1) && is_right(name, 0, self.seeds);
        let hidden: Vec<_> = self.found.iter().filter(is_hidden).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
        let known = String::from_utf8(self.simulate(&["--mutants"]).stdout).unwrap();
        assert!(self.found.iter().all(|(name, seed)| known.contains(&format!("{name}: ")) && *seed < self.seeds));
    }
}

#[test]
fn regions_come_back_under_every_schedule_and_fault() {
    REGIONS.keeps_its_promises();
}

#[test]
fn objects_are_right_under_every_schedule_and_fault() {
    OBJECTS.keeps_its_promises();
}

#[test]
fn messages_arrive_under_every_schedule_and_fault() {
    SLOTS.keeps_its_promises();
}

#[test]
fn wrong_variants_are_found() {
    [REGIONS, OBJECTS, SLOTS].iter().for_each(Kind::finds_wrong_variants);
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for (kind, seed) in [(REGIONS, "3"), (REGIONS, "8"), (OBJECTS, "21"), (SLOTS, "4")] {
        let [one, other] = [(); 2].map(|()| {
            let ran = kind.simulate(&["--seed", seed]);
            assert!(ran.status.success(), "{} {seed}", kind.name);
            // The folder has another number while other simulations run.
            let story = String::from_utf8(ran.stdout).unwrap();
            story.lines().filter(|line| !line.contains("mainstay-simulated-")).map(str::to_owned).collect::<Vec<_>>()
        });
        assert!(one.len() > 100, "{} {seed}: {} lines", kind.name, one.len());
        let differs = one.iter().zip(&other).find(|(one, other)| one != other);
        assert_eq!(differs, None, "{} {seed}", kind.name);
        assert_eq!(one.len(), other.len(), "{} {seed}", kind.name);
    }
}

/// The story of a wrong variant, whole and cut down.
#[test]
fn a_plan_that_fails_is_cut_down() {
    let stories = [&["--shrink"][..], &[]].map(|more| {
        let words = [&["--mutant", "OlderDroppedAtOnce", "--seed", "13"], more].concat();
        let ran = REGIONS.simulate(&words);
        assert!(!ran.status.success());
        String::from_utf8(ran.stdout).unwrap()
    });
    let [cut, whole] = stories.map(|story| story.lines().count());
    assert!(cut * 4 < whole * 3, "{cut} of {whole} lines");
}

#[test]
fn an_unknown_variant_is_refused() {
    let ran = REGIONS.simulate(&["--mutant", "Perfect"]);
    assert!(!ran.status.success());
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "there is no wrong variant Perfect; --mutants lists them\n");
}
