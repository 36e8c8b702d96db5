//! The content of a space and the names of its files reach a terminal only as visible characters.

use crate::support::{MAINSTAY, Ran, Space, mainstay};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::FileExt,
    },
    process::Command,
};

/// Terminal commands, a forged line, text from right to left, and invisible characters.
const ODD: &str = "\x1b[31m\x07\n1 pool removed\u{202e}\u{200b}\u{9b}x";
const SEEN: &str = "\\u{1b}[31m\\u{7}\\n1 pool removed\\u{202e}\\u{200b}\\u{9b}x";

/// The text has no character that a terminal obeys or hides.
#[track_caller]
fn is_seen(text: &str) {
    let hidden = text.chars().find(|c| *c != '\n' && (c.is_control() || "\u{202e}\u{200b}".contains(*c)));
    assert_eq!(hidden, None, "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("1 pool")), "{text:?}");
}

/// A space with such names for its folder and its file.
fn odd_space() -> Space {
    let mut space = Space::new(2);
    space.name = format!("space-{ODD}").into();
    space.run(|_, session, _| {
        session.note("by", ODD).unwrap();
        session.checkpoint().unwrap();
    });
    fs::rename(space.layout(), space.path().join(format!("layout-000001-000000-{ODD}.mainstay"))).unwrap();
    space
}

#[test]
fn names_are_escaped_in_text_and_exact_in_documents() {
    let space = odd_space();
    let out = space.directory.path().join(format!("out-{ODD}"));
    let (target, file) = (out.to_str().unwrap().to_owned(), out.join("view.h5").to_str().unwrap().to_owned());
    let cases: &[(&[&str], bool)] = &[
        (&["ls"], false),
        (&["show"], true),
        (&["show", "--table"], true),
        (&["show", "--phases"], true),
        (&["verify"], false),
        (&["advise"], false),
        (&["hold", "--note", "kept"], false),
        (&["prune", "--keep-last", "1", "--dry-run"], false),
        (&["release", "--all"], false),
        (&["grow", "--ranks", "3", "--dry-run"], true),
        (&["show", "--revision", "77"], true),
        // Wrong usage: the number is missing. This message leaves terminal commands out.
        (&["release"], false),
        (&["release", "--revision", "77"], true),
    ];
    for (words, names) in cases {
        let ran = space.mainstay(words);
        is_seen(&ran.out);
        is_seen(&ran.err);
        assert_eq!((ran.out.clone() + &ran.err).contains(SEEN), *names, "{words:?}: {ran:?}");
        let ran = space.mainstay(&[words, &["--json"][..]].concat());
        if ran.code == 0 && !ran.out.is_empty() {
            is_seen(&ran.out);
            assert_eq!(ran.json()["space"], space.path().to_str().unwrap(), "{words:?}");
        }
    }
    let document = space.mainstay(&["show", "--json"]).json();
    let layout = space.layout();
    assert_eq!(document["layouts"][0]["file"], layout.file_name().unwrap().to_str().unwrap());
    assert_eq!(document["revision"]["shard_list"][0]["notes"]["by"], ODD);

    for (first, more) in [("export", vec![target.as_str()]), ("view", vec!["--hdf5", &file])] {
        let run = |json: bool| {
            let json = json.then_some("--json");
            let ran =
                Command::new(MAINSTAY).arg(first).arg(space.path()).args(&more).arg("--force").args(json).output();
            ran.map(Ran::of).unwrap()
        };
        let (text, json) = (run(false), run(true));
        is_seen(&text.out);
        is_seen(&text.err);
        assert!(text.code == 0 && text.out.contains(SEEN), "{text:?}");
        assert_eq!((json.code, &json.json()["space"]), (0, &space.path().to_str().unwrap().into()), "{json:?}");
    }
}

#[test]
fn what_is_said_of_damage_and_of_what_is_no_space_is_escaped() {
    let space = odd_space();
    File::options().write(true).open(space.layout()).unwrap().write_all_at(b"TARBALL!", 0).unwrap();
    for words in [&["ls"][..], &["verify"], &["prune", "--keep-last", "1"]] {
        let ran = space.mainstay(words);
        assert!(ran.code == 3 && ran.err.contains(SEEN) && ran.err.lines().count() == 1, "{ran:?}");
        is_seen(&ran.err);
    }
    let nothing = mainstay(&["ls"], &space.directory.path().join(ODD));
    assert!(nothing.code == 3 && nothing.err.contains(SEEN) && nothing.err.lines().count() == 1, "{nothing:?}");
    is_seen(&nothing.err);
}

/// The output shows the bytes of a name that is no text.
#[test]
fn bytes_that_are_no_utf_8_are_told_and_leave_documents_whole() {
    let mut space = Space::new(1);
    space.name = OsString::from_vec(b"space-\xff\x1b".to_vec());
    space.run(|_, session, _| assert_eq!(session.checkpoint().unwrap(), 1));
    let show = space.mainstay(&["show"]);
    assert!(show.code == 0 && show.out.contains("state   closed"), "{show:?}");
    is_seen(&show.out);
    assert_eq!(space.mainstay(&["ls", "--json"]).json()["revisions"][0]["revision"], 1);
    let nowhere = space.path().join(OsStr::from_bytes(b"\xfe"));
    let ran = mainstay(&["ls"], &nowhere);
    assert!(ran.code == 3 && ran.err.contains("space-\\xff\\u{1b}/\\xfe is not a Mainstay space"), "{ran:?}");
}
