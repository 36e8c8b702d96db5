//! `mainstay config`: the settings in force, with their origin.

use super::flags;
use crate::{
    arguments,
    exit::{Exit, Failure, say},
    output,
    text::{self, Align},
};
use mainstay_engine::{
    Choice, Config, Resolved, Setting, Shown, Source, Stage, Surroundings, UnknownVariable, pool_limit, printable_path,
};
use serde::Serialize;
use serde_json::Value;

pub fn config(wanted: &arguments::Config) -> Result<Exit, Failure> {
    if wanted.cflags || wanted.libs || wanted.prefix {
        return flags::flags(wanted);
    }
    let surroundings = Surroundings::here();
    let resolved = Config::resolve_in(&Choice::default(), &surroundings)?;
    for UnknownVariable { name, nearest, .. } in surroundings.unknown() {
        let meant = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
        say(&format!("{name} is no setting and is ignored{meant}"));
    }
    if wanted.json {
        let file = resolved.file.as_ref().map(|file| file.to_string_lossy().into_owned());
        let settings = resolved.settings.iter().map(ShownSetting::of).collect();
        output::json(&Document { file, settings, pool: Pool::of(&resolved.config) })?;
    } else {
        let file = match &resolved.file {
            Some(file) => printable_path(file),
            None => format!("none: there is no {}", printable_path(&surroundings.file().0)),
        };
        let pool = Pool::of(&resolved.config).map(|pool| format!("\n{}", pool.told())).unwrap_or_default();
        output::text(&format!("file  {file}\n\n{}{pool}", table(&resolved)))?;
    }
    Ok(Exit::Good)
}

fn table(resolved: &Resolved) -> String {
    let columns = [("key", Align::Left), ("value", Align::Left), ("from", Align::Left)];
    let rows = resolved.settings.iter().map(|setting| {
        let value = Some(setting.value.to_string()).filter(|value| !value.is_empty());
        vec![setting.key.name.to_owned(), value.unwrap_or("\"\"".to_owned()), setting.source.to_string()]
    });
    text::table(&columns, rows)
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    file: Option<String>,
    settings: Vec<ShownSetting>,
    /// If `pool_bytes` is auto and the stage has a pool.
    pool: Option<Pool>,
}

/// The present limit of a pool that sizes itself.
#[derive(Serialize)]
struct Pool {
    bytes_max: u64,
    /// The cause of the limit.
    bound: &'static str,
}

impl Pool {
    fn of(config: &Config) -> Option<Pool> {
        let is_auto = config.pool_bytes.is_none() && matches!(config.stage, Stage::Pool | Stage::Node);
        is_auto.then(|| {
            let (bytes_max, bound) = pool_limit(&config.pool_directory);
            Pool { bytes_max, bound: bound.why() }
        })
    }

    fn told(&self) -> String {
        let (bytes, bound) = (text::bytes(self.bytes_max), self.bound);
        format!("pool_bytes = auto: the data of a node's ranks; here and now at most {bytes}, {bound}\n")
    }
}

#[derive(Serialize)]
struct ShownSetting {
    key: &'static str,
    value: Value,
    default: Value,
    /// default, file, environment or program.
    source: &'static str,
    line: Option<usize>,
    variable: String,
    meaning: &'static str,
    takes: &'static str,
}

impl ShownSetting {
    fn of(setting: &Setting) -> ShownSetting {
        let (source, line) = match setting.source {
            Source::Default => ("default", None),
            Source::File { line, .. } => ("file", Some(line)),
            Source::Environment { .. } => ("environment", None),
            Source::Program => ("program", None),
        };
        ShownSetting {
            key: setting.key.name,
            value: json(&setting.value),
            default: json(&setting.key.default()),
            source,
            line,
            variable: setting.key.variable(),
            meaning: setting.key.meaning,
            takes: setting.key.takes,
        }
    }
}

/// Sizes in bytes, times in seconds.
fn json(value: &Shown) -> Value {
    match value {
        Shown::Count(number) | Shown::Bytes(number) => (*number).into(),
        Shown::Seconds(seconds) => (*seconds).into(),
        Shown::Text(text) => text.as_str().into(),
    }
}
