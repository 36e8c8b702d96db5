use super::*;
use mainstay_engine::ErrorKind;
use std::{any::Any, cell::Cell, sync::Arc};

extern "C" fn all_max(_: *mut c_void, _: *mut u64, _: usize) -> c_int {
    0
}
extern "C" fn all_gather(_: *mut c_void, _: *const c_void, _: *mut c_void, _: usize) -> c_int {
    0
}
extern "C" fn broadcast(_: *mut c_void, _: u32, _: *mut c_void, _: usize) -> c_int {
    0
}
fn table(size: usize, ranks: u32) -> GroupTable {
    GroupTable {
        size,
        context: null_mut(),
        rank: 0,
        ranks,
        ranks_here: 2,
        all_max: Some(all_max as _),
        all_gather: Some(all_gather as _),
        broadcast: Some(broadcast as _),
        explain: None,
        release: None,
        start_send: None,
        start_receive: None,
        test: None,
        failed: None,
        shrink: None,
        wait_eagerly: None,
    }
}

fn group(table: &GroupTable) -> Result<CGroup> {
    // SAFETY: a table of at least as many bytes as it says.
    #[allow(unsafe_code)]
    unsafe {
        CGroup::new(table)
    }
}

/// A program compiled with an older header has none of the later functions, whatever bytes follow its table.
#[test]
fn only_a_table_of_this_header_waits_eagerly() {
    extern "C" fn wait_eagerly(_: *mut c_void, _: c_int) {}
    let with = |size| GroupTable { wait_eagerly: Some(wait_eagerly as _), ..table(size, 2) };
    let can = |table: GroupTable| group(&table).unwrap().can_wait_eagerly();
    assert!(can(with(SIZES[2])));
    assert!(!can(with(SIZES[1])) && !can(table(SIZES[2], 2)));
}

/// Each rank takes memory.
#[test]
fn more_ranks_than_any_job_has_are_refused() {
    let with = |ranks| group(&table(SIZES[0], ranks));
    assert!(with(RANKS_MAX as u32).is_ok());
    for ranks in [0, RANKS_MAX as u32 + 1, u32::MAX] {
        let error = with(ranks).map(drop).unwrap_err();
        assert!(error.to_string().contains("at most 16777216"), "{error}");
    }
}

/// A handle of the table: two letters make a message, in the context of both ranks.
#[derive(Default)]
struct Letters {
    sent: RefCell<Vec<Vec<u8>>>,
    /// Address and size of the room for the data to come.
    awaited: RefCell<Vec<(*mut u8, usize)>>,
    tests_failing: RefCell<u32>,
}

const FAILS: c_int = 75;
const SENT: *mut c_void = 1 as _;
const AWAITED: *mut c_void = 2 as _;

#[allow(unsafe_code)]
unsafe fn letters<'a>(context: *mut c_void) -> &'a Letters {
    // SAFETY: the tests' contexts are these.
    unsafe { &*context.cast() }
}

#[allow(unsafe_code)]
unsafe extern "C" fn start_send(
    context: *mut c_void,
    _: u32,
    data: *const c_void,
    bytes: usize,
    word: *mut *mut c_void,
) -> c_int {
    // SAFETY: as the table says.
    unsafe {
        letters(context).sent.borrow_mut().push(std::slice::from_raw_parts(data.cast(), bytes).to_vec());
        *word = SENT;
    }
    0
}

#[allow(unsafe_code)]
unsafe extern "C" fn start_receive(
    context: *mut c_void,
    from: u32,
    data: *mut c_void,
    bytes: usize,
    word: *mut *mut c_void,
) -> c_int {
    if from > 1 {
        return FAILS;
    }
    // SAFETY: as the table says.
    unsafe {
        letters(context).awaited.borrow_mut().push((data.cast(), bytes));
        *word = AWAITED;
    }
    0
}

#[allow(unsafe_code)]
unsafe extern "C" fn test(context: *mut c_void, word: *mut c_void, through: *mut c_int) -> c_int {
    // SAFETY: as the table says.
    let letters = unsafe { letters(context) };
    if std::mem::take(&mut *letters.tests_failing.borrow_mut()) > 0 {
        return FAILS;
    }
    let (mut sent, mut awaited) = (letters.sent.borrow_mut(), letters.awaited.borrow_mut());
    let is_there = if word == SENT { sent.is_empty() } else { !sent.is_empty() && !awaited.is_empty() };
    if is_there && word == AWAITED {
        let ((data, bytes), letter) = (awaited.remove(0), sent.remove(0));
        // SAFETY: that memory is this message's until now.
        unsafe { std::slice::from_raw_parts_mut(data, bytes) }.copy_from_slice(&letter);
    }
    // SAFETY: as the table says.
    unsafe { *through = is_there.into() };
    0
}

#[allow(unsafe_code)]
unsafe extern "C" fn failed(_: *mut c_void, failed: *mut u32, count: *mut u32) -> c_int {
    // SAFETY: there is room for two.
    unsafe {
        *failed = 1;
        *count = 1;
    }
    0
}

thread_local! {
    /// The context of a shrunk group; null: that of the old one.
    static NEW_CONTEXT: Cell<*mut c_void> = const { Cell::new(null_mut()) };
}

/// From a header without messages.
#[allow(unsafe_code)]
unsafe extern "C" fn shrink(context: *mut c_void, _divided: u32, survivors: *mut c_void) -> c_int {
    let mut left = table(SIZES[0], 1);
    left.context = if NEW_CONTEXT.get().is_null() { context } else { NEW_CONTEXT.get() };
    // SAFETY: the library's table has more bytes.
    unsafe { survivors.cast::<u8>().copy_from_nonoverlapping((&raw const left).cast(), SIZES[0]) };
    0
}

fn lettered(letters: &Letters) -> CGroup {
    let mut table = table(SIZES[1], 2);
    table.context = (&raw const *letters).cast_mut().cast();
    table.start_send = Some(start_send);
    table.start_receive = Some(start_receive);
    table.test = Some(self::test);
    table.failed = Some(failed);
    table.shrink = Some(shrink);
    group(&table).unwrap()
}

#[test]
fn memory_is_lent_until_a_message_is_through_and_comes_back_by_its_type() {
    let (letters, bytes) = (Letters::default(), Arc::<[u8]>::from(*b"chunk"));
    let group = lettered(&letters);
    let awaited = group.start_receive(1, Box::new(vec![0_u8; 5])).unwrap();
    assert!(matches!(group.test(awaited).unwrap(), Tested::UnderWay));
    let sent = group.start_send(1, Box::new(bytes.clone())).unwrap();
    assert!(matches!(group.test(sent).unwrap(), Tested::UnderWay) && Arc::strong_count(&bytes) == 2);
    let Tested::Received(into) = group.test(awaited).unwrap() else { panic!("it was sent") };
    assert_eq!(*(into as Box<dyn Any>).downcast::<Vec<u8>>().unwrap(), b"chunk");
    assert!(matches!(group.test(sent).unwrap(), Tested::Sent) && Arc::strong_count(&bytes) == 1);
    assert_eq!(group.test(sent).err().unwrap().kind(), ErrorKind::Internal);
}

#[test]
fn a_message_that_fails_is_over_and_one_under_way_keeps_its_memory_beyond_the_group() {
    let (letters, bytes) = (Letters::default(), Arc::<[u8]>::from(*b"chunk"));
    let group = lettered(&letters);
    assert_eq!(group.start_receive(2, Box::new([0; 5])).unwrap_err().kind(), ErrorKind::GroupFailed);
    let [failing, _under_way] = [(); 2].map(|()| group.start_send(1, Box::new(bytes.clone())).unwrap());
    *letters.tests_failing.borrow_mut() = 1;
    let error = group.test(failing).err().unwrap();
    assert!(error.kind() == ErrorKind::GroupFailed && error.to_string().contains("class 75"), "{error}");
    assert_eq!(Arc::strong_count(&bytes), 2);
    drop(group);
    assert_eq!(Arc::strong_count(&bytes), 2);
}

#[test]
fn a_shrunk_group_is_what_its_table_says_and_may_have_less() {
    let letters = Letters::default();
    let group = lettered(&letters);
    assert_eq!(group.failed().unwrap(), [1]);
    let left = group.shrink(Divided::Unknown).unwrap();
    assert!(left.size() == 1);
    assert_eq!(left.failed().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_context_in_use_is_that_of_the_newest_group_that_is_there() {
    let letters = Letters::default();
    let group = lettered(&letters);
    let (in_use, old) = (group.context_in_use(), group.table.context);
    assert_eq!(in_use.get(), old);
    NEW_CONTEXT.set(1 as _);
    let left = group.shrink(Divided::Unknown).unwrap();
    assert_eq!(in_use.get(), 1 as _);
    drop(group);
    assert_eq!(in_use.get(), 1 as _);
    drop(left);
    assert_eq!(in_use.get(), null_mut());
}

/// The bytes after an older table.
#[test]
fn an_older_table_refuses_what_came_later() {
    let letters = Letters::default();
    let mut old = lettered(&letters).table;
    old.size = SIZES[0];
    let group = group(&old).unwrap();
    let told = [
        group.start_send(1, Box::new([])).err(),
        group.start_receive(1, Box::new([])).err(),
        group.failed().err(),
        group.shrink(Divided::Unknown).err(),
    ];
    for error in told {
        let error = error.unwrap();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("it has no "), "{error}");
    }
}
