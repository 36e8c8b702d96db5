//! `show --phases` and `advise` on spaces with phase times of the checkpoint in their manifests.
//!
//! The test writes the profiles by hand, so the numbers are known: ranks 0 and 1 share a node, rank 2 has a node of its
//! own.

use crate::bytes::Layout;
use crate::support::{CELLS, RANKS, Space, field};
use mainstay_engine::{
    Config, Stage,
    space::format::{Catalogue, PhaseRecord, Profile},
};
use std::time::Duration;

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
const T1: u64 = 1_800_000_000_000_000_000;

/// 100 MiB a rank: copied in 50 ms, durable after 505 ms. Phase 1 takes 5 ms of it.
fn phases(rank: usize) -> PhaseRecord {
    PhaseRecord {
        t1_unix_ns: T1,
        communication_ns: 5 * MS,
        buffer_wait_ns: 200 * MS,
        copy_ns: 50 * MS,
        perceived_ns: (260 + rank as u64) * MS,
        durable_ns: 505 * MS,
        written_bytes: 100 * MIB,
        chunks: 100,
        writes: 100,
        resume_ns: 2 * MS,
        step: 0,
    }
}

fn profile(rank: usize) -> Profile {
    let node = if rank < 2 { 0 } else { 2 };
    let mut profile = Profile { node, pool_bytes: 64 * MIB, chunk_bytes: MIB, ..Profile::default() };
    (0..300).for_each(|_| profile.pieces.note(40, Duration::from_nanos(100)));
    (0..100).for_each(|_| profile.pieces.note(MIB, Duration::from_micros(500)));
    (0..100).for_each(|_| profile.writes.note(MIB, Duration::from_millis(4)));
    profile
}

/// A space with this profile in the shards of `revision`. The engine's own profiles are removed.
fn profiled(revision: u64, change: impl Fn(usize, &mut PhaseRecord, &mut Profile)) -> Space {
    let space = Space::with(2, 3);
    let mut layout = Layout::read(&space.layout());
    for rank in 0..RANKS {
        for number in 1..=3 {
            if !layout.catalogue(rank, layout.newest_slot(rank)).entries.iter().any(|e| e.number == number) {
                continue;
            }
            let (mut phases, mut profile) = (phases(rank), profile(rank));
            change(rank, &mut phases, &mut profile);
            let mut manifest = layout.manifest(rank, number);
            manifest.annex.profile = (number == revision).then_some(profile);
            layout.forge_manifest(rank, number, &manifest.build());
            for index in [0, 1] {
                let range = layout.catalogue_range(rank, index);
                let mut catalogue: Catalogue = layout.catalogue(rank, index);
                for entry in catalogue.entries.iter_mut().filter(|e| e.number == number && number == revision) {
                    entry.phases = phases;
                }
                layout.forge_catalogue(rank, index, range, &catalogue.build());
            }
        }
    }
    layout.write();
    space
}

#[test]
fn show_tells_of_nodes_and_sizes() {
    let space = profiled(3, |_, _, _| {});
    let document = space.mainstay(&["show", "--json"]).json();
    let revision = &document["revision"];
    let shard = &revision["shard_list"][1];
    assert_eq!((&shard["phases"]["resume_ns"], &shard["phases"]["overlap_ns"]), (&(2 * MS).into(), &(244 * MS).into()));
    assert_eq!((&shard["profile"]["node"], &shard["profile"]["stage"]), (&0.into(), &"pool".into()));
    assert_eq!((&shard["profile"]["pool_bytes"], &shard["profile"]["chunk_bytes"]), (&(64 * MIB).into(), &MIB.into()));
    let (first, last) = (&shard["profile"]["pieces"][0], &shard["profile"]["pieces"][9]);
    assert_eq!(
        *first,
        serde_json::json!({"from_bytes": 0, "below_bytes": 64, "count": 300, "bytes": 12_000, "time_ns": 30_000})
    );
    assert_eq!((&last["from_bytes"], &last["below_bytes"], &last["count"]), (&MIB.into(), &().into(), &100.into()));
    let nodes = revision["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), &nodes[0]["ranks"], &nodes[1]["ranks"]), (2, &vec![0, 1].into(), &vec![2].into()));
    assert_eq!((&nodes[0]["slowest_rank"], &nodes[0]["phases"]["perceived_ns"]), (&1.into(), &(261 * MS).into()));
    assert_eq!(nodes[0]["writes"][9]["count"], 200);

    let ran = space.mainstay(&["show", "--phases"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for line in [
        "rank t1 phase 1 buffer wait copy other phase 3 t2−t1 t3−t1 t3−t2 written chunks writes",
        "1 +0 ms 5 ms 200 ms 50 ms 4 ms 2 ms 261 ms 505 ms 244 ms 100 MiB 100 100",
        "0 2 1 +0 ms 5 ms 200 ms 50 ms 4 ms 2 ms 261 ms 505 ms 244 ms pool 64 MiB 1 MiB –",
        "< 64 B 300 75.0 11.7 KiB 0.0 30 µs 0.1 450 17.6 KiB",
        "≥ 1 MiB 100 25.0 100 MiB 100.0 50 ms 99.9 150 150 MiB",
    ] {
        let found = ran.out.lines().any(|l| l.split_whitespace().collect::<Vec<_>>().join(" ") == line);
        assert!(found, "no line {line:?} in\n{}", ran.out);
    }
    // The revision before has no profile: the phases are shown, and the output says so.
    let ran = space.mainstay(&["show", "--phases", "--revision", "2"]);
    assert!(
        ran.code == 0 && ran.out.contains("this revision has no profile") && ran.out.contains("phase 3"),
        "{}",
        ran.out
    );
    let document = space.mainstay(&["show", "--json", "--revision", "2"]).json();
    assert!(document["revision"]["nodes"].is_null() && document["revision"]["shard_list"][0]["profile"].is_null());
}

#[test]
fn show_tells_the_threshold_that_was_in_force() {
    let mut space = Space::new(1);
    let (threshold, stage) = (Some(64 << 10), Stage::Rank);
    space.config = Config { threshold_bytes: threshold, stage, ..space.config };
    space.run(|_, session, _| assert_eq!(session.checkpoint().unwrap(), 1));
    let shown = space.mainstay(&["show", "--json"]).json();
    let profile = &shown["revision"]["shard_list"][2]["profile"];
    assert_eq!((&profile["stage"], &profile["threshold_bytes"]), (&"rank".into(), &(64 << 10).into()));
    let page = space.mainstay(&["show", "--phases"]).out;
    assert!(page.contains("threshold\n") && page.contains("64 KiB\n"), "{page}");
    let stages = [(2, Stage::Rank, true), (3, Stage::Node, true), (4, Stage::Pool, false), (5, Stage::Direct, false)];
    for (revision, stage, found) in stages {
        space.config = Config { threshold_bytes: None, stage, ..space.config };
        space.run(|_, session, _| assert_eq!(session.checkpoint().unwrap(), revision));
        let shown = space.mainstay(&["show", "--json"]).json();
        let threshold = &shown["revision"]["nodes"][0]["threshold_bytes"];
        assert_eq!(threshold.as_u64().is_some_and(|bytes| (4096..=1 << 20).contains(&bytes)), found, "{stage:?}");
        assert_eq!(threshold.is_null(), !found, "{stage:?}");
    }
}

/// In stage direct, a shard is published before its time is known: the next root records the time. The output showed no
/// wait at all for a rank that was killed before.
#[test]
fn what_is_not_known_of_a_checkpoint_is_not_shown_as_nothing() {
    let space = profiled(3, |rank, p, _| {
        if rank == 2 {
            (p.perceived_ns, p.resume_ns, p.durable_ns) = (0, 0, 0);
        }
    });
    let shown = space.mainstay(&["show", "--json"]).json();
    let phases = &shown["revision"]["shard_list"][2]["phases"];
    for name in ["perceived_ns", "resume_ns", "other_ns", "durable_ns", "overlap_ns"] {
        assert!(phases[name].is_null(), "{name}: {phases}");
    }
    assert_eq!((&phases["copy_ns"], &shown["revision"]["perceived_ns"]), (&(50 * MS).into(), &().into()));
    let page = space.mainstay(&["show", "--phases"]).out;
    let line = "2 +0 ms 5 ms 200 ms 50 ms ? ? ? ? ? 100 MiB 100 100";
    let found = page.lines().any(|l| l.split_whitespace().collect::<Vec<_>>().join(" ") == line);
    assert!(found, "{page}");
    let listed = space.mainstay(&["ls"]).out;
    assert_eq!(listed.lines().nth(1).unwrap().split_whitespace().rev().take(2).collect::<Vec<_>>(), ["?", "?"]);
}

/// Writes to the space are counted twice: by rank with the writes that publish a shard, by size without them.
#[test]
fn the_two_counts_of_writes_differ_by_what_publishes_a_shard() {
    let space = Space::with(1, 1);
    let shown = space.mainstay(&["show", "--json"]).json();
    for shard in shown["revision"]["shard_list"].as_array().unwrap() {
        let classes = shard["profile"]["writes"].as_array().unwrap();
        let of_data: u64 = classes.iter().map(|class| class["count"].as_u64().unwrap()).sum();
        // Hashes and manifest, catalogue and slot of one root: nothing had to be freed.
        assert_eq!(shard["phases"]["writes"].as_u64().unwrap(), of_data + 3, "{shard}");
    }
    let page = space.mainstay(&["show", "--phases"]).out;
    assert!(page.contains("(writes of hashes, manifest and roots are only in the first table)"), "{page}");
}

#[test]
fn what_has_a_profile_is_verified_and_restored() {
    let space = profiled(3, |_, _, _| {});
    assert_eq!(space.mainstay(&["verify"]).code, 0);
    space.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, 3);
        assert!(state == field(rank, 3) && state.len() == CELLS);
    });
}

#[test]
fn advise_finds_the_pool_that_hides_the_writes() {
    let space = profiled(2, |_, _, _| {});
    let ran = space.mainstay(&["advise", "--json"]);
    let document = ran.json();
    assert_eq!((ran.code, ran.err.as_str(), &document["revision"]), (0, "", &2.into()));
    // 200 MiB on node 0: 4000 MiB/s in, 400 MiB/s out. A pool of nine tenths of it hides the writes.
    let node = &document["nodes"][0];
    assert_eq!(
        (&node["copy_ns"], &node["write_ns"], &node["rest_ns"]),
        (&(50 * MS).into(), &(500 * MS).into(), &(11 * MS).into())
    );
    let near = |value: &serde_json::Value, expected: u64| {
        assert!(value.as_u64().unwrap().abs_diff(expected) <= expected / 1000, "{value} instead of {expected}");
    };
    near(&node["bytes"], 200 * MIB);
    near(&node["flattens_at_bytes"], 180 * MIB);
    near(&node["expected_ns"], 351 * MS);
    let pools = document["pools"].as_array().unwrap();
    let sizes: Vec<u64> = pools.iter().map(|pool| pool["pool_bytes"].as_u64().unwrap() / MIB).collect();
    assert_eq!(sizes, [16, 32, 64, 128, 256, 512]);
    for (pool, ms) in pools.iter().zip([471, 431, 351, 191, 62, 62]) {
        // The time of rank 2, which waited 1 ms longer than rank 1, once the writes are hidden.
        near(&pool["expected_ns"], ms * MS);
    }
    assert_eq!(
        (&document["advised_pool_bytes"], &document["setting"]),
        (&(256 * MIB).into(), &"pool_bytes = \"256 MiB\"".into())
    );

    let page = space.mainstay(&["advise"]).out;
    for words in [
        "measured in revision 2 of lineage 1",
        "saved 2027-01-15",
        "3.9 GiB/s",
        "400 MiB/s",
        "pool_bytes = \"256 MiB\"",
    ] {
        assert!(page.contains(words), "no {words:?} in\n{page}");
    }
    let marked: Vec<&str> = page.lines().filter(|line| line.contains("flattens")).collect();
    assert!(marked.len() == 1 && marked[0].contains("256 MiB"), "{page}");
    assert!(!page.contains("larger pools"));
}

#[test]
fn advise_tells_of_a_gain_beyond_the_pools_that_it_compares() {
    let space = profiled(3, |_, _, profile| (0..1000).for_each(|_| profile.pieces.note(MIB, Duration::ZERO)));
    let page = space.mainstay(&["advise"]).out;
    assert!(
        page.contains("pool_bytes = \"512 MiB\"") && page.contains("larger pools would gain up to 1.9 GiB"),
        "{page}"
    );
}

/// Two ranks of a node copy 2.5 MiB; nine tenths of it hide the writes.
#[test]
fn advise_tells_of_pools_as_small_as_what_is_saved() {
    let space = profiled(3, |_, _, profile| {
        profile.pieces = Default::default();
        profile.pieces.note(5 * MIB / 4, Duration::ZERO);
    });
    let page = space.mainstay(&["advise"]).out;
    assert!(page.contains("pool_bytes = \"4 MiB\"") && !page.contains("larger pools"), "{page}");
}

/// The advice listed six pools with the same time for each.
#[test]
fn advise_tells_that_ranks_were_waited_for() {
    let space = profiled(3, |_, phases, _| {
        (phases.communication_ns, phases.buffer_wait_ns, phases.copy_ns) = (255 * MS, 0, MS);
        phases.durable_ns = 265 * MS;
    });
    let page = space.mainstay(&["advise"]).out;
    assert!(page.contains("262 ms, 255 ms of it for other ranks") && !page.contains("flattens"), "{page}");
}

#[test]
fn without_a_checkpoint_through_a_pool_advise_says_so() {
    let refused = |space: Space, words: &[&str]| space.mainstay(&["advise"]).refused(1, words);
    refused(profiled(0, |_, _, _| {}), &["revision 3 keeps no profile", "save one with this version"]);
    refused(profiled(3, |_, _, p| p.stage = 1), &["revision 3 was saved with the stage direct", "stage = \"pool\""]);
    refused(profiled(3, |_, _, profile| profile.pool_bytes = 0), &["revision 3 was copied straight to memory"]);
    refused(profiled(3, |rank, p, _| p.durable_ns *= u64::from(rank != 1)), &["has no time when it was durable"]);
    refused(Space::with(2, 0), &["there is no complete revision"]);
}
