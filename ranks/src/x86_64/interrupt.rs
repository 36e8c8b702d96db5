//! Interrupts a rank that computes for long, as if it had called the gate.
//!
//! The registers of the rank go onto its own stack, below the red zone. The gate returns to a few instructions that
//! restore them. These lie at the same address in every process, because the rank may go on in another one.
#![allow(unsafe_code)]

use std::{arch::global_asm, ffi::c_int, slice};

global_asm!(
    r#"
    .pushsection .rodata.mainstay_ranks, "a", @progbits
    .hidden mainstay_ranks_resume
    .globl mainstay_ranks_resume
mainstay_ranks_resume:            # at rsp: the address of the registers; at rsp + 64: the extended state
    mov rbx, [rsp]
    mov eax, {kept}
    xor edx, edx
    xrstor64 [rsp + 64]
    mov rsp, rbx
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rbp
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rbx
    pop rax
    popfq
    ret {red_zone}
    .hidden mainstay_ranks_resume_end
    .globl mainstay_ranks_resume_end
mainstay_ranks_resume_end:
    .popsection
"#,
    kept = const KEPT,
    red_zone = const RED_ZONE,
);

unsafe extern "C" {
    static mainstay_ranks_resume: u8;
    static mainstay_ranks_resume_end: u8;
    static mainstay_ranks_selector: u8;
}

/// The signal that interrupts a rank. Without a handler it does nothing.
pub(crate) const INTERRUPT: c_int = libc::SIGURG;

/// The parts of the extended state that are restored: x87, SSE, AVX, AVX-512.
const KEPT: u64 = 0xe7;
/// The part with the keys of memory protection, which no rank changes.
const KEYS: u64 = 1 << 9;
const X87: u64 = 1;
/// A function may use this many bytes below its stack pointer.
const RED_ZONE: usize = 128;
/// The extended state begins at such an address.
const ALIGNED: usize = 64;
/// In the order in which the rank takes them from its stack.
const REGISTERS: [c_int; 17] = [
    libc::REG_R15,
    libc::REG_R14,
    libc::REG_R13,
    libc::REG_R12,
    libc::REG_R11,
    libc::REG_R10,
    libc::REG_R9,
    libc::REG_R8,
    libc::REG_RBP,
    libc::REG_RDI,
    libc::REG_RSI,
    libc::REG_RDX,
    libc::REG_RCX,
    libc::REG_RBX,
    libc::REG_RAX,
    libc::REG_EFL,
    libc::REG_RIP,
];
const DIRECTION_FLAG: i64 = 1 << 10;

/// The instructions with which an interrupted rank goes on. They work at any address.
pub(crate) fn resume_code() -> &'static [u8] {
    // SAFETY: both are labels of the code above.
    unsafe {
        let (begin, end) = (&raw const mainstay_ranks_resume, &raw const mainstay_ranks_resume_end);
        slice::from_raw_parts(begin, end.offset_from_unsigned(begin))
    }
}

/// Whether a rank runs now. Another thread asks; the answer may be out of date at once.
pub(crate) fn is_in_rank() -> bool {
    // SAFETY: one byte, written by the code of the switch.
    unsafe { (&raw const mainstay_ranks_selector).read_volatile() != 0 }
}

/// Offsets in the extended state, as the kernel stores it in the frame of a signal.
const SOFTWARE: usize = 464;
const MAGIC: u32 = 0x4650_5853;
const STATE_BITS: usize = 512;

/// The extended state of an interrupted rank. `None`: it has parts that would not be restored.
fn extended_state(context: &libc::ucontext_t) -> Option<Vec<u8>> {
    let state = context.uc_mcontext.fpregs.cast::<u8>();
    // SAFETY: the kernel stored it there, with its length behind the magic number.
    unsafe {
        let words = state.add(SOFTWARE).cast::<u32>();
        if state.is_null() || words.read_unaligned() != MAGIC {
            return None;
        }
        let bytes = words.add(4).read_unaligned() as usize;
        let mut all = slice::from_raw_parts(state, bytes).to_vec();
        let bits = u64::from_le_bytes(all.get(STATE_BITS..STATE_BITS + 8)?.try_into().ok()?);
        if bits & !(KEPT | KEYS) != 0 {
            return None;
        }
        all[STATE_BITS..STATE_BITS + 8].copy_from_slice(&(bits & KEPT).to_le_bytes());
        Some(all)
    }
}

/// The bytes to put on the stack of an interrupted rank, and their address, from which the rank then calls the gate.
/// `resume`: the address of [`resume_code`].
pub(super) fn frame(context: &libc::ucontext_t, resume: usize) -> Option<(usize, Vec<u8>)> {
    let state = extended_state(context)?;
    let stack = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    let registers = stack.checked_sub(RED_ZONE + 8 * REGISTERS.len())?;
    let state_at = registers.checked_sub(state.len())? / ALIGNED * ALIGNED;
    let begin = state_at.checked_sub(ALIGNED + 8)?;
    let mut bytes = vec![0; stack - RED_ZONE - begin];
    let mut put = |at: usize, part: &[u8]| bytes[at - begin..][..part.len()].copy_from_slice(part);
    put(begin, &resume.to_le_bytes());
    put(begin + 8, &registers.to_le_bytes());
    put(state_at, &state);
    for (at, register) in (registers..).step_by(8).zip(REGISTERS) {
        put(at, &context.uc_mcontext.gregs[register as usize].to_le_bytes());
    }
    Some((begin, bytes))
}

/// Lets the rank make `call` of the gate, with its stack at the bytes of [`frame`].
pub(super) fn enter_gate(context: &mut libc::ucontext_t, stack: usize, call: i64) {
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RSP as usize] = stack as i64;
    registers[libc::REG_RIP as usize] = super::gate_address() as i64;
    registers[libc::REG_RDI as usize] = call;
    registers[libc::REG_RSI as usize] = 0;
    registers[libc::REG_EFL as usize] &= !DIRECTION_FLAG;
    // A call needs an empty stack of x87 registers. The kernel resets a part whose bit is clear.
    // SAFETY: `frame` has found the extended state there.
    unsafe {
        let bits = context.uc_mcontext.fpregs.cast::<u8>().add(STATE_BITS).cast::<u64>();
        bits.write_unaligned(bits.read_unaligned() & !X87);
    }
}
