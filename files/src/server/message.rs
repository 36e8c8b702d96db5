//! Messages between programs and the helper, as `files/preload/protocol.h` defines them.

use crate::{
    file::Named,
    helper::{Answer, End, How, Verb},
    options::Options,
    stage::Id,
};
use std::os::unix::ffi::OsStrExt;

pub const MESSAGE_MAX: usize = 16 << 10;

/// The fields of a message, each ended by a NUL byte. `None`: it is cut off.
pub fn fields(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let bytes = bytes.strip_suffix(&[0])?;
    Some(bytes.split(|byte| *byte == 0).collect())
}

/// `None`: the message does not belong to the protocol.
pub fn parse(bytes: &[u8]) -> Option<Verb> {
    let fields = fields(bytes)?;
    let (verb, rest) = fields.split_first()?;
    let named = |at: usize| Named::from_fields(rest.get(at..at + 4)?.try_into().ok()?);
    let text = |at: usize| std::str::from_utf8(rest.get(at)?).ok();
    let options = |at: usize| text(at).map(Options::from_text);
    let job = || text(0).unwrap_or_default().to_owned();
    let pid = |at: usize| text(at)?.parse().ok().filter(|pid| *pid > 0);
    let ids = || rest.iter().map(|id| Id::from_text(std::str::from_utf8(id).ok()?)).collect::<Option<Vec<Id>>>();
    Some(match *verb {
        b"write" => Verb::Write { named: named(0)?, how: how(text(4)?), options: options(5)? },
        b"change" => Verb::Change { named: named(0)?, options: options(4)?, locks: text(5)? == "lock" },
        b"share" => {
            let how = How { leads: true, writes_at_once: true, ..how(text(4)?) };
            Verb::Write { named: named(0)?, how, options: options(5)? }
        }
        b"shared" => Verb::Shared { id: Id::from_text(text(0)?)?, end: end(text(1)?)? },
        b"read" => Verb::Read { named: named(0)?, options: options(4)? },
        b"look" => Verb::Look { named: named(0)? },
        b"settle" => Verb::Settle { named: named(0)?, appends: rest.get(4) == Some(&&b"a"[..]) },
        b"rename" => Verb::Rename { from: named(0)?, to: named(4)?, flags: text(8)?.parse().ok()? },
        b"rename-folder" => Verb::RenameFolder { from: named(0)?, to: named(4)?, flags: text(8)?.parse().ok()? },
        b"link" => Verb::Link { from: named(0)?, to: named(4)? },
        b"unlink" => Verb::Unlink { named: named(0)? },
        b"list" => Verb::List { beside: named(0)? },
        b"remove-folder" => Verb::RemoveFolder { beside: named(0)? },
        b"hold" => Verb::Hold { ids: ids()? },
        b"holding" => Verb::Holding { ids: ids()? },
        b"closed" => {
            Verb::Closed { id: Id::from_text(text(0)?)?, was_synced: text(1)? == "1", has_mappings: text(2)? == "1" }
        }
        b"mapped" => Verb::Mapped { id: Id::from_text(text(0)?)? },
        b"unmapped" => Verb::Unmapped { id: Id::from_text(text(0)?)? },
        b"given-up" => Verb::GivenUp { id: Id::from_text(text(0)?)? },
        b"uncaught" => Verb::Uncaught { program: rest.first()?.to_vec() },
        b"left" => Verb::Left { status: text(0)?.parse().ok()? },
        b"ends" => Verb::Ends { other: pid(0)? },
        b"given" => Verb::Given { id: Id::from_text(text(0)?)?, holder: pid(1)? },
        b"inherits" => Verb::Inherits { id: Id::from_text(text(0)?)?, holder: pid(1)? },
        b"dropped" => Verb::Dropped { id: Id::from_text(text(0)?)? },
        b"lost" => Verb::Lost { id: Id::from_text(text(0)?)? },
        b"leaves" => Verb::Leaves { holder: pid(0)?, status: text(1)?.parse().ok()? },
        b"member" => Verb::Member { job: job() },
        b"open-of" => Verb::OpenOf { member: text(0)?.to_owned() },
        b"finish" => Verb::Finish { job: job(), has_failed: text(1) == Some("failed") },
        _ => return None,
    })
}

fn how(letters: &str) -> How {
    How {
        is_shared: letters.contains('s'),
        leads: false,
        truncates: letters.contains('t'),
        creates: letters.contains('c'),
        is_exclusive: letters.contains('x'),
        locks: false,
        writes_at_once: letters.contains('n'),
    }
}

fn end(word: &str) -> Option<End> {
    Some(match word {
        "whole" => End::Whole,
        "failed" => End::Failed,
        "unused" => End::Unused,
        _ => return None,
    })
}

pub fn encode(answer: &Answer) -> Vec<u8> {
    let path = |path: &std::path::Path| path.as_os_str().as_bytes().to_vec();
    let word = |word: &str| word.as_bytes().to_vec();
    let fields = match answer {
        Answer::Stage { id, path: at, is_new } => {
            vec![word("stage"), word(&id.to_string()), path(at), word(if *is_new { "new" } else { "joined" })]
        }
        Answer::Base(at, inode) | Answer::At(at, inode) => {
            let verb = if matches!(answer, Answer::Base(..)) { "base" } else { "at" };
            let (device, inode) = inode.unwrap_or_default();
            vec![word(verb), path(at), word(&device.to_string()), word(&inode.to_string())]
        }
        Answer::Instead(at, text) => vec![word("instead"), path(at), word(text)],
        Answer::Published => vec![word("published")],
        Answer::Plain(text) => vec![word("plain"), word(text)],
        Answer::Ok => vec![word("ok")],
        Answer::Finished(failures, remarks) => {
            // Only the first lines fit if there are too many.
            let mut room = MESSAGE_MAX - 64;
            let fit = failures.iter().chain(remarks).take_while(|line| {
                room = room.saturating_sub(line.len() + 1);
                room > 0
            });
            let heads = [word("ok"), word(&failures.len().to_string())];
            heads.into_iter().chain(fit.map(|line| word(line))).collect()
        }
        Answer::Error(number, text) => vec![word("error"), word(&number.to_string()), word(text)],
    };
    fields.into_iter().flat_map(|field| field.into_iter().filter(|byte| *byte != 0).chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_cut_or_strange_is_none() {
        let whole = b"write\0/tmp\x001\x002\0restart\0tc\0keep=3\n\0";
        let Some(Verb::Write { named, how, options }) = parse(whole) else { panic!("it is whole") };
        assert_eq!(
            (named.path().to_str(), how.truncates, how.is_exclusive, options.keep),
            (Some("/tmp/restart"), true, false, 3)
        );
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_none(), "{end}");
        }
        let strange: [&[u8]; 6] = [
            b"",
            b"\0",
            b"write\0tmp\x001\x002\0restart\0tc\0\0",
            b"write\0/tmp\x001\x002\0../x\0tc\0\0",
            b"closed\x00123\x000\x000\0",
            b"remove\0",
        ];
        for bytes in strange {
            assert!(parse(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn an_answer_holds_at_most_a_message() {
        let lines = vec!["x".repeat(1000); 100];
        assert!(encode(&Answer::Finished(lines, Vec::new())).len() <= MESSAGE_MAX);
    }
}
