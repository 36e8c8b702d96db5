//! Counts the bytes that each thread has allocated, until any thread frees them: which thread drops the last handle of
//! something shared depends on the moment.
#![expect(unsafe_code, reason = "an allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicI64, Ordering::Relaxed},
};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The bytes of a thread.
#[derive(Default)]
struct Account {
    live: AtomicI64,
    highest: AtomicI64,
}

impl Account {
    fn add(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes as i64, Relaxed) + bytes as i64;
        self.highest.fetch_max(live, Relaxed);
    }
}

thread_local! {
    /// Stays when the thread ends: others may free its bytes later.
    static ACCOUNT: Cell<Option<&'static Account>> = const { Cell::new(None) };
    static IS_PAUSED: Cell<bool> = const { Cell::new(false) };
}

fn account() -> &'static Account {
    ACCOUNT.get().unwrap_or_else(|| {
        // SAFETY: the memory is new, large enough and aligned, and is never freed.
        let made: &Account = unsafe {
            let at = System.alloc(Layout::new::<Account>()).cast::<Account>();
            assert!(!at.is_null(), "no memory for the counts");
            at.write(Account::default());
            &*at
        };
        ACCOUNT.set(Some(made));
        made
    })
}

/// The account of an allocation, stored before its bytes.
type Owner = Option<&'static Account>;

/// The layout with room for the owner, and the place of the bytes in it.
fn with_owner(layout: Layout) -> (Layout, usize) {
    Layout::new::<Owner>().extend(layout).expect("a layout that is not too large")
}

// SAFETY: the system's allocator does the work, with room for the owner before the bytes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let owner = (!IS_PAUSED.get()).then(account);
        let (whole, before) = with_owner(layout);
        // SAFETY: the layout is not empty; the owner lies just before the bytes, inside of the memory.
        unsafe {
            let start = System.alloc(whole);
            if start.is_null() {
                return start;
            }
            if let Some(account) = owner {
                account.add(layout.size());
            }
            let bytes = start.add(before);
            bytes.cast::<Owner>().sub(1).write_unaligned(owner);
            bytes
        }
    }

    unsafe fn dealloc(&self, bytes: *mut u8, layout: Layout) {
        let (whole, before) = with_owner(layout);
        // SAFETY: `alloc` made the memory with this layout, and wrote the owner.
        unsafe {
            if let Some(account) = bytes.cast::<Owner>().sub(1).read_unaligned() {
                account.live.fetch_sub(layout.size() as i64, Relaxed);
            }
            System.dealloc(bytes.sub(before), whole);
        }
    }
}

/// Does `work` without counting: the ranks of an MPI job do not pay for the threads that stand in for them.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_PAUSED.replace(true);
    let done = work();
    IS_PAUSED.set(before);
    done
}

/// The bytes of this thread: now, and the most since the last call.
pub fn live_and_highest() -> [u64; 2] {
    let live = account().live.load(Relaxed);
    [live, account().highest.swap(live, Relaxed)].map(|bytes| bytes.max(0) as u64)
}
