//! Runs a program in slots in one process: `alone SPACE RANKS LIBRARY PROGRAM...`
use mainstay_engine::{Config, Session, group::Solo};
use mainstay_ranks::{Alone, Ended, Options, Reserved, run};
use std::{env, path::Path, process::exit};

fn main() {
    let mut arguments = env::args_os().skip(1);
    let space = arguments.next().expect("a space");
    let ranks = arguments.next().and_then(|n| n.to_str()?.parse().ok()).expect("a number of ranks");
    let library = arguments.next().expect("the library").into();
    let options = Options { ranks, balance: None, library, program: arguments.collect() };
    let _ = Reserved::new().unwrap_or_else(|e| {
        eprintln!("{e}");
        exit(2)
    });
    let mut config = Config::default();
    if let Ok(every) = env::var("EVERY_MS") {
        config.every = std::time::Duration::from_millis(every.parse().unwrap());
    }
    let mut session = Session::open(Box::new(Solo), Path::new(&space), config).expect("a session");
    match run(&mut session, Box::new(Alone), &options) {
        Ok(Ended::Whole(code)) => {
            session.close().expect("closed");
            exit(code)
        }
        Ok(Ended::Aborted(code)) => {
            eprintln!("aborted {code}");
            exit(code)
        }
        Err(error) => {
            eprintln!("mainstay: {error}");
            exit(3)
        }
    }
}
