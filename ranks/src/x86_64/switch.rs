//! The switch between the host and a rank: registers, stack, thread pointer.
//!
//! A rank leaves through the gate, which stores its registers on its own stack. Nothing of the host stays on a rank's
//! stack, so a rank that does not run is nothing but the bytes of its slot, its stack pointer, and its thread pointer.
#![allow(unsafe_code)]

use std::arch::global_asm;

/// The words that the gate stores on a rank's stack: the floating-point control words, six registers, the return
/// address. A saved rank is resumed with them, so a change needs a new version of the record.
pub(crate) const GATE_FRAME_WORDS: usize = 8;

global_asm!(
    r#"
    .pushsection .bss.mainstay_ranks, "aw", @nobits
    .balign 8
    .hidden mainstay_ranks_selector
    .globl mainstay_ranks_selector
mainstay_ranks_selector: .zero 8
mainstay_ranks_host_rsp: .zero 8
    .hidden mainstay_ranks_host_fs
    .globl mainstay_ranks_host_fs
mainstay_ranks_host_fs: .zero 8
    .hidden mainstay_ranks_left
    .globl mainstay_ranks_left
mainstay_ranks_left: .zero 32
    .popsection

    .pushsection .text.mainstay_ranks, "ax", @progbits
    .hidden mainstay_ranks_switch
    .globl mainstay_ranks_switch
    .type mainstay_ranks_switch, @function
mainstay_ranks_switch:            # rdi: the rank's stack, rsi: its thread pointer, rdx: the result of its call
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    sub rsp, 8
    stmxcsr [rsp]
    fnstcw [rsp + 4]
    mov [rip + mainstay_ranks_host_rsp], rsp
    rdfsbase rax
    mov [rip + mainstay_ranks_host_fs], rax
    mov rsp, rdi
    mov rax, rdx
    mov byte ptr [rip + mainstay_ranks_selector], 1
    wrfsbase rsi
    ldmxcsr [rsp]
    fldcw [rsp + 4]
    add rsp, 8
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    xor edx, edx                  # a new program takes it for a function to call at its end
    ret

    .hidden mainstay_ranks_gate
    .globl mainstay_ranks_gate
    .type mainstay_ranks_gate, @function
mainstay_ranks_gate:              # rdi: the call, rsi: its argument
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    sub rsp, 8
    stmxcsr [rsp]
    fnstcw [rsp + 4]
    mov [rip + mainstay_ranks_left], rsp
    rdfsbase rax
    mov [rip + mainstay_ranks_left + 8], rax
    mov [rip + mainstay_ranks_left + 16], rdi
    mov [rip + mainstay_ranks_left + 24], rsi
    mov rax, [rip + mainstay_ranks_host_fs]
    wrfsbase rax
    mov byte ptr [rip + mainstay_ranks_selector], 0
    mov rsp, [rip + mainstay_ranks_host_rsp]
    ldmxcsr [rsp]
    fldcw [rsp + 4]
    add rsp, 8
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret                           # out of mainstay_ranks_switch
    .popsection
"#
);

/// How a rank came to the gate.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub stack: u64,
    pub thread_pointer: u64,
    pub call: i64,
    pub argument: u64,
}

unsafe extern "C" {
    fn mainstay_ranks_switch(stack: u64, thread_pointer: u64, result: i64);
    fn mainstay_ranks_gate(call: i64, argument: u64) -> i64;
    static mainstay_ranks_left: Call;
}

/// Where a rank enters the gate.
pub(crate) fn gate_address() -> u64 {
    mainstay_ranks_gate as *const () as u64
}

/// The code of a jump to an address.
pub(crate) fn jump_to(address: u64) -> [u8; 14] {
    let mut code = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]; // jmp [rip + 0]
    code[6..].copy_from_slice(&address.to_le_bytes());
    code
}

/// Runs a rank until it calls the gate. `result`: of its last call.
///
/// # Safety
/// `stack` and `thread_pointer` are those with which the rank came to the gate, or those of a new rank whose stack begins
/// with an [`entry_frame`], and its slot is as it was.
pub(crate) unsafe fn run_rank(stack: u64, thread_pointer: u64, result: i64) -> Call {
    // SAFETY: the caller's promise; the gate is the only way back, and it has filled in the call.
    unsafe {
        mainstay_ranks_switch(stack, thread_pointer, result);
        (&raw const mainstay_ranks_left).read_volatile()
    }
}

/// The frame with which a new rank begins at `entry`: the floating-point control words of a new process, no registers.
pub(crate) fn entry_frame(entry: u64) -> [u64; GATE_FRAME_WORDS] {
    const MXCSR: u64 = 0x1f80;
    const X87: u64 = 0x37f;
    [MXCSR | X87 << 32, 0, 0, 0, 0, 0, 0, entry]
}
