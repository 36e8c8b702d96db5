//! Warns at the end of a session that saved less than the program may expect.

use super::{
    due::{Due, Tally},
    state::SessionState,
};
use crate::{config::Config, remark::remark};
use std::time::Duration;

impl SessionState {
    /// Prints the warning on rank 0. Local.
    pub(super) fn remark_unsaved_end(&self) {
        if let Some(text) = unsaved_end(&self.program.due, &self.program.config) {
            remark(self.epoch.group.rank(), &text);
        }
    }
}

fn unsaved_end(due: &Due, config: &Config) -> Option<String> {
    let (Tally { asked, found, begun }, step) = (due.tally, due.step);
    if due.put_off_at == Some(0) && step == 0 {
        return Some(
            "the checkpoint that was due last was not taken, as the one before was not durable yet; save before the end to \
             keep the last state, or set when_busy = \"now\" to have none put off"
                .to_owned(),
        );
    }
    if let Some(put_off_at) = due.put_off_at {
        let newest = match due.last_saved_at {
            0 => "no checkpoint was saved".to_owned(),
            saved_at => format!("the newest that is saved is step {saved_at}"),
        };
        return Some(format!(
            "the checkpoint that was due at step {put_off_at} was not taken: up to the last step, {step}, the one before \
             was not durable yet. So {newest}; save before the end to keep the last step, or set when_busy = \"now\" to have \
             none put off"
        ));
    }
    // Without a rule, the first call has warned already.
    if asked == 0 || begun > 0 || !due.has_rule() {
        return None;
    }
    let why = match found {
        0 => format!("none became due ({}); set a shorter interval, or save at the end", rules(config)),
        _ => format!("one was due {found} times; save each time"),
    };
    Some(format!(
        "no checkpoint was saved: the program asked {asked} times if one is due, up to step {step}, and {why}"
    ))
}

/// The settings that make a checkpoint due.
fn rules(config: &Config) -> String {
    let Config { every_steps, every, mtbf, checkpoint_signal, .. } = config;
    let seconds = |key: &str, time: &Duration| (!time.is_zero()).then(|| format!("{key} = {}", time.as_secs_f64()));
    let rules = [
        (*every_steps > 0).then(|| format!("every_steps = {every_steps}")),
        seconds("every_seconds", every),
        seconds("mtbf_seconds", mtbf),
        checkpoint_signal.map(|signal| format!("checkpoint_signal = {}", signal.name())),
    ];
    rules.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
