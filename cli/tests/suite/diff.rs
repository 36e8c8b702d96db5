//! `diff`: the items that differ between two revisions, and by how much.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::{
    bytes::Layout,
    support::{CELLS, RANKS, Space, field},
};
use mainstay_engine::{
    Region, Session,
    space::format::{ElementType, PlaceInWhole},
};
use serde_json::Value;
use std::{fs::File, os::unix::fs::FileExt};

const BLOCKS: u64 = (8 * CELLS as u64).div_ceil(4096);

fn items(document: &Value, name: &str) -> Vec<Value> {
    let all = document["items"].as_array().unwrap().iter();
    all.filter(|item| item["item"] == name).cloned().collect()
}

fn protect<T>(session: &mut Session, name: &str, memory: &mut [T], element: ElementType) {
    let shape = [size_of_val(memory) as u64 / element.size()];
    // SAFETY: the memory outlives the session. Only the session uses it meanwhile.
    session.protect(unsafe { Region::array(name, memory.as_mut_ptr().cast(), element, &shape) }.unwrap()).unwrap();
}

/// Blocks of an item that never changes.
const WIDE_BLOCKS: usize = 300;

/// A space with revisions 1, 2 and 3. In revision 2, two cells of rank 1 differ from 1, a number has changed, and one
/// is gone. Revision 3 is the same as 2.
fn space() -> Space {
    let space = Space::new(5);
    space.run(|rank, session, state| {
        state.copy_from_slice(&field(rank, 1));
        let (mut step, mut mask, mut gone) = (vec![1_i32], vec![0_u8; 10_000], vec![0.5_f32; 3]);
        protect(session, "step", &mut step, ElementType::I32);
        protect(session, "mask", &mut mask, ElementType::Bool);
        protect(session, "gone", &mut gone, ElementType::F32);
        let mut wide = vec![5_u8; WIDE_BLOCKS * 4096];
        protect(session, "wide", &mut wide, ElementType::U8);
        session.begin(30_000).unwrap();
        session.write("log", 3, &[7; 5000]).unwrap();
        session.checkpoint().unwrap();
        step[0] = -4;
        session.unprotect("gone").unwrap();
        if rank == 1 {
            state[513] += 2.5;
            state[20_007] = f64::NAN;
            mask[9_999] = 1;
        }
        for _ in 0..2 {
            session.begin(30_000).unwrap();
            session.write("log", 3, &[7; 9000]).unwrap();
            session.checkpoint().unwrap();
        }
        session.unprotect_all().unwrap();
        // The memory lives until here.
        drop((step, mask, gone, wide));
    });
    space
}

fn diff(space: &Space, more: &[&str], from: &str, to: &str) -> crate::support::Ran {
    let path = space.path();
    let ran =
        std::process::Command::new(crate::support::MAINSTAY).arg("diff").arg(path).args([from, to]).args(more).output();
    crate::support::Ran::of(ran.unwrap())
}

#[test]
fn what_differs_is_told_by_item_and_shard() {
    let space = space();
    let ran = diff(&space, &["--json"], "1", "2");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let document = ran.json();
    assert_eq!(
        (&document["same"], &document["first"]["revision"], &document["second"]["revision"]),
        (&false.into(), &1.into(), &2.into())
    );
    let fields = items(&document, "field");
    assert_eq!(fields.len(), RANKS);
    for (rank, item) in fields.iter().enumerate() {
        assert_eq!((&item["shard"], &item["blocks"]), (&rank.into(), &BLOCKS.into()));
        let state = if rank == 1 { "changed" } else { "same" };
        assert_eq!(item["state"], state, "{item}");
    }
    let changed = &fields[1];
    assert_eq!(
        (&changed["blocks_changed"], &changed["elements_changed"], &changed["not_finite"]),
        (&2.into(), &2.into(), &1.into())
    );
    assert_eq!((changed["largest_difference"].as_f64(), &changed["largest_at"]), (Some(2.5), &vec![0, 513].into()));
    let step = &items(&document, "step")[2];
    assert_eq!((&step["state"], step["largest_difference"].as_f64()), (&"changed".into(), Some(5.0)));
    let mask = &items(&document, "mask")[1];
    assert_eq!(
        (&mask["blocks_changed"], &mask["elements_changed"], &mask["largest_difference"]),
        (&1.into(), &1.into(), &Value::Null)
    );
    let gone = &items(&document, "gone")[0];
    assert_eq!((&gone["state"], &gone["second"]), (&"only_in_first".into(), &Value::Null));
    // 5003 bytes became 9003: of the three blocks, the second was filled and the third is new.
    let log = &items(&document, "log")[0];
    assert_eq!(
        (&log["state"], &log["blocks"], &log["blocks_changed"], &log["elements_changed"]),
        (&"reshaped".into(), &3.into(), &2.into(), &0.into()),
        "{log}"
    );
    let back = diff(&space, &["--json"], "2", "1").json();
    assert_eq!(items(&back, "gone")[0]["state"], "only_in_second");

    let page = diff(&space, &[], "1", "2").out;
    for words in [
        "revision 1 (lineage 1) beside revision 2",
        "1 of 3",
        "3 of 3",
        "2.5 at 0, 513 of shard 1; 1 infinite or NaN",
        "only in the first",
        "1 item is the same",
    ] {
        assert!(page.contains(words), "no {words:?} in\n{page}");
    }
    let page = diff(&space, &["--shards"], "1", "2").out;
    let line = page.lines().find(|line| line.contains("field")).unwrap();
    assert!(
        line.contains("2 of 79") && line.contains("2.5 at 0, 513;") && page.contains("7 items of shards are the same"),
        "{page}"
    );
    let same = diff(&space, &[], "2", "3");
    assert_eq!((same.code, same.out.lines().last()), (0, Some("5 items are the same")), "{same:?}");
    diff(&space, &[], "2", "9").refused(1, &["there is no revision 9", "there are: 3, 2, 1"]);
}

/// Blocks with equal hashes are not read: a byte that has changed on the disk in such a block goes unseen. If the
/// hashes differ, the change is found.
#[test]
fn only_what_differs_is_read() {
    let space = space();
    let document = space.mainstay(&["show", "--json", "--revision", "2"]).json();
    let portion = document["layouts"][0]["portions"][1]["at"].as_u64().unwrap();
    let extent_of = |name: &str| {
        let mut items = document["revision"]["shard_list"][1]["items"].as_array().unwrap().iter();
        let item = items.find(|item| item["name"] == name).unwrap();
        assert_eq!(item["extents"].as_array().unwrap().len(), 1, "{item}");
        portion + item["extents"][0]["at"].as_u64().unwrap()
    };
    let file = File::options().read(true).write(true).open(space.layout()).unwrap();
    let flip = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    };
    flip(extent_of("wide") + WIDE_BLOCKS as u64 / 2 * 4096);
    assert_eq!(diff(&space, &[], "1", "2").code, 0);
    let field = extent_of("field");
    flip(field + 4096);
    diff(&space, &[], "1", "2").refused(1, &["shard 1", "block"]);
}

/// Saves a global array of 12 x 4 cells, divided by rows among the ranks, with `more` in one cell.
fn save_rows(space: &Space, rows: [u64; RANKS], more: f64) {
    space.run(|rank, session, _| {
        session.unprotect("field").unwrap();
        let (from, rows) = (rows[..rank].iter().sum::<u64>(), rows[rank]);
        let mut cells: Vec<f64> = (from * 4..(from + rows) * 4).map(|cell| cell as f64).collect();
        if let Some(cell) = 30_u64.checked_sub(from * 4).and_then(|index| cells.get_mut(index as usize)) {
            *cell += more;
        }
        let place = PlaceInWhole { global_shape: vec![12, 4], offset: vec![from, 0] };
        // SAFETY: the cells outlive the session's use of them.
        let region = unsafe { Region::placed("u", cells.as_mut_ptr().cast(), ElementType::F64, &[rows, 4], place) };
        session.protect(region.unwrap()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.unprotect("u").unwrap();
    });
}

#[test]
fn global_arrays_are_compared_whatever_their_boxes() {
    let space = Space::new(5);
    save_rows(&space, [4, 4, 4], 0.0);
    save_rows(&space, [1, 0, 11], 0.25);
    save_rows(&space, [1, 0, 11], 0.25);
    let document = diff(&space, &["--json"], "1", "2").json();
    let all = items(&document, "u");
    let told: Vec<_> =
        all.iter().map(|item| (item["global"].as_bool().unwrap(), item["state"].as_str().unwrap())).collect();
    assert_eq!(told, [(true, "same"), (true, "changed"), (true, "same")], "{all:?}");
    assert_eq!((all[1]["largest_difference"].as_f64(), &all[1]["largest_at"]), (Some(0.25), &vec![7, 2].into()));
    let page = diff(&space, &[], "1", "2").out;
    assert!(page.contains("0.25 at 7, 2 of shard 1"), "{page}");
    // If the boxes are the same, the hashes decide.
    let document = diff(&space, &["--json"], "2", "3").json();
    assert!(document["same"] == true && items(&document, "u").iter().all(|item| item["global"] == false), "{document}");
}

/// The whole command was refused if the second revision lacked a cell. It found nothing if the first revision lacked
/// it.
#[test]
fn cells_that_only_one_revision_has_are_told() {
    let space = Space::new(5);
    save_rows(&space, [4, 4, 4], 0.0);
    save_rows(&space, [2, 6, 1], 0.25);
    save_rows(&space, [2, 0, 0], 0.25);
    let told = |first: &str, second: &str| {
        let document = diff(&space, &["--json"], first, second).json();
        assert_eq!(document["same"], false, "{document}");
        let told = |item: &Value| {
            let number = |of: &str| item[of].as_u64().unwrap();
            let state = item["state"].as_str().unwrap().to_owned();
            (number("shard"), state, number("blocks_changed"), number("elements_changed"))
        };
        items(&document, "u").iter().map(told).collect::<Vec<_>>()
    };
    let line = |shard: u64, state: &str, blocks: u64, elements: u64| (shard, state.to_owned(), blocks, elements);
    // The second revision has no rows from 9 on, and another cell in row 7.
    assert_eq!(told("1", "2"), [line(0, "same", 0, 0), line(1, "changed", 1, 1), line(2, "changed", 1, 0)]);
    let all = [line(0, "same", 0, 0), line(1, "changed", 1, 1), line(2, "same", 0, 0), line(2, "only_in_second", 1, 0)];
    assert_eq!(told("2", "1"), all);
    // The revision has no rows from 2 on.
    assert_eq!(
        told("1", "3"),
        [line(0, "changed", 1, 0), line(1, "only_in_first", 1, 0), line(2, "only_in_first", 1, 0)]
    );
}

/// If the newest revision cannot be read, another revision is the newest. Two equal revisions were reported as the
/// same, without a warning.
#[test]
fn what_may_have_been_newer_than_the_newest_is_told() {
    let space = Space::with(3, 5);
    let mut layout = Layout::read(&space.layout());
    layout.flip(layout.manifest_range(2, 5).start + 40);
    layout.write();
    let told = diff(&space, &[], "4", "newest");
    assert!(told.code == 0 && told.out.contains("revision 4") && told.err.contains("revision 5"), "{told:?}");
    assert!(space.mainstay(&["hold"]).err.contains("revision 5"));
    // No warning comes if the unreadable revision was not asked for.
    assert_eq!(diff(&space, &[], "3", "4").err, "");
}
