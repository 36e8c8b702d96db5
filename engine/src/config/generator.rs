//! Generates `Config`, its default, `Choice` and `KEYS` from the rows of the table.

/// A row is a field with its type, and:
/// - its meaning: the comment above it, which `mainstay config` and the guide show too;
/// - `key`: its name outside of Rust, if different; a number's name ends with its unit;
/// - `default`: the value in force if none is given;
/// - `given_as`: how it is parsed and shown (`value`, `shown`), including the unit of a number;
/// - `takes`: completes "it takes", in words, and `in_range`, in code;
/// - `alike`: all ranks of a job must have the same value.
macro_rules! settings {
    ($(
        $(#[doc = $meaning:literal])+
        $field:ident: $type:ty {
            $(key: $key:literal,)?
            default: $default:expr,
            given_as: $form:ident,
            takes: $takes:literal,
            in_range: $in_range:expr,
            alike: $alike:literal,
        }
    )*) => {
        /// The settings in force. An optional size that is `None` is found at run time: "auto".
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            $(
                $(#[doc = $meaning])+
                #[doc = concat!("\n\nTakes ", $takes, ".")]
                pub $field: $type,
            )*
        }

        impl Default for Config {
            fn default() -> Self {
                Config { $($field: $default,)* }
            }
        }

        /// The settings from one place: a file, the environment, or a program; the fields are those of `Config`.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Choice {
            $(
                $(#[doc = $meaning])+
                pub $field: Option<$type>,
            )*
        }

        /// All settings, in the order in which they are listed.
        pub const KEYS: &[Key] = &[$(Key {
            name: settings!(@key $field $($key)?),
            meaning: concat!($($meaning),+).trim_ascii_start(),
            takes: $takes,
            alike: $alike,
            read: |choice, value| value::$form(value).map(|read| choice.$field = Some(read)),
            take: |choice, config| choice.$field.clone().map(|chosen| config.$field = chosen).is_some(),
            show: |config| shown::$form(&config.$field),
            in_range: |config| $in_range(&config.$field),
        }),*];
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

pub(super) use settings;
