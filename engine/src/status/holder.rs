//! Who has a space open, as its journal tells it.

use super::{Event, Journal};
use crate::error::Error;
use std::{
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

/// `error`; where that says that a space is in use, with who opened it last and has not closed it. Nothing is added where the
/// journal does not tell: a job writes it a little after it has opened the space.
pub(crate) fn with_holder(error: Error) -> Error {
    match error {
        Error::InUse { path, holder } if holder.is_empty() => {
            let journal = Journal::read(Path::new(&path)).ok().flatten();
            let holder = journal.and_then(|journal| holder_by(&journal)).unwrap_or_default();
            Error::InUse { path, holder }
        }
        other => other,
    }
}

fn holder_by(journal: &Journal) -> Option<String> {
    let last = journal.entries.iter().rev().find(|entry| matches!(entry.event, Event::Opened(_) | Event::Closed))?;
    let Event::Opened(opening) = &last.event else { return None };
    let since = UNIX_EPOCH.checked_add(Duration::from_nanos(last.unix_ns))?;
    let since = humantime::format_rfc3339_seconds(since);
    Some(format!(": its rank 0 is process {} on {}, which has had it open since {since}", opening.pid, opening.host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Entry, Opening};

    fn journal(events: Vec<Event>) -> Journal {
        let entry = |(at, event)| Entry { unix_ns: 1_000_000_000 * (at as u64 + 1), event };
        Journal { entries: events.into_iter().enumerate().map(entry).collect(), passed_over: 0 }
    }

    fn opened(pid: u32) -> Event {
        Event::Opened(Opening { pid, host: "n1".to_owned(), ranks: 1, ..Opening::default() })
    }

    #[test]
    fn the_last_that_opened_and_did_not_close_is_named() {
        let told = holder_by(&journal(vec![opened(7), Event::Closed, opened(8)])).unwrap();
        assert_eq!(told, ": its rank 0 is process 8 on n1, which has had it open since 1970-01-01T00:00:03Z");
        assert_eq!(holder_by(&journal(vec![opened(7), Event::Closed])), None);
        assert_eq!(holder_by(&journal(Vec::new())), None);
    }
}
