//! Runs a program for which the kernel stops each call with a name (`--catch kernel`). This process answers the calls.

use crate::exit::say;
use mainstay_engine::printable_path;
use mainstay_files::{CATCH_VARIABLE, Catch, Member, Served, Wanted};
use nix::errno::Errno;
use std::{
    env, io,
    path::Path,
    process::{Command, ExitStatus},
    thread,
};

/// The program has ended, or could not be started.
pub enum Ended {
    Run(io::Result<ExitStatus>),
    /// Its calls cannot be caught, for this reason.
    NotCaught(String),
}

/// `run` starts the program, and waits for its end.
pub fn run_caught(
    mut command: Command,
    member: &Member,
    wanted: &Wanted,
    run: fn(&mut Command) -> io::Result<ExitStatus>,
) -> Ended {
    let catch = match Catch::arm(&mut command) {
        Ok(catch) => catch,
        Err(error) => return Ended::NotCaught(reason(&error)),
    };
    command.env(CATCH_VARIABLE, wanted.stage.path());
    thread::scope(|scope| {
        let supervisor = scope.spawn(move || catch.serve(member, wanted));
        let status = run(&mut command);
        drop(command);
        // Processes that the program has left behind need the supervisor, too.
        match (status, supervisor.join()) {
            (Err(error), Ok(Ok(Served::Never))) => Ended::NotCaught(reason(&error)),
            (status, Ok(Ok(_))) => Ended::Run(status),
            (status, Ok(Err(error))) => {
                say(&format!("some calls of the program got no answer ({error}), so its last files may be lost"));
                Ended::Run(status)
            }
            (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}

/// The reason why the kernel does not install the filter, and the remedy.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBUSY) => "another program catches its calls already. Start it outside of that one".to_owned(),
        Some(Errno::EINVAL | Errno::ENOSYS) => {
            "this kernel cannot do that; it takes Linux 5.14. Link the program dynamically, and leave --catch kernel out"
                .to_owned()
        }
        Some(Errno::EPERM | Errno::EACCES) => {
            "the container forbids that; allow seccomp in its profile. Or link the program dynamically, and leave \
             --catch kernel out"
                .to_owned()
        }
        _ => format!("the kernel refuses ({error})"),
    }
}

/// Refuses `mainstay files` inside a program under `--catch kernel`.
pub fn check_not_nested(name: &Path) -> Result<(), String> {
    match env::var_os(CATCH_VARIABLE) {
        None => Ok(()),
        Some(_) => Err(format!(
            "{} cannot be caught: it runs under `mainstay files --catch kernel` already. Start it without `mainstay files`",
            printable_path(name)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    #[test]
    fn each_refusal_of_the_kernel_names_a_way_out() {
        for (number, text) in [
            (libc::EBUSY, "Start it outside"),
            (libc::EINVAL, "Linux 5.14"),
            (libc::ENOSYS, "Linux 5.14"),
            (libc::EPERM, "allow seccomp"),
        ] {
            assert!(reason(&io::Error::from_raw_os_error(number)).contains(text), "{number}");
        }
    }
}
