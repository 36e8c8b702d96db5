//! Restores, checkpoints, and their notes and records.

use super::Session;
use crate::{
    error::{caused, of_all, raise},
    notes,
    number::whole,
    open::or_refuse,
    record::Record,
    restored::{ListedRevision, Restored},
    speculation::Speculation,
};
use mainstay_engine::{Error, LevelKind, Restored as EngineRestored, Session as Engine};
use pyo3::prelude::*;

#[pymethods]
impl Session {
    /// Fills the protected buffers with the newest complete revision that can be read whole, the same on all ranks;
    /// `None` if there is none. Collective. Every block is verified. Boxes of global arrays are filled whatever the
    /// number of ranks. Other buffers come back on another number of ranks if all ranks had saved the same bytes, or
    /// if only rank 0 had them. After RegionChanged, RegionMissing, RankCount, OutOfSight, LineageConflict and
    /// OutputShort the buffers are unchanged. After any other error they are undefined.
    ///
    /// With `revision`, the same on all ranks, it restores the revision of that number. RevisionMissing: it is
    /// missing or incomplete. The program goes on from there: the next checkpoint stops keeping the newer revisions,
    /// except those under a hold.
    #[pyo3(signature = (*, revision=None))]
    fn restore(&self, py: Python<'_>, revision: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Restored>> {
        self.go_back(py, revision, Engine::restore, Engine::restore_revision)
    }

    /// Goes back like restore(), but fills nothing: read the items by read_shard(), some of them, or into buffers of
    /// another size. The ranks verify every shard. Protected buffers stay as they are, and the number of ranks may
    /// differ from that of the revision. The program may checkpoint next. Collective.
    #[pyo3(signature = (*, revision=None))]
    fn choose(&self, py: Python<'_>, revision: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Restored>> {
        self.go_back(py, revision, Engine::choose, Engine::choose_revision)
    }

    /// The complete revisions that restore() and choose() can go back to, the newest first, with their notes. The
    /// ranks read only the descriptions of their shards: damaged data shows when a revision is restored. Nothing else
    /// changes. Collective.
    fn revisions(&self, py: Python<'_>) -> PyResult<Vec<ListedRevision>> {
        let mut was_called = false;
        let listed = self.state.call(py, |engine| {
            was_called = true;
            engine.revisions()
        });
        Ok(of_all(py, self.rank(), was_called, listed)?.into_iter().map(ListedRevision::from).collect())
    }

    /// Sets a note: revisions from now on carry `value`, a text or a number, under `name`, until you set it again.
    /// Restored.notes has it as text. Local. Not allowed between begin() and checkpoint().
    fn note(&self, py: Python<'_>, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, value) = notes::note(name, value).map_err(|error| raise(py, &error))?;
        self.state.call(py, |engine| engine.note(&name, &value))
    }

    /// Saves all protected buffers as a new revision and returns its number as soon as their bytes are copied: the
    /// program may go on and change them. Collective: one small all-reduce; the end of a checkpoint of begin() is
    /// local. If the revision before failed and no rank has seen the error, this raises the error and saves nothing:
    /// call it again.
    ///
    /// `notes`, a mapping of names to texts and numbers, are kept as text with this revision and later ones, until
    /// you set a name again. A checkpoint of begin() takes its notes there.
    #[pyo3(signature = (notes=None))]
    fn checkpoint(&self, py: Python<'_>, notes: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        if notes.is_some() && self.state.call(py, Engine::has_begun)? {
            // The begun checkpoint stays as it is.
            let why = "a checkpoint has begun, and has its notes already; give them to begin()";
            return Err(raise(py, &Error::argument("notes", why)));
        }
        let notes = notes::notes(notes);
        let (flushed, raised) = self.state.flush(py);
        self.state.turn(py)?;
        let mut of_ranks = false;
        let saved = self.state.call_held(py, |engine| {
            // Each rank ends a begun checkpoint by itself.
            of_ranks = !engine.has_begun()?;
            let noted = flushed.and_then(|()| notes::set(engine, &notes?));
            or_refuse(engine, noted);
            engine.checkpoint()
        });
        of_all(py, self.rank(), of_ranks, saved.map_err(|error| caused(py, error, raised)))
    }

    /// Whether the program should checkpoint now, after `step` steps; the same on all ranks. Every rank calls it at
    /// the same steps, with the same number. A checkpoint is due by the settings every_steps, every_seconds and
    /// mtbf_seconds, by the signal of checkpoint_signal on any rank, and by a request from outside: `mainstay
    /// checkpoint`, and `mainstay run` before the job's end. While the last revision is not durable on the nearest
    /// level of any rank, no checkpoint is due by steps or time. It is due at the first step after that, unless the
    /// setting when_busy is "now". Most calls cost one increment. About every agree_seconds, and at steps that make a
    /// checkpoint due, the call is collective, with one small all-reduce.
    fn due(&self, py: Python<'_>, step: &Bound<'_, PyAny>) -> PyResult<bool> {
        let step = whole("step", step);
        self.state.call(py, |engine| {
            let refused = step.as_ref().err().cloned();
            let step = or_refuse(engine, step);
            let due = engine.due(step)?;
            // If the ranks did not meet now, the next call reports it to the others.
            refused.map_or(Ok(due), Err)
        })
    }

    /// Waits until the last revision is complete: durable on all ranks. Collective. If it failed, all ranks raise the
    /// error once, here or in checkpoint(). Then nothing is in progress, and this returns at once until the next
    /// checkpoint.
    ///
    /// `level` is "memory" or "disk" of the nodes, or "space", the space that you opened. It then waits until the
    /// last revision that went to that level is complete there. It does not wait for the levels behind it.
    #[pyo3(signature = (level=None))]
    fn wait(&self, py: Python<'_>, level: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let mut was_called = false;
        let Some(level) = level else {
            let waited = self.state.call(py, |engine| {
                was_called = true;
                engine.wait()
            });
            return of_all(py, self.rank(), was_called, waited);
        };
        // An argument that is not text names no level.
        let level = level.str().map(|level| level.to_string_lossy().into_owned());
        let level = LevelKind::named(level.as_deref().unwrap_or_default());
        let waited = self.state.call(py, |engine| {
            was_called = true;
            let level = or_refuse(engine, level);
            engine.wait_for(level)
        });
        of_all(py, self.rank(), was_called, waited)
    }

    /// Advances the transfers between this rank and others, such as copies to other nodes: for programs that compute
    /// for long between two calls. Local, never waits. wait(), close() or the next checkpoint() raise the errors of
    /// transfers.
    fn progress(&self, py: Python<'_>) -> PyResult<()> {
        self.state.call(py, Engine::progress)
    }

    /// Marks a moment inside a step, where one phase ends and the next begins. With the settings trace or predictor
    /// Mainstay then looks for the pages that the program has written since the last such moment. Otherwise the call
    /// does nothing. Local, never waits for a write.
    fn tick(&self, py: Python<'_>) -> PyResult<()> {
        self.state.call(py, Engine::tick)
    }

    /// Whether this rank's part of the last revision is durable. Local, never waits. True also if nothing is under
    /// way: nothing was saved yet, or all ranks were told that the last revision failed.
    fn poll(&self, py: Python<'_>) -> PyResult<bool> {
        self.state.local(py, |open| open.engine()?.poll())
    }

    /// The cost of the newest checkpoint that is durable on this rank. Local, never waits.
    fn last_record(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.state.local(py, |open| Ok(open.engine()?.last_record()?.map(Record::from)))
    }

    /// Results of saving early on this rank, in blocks of 4 KiB. Local, never waits.
    fn speculation(&self, py: Python<'_>) -> PyResult<Speculation> {
        self.state.local(py, |open| open.engine()?.speculation().map(Speculation::from))
    }
}

impl Session {
    /// Goes back to the newest revision, or to that of a number.
    fn go_back(
        &self,
        py: Python<'_>,
        revision: Option<&Bound<'_, PyAny>>,
        newest: fn(&mut Engine) -> Result<Option<EngineRestored>, Error>,
        numbered: fn(&mut Engine, u64) -> Result<Option<EngineRestored>, Error>,
    ) -> PyResult<Option<Restored>> {
        let asked = number(revision);
        self.state.turn(py)?;
        let mut was_called = false;
        let restored = self.state.call_held(py, |engine| {
            was_called = true;
            match or_refuse(engine, asked) {
                None => newest(engine),
                Some(revision) => numbered(engine, revision),
            }
        });
        Ok(of_all(py, self.rank(), was_called, restored)?.map(Restored::from))
    }
}

/// The number of a revision. A number that no revision can have means none of them.
pub(super) fn number(revision: Option<&Bound<'_, PyAny>>) -> Result<Option<u64>, Error> {
    let Some(given) = revision else { return Ok(None) };
    let told = || Error::argument("revision", format!("{given} is none, it takes a number from 1 on"));
    given.extract().map(Some).map_err(|_| told())
}
