//! The rows of the project's fault table, `tests/faults.toml`, that concern objects: a scenario for each.

use crate::{dying, job};
use mainstay_engine::{Error, Result, Session};
use mainstay_objects::{Key, Object, Objects, Post};
use serde::Deserialize;
use std::collections::BTreeMap;
use tempfile::TempDir;

#[derive(Deserialize)]
struct Row {
    name: String,
    call: String,
    status: String,
    says: Vec<String>,
    objects: Option<usize>,
}

#[derive(Deserialize)]
struct Table {
    row: Vec<Row>,
}

/// The fault of object number 4 in each scenario, and whether there are objects from before.
const SCENARIOS: [(&str, &str, bool); 11] = [
    ("object_packs_more", "packs", false),
    ("object_grows", "grows", false),
    ("object_unpacks_less", "unpacks", false),
    ("object_of_unknown_kind", "unknown", true),
    ("object_sends_nowhere", "nowhere", true),
    ("object_handler_fails", "fails", true),
    ("object_handler_reenters", "reenters", true),
    ("object_made_twice", "twice", false),
    ("objects_leave_all_ranks", "leaves_all", true),
    ("objects_strategy_unknown", "strategy", true),
    ("objects_left_out", "left_out", true),
];

struct Thing {
    id: u64,
    sum: u64,
    fault: &'static str,
    sized: std::cell::Cell<usize>,
}

impl Thing {
    fn is_wrong(&self, fault: &str) -> bool {
        self.id == 4 && self.fault == fault
    }
}

impl Object for Thing {
    fn bytes(&self) -> Result<usize> {
        self.sized.set(self.sized.get() + 1);
        Ok(8 + if self.is_wrong("grows") { self.sized.get() } else { 0 })
    }

    fn pack(&self, into: &mut [u8]) -> Result<usize> {
        into[..8].copy_from_slice(&self.sum.to_le_bytes());
        Ok(into.len() + usize::from(self.is_wrong("packs")))
    }

    fn unpack(&mut self, from: &[u8]) -> Result<usize> {
        self.sum = u64::from_le_bytes(from[..8].try_into().unwrap());
        Ok(from.len() - usize::from(self.is_wrong("unpacks")))
    }

    fn receive(&mut self, _: u32, _: &[u8], post: &Post) -> Result<()> {
        self.sum += 1;
        match self.fault {
            _ if self.id != 4 => {}
            "fails" => return Err(Error::argument("thing", "no such luck")),
            "nowhere" => post.send(Key { kind: 0, id: 77 }, 1, &[]),
            _ => {}
        }
        Ok(())
    }
}

/// The first call that is refused.
fn act(
    objects: &mut Objects,
    session: &mut Session,
    fault: &'static str,
) -> std::result::Result<(), (&'static str, Error)> {
    let name = if fault == "unknown" { "another" } else { "thing" };
    let make = move |id| Ok(Box::new(Thing { id, sum: 0, fault, sized: Default::default() }) as Box<dyn Object>);
    objects.register(name, 1, Box::new(make)).unwrap();
    let key = |id| Key { kind: 0, id };
    let at = |call: &'static str| move |error| (call, error);
    if objects.restore(session).map_err(at("restore"))?.is_none() {
        for id in (objects.rank() as u64..9).step_by(objects.ranks()) {
            objects.create(key(id)).map_err(at("create")).map(drop)?;
        }
    }
    if fault == "twice" && objects.rank() == 2 {
        objects.create(key(4)).map_err(at("create")).map(drop)?;
    }
    objects.post().broadcast(0, 1, &[]);
    objects.step().map_err(at("step"))?;
    match fault {
        "unpacks" => objects.evacuate(&[1, 2]).map_err(at("evacuate")).map(drop)?,
        "leaves_all" => objects.evacuate(&[0, 1, 2]).map_err(at("evacuate")).map(drop)?,
        "strategy" => {
            let best = "best".parse().map_err(at("balance"))?;
            objects.balance(best).map_err(at("balance")).map(drop)?;
        }
        "left_out" => session.put("alone", b"some").map_err(at("put")).map(drop)?,
        _ => {}
    }
    objects.checkpoint(session).map_err(at("checkpoint")).map(drop)
}

fn things(objects: &mut Objects, session: &mut Session, name: &str, fault: &'static str) -> bool {
    let make = move |id| Ok(Box::new(Thing { id, sum: 0, fault, sized: Default::default() }) as Box<dyn Object>);
    objects.register(name, 1, Box::new(make)).unwrap();
    objects.restore(session).unwrap().is_some()
}

fn key(id: u64) -> Key {
    Key { kind: 0, id }
}

fn create(objects: &mut Objects, ids: impl Iterator<Item = u64>) {
    ids.for_each(|id| _ = objects.create(key(id)).unwrap());
}

/// Objects that moved to a rank that could not unpack them were gone, and the next checkpoint succeeded.
#[test]
fn what_cannot_be_unpacked_elsewhere_stays_where_it_is() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let told = job(folder.path(), 3, |objects, session| {
        assert!(!things(objects, session, "thing", "unpacks"));
        create(objects, (objects.rank() as u64..9).step_by(3));
        objects.post().broadcast(0, 1, &[]);
        objects.step().unwrap();
        let before = objects.here();
        let error = objects.evacuate(&[1, 2]).unwrap_err().to_string();
        assert!(error.contains("thing[4]") && error.contains("unpacking took"), "{error}");
        assert_eq!(objects.here(), before);
        // No rank is given up: all may have objects, and none need to move.
        assert_eq!(objects.balance(mainstay_objects::Strategy::None).unwrap().moved, 0);
        objects.post().send(key(4), 1, &[]);
        objects.step().unwrap();
        objects.checkpoint(session).unwrap();
        before
    });
    assert_eq!(told.concat().len(), 9);
    let told = job(folder.path(), 3, |objects, session| {
        assert!(things(objects, session, "thing", "nothing"));
        let mut sum =
            |key| objects.get(key).map(|thing| (thing as &dyn std::any::Any).downcast_ref::<Thing>().unwrap().sum);
        (0..9).filter_map(|id| sum(key(id)).map(|sum| (id, sum))).collect::<Vec<_>>()
    });
    let mut all = told.concat();
    all.sort_unstable();
    assert_eq!(all, (0..9).map(|id| (id, if id == 4 { 6 } else { 3 })).collect::<Vec<_>>());
}

/// A checkpoint after the failure of an object saved the rest, without the undelivered messages.
#[test]
fn after_an_error_in_a_step_nothing_goes_on_or_is_saved_but_a_restore() {
    for fault in ["fails", "nowhere", "twice"] {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let make_all = |objects: &mut Objects| create(objects, (objects.rank() as u64..9).step_by(3));
        job(folder.path(), 3, |objects, session| {
            things(objects, session, "thing", "nothing");
            make_all(objects);
            objects.checkpoint(session).unwrap();
        });
        job(folder.path(), 3, |objects, session| {
            things(objects, session, "thing", fault);
            if fault == "twice" {
                create(objects, [77].into_iter());
            }
            objects.post().broadcast(0, 1, &[]);
            objects.step().unwrap_err();
            let told = [
                objects.checkpoint(session).map(drop),
                objects.step(),
                objects.balance(Default::default()).map(drop),
                objects.evacuate(&[1]).map(drop),
            ];
            for told in told {
                let told = told.unwrap_err().to_string();
                assert!(told.contains("go back to a checkpoint"), "{fault}: {told}");
            }
            assert!(objects.restore(session).unwrap().is_some());
            objects.step().unwrap();
            objects.checkpoint(session).unwrap();
        });
    }
}

/// The number of a kind had another meaning on another rank.
#[test]
fn ranks_that_registered_kinds_in_another_order_are_told_by_the_restore() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let name = |objects: &Objects, at: usize| ["thing", "other"][(objects.rank() + at) % 2];
    let register = |objects: &mut Objects, name: &str| {
        let make = |id| Ok(Box::new(Thing { id, sum: 0, fault: "", sized: Default::default() }) as Box<dyn Object>);
        objects.register(name, 1, Box::new(make)).unwrap();
    };
    job(folder.path(), 2, |objects, session| {
        register(objects, "thing");
        register(objects, "other");
        create(objects, [objects.rank() as u64].into_iter());
        objects.checkpoint(session).unwrap();
    });
    for told in job(folder.path(), 2, |objects, session| {
        register(objects, name(objects, 0));
        register(objects, name(objects, 1));
        objects.restore(session).unwrap_err().to_string()
    }) {
        assert!(told.contains("in the same order on all ranks"), "{told}");
    }
}

#[test]
fn every_rank_is_told_what_an_object_does_wrong_as_the_fault_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/faults.toml");
    let table: Table = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut rows: BTreeMap<String, Row> =
        table.row.into_iter().filter(|row| row.objects.is_some()).map(|row| (row.name.clone(), row)).collect();
    for (name, fault, comes_back) in SCENARIOS {
        let row = rows.remove(name).unwrap_or_else(|| panic!("{name} has no row"));
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let run = |fault: &'static str| {
            job(folder.path(), row.objects.unwrap(), |objects, session| act(objects, session, fault))
        };
        if fault == "reenters" {
            // A handler in Rust can only call its post.
            continue;
        }
        if comes_back {
            assert!(run("nothing").iter().all(std::result::Result::is_ok), "{name}");
        }
        for told in run(fault) {
            let (call, error) = told.unwrap_err();
            assert_eq!(call, row.call, "{name}: {error}");
            assert!(row.says.iter().all(|says| error.to_string().contains(says)), "{name}: {error}");
        }
        assert!(run("nothing").iter().all(std::result::Result::is_ok), "{name}");
    }
    for (name, dies) in dying::SCENARIOS {
        let row = rows.remove(name).unwrap_or_else(|| panic!("{name} has no row"));
        assert_eq!(row.status, "GROUP_FAILED");
        for (call, error) in dying::told(row.objects.unwrap(), dies) {
            assert_eq!(call, row.call, "{name}: {error}");
            assert!(row.says.iter().all(|says| error.contains(says)), "{name}: {error}");
        }
    }
    assert!(rows.is_empty(), "{:?} have no scenario", rows.keys());
}
