//! The trap for a rank's system calls (Syscall User Dispatch), and for its faults.
//!
//! The kernel turns each system call of a rank into SIGSYS. The handler runs on a stack of the host, with the host's
//! thread pointer, and puts the result into the interrupted registers. The host's own system calls pass, because the
//! selector is 0 while it runs.
#![allow(unsafe_code)]

use super::interrupt::{INTERRUPT, enter_gate, frame};
use std::{
    arch::global_asm,
    ffi::{c_int, c_void},
    io, mem, ptr,
};

global_asm!(
    r#"
    .pushsection .text.mainstay_ranks, "ax", @progbits
    .hidden mainstay_ranks_trapped
    .globl mainstay_ranks_trapped
    .type mainstay_ranks_trapped, @function
mainstay_ranks_trapped:           # edi: the signal, rsi: its facts, rdx: the registers
    push rbx
    push r12
    sub rsp, 8
    movzx r12d, byte ptr [rip + mainstay_ranks_selector]
    mov byte ptr [rip + mainstay_ranks_selector], 0
    rdfsbase rbx
    test r12d, r12d
    jz 1f
    mov rax, [rip + mainstay_ranks_host_fs]
    wrfsbase rax
1:  mov rcx, rbx
    mov r8d, r12d
    call {on_signal}              # returns the thread pointer with which the rank goes on
    test r12d, r12d
    jz 2f
    wrfsbase rax
    mov byte ptr [rip + mainstay_ranks_selector], 1
2:  add rsp, 8
    pop r12
    pop rbx
    ret

    .balign 4096                  # system calls from this page pass while a rank runs
    .hidden mainstay_ranks_restorer
    .globl mainstay_ranks_restorer
mainstay_ranks_restorer:
    mov eax, 15                   # rt_sigreturn
    syscall
    ud2
    .balign 4096
    .popsection
"#,
    on_signal = sym on_signal,
);

unsafe extern "C" {
    static mut mainstay_ranks_selector: u64;
    fn mainstay_ranks_trapped(signal: c_int, facts: *mut libc::siginfo_t, context: *mut libc::ucontext_t);
    fn mainstay_ranks_restorer();
}

// Constants of Linux that the library libc lacks.
const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
const PR_SYS_DISPATCH_OFF: c_int = 0;
const PR_SYS_DISPATCH_ON: c_int = 1;

/// The registers of a rank in a system call or a fault.
pub(crate) struct Context<'a>(&'a mut libc::ucontext_t);

impl Context<'_> {
    fn register(&self, index: c_int) -> u64 {
        self.0.uc_mcontext.gregs[index as usize] as u64
    }

    pub fn arguments(&self) -> [u64; 6] {
        [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9]
            .map(|index| self.register(index))
    }

    pub fn set_result(&mut self, result: i64) {
        self.0.uc_mcontext.gregs[libc::REG_RAX as usize] = result;
    }

    pub fn instruction(&self) -> u64 {
        self.register(libc::REG_RIP)
    }

    pub fn stack(&self) -> u64 {
        self.register(libc::REG_RSP)
    }

    /// The bytes that an interrupt puts on the rank's stack, and their address. `None`: the rank cannot be interrupted here.
    /// `resume`: the address of the code that restores the registers.
    pub fn interrupt_frame(&self, resume: usize) -> Option<(usize, Vec<u8>)> {
        frame(self.0, resume)
    }

    /// Lets the rank call the gate, with the bytes of [`Context::interrupt_frame`] at `stack`.
    pub fn enter_gate(&mut self, stack: usize, call: i64) {
        enter_gate(self.0, stack, call);
    }

    /// Lets the rank go on in the gate, as if it had called it.
    pub fn go_to_gate(&mut self, call: i64, argument: u64) {
        let registers = &mut self.0.uc_mcontext.gregs;
        // A function begins with its return address on an aligned stack. The gate does not return to it.
        registers[libc::REG_RSP as usize] = (registers[libc::REG_RSP as usize] & !15) - 256 - 8;
        registers[libc::REG_RIP as usize] = super::gate_address() as i64;
        registers[libc::REG_RDI as usize] = call;
        registers[libc::REG_RSI as usize] = argument as i64;
    }
}

/// Handles the traps of the rank that runs.
pub(crate) trait InRank {
    /// Handles system call `number` and stores its result in `context`. `thread_pointer` is the rank's, and may change.
    fn system_call(&mut self, number: i64, context: &mut Context, thread_pointer: &mut u64);
    /// The rank has run for long. May let it call the gate.
    fn interrupted(&mut self, context: &mut Context);
    /// The rank has done something that ends it. Does not return.
    fn fault(&mut self, signal: c_int, address: u64, context: &Context) -> !;
}

/// The handler of the traps. Only the thread that runs ranks uses it.
static mut HANDLER: Option<*mut dyn InRank> = None;

extern "C" fn on_signal(
    signal: c_int,
    facts: &libc::siginfo_t,
    context: &mut libc::ucontext_t,
    mut thread_pointer: u64,
    in_rank: c_int,
) -> u64 {
    let mut context = Context(context);
    // SAFETY: `catch_system_calls` has set it, for this thread, to a value that outlives the ranks.
    let handler = unsafe { HANDLER.map(|handler| &mut *handler) };
    // SAFETY: the kernel fills these fields in for these signals; SIGSYS stores its number behind the address.
    let (address, number) = unsafe { (facts.si_addr() as u64, *(&raw const *facts).cast::<c_int>().add(6)) };
    match handler {
        Some(handler) if in_rank != 0 && signal == libc::SIGSYS => {
            handler.system_call(number.into(), &mut context, &mut thread_pointer);
        }
        Some(handler) if in_rank != 0 && signal == INTERRUPT => handler.interrupted(&mut context),
        _ if signal == INTERRUPT => {}
        Some(handler) if in_rank != 0 => handler.fault(signal, address, &context),
        // The host's own fault: it happens again, with the default action.
        _ => drop(handle(signal, libc::SIG_DFL)),
    }
    thread_pointer
}

/// The kernel's own layout of a signal action.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

fn handle(signal: c_int, handler: usize) -> io::Result<()> {
    const SA_RESTORER: u64 = 0x0400_0000;
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART) as u64 | SA_RESTORER;
    // The interrupt waits while a system call of a rank is handled.
    let mask = 1 << (INTERRUPT - 1);
    let action = KernelAction { handler, flags, restorer: mainstay_ranks_restorer as *const () as usize, mask };
    // SAFETY: the action is valid. libc's own sigaction would put in its own restorer, and the system call there is trapped.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, ptr::null::<c_void>(), mem::size_of::<u64>())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Why ranks in slots cannot run on this machine.
pub(crate) fn unsupported() -> Option<String> {
    const HWCAP2_FSGSBASE: u64 = 1 << 1;
    // SAFETY: reads a value that the kernel gave this process.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE == 0 {
        return Some("the kernel or the processor lacks FSGSBASE (Linux 5.9)".to_owned());
    }
    // SAFETY: it is off already.
    let result = unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) };
    (result != 0).then(|| "the kernel lacks Syscall User Dispatch (Linux 5.11)".to_owned())
}

/// Ends the process with a message if a rank faults.
pub(crate) fn catch_faults() -> io::Result<()> {
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP]
        .into_iter()
        .try_for_each(|signal| handle(signal, mainstay_ranks_trapped as *const () as usize))
}

/// From now on `handler` handles the system calls of ranks that this thread runs.
///
/// # Safety
/// `handler` outlives every rank of this thread, and nothing else uses it while a rank runs.
pub(crate) unsafe fn catch_system_calls(handler: *mut dyn InRank) -> io::Result<()> {
    const STACK_BYTES: usize = 1 << 18;
    // SAFETY: the stack is leaked, so it outlives the thread; the restorer is a page of code of this library.
    unsafe {
        HANDLER = Some(handler);
        let stack = libc::stack_t {
            ss_sp: Box::leak(vec![0u8; STACK_BYTES].into_boxed_slice()).as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: STACK_BYTES,
        };
        if libc::sigaltstack(&raw const stack, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        handle(libc::SIGSYS, mainstay_ranks_trapped as *const () as usize)?;
        handle(INTERRUPT, mainstay_ranks_trapped as *const () as usize)?;
        catch_faults()?;
        const PAGE: usize = 4096;
        let result = libc::prctl(
            PR_SET_SYSCALL_USER_DISPATCH,
            PR_SYS_DISPATCH_ON,
            mainstay_ranks_restorer as *const () as usize,
            PAGE,
            &raw mut mainstay_ranks_selector,
        );
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
