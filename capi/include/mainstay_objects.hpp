/* Objects that move, for C++17. Licence: MIT OR Apache-2.0.
 *
 * mainstay_objects.h with classes as kinds of objects. One function of each class, pup, goes through its data for
 * sizing, packing and unpacking alike. Header only; MPI programs include mainstay_objects_mpi.hpp, which includes
 * this.
 *
 *     struct cell {
 *       explicit cell(std::uint64_t index);
 *       void pup(mainstay::pup &p) { p | positions | velocities; }
 *       void receive(mainstay::objects &objects, std::uint32_t method, mainstay::contents data);
 *     };
 *     auto cells = objects.add<cell>("cell", 3);
 *     if (!objects.restore()) ... cells.create(mainstay::index(x, y, z)) ...
 *     cells.send(index, method, mainstay::parcel() << step << values);
 *     objects.step(); */
#ifndef MAINSTAY_OBJECTS_HPP
#define MAINSTAY_OBJECTS_HPP

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mainstay.hpp"
#include "mainstay_objects.h"

namespace mainstay {

/* The index of the object at these coordinates: one, two below 2^32, or three below 2^21. */
template <class... I> std::uint64_t index(I... at) {
  const std::uint64_t numbers[] = {static_cast<std::uint64_t>(at)...};
  static_assert(sizeof...(I) >= 1 && sizeof...(I) <= 3, "an index has one to three coordinates");
  return mainstay_object_index(sizeof...(I), numbers);
}

/* Goes through the data of an object: counts its bytes, writes them, or reads them back. */
class pup {
public:
  static pup sizing() { return pup(mode::size, nullptr, 0); }
  static pup packing(void *into, std::size_t bytes) { return pup(mode::pack, static_cast<char *>(into), bytes); }
  static pup unpacking(const void *from, std::size_t bytes) {
    return pup(mode::unpack, const_cast<char *>(static_cast<const char *>(from)), bytes);
  }

  bool is_packing() const noexcept { return mode_ == mode::pack; }
  bool is_unpacking() const noexcept { return mode_ == mode::unpack; }
  /* Number of bytes used, or needed if the room is smaller. */
  std::size_t bytes() const noexcept { return at_; }

  /* Takes numbers, enums and plain structs; arrays, std::vector, std::string and std::pair of these; and types with a
   * pup of their own. */
  template <class T> pup &operator|(T &value) {
    go(value);
    return *this;
  }
  void raw(void *data, std::size_t bytes) {
    const bool fits = at_ <= room_ && bytes <= room_ - at_;
    if (mode_ == mode::unpack && !fits)
      throw error(MAINSTAY_INVALID_ARGUMENT, "unpacking reads beyond the end of the packed bytes");
    if (fits && bytes && mode_ == mode::pack) std::memcpy(memory_ + at_, data, bytes);
    if (fits && bytes && mode_ == mode::unpack) std::memcpy(data, memory_ + at_, bytes);
    at_ += bytes;
  }

private:
  enum class mode { size, pack, unpack };
  pup(mode how, char *memory, std::size_t room) : mode_(how), memory_(memory), room_(room) {}

  template <class T, class = void> struct has_pup : std::false_type {};
  template <class T>
  struct has_pup<T, std::void_t<decltype(std::declval<T &>().pup(std::declval<class pup &>()))>> : std::true_type {};

  /* Whether its bytes are its whole value. */
  template <class T>
  struct is_raw : std::bool_constant<!has_pup<T>::value && std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                                     !std::is_member_pointer_v<T>> {};
  template <class T, std::size_t N> struct is_raw<T[N]> : is_raw<T> {};
  template <class T, std::size_t N> struct is_raw<std::array<T, N>> : is_raw<T> {};

  template <class T> void go(T &value) {
    if constexpr (has_pup<T>::value) {
      value.pup(*this);
    } else {
      static_assert(std::is_trivially_copyable_v<T>, "give it a pup function, or put its parts in one by one");
      static_assert(!std::is_pointer_v<T> && !std::is_member_pointer_v<T>, "an address means nothing on another rank");
      raw(&value, sizeof value);
    }
  }
  template <class T, std::size_t N> void go(T (&elements)[N]) { go_through(elements); }
  template <class T, std::size_t N> void go(std::array<T, N> &elements) { go_through(elements); }
  template <class Elements> void go_through(Elements &elements) {
    if constexpr (is_raw<Elements>::value)
      raw(&elements, sizeof elements);
    else
      for (auto &element : elements) go(element);
  }
  template <class T, class A> void go(std::vector<T, A> &elements) {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no bytes of its own: use std::vector<char>");
    if constexpr (is_raw<T>::value) {
      resize(elements, sizeof(T));
      raw(elements.data(), elements.size() * sizeof(T));
    } else {
      std::uint64_t count = elements.size();
      raw(&count, sizeof count);
      if (mode_ == mode::unpack)
        unpack_each(elements, count);
      else
        for (T &element : elements) go(element);
    }
  }
  void go(std::string &text) {
    resize(text, 1);
    raw(text.data(), text.size());
  }
  template <class A, class B> void go(std::pair<A, B> &both) { go(both.first), go(both.second); }

  template <class Elements> void unpack_each(Elements &elements, std::uint64_t count) {
    if (elements.size() > count) elements.resize(static_cast<std::size_t>(count));
    elements.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(count, elements.size() + (room_ - at_))));
    for (std::size_t i = 0; i < count; i++) {
      const std::size_t begun = at_;
      if (i == elements.size()) elements.emplace_back();
      go(elements[i]);
      /* Elements that pack to nothing would fit in any number. */
      if (at_ == begun && count > without_bytes_max)
        throw error(MAINSTAY_INVALID_ARGUMENT, "unpacking meets a length that cannot be");
    }
  }

  template <class Elements> void resize(Elements &elements, std::size_t each) {
    std::uint64_t count = elements.size();
    raw(&count, sizeof count);
    if (mode_ != mode::unpack) return;
    if (count > (room_ - at_) / each) throw error(MAINSTAY_INVALID_ARGUMENT, "unpacking meets a length that cannot be");
    elements.resize(count);
  }

  static constexpr std::uint64_t without_bytes_max = 1 << 20;
  mode mode_;
  char *memory_;
  std::size_t room_, at_ = 0;
};

/* The data of a message to send: `mainstay::parcel() << step << positions`. */
class parcel {
public:
  template <class T> parcel &operator<<(const T &value) {
    auto &data = const_cast<T &>(value); /* only read */
    auto sized = pup::sizing();
    sized | data;
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + sized.bytes());
    auto packed = pup::packing(bytes_.data() + begin, sized.bytes());
    packed | data;
    return *this;
  }
  /* Empties it, for another message in the same memory: a new parcel costs more than filling this one. */
  parcel &clear() noexcept {
    bytes_.clear();
    return *this;
  }
  const void *data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }

private:
  std::vector<char> bytes_;
};

/* The data of a received message: `data >> step >> positions`, in the order in which it was written. */
class contents {
public:
  contents(const void *data, std::size_t bytes) : pup_(pup::unpacking(data, bytes)) {}
  template <class T> contents &operator>>(T &value) {
    pup_ | value;
    return *this;
  }
  template <class T> T get() {
    T value{};
    *this >> value;
    return value;
  }

private:
  pup pup_;
};

class objects;

/* A kind of objects, from objects::add. */
template <class T> class kind {
public:
  std::uint32_t number() const noexcept { return number_; }
  /* Makes an object on this rank; the other ranks learn of it when the step ends. */
  T &create(std::uint64_t index) const {
    void *made = nullptr;
    detail::check(mainstay_objects_create(objects_, number_, index, &made));
    return *static_cast<T *>(made);
  }
  /* An object on this rank; otherwise nullptr. */
  T *get(std::uint64_t index) const {
    void *found = nullptr;
    detail::check(mainstay_objects_get(objects_, number_, index, &found));
    return static_cast<T *>(found);
  }
  /* The indices of the objects on this rank. */
  std::vector<std::uint64_t> here() const {
    std::size_t count = 0;
    detail::check(mainstay_objects_here(objects_, number_, nullptr, 0, &count));
    std::vector<std::uint64_t> indices(count);
    detail::check(mainstay_objects_here(objects_, number_, indices.data(), count, &count));
    return indices;
  }
  std::uint32_t rank(std::uint64_t index) const {
    std::uint32_t rank = 0;
    detail::check(mainstay_objects_rank(objects_, number_, index, &rank));
    return rank;
  }
  /* The recent work of an object on this rank: its load, and the bytes that it has sent to each receiver. */
  std::pair<std::uint64_t, std::vector<mainstay_sent>> measured(std::uint64_t index) const {
    std::uint64_t load = 0;
    std::size_t count = 0;
    detail::check(mainstay_objects_measured(objects_, number_, index, &load, nullptr, 0, &count));
    std::vector<mainstay_sent> sent(count);
    detail::check(mainstay_objects_measured(objects_, number_, index, &load, sent.data(), count, &count));
    return {load, sent};
  }
  void send(std::uint64_t index, std::uint32_t method, const parcel &data = {}) const {
    detail::check(mainstay_objects_send(objects_, number_, index, method, data.data(), data.size()));
  }
  void broadcast(std::uint32_t method, const parcel &data = {}) const {
    detail::check(mainstay_objects_broadcast(objects_, number_, method, data.data(), data.size()));
  }

private:
  friend class objects;
  kind(mainstay_objects *objects, std::uint32_t number) : objects_(objects), number_(number) {}
  mainstay_objects *objects_;
  std::uint32_t number_;
};

/* The objects of a job, on this rank. Destroy them before their session. */
class objects {
public:
  /* Takes over objects of mainstay_objects_open. */
  explicit objects(mainstay_objects *taken) noexcept : handle_(taken, mainstay_objects_close) {}
  objects(const objects &) = delete; /* kinds hold its address */
  objects &operator=(const objects &) = delete;

  /* Registers the class T under `name`. T has a constructor from its index, or a default constructor. It has
   * pup(mainstay::pup &). If it takes messages, it has receive(mainstay::objects &, std::uint32_t method,
   * mainstay::contents data). An exception from receive ends the step on all ranks, with the object's name in the
   * message. */
  template <class T> kind<T> add(const std::string &name, std::uint32_t dimensions = 0) {
    mainstay_kind table = {};
    table.size = sizeof table;
    table.name = detail::text(name);
    table.dimensions = dimensions;
    table.context = this;
    table.create = [](void *, std::uint64_t index, void **object) {
      return kept([&] {
        (void)index;
        if constexpr (std::is_constructible_v<T, std::uint64_t>)
          *object = new T(index);
        else
          *object = new T();
      });
    };
    table.destroy = [](void *, void *object) { delete static_cast<T *>(object); };
    table.bytes = [](void *, void *object, std::size_t *bytes) {
      return kept([&] {
        auto visitor = pup::sizing();
        static_cast<T *>(object)->pup(visitor), *bytes = visitor.bytes();
      });
    };
    table.pack = [](void *, void *object, void *into, std::size_t room, std::size_t *written) {
      return kept([&] {
        auto visitor = pup::packing(into, room);
        static_cast<T *>(object)->pup(visitor), *written = visitor.bytes();
      });
    };
    table.unpack = [](void *, void *object, const void *from, std::size_t bytes, std::size_t *taken) {
      return kept([&] {
        auto visitor = pup::unpacking(from, bytes);
        static_cast<T *>(object)->pup(visitor), *taken = visitor.bytes();
      });
    };
    if constexpr (receives<T>::value)
      table.receive = [](void *context, void *object, std::uint32_t method, const void *data, std::size_t bytes) {
        return kept([&] {
          static_cast<T *>(object)->receive(*static_cast<objects *>(context), method, contents(data, bytes));
        });
      };
    std::uint32_t number = 0;
    detail::check(mainstay_objects_register(get(), &table, &number));
    return kind<T>(get(), number);
  }

  /* Revision 0 in the result: there was nothing, and there are no objects. */
  mainstay_objects_came restore() {
    mainstay_objects_came came = {};
    detail::check(mainstay_objects_restore(get(), &came));
    return came;
  }
  std::uint64_t checkpoint() {
    std::uint64_t revision = 0;
    detail::check(mainstay_objects_checkpoint(get(), &revision));
    return revision;
  }
  void step() { detail::check(mainstay_objects_step(get())); }
  std::uint64_t steps() const {
    std::uint64_t steps = 0;
    detail::check(mainstay_objects_steps(get(), &steps));
    return steps;
  }
  mainstay_balanced balance(const std::string &strategy = "refine") {
    mainstay_balanced balanced = {};
    detail::check(mainstay_objects_balance(get(), detail::text(strategy), &balanced));
    return balanced;
  }
  mainstay_balanced evacuate(const std::vector<std::uint32_t> &ranks) {
    mainstay_balanced balanced = {};
    detail::check(mainstay_objects_evacuate(get(), ranks.data(), ranks.size(), &balanced));
    return balanced;
  }
  /* Contributes to the sum, or another mainstay_op, of this number. */
  void contribute(std::uint32_t result, const std::vector<double> &values, mainstay_op op = MAINSTAY_OP_SUM) {
    detail::check(mainstay_objects_contribute(get(), result, op, values.data(), values.size()));
  }
  /* The result of this number in the last step. */
  std::vector<double> result(std::uint32_t number, std::size_t count) const {
    std::vector<double> values(count);
    detail::check(mainstay_objects_result(get(), number, values.data(), count));
    return values;
  }
  /* In receive: adds units of work, in place of the time that it takes. */
  void work(std::uint64_t units) { detail::check(mainstay_objects_work(get(), units)); }

  mainstay_objects *get() const noexcept { return handle_.get(); }
  void close() noexcept { handle_.reset(); }

private:
  template <class T, class = void> struct receives : std::false_type {};
  template <class T>
  struct receives<
      T, std::void_t<decltype(std::declval<T &>().receive(std::declval<objects &>(), 0u, std::declval<contents>()))>>
      : std::true_type {};

  /* No exception passes through C: the message takes another way. */
  template <class Call> static int kept(Call &&call) noexcept {
    try {
      call();
      return MAINSTAY_OK;
    } catch (const error &e) {
      return mainstay_adapter_error(e.status(), e.what());
    } catch (const std::exception &e) {
      return mainstay_adapter_error(MAINSTAY_INTERNAL, e.what());
    } catch (...) {
      return mainstay_adapter_error(MAINSTAY_INTERNAL, "it threw an object that is no std::exception");
    }
  }

  std::unique_ptr<mainstay_objects, mainstay_status (*)(mainstay_objects *)> handle_;
};

} // namespace mainstay

#endif /* MAINSTAY_OBJECTS_HPP */
