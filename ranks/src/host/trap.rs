//! The system calls and faults of the rank that runs.
#![allow(unsafe_code)]

use super::watch;
use crate::{
    Error, Result,
    address::PAGE,
    gate::{RESUME, call},
    rank::Rank,
    slot::Source,
    system::{Outcome, System, pass},
    x86_64::{Context, INTERRUPT, InRank, catch_system_calls, run_rank},
};
use mainstay_engine::say;
use std::{ffi::c_int, ops::Range, ptr};

/// The rank that runs. The handler of traps finds its system here.
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
        watch::rank_starts();
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
                // A rank that mostly waits in system calls is rarely outside of one when the signal comes.
                if watch::is_long() {
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
        if !is_interruptible(system, context.instruction() as usize) {
            return;
        }
        let Some((begin, frame)) = context.interrupt_frame(RESUME) else { return };
        // The gate needs some bytes below the frame.
        if is_on_stack(system, &(begin.saturating_sub(PAGE)..context.stack() as usize)) {
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
        say(&format!("rank {} ended by {name} at address 0x{address:x}, in {place}", system.rank));
        end_by(signal)
    }
}

/// A rank can be interrupted at its own instructions, except in its clocks: there it holds the time of this machine.
fn is_interruptible(system: &System, instruction: usize) -> bool {
    let slot = system.slot;
    slot.has(instruction, 0) && !(slot.clocks()..slot.heap().start).contains(&instruction)
}

/// Whether the bytes lie on the stack that the rank was started with. A stack of the program's own may be too small.
fn is_on_stack(system: &System, bytes: &Range<usize>) -> bool {
    system.slot.stack().contains(&bytes.start)
        && system
            .areas
            .at(bytes.start)
            .is_some_and(|(start, area)| area.protection & libc::PROT_WRITE != 0 && bytes.end <= start + area.bytes)
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

/// Keeps signals away from this thread: a handler of the host must not run with a rank's thread pointer. Another thread
/// takes them, and watches the ranks of this one.
pub(super) fn block_signals() {
    watch::this_thread();
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
