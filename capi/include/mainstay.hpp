/* Mainstay for C++17. Licence: MIT OR Apache-2.0.
 *
 * mainstay.h with sessions that close themselves, exceptions for errors, and deduced element types and shapes. Header
 * only; MPI programs include mainstay_mpi.hpp, which includes this.
 *
 *     auto session = mainstay::open(MPI_COMM_WORLD, "space");
 *     session.protect("step", step);
 *     session.protect("field", field);            // a std::vector<double>
 *     if (session.restore()) ...                  // there was a revision
 *     session.checkpoint();
 *     session.close();                            // throws errors; the destructor ignores them
 *
 * A session that an exception destroys ends on this rank alone: the other ranks may be elsewhere.
 *
 * mainstay.h describes each call, and says which calls are collective. */
#ifndef MAINSTAY_HPP
#define MAINSTAY_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "mainstay.h"
#include "mainstay_values.hpp"

namespace mainstay {

/* One job at work on one space; mainstay::open and mainstay::open_solo make it. You can move it, but not copy it.
 *
 * The destructor closes it and ignores errors. Closing is collective: if an exception ends one rank and not the
 * others, end the job with MPI_Abort before the session is destroyed. */
class session {
public:
  session() noexcept = default;
  /* Takes over a session of mainstay.h. */
  explicit session(mainstay_session *taken) noexcept : handle_(taken) {}
  session(session &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  session &operator=(session &&other) noexcept {
    if (this != &other) quietly_close(), handle_ = std::exchange(other.handle_, nullptr);
    return *this;
  }
  session(const session &) = delete;
  session &operator=(const session &) = delete;
  /* Closes. While an exception is in flight, which may be this rank's alone, it leaves. */
  ~session() {
    if (std::uncaught_exceptions() == exceptions_)
      quietly_close();
    else if (handle_)
      mainstay_leave(handle_);
  }

  /* A variable: a number, an enum, a plain struct, or an array or std::array of these, with any number of dimensions.
   */
  template <class T, std::enable_if_t<!detail::is_view<T>::value, int> = 0>
  void protect(const std::string &name, T &value) {
    protect_elements(name, &value, {});
  }
  /* The present elements of the vector. This call takes their address: if a push_back, a resize or a swap moves them,
   * follow the vector too. */
  template <class T, class A> void protect(const std::string &name, std::vector<T, A> &elements) {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no bytes of its own: use std::vector<char>");
    protect_elements(name, elements.data(), {elements.size()});
  }
  /* Elements at `data` of this shape, the slowest dimension first: {rows, columns}. */
  template <class T> void protect(const std::string &name, T *data, const extents &shape) {
    protect_elements(name, data, shape.numbers());
  }
#if __cplusplus >= 202002L
  template <class T, std::size_t N> void protect(const std::string &name, std::span<T, N> elements) {
    protect_elements(name, elements.data(), {elements.size()});
  }
#endif
  /* A box in a global array: elements of shape `shape` at `data`. `offset` is the number of elements in front of the
   * box along each side of an array of `global_shape`. Any number of ranks fills its boxes from the saved ones. */
  template <class T>
  void protect_box(const std::string &name, T *data, const extents &shape, const extents &global_shape,
                   const extents &offset) {
    if (shape.size() != global_shape.size() || shape.size() != offset.size())
      detail::refuse("shape, global shape and offset have not as many numbers");
    auto all = with_inner<T>(shape), global = with_inner<T>(global_shape), from = offset.numbers();
    from.resize(all.size(), 0);
    detail::check(mainstay_protect_box(handle_, detail::text(name), data, detail::element<T>::type, all.size(),
                                       all.data(), global.data(), from.data()));
  }
  /* A box inside a larger array in memory, such as one with ghost cells. `data` is the beginning of the larger array,
   * `memory_shape` its shape, and `memory_offset` the number of its elements in front of the box along each side.
   * Without a global shape and an offset it is in no global array. */
  template <class T>
  void protect_within(const std::string &name, T *data, const extents &shape, const extents &memory_shape,
                      const extents &memory_offset, const extents &global_shape = {}, const extents &offset = {}) {
    const bool placed = global_shape.size() > 0 || offset.size() > 0;
    if (shape.size() != memory_shape.size() || shape.size() != memory_offset.size() ||
        (placed && (shape.size() != global_shape.size() || shape.size() != offset.size())))
      detail::refuse("shape, memory shape, global shape and their offsets have not as many numbers");
    auto all = with_inner<T>(shape), memory = with_inner<T>(memory_shape), global = with_inner<T>(global_shape);
    auto inside = memory_offset.numbers(), from = offset.numbers();
    inside.resize(all.size(), 0), from.resize(all.size(), 0);
    detail::check(mainstay_protect_within(handle_, detail::text(name), data, detail::element<T>::type, all.size(),
                                          all.data(), memory.data(), inside.data(), placed ? global.data() : nullptr,
                                          placed ? from.data() : nullptr));
  }
  /* Follows a pointer variable to the region protected under `name`: each checkpoint saves the memory that it then
   * points to, and each restore fills that memory. For programs that swap pointers; see mainstay_follow. The variable
   * must stay at its address while the region is protected. */
  template <class T> void follow(const std::string &name, T *&pointer) {
    detail::check(mainstay_follow(handle_, detail::text(name), reinterpret_cast<void **>(&pointer)));
  }
  template <class T, class D> void follow(const std::string &name, std::unique_ptr<T[], D> &pointer) {
    detail::check(
        mainstay_follow_call(handle_, detail::text(name), detail::where_pointer<std::unique_ptr<T[], D>>, &pointer));
  }
  /* Follows the elements of a vector, which may be swapped, and grow. A restore resizes it to the saved number of
   * elements, if they have a default constructor. */
  template <class T, class A> void follow(const std::string &name, std::vector<T, A> &elements) {
    if constexpr (std::is_default_constructible_v<T>)
      detail::check(mainstay_follow_resize(handle_, detail::text(name), detail::where_vector<T, A>,
                                           detail::resize_vector<T, A>, &elements));
    else
      detail::check(mainstay_follow_call(handle_, detail::text(name), detail::where_vector<T, A>, &elements));
  }
  /* Moves the region `name` to another address, or changes its shape, for instance after a realloc. */
  template <class T, class A> void move(const std::string &name, std::vector<T, A> &elements) {
    move_elements(name, elements.data(), {elements.size()});
  }
  template <class T> void move(const std::string &name, T *data, const extents &shape) {
    move_elements(name, data, shape.numbers());
  }
  /* `bytes` bytes at `data`, without an element type. */
  void protect_bytes(const std::string &name, void *data, std::size_t bytes) {
    detail::check(mainstay_protect(handle_, detail::text(name), data, bytes));
  }
  /* Memory for `count` elements, all zero, protected under `name`. `flags` is a sum of mainstay_alloc_flag: pass the
   * flag if MPI or input writes into it. The memory stays until you free it or close the session. */
  template <class T> T *alloc(const std::string &name, std::size_t count, unsigned flags = MAINSTAY_ALLOC_FLAG_PLAIN) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) detail::refuse("there is no room for this many elements");
    void *memory = nullptr;
    detail::check(mainstay_alloc(handle_, detail::text(name), count * sizeof(T), flags, &memory));
    detail::check(mainstay_unprotect(handle_, detail::text(name)));
    protect(name, static_cast<T *>(memory), {count});
    return static_cast<T *>(memory);
  }
  /* Unprotects and frees the memory allocated under `name`. */
  void free(const std::string &name) { detail::check(mainstay_free(handle_, detail::text(name))); }
  /* Finds the changes of a region by hashes instead of written pages: for memory that a network card, a GPU or
   * another process writes. */
  void untrack(const std::string &name) { detail::check(mainstay_untrack(handle_, detail::text(name))); }
  /* Declares that all ranks have the same bytes in this region, so any number of ranks gets it back. */
  void same_on_all_ranks(const std::string &name) {
    detail::check(mainstay_same_on_all_ranks(handle_, detail::text(name)));
  }
  /* Declares that any number of ranks can take over the shards of this job: the program divides them anew itself. */
  void any_number_of_ranks() { detail::check(mainstay_any_number_of_ranks(handle_)); }
  /* Promises that the program will not write `bytes` bytes of a region, from `offset` on, before the next checkpoint.
   * With the setting predictor Mainstay saves them at once, in the background. */
  void settled(const std::string &name, uint64_t offset, uint64_t bytes) {
    detail::check(mainstay_settled(handle_, detail::text(name), offset, bytes));
  }
  void unprotect(const std::string &name) { detail::check(mainstay_unprotect(handle_, detail::text(name))); }
  void unprotect_all() { detail::check(mainstay_unprotect_all(handle_)); }
  /* Protects the program's own variables, .data and .bss. First leave out variables that have a constructor or point
   * to memory of their own (std::string, std::vector). */
  void protect_globals() { detail::check(mainstay_protect_globals(handle_)); }
  /* Protects all memory that the heap has returned and will return: mainstay_heap_malloc, and containers with a
   * heap_allocator. */
  void protect_heap() { detail::check(mainstay_protect_heap(handle_)); }
  template <class T> void leave_out(const T &variable) {
    detail::check(mainstay_leave_out(handle_, std::addressof(variable), sizeof variable));
  }
  void protect_output(const std::string &path) { detail::check(mainstay_protect_output(handle_, detail::text(path))); }

  /* The newest complete revision, or the one of this number. */
  mainstay::restored restore(std::uint64_t revision = MAINSTAY_NEWEST) {
    mainstay_restored found = {};
    detail::check(mainstay_restore_revision(handle_, revision, &found));
    return {found.revision, found.skipped, mainstay_report(handle_), found.step};
  }
  /* Goes back like restore(), but fills nothing: read the items by read_shard(). See mainstay_choose. */
  mainstay::restored choose(std::uint64_t revision = MAINSTAY_NEWEST) {
    mainstay_restored found = {};
    detail::check(mainstay_choose(handle_, revision, &found));
    return {found.revision, found.skipped, mainstay_report(handle_), found.step};
  }
  /* The complete revisions that restore() and choose() can go back to, the newest first. Collective. */
  std::vector<listed_revision> revisions() {
    std::vector<listed_revision> all;
    std::size_t count = 0;
    detail::check(mainstay_revisions(handle_, &count));
    for (std::size_t index = 0; index < count; index++) {
      listed_revision found = {};
      detail::check(mainstay_revision(handle_, index, &found));
      all.push_back(found);
    }
    return all;
  }
  /* This rank's note `name` in revision `index` of the last revisions(). */
  std::optional<std::string> revision_note(std::size_t index, const std::string &name) const {
    const char *value = mainstay_revision_note(handle_, index, detail::text(name));
    return value ? std::optional<std::string>(value) : std::nullopt;
  }
  /* This rank's note `name` in the restored revision. */
  std::optional<std::string> restored_note(const std::string &name) const {
    const char *value = mainstay_restored_note(handle_, detail::text(name));
    return value ? std::optional<std::string>(value) : std::nullopt;
  }
  /* Sets a note: every revision from now on carries `value` under `name`. */
  void note(const std::string &name, const std::string &value) {
    detail::check(mainstay_note(handle_, detail::text(name), detail::text(value)));
  }

  /* Whether the program should checkpoint now, after `step` steps. */
  bool due(std::uint64_t step) {
    int answer = 0;
    detail::check(mainstay_due(handle_, step, &answer));
    return answer != 0;
  }
  /* Returns the number of the revision, which is not yet durable. */
  std::uint64_t checkpoint() {
    std::uint64_t revision = 0;
    detail::check(mainstay_checkpoint(handle_, &revision));
    return revision;
  }

  /* Begins a checkpoint that the program writes in pieces (t1), of at most `bytes` bytes on this rank, gaps in a
   * stream included. checkpoint() ends it. Returns the number that the revision will have. */
  std::uint64_t begin(std::uint64_t bytes) {
    std::uint64_t revision = 0;
    detail::check(mainstay_begin(handle_, bytes, &revision));
    return revision;
  }
  /* A piece of the stream `name`, from byte `offset` on. */
  void write(const std::string &name, std::uint64_t offset, const void *data, std::size_t bytes) {
    detail::check(mainstay_write(handle_, detail::text(name), offset, data, bytes));
  }
  /* The elements of a contiguous container: std::vector, std::array, std::string, std::span. */
  template <class Elements> void write(const std::string &name, std::uint64_t offset, const Elements &elements) {
    write(name, offset, std::data(elements), detail::bytes(elements));
  }
  /* Abandons the checkpoint that has begun; its number is used up. */
  void abandon() { detail::check(mainstay_abandon(handle_)); }
  /* Reads from the stream `name` of the restored revision. Returns the number of bytes: fewer than `bytes` only at
   * the end. */
  std::size_t read(const std::string &name, std::uint64_t offset, void *data, std::size_t bytes) {
    std::size_t got = 0;
    detail::check(mainstay_read(handle_, detail::text(name), offset, data, bytes, &got));
    return got;
  }
  /* Into the present elements. */
  template <class Elements> std::size_t read(const std::string &name, std::uint64_t offset, Elements &&elements) {
    return read(name, offset, std::data(elements), detail::bytes(elements));
  }
  /* The lengths of this rank's streams in the restored revision, by name. */
  std::map<std::string, std::uint64_t> streams() {
    std::map<std::string, std::uint64_t> all;
    std::size_t count = 0;
    detail::check(mainstay_streams(handle_, &count));
    for (std::size_t index = 0; index < count; index++) {
      const char *name = nullptr;
      std::uint64_t bytes = 0;
      detail::check(mainstay_stream(handle_, index, &name, &bytes));
      all.emplace(name, bytes);
    }
    return all;
  }
  std::uint64_t stream_bytes(const std::string &name) {
    std::uint64_t bytes = 0;
    detail::check(mainstay_stream_bytes(handle_, detail::text(name), &bytes));
    return bytes;
  }

  /* The number of ranks that saved the restored revision: shard r is the one that rank r saved. */
  std::uint32_t shards() {
    std::uint32_t count = 0;
    detail::check(mainstay_shards(handle_, &count));
    return count;
  }
  /* Lets this rank read these shards, on whichever node they are, and `shard_items` list the items of all.
   * Collective; each rank passes the shards that it wants. */
  void bring_shards(const std::vector<std::uint32_t> &wanted = {}) {
    detail::check(mainstay_bring_shards(handle_, wanted.data(), wanted.size()));
  }
  std::vector<item> shard_items(std::uint32_t shard) {
    std::vector<item> all;
    std::size_t count = 0;
    detail::check(mainstay_shard_items(handle_, shard, &count));
    for (std::size_t index = 0; index < count; index++) {
      mainstay_item found = {};
      detail::check(mainstay_shard_item(handle_, shard, index, &found));
      all.push_back(detail::item_of(found));
    }
    return all;
  }
  /* Returns the number of bytes read: fewer than `bytes` only at the item's end. */
  std::size_t read_shard(std::uint32_t shard, const std::string &name, std::uint64_t offset, void *data,
                         std::size_t bytes) {
    std::size_t got = 0;
    detail::check(mainstay_read_shard(handle_, shard, detail::text(name), offset, data, bytes, &got));
    return got;
  }
  template <class Elements>
  std::size_t read_shard(std::uint32_t shard, const std::string &name, std::uint64_t offset, Elements &&elements) {
    return read_shard(shard, name, offset, std::data(elements), detail::bytes(elements));
  }

  /* Saves a buffer under `name` as the next revision, durable on all ranks when the call returns. */
  std::uint64_t put(const std::string &name, const void *data, std::size_t bytes) {
    std::uint64_t revision = 0;
    detail::check(mainstay_put(handle_, detail::text(name), data, bytes, &revision));
    return revision;
  }
  template <class Elements> std::uint64_t put(const std::string &name, const Elements &elements) {
    return put(name, std::data(elements), detail::bytes(elements));
  }
  /* Reads a buffer of put, from the revision of this number, or from MAINSTAY_NEWEST. Revision 0 in the result:
   * nothing was saved yet. */
  mainstay_got get(std::uint64_t revision, const std::string &name, void *data, std::size_t bytes) {
    mainstay_got got = {};
    detail::check(mainstay_get(handle_, revision, detail::text(name), data, bytes, &got));
    return got;
  }
  /* Into the present elements. */
  template <class Elements> mainstay_got get(std::uint64_t revision, const std::string &name, Elements &&elements) {
    return get(revision, name, std::data(elements), detail::bytes(elements));
  }
  /* The item that this rank saved under `name`, in the revision that restore() tries first; nothing if there is none.
   * Collective. */
  std::optional<item> saved(const std::string &name, std::uint64_t revision = MAINSTAY_NEWEST) {
    mainstay_item found = {};
    detail::check(mainstay_saved(handle_, revision, detail::text(name), &found));
    if (!found.name) return std::nullopt;
    return detail::item_of(found);
  }
  std::uint64_t get_bytes(std::uint64_t revision, const std::string &name) {
    std::uint64_t bytes = 0;
    detail::check(mainstay_get_bytes(handle_, revision, detail::text(name), &bytes));
    return bytes;
  }

  void wait() { detail::check(mainstay_wait(handle_)); }
  /* "memory", "disk" or "space" */
  void wait_for(const std::string &level) { detail::check(mainstay_wait_for(handle_, detail::text(level))); }
  void progress() { detail::check(mainstay_progress(handle_)); }
  void tick() { detail::check(mainstay_tick(handle_)); }
  bool poll() {
    int durable = 0;
    detail::check(mainstay_poll(handle_, &durable));
    return durable != 0;
  }
  /* Results of saving early on this rank. */
  mainstay_speculation speculation() const {
    mainstay_speculation told = {};
    detail::check(mainstay_speculated(handle_, &told));
    return told;
  }
  /* revision 0: no checkpoint has become durable yet. */
  mainstay_record last_record() const {
    mainstay_record record = {};
    detail::check(mainstay_last_record(handle_, &record));
    return record;
  }

  /* Goes on without the failed ranks. */
  void recover() { detail::check(mainstay_recover(handle_)); }
  /* Throws GROUP_FAILED if this rank knows of failed ranks. */
  void check() { detail::check(mainstay_check(handle_)); }
  /* Runs a program as steps, from the newest complete revision if there is one, and through failures of ranks:
   *
   *     session.run([&](mainstay::session &session) { ... session.protect("field", field); },
   *                 [&](mainstay::session &session, std::uint64_t step) { if (step == steps) return false; ...; return
   * true; });
   *
   * `layout` prepares the program on the present ranks, and protects the state. `step` does a step, or returns false
   * if there is no such step any more. An exception from either ends the run, except a GROUP_FAILED. */
  template <class Layout, class Step> void run(Layout &&layout, Step &&step) {
    using steps = detail::steps<session, std::remove_reference_t<Layout>, std::remove_reference_t<Step>>;
    steps all{*this, layout, step};
    const mainstay_status status = mainstay_run(handle_, &steps::lay_out, &steps::take, &all);
    if (status != MAINSTAY_OK && all.thrown && status == all.told) std::rethrow_exception(all.thrown);
    detail::check(status);
  }

  /* Waits for the last revision and ends the session, even if it throws. */
  void close() {
    if (handle_) detail::check(mainstay_close(std::exchange(handle_, nullptr)));
  }
  /* Ends the session of this rank without the others, for instance after an error of this rank alone: its part of the
   * last revision becomes durable. The others wait in their next collective call until the job ends, for instance by
   * MPI_Abort. */
  void leave() {
    if (handle_) detail::check(mainstay_leave(std::exchange(handle_, nullptr)));
  }
  bool is_open() const noexcept { return handle_ != nullptr; }
  /* For calls of mainstay.h; the session keeps it. */
  mainstay_session *get() const noexcept { return handle_; }

private:
  template <class T> void protect_elements(const std::string &name, T *data, std::vector<std::uint64_t> shape) {
    using element = detail::element<T>;
    element::shape(shape);
    const char *text = detail::text(name);
    detail::check(mainstay_protect_array(handle_, text, data, element::type, shape.size(), shape.data()));
  }
  template <class T> void move_elements(const std::string &name, T *data, std::vector<std::uint64_t> shape) {
    using element = detail::element<T>;
    element::shape(shape);
    detail::check(mainstay_move_within(handle_, detail::text(name), data, element::type, shape.size(), shape.data(),
                                       nullptr, nullptr, nullptr, nullptr));
  }
  /* Appends the dimensions of T itself. */
  template <class T> static std::vector<std::uint64_t> with_inner(const extents &of) {
    auto numbers = of.numbers();
    detail::element<T>::shape(numbers);
    return numbers;
  }
  void quietly_close() noexcept {
    if (handle_) mainstay_close(std::exchange(handle_, nullptr));
  }

  mainstay_session *handle_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();
};

/* One revision of a space, which any process can read. You can move it, but not copy it. */
class reader {
public:
  explicit reader(const std::string &path, std::uint64_t revision = MAINSTAY_NEWEST) {
    detail::check(mainstay_reader_open(detail::text(path), revision, &handle_));
  }
  reader(reader &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  reader &operator=(reader &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  reader(const reader &) = delete;
  reader &operator=(const reader &) = delete;
  ~reader() { mainstay_reader_close(handle_); }

  std::uint64_t revision() const noexcept { return mainstay_reader_revision(handle_); }
  std::uint32_t shards() const noexcept { return mainstay_reader_shards(handle_); }
  std::vector<item> items(std::uint32_t shard) const {
    std::vector<item> all;
    for (std::size_t i = 0; i < mainstay_reader_items(handle_, shard); i++) {
      mainstay_item found = {};
      detail::check(mainstay_reader_item(handle_, shard, i, &found));
      all.push_back(detail::item_of(found));
    }
    return all;
  }
  /* Returns the number of bytes read: fewer than `bytes` only at the item's end. */
  std::size_t read(std::uint32_t shard, const std::string &name, std::uint64_t offset, void *data, std::size_t bytes) {
    std::size_t got = 0;
    detail::check(mainstay_reader_read(handle_, shard, detail::text(name), offset, data, bytes, &got));
    return got;
  }
  template <class Elements>
  std::size_t read(std::uint32_t shard, const std::string &name, std::uint64_t offset, Elements &&elements) {
    return read(shard, name, offset, std::data(elements), detail::bytes(elements));
  }
  /* The box of a global array, from all shards that hold part of it. */
  template <class Elements>
  void read_box(const std::string &name, const extents &shape, const extents &offset, Elements &&elements) {
    if (shape.size() != offset.size()) detail::refuse("shape and offset have not as many numbers");
    detail::check(mainstay_reader_read_box(handle_, detail::text(name), shape.size(), shape.numbers().data(),
                                           offset.numbers().data(), std::data(elements), detail::bytes(elements)));
  }

private:
  mainstay_reader *handle_ = nullptr;
};

/* Opens the space in the directory `path` for a program of one process. */
inline session open_solo(const std::string &path, const mainstay_options &options = mainstay::options()) {
  mainstay_session *opened = nullptr;
  detail::check(mainstay_open_solo(detail::text(path), &options, &opened));
  return session(opened);
}

/* The same for the ranks of `group`. Collective. */
inline session open(const mainstay_group &group, const std::string &path,
                    const mainstay_options &options = mainstay::options()) {
  mainstay_session *opened = nullptr;
  detail::check(mainstay_open(&group, detail::text(path), &options, &opened));
  return session(opened);
}

} // namespace mainstay

#endif /* MAINSTAY_HPP */
