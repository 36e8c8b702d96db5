//! The system calls and faults of the rank that runs.
#![allow(unsafe_code)]

use crate::{
    Error, Result,
    address::PAGE,
    gate::{RESUME, call},
    rank::Rank,
    slot::Source,
    system::{Outcome, System, pass},
    x86_64::{Context, INTERRUPT, InRank, catch_system_calls, is_in_rank, run_rank},
};
use std::{
    ffi::c_int,
    io::Write,
    ptr,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Which rank runs. The handler of traps finds its system here.
struct Running {
    system: *mut System,
}

/// Lets ranks run in this thread, one at a time.
pub(super) struct Trap(*mut Running);

/// The argument of the call `EXIT` of a rank that a signal ended.
pub(super) const BY_SIGNAL: u64 = 1 << 16;

impl Trap {
    /// From here on this thread runs ranks.
    pub fn set() -> Result<Trap> {
        let running = Box::into_raw(Box::new(Running { system: ptr::null_mut() }));
        // SAFETY: the value is never freed, and is used only through this handler while a rank runs.
        unsafe { catch_system_calls(running) }.map_err(|error| Error::system("the trap for system calls", error))?;
        Ok(Trap(running))
    }

    /// Runs the rank until it calls the gate. Returns the call and its argument.
    pub fn run(&mut self, rank: &mut Rank) -> (i64, u64) {
        // Only this thread counts.
        TURNS.store(TURNS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        IS_LONG.store(false, Ordering::Relaxed);
        let registers = rank.registers;
        // SAFETY: the rank was started by `slot::start` or brought back whole. The handler alone uses its system until
        // the rank is back at the gate.
        let left = unsafe {
            (*self.0).system = &raw mut rank.system;
            let left = run_rank(registers.stack, registers.thread_pointer, registers.result);
            (*self.0).system = ptr::null_mut();
            left
        };
        (rank.registers.stack, rank.registers.thread_pointer) = (left.stack, left.thread_pointer);
        rank.registers.result = 0;
        (left.call, left.argument)
    }
}

impl InRank for Running {
    fn system_call(&mut self, number: i64, context: &mut Context, thread_pointer: &mut u64) {
        // SAFETY: a rank runs, so the pointer is that of its system.
        let system = unsafe { &mut *self.system };
        if !system.slot.has(context.instruction() as usize, 0) {
            // The host's own clock, which the rank reads through the gate, asks the kernel.
            return context.set_result(pass(number, context.arguments()));
        }
        match system.call(number, context.arguments(), thread_pointer) {
            Outcome::Result(result) => {
                context.set_result(result);
                // A rank that mostly waits in system calls is hardly ever met outside of one.
                if IS_LONG.load(Ordering::Relaxed) {
                    self.interrupted(context);
                }
            }
            Outcome::Exit(code) => context.go_to_gate(call::EXIT, code as u64),
            Outcome::Signal(signal) => context.go_to_gate(call::EXIT, BY_SIGNAL | signal as u64),
        }
    }

    fn interrupted(&mut self, context: &mut Context) {
        // SAFETY: a rank runs, so the pointer is that of its system.
        let system = unsafe { &*self.system };
        let (slot, instruction) = (system.slot, context.instruction() as usize);
        // In its clocks it holds the time of this machine.
        let clocks = slot.clocks()..slot.heap().start;
        if !slot.has(instruction, 0) || clocks.contains(&instruction) {
            return;
        }
        let Some((begin, frame)) = context.interrupt_frame(RESUME) else { return };
        // The gate needs some bytes below the frame. A stack of the program's own may be too small for it.
        let room = begin.saturating_sub(PAGE)..context.stack() as usize;
        let area = system.areas.at(room.start).filter(|(start, area)| {
            area.protection & libc::PROT_WRITE != 0
                && room.end <= start + area.bytes
                && slot.stack().contains(&room.start)
        });
        if area.is_some() {
            // SAFETY: the bytes are free memory on the rank's own stack, which is mapped and can be written.
            unsafe { (begin as *mut u8).copy_from_nonoverlapping(frame.as_ptr(), frame.len()) };
            context.enter_gate(begin, call::YIELD);
        }
    }

    fn fault(&mut self, signal: c_int, address: u64, context: &Context) -> ! {
        // SAFETY: a rank runs, so the pointer is that of its system.
        let system = unsafe { &*self.system };
        let slot = system.slot;
        let instruction = context.instruction() as usize;
        let place = match system.areas.at(instruction) {
            Some((start, area)) => match &area.source {
                Source::File { file, offset } => {
                    format!("{} + 0x{:x}", system.mapped.name(*file), instruction - start + *offset as usize)
                }
                Source::Memory => format!("slot + 0x{:x}", instruction - slot.base),
            },
            None => format!("0x{instruction:x}, outside its slot"),
        };
        let name = signal_name(signal);
        let _ = writeln!(
            std::io::stderr(),
            "mainstay: rank {} ended by {name} at address 0x{address:x}, in {place}",
            system.rank
        );
        end_by(signal)
    }
}

pub(super) fn signal_name(signal: c_int) -> String {
    match signal {
        libc::SIGSEGV => "a segmentation fault".to_owned(),
        libc::SIGBUS => "a bus error".to_owned(),
        libc::SIGILL => "an illegal instruction".to_owned(),
        libc::SIGFPE => "a floating-point exception".to_owned(),
        libc::SIGABRT => "abort".to_owned(),
        other => format!("signal {other}"),
    }
}

/// Ends this process by the signal, as it would have ended the rank's own.
pub(super) fn end_by(signal: c_int) -> ! {
    // SAFETY: the default action of the signal ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}

/// The number of times that a rank began to run.
static TURNS: AtomicU64 = AtomicU64::new(0);
/// The rank that runs has not called the gate for long.
static IS_LONG: AtomicBool = AtomicBool::new(false);
/// A rank that runs this long without a call is interrupted, so that it can be saved.
const LONG: Duration = Duration::from_millis(10);

/// Keeps signals away from this thread: a handler of the host must not run with a rank's thread pointer. Another thread
/// takes them. It also interrupts ranks that run for long.
pub(super) fn block_signals() {
    static TAKES_SIGNALS: Once = Once::new();
    // SAFETY: asks for the number of this thread. A wheel's C library has no function for it.
    let runner = unsafe { libc::syscall(libc::SYS_gettid) };
    TAKES_SIGNALS.call_once(|| {
        thread::spawn(move || watch(runner));
    });
    // SAFETY: changes the mask of this thread only. Faults and trapped system calls stay open.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut set);
        for signal in [
            libc::SIGSYS,
            INTERRUPT,
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
            libc::SIGABRT,
        ] {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

/// Interrupts the rank that runs in thread `runner`, if it has not called the gate since the last look.
fn watch(runner: libc::c_long) -> ! {
    let mut seen = 0;
    loop {
        thread::sleep(LONG);
        let turns = TURNS.load(Ordering::Relaxed);
        IS_LONG.store(turns == seen, Ordering::Relaxed);
        if turns == seen && is_in_rank() {
            // SAFETY: the signal has a handler in that thread, which ignores it outside of a rank.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), runner, INTERRUPT) };
        }
        seen = turns;
    }
}
