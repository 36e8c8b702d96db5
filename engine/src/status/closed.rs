//! Whether the last job that had a space open has closed it. Portions record that themselves. If all that a job saved
//! is on nearer levels, the space has no portions, or none of that job. Then its status decides, or its journal, if the
//! job ended before it had written to a portion.

use super::{Status, document::JobProgress, ended::LastOpening};
use crate::survey::SpaceSurvey;
use std::path::Path;

/// The number of the newest lineage of `space`, with the survey `survey`; 0: none.
pub fn last_lineage(space: &Path, survey: &SpaceSurvey) -> u64 {
    progress_since(space, survey).map_or_else(|| lineage_of_portions(survey), |progress| progress.lineage)
}

/// Whether the last job in `space`, with the survey `survey`, has closed it normally, as far as known.
pub fn was_closed(space: &Path, survey: &SpaceSurvey) -> bool {
    let is_in_order = |last: LastOpening| last.is_closed || last.lineage <= lineage_of_portions(survey);
    survey.clean
        && progress_since(space, survey).is_none_or(|progress| progress.ended)
        && LastOpening::read(space).is_none_or(is_in_order)
}

/// The state in a job's status that is as new as all portions.
fn progress_since(space: &Path, survey: &SpaceSurvey) -> Option<JobProgress> {
    let progress = Status::read(space).ok().flatten()?.progress;
    (progress.lineage >= lineage_of_portions(survey)).then_some(progress)
}

fn lineage_of_portions(survey: &SpaceSurvey) -> u64 {
    survey.portions.iter().map(|portion| portion.lineage.number).max().unwrap_or(0)
}
