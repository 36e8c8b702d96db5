/* Errors, options, shapes and element types of Mainstay for C++17. Licence: MIT OR Apache-2.0.
 *
 * Included by mainstay.hpp. */
#ifndef MAINSTAY_VALUES_HPP
#define MAINSTAY_VALUES_HPP

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "mainstay.h"

namespace mainstay {

/* An error of a call; what() is the engine's message. */
class error : public std::runtime_error {
public:
  error(mainstay_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
  mainstay_status status() const noexcept { return status_; }
  /* "DISK_FULL" */
  const char *status_name() const noexcept { return mainstay_status_name(status_); }

private:
  mainstay_status status_;
};

/* An item of a shard. The vectors are empty if there is no shape, and in items that are not boxes of a global array. */
struct item {
  std::string name;
  std::uint32_t kind = 0; /* 0: a region, 1: a buffer that was put, 2: a stream */
  mainstay_type type = MAINSTAY_BYTES;
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> shape, global_shape, offset;
};

/* The result of a restore; false if there was nothing, and the memory is unchanged. */
struct restored {
  std::uint64_t revision = 0;
  std::uint64_t skipped = 0; /* number of damaged parts that the restore passed over: `report` describes them */
  std::string report;
  std::uint64_t step = 0; /* last step given to `due` before the program saved the revision; 0: none */
  explicit operator bool() const noexcept { return revision != 0; }
};

/* A complete revision, as `revisions` lists it. */
using listed_revision = mainstay_listed_revision;

namespace detail {

inline void check(mainstay_status status) {
  if (status != MAINSTAY_OK) throw error(status, mainstay_error_message());
}

[[noreturn]] inline void refuse(const std::string &why) { throw error(MAINSTAY_INVALID_ARGUMENT, why); }

/* A text for C, which would end at a zero byte. */
inline const char *text(const std::string &value) {
  if (value.find('\0') != std::string::npos) refuse("a text with a zero byte in it: " + std::string(value.c_str()));
  return value.c_str();
}

/* The element type of T in a space; MAINSTAY_BYTES for types without a name there. */
template <class T> constexpr mainstay_type code() {
  if constexpr (std::is_enum_v<T> && !std::is_same_v<T, std::byte>)
    return code<std::underlying_type_t<T>>();
  else if constexpr (std::is_same_v<T, bool>)
    return MAINSTAY_BOOL;
  else if constexpr (std::is_integral_v<T>) {
    constexpr bool sign = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1)
      return sign ? MAINSTAY_I8 : MAINSTAY_U8;
    else if constexpr (sizeof(T) == 2)
      return sign ? MAINSTAY_I16 : MAINSTAY_U16;
    else if constexpr (sizeof(T) == 4)
      return sign ? MAINSTAY_I32 : MAINSTAY_U32;
    else if constexpr (sizeof(T) == 8)
      return sign ? MAINSTAY_I64 : MAINSTAY_U64;
    else
      return MAINSTAY_BYTES;
  } else if constexpr (std::is_same_v<T, float>)
    return MAINSTAY_F32;
  else if constexpr (std::is_same_v<T, double>)
    return MAINSTAY_F64;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return MAINSTAY_C64;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return MAINSTAY_C128;
  else
    return MAINSTAY_BYTES;
}

/* Element type and inner shape of T: arrays lead to their elements, other types are elements themselves. */
template <class T> struct element {
  static_assert(std::is_trivially_copyable_v<T>, "only memory that memcpy copies can be protected");
  static_assert(!std::is_pointer_v<T> && !std::is_member_pointer_v<T>, "an address means nothing in another run");
  static_assert(!std::is_const_v<T>, "a restore writes to protected memory");
  static constexpr mainstay_type type = code<T>();
  static void shape(std::vector<std::uint64_t> &shape) {
    if (type == MAINSTAY_BYTES && sizeof(T) > 1) shape.push_back(sizeof(T));
  }
};
template <class T, std::size_t N> struct element<T[N]> {
  static constexpr mainstay_type type = element<T>::type;
  static void shape(std::vector<std::uint64_t> &shape) { shape.push_back(N), element<T>::shape(shape); }
};
template <class T, std::size_t N> struct element<std::array<T, N>> {
  static_assert(sizeof(std::array<T, N>) == N * sizeof(T), "no room between the elements");
  static constexpr mainstay_type type = element<T>::type;
  static void shape(std::vector<std::uint64_t> &shape) { shape.push_back(N), element<T>::shape(shape); }
};

inline item item_of(const mainstay_item &found) {
  auto numbers = [&](const std::uint64_t *first) {
    return first ? std::vector<std::uint64_t>(first, first + found.dimensions) : std::vector<std::uint64_t>();
  };
  return {found.name,           found.kind,           static_cast<mainstay_type>(found.type),
          found.bytes,          numbers(found.shape), numbers(found.global_shape),
          numbers(found.offset)};
}

/* Bytes of all elements of a container, which are contiguous. */
template <class Elements> std::size_t bytes(const Elements &elements) {
  using T = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(elements))>>;
  static_assert(std::is_trivially_copyable_v<T>, "only elements that memcpy copies can be in a stream");
  static_assert(!std::is_pointer_v<T> && !std::is_member_pointer_v<T>, "an address means nothing in another run");
  return std::size(elements) * sizeof(T);
}

/* Address and number of the elements of a container, for mainstay_follow_call. */
template <class T, class A> void *where_vector(void *context, std::uint64_t *count) {
  auto &elements = *static_cast<std::vector<T, A> *>(context);
  *count = elements.size();
  return elements.data();
}
/* Resizes it to the saved number of elements, for mainstay_follow_resize. */
template <class T, class A>
int resize_vector(void *context, std::size_t dimensions, const std::uint64_t *shape) noexcept {
  std::vector<std::uint64_t> inner;
  element<T>::shape(inner);
  if (dimensions != inner.size() + 1 || !std::equal(inner.begin(), inner.end(), shape + 1)) return 1;
  try {
    static_cast<std::vector<T, A> *>(context)->resize(static_cast<std::size_t>(shape[0]));
    return 0;
  } catch (...) {
    return 2;
  }
}
template <class Pointer> void *where_pointer(void *context, std::uint64_t *) {
  return static_cast<Pointer *>(context)->get();
}

/* The callbacks of a run, for C. An exception waits until the run is over. */
template <class Session, class Layout, class Step> struct steps {
  Session &session;
  Layout &layout;
  Step &step;
  std::exception_ptr thrown = nullptr;
  int told = MAINSTAY_OK; /* the status of the exception */

  template <class Call> int kept(Call &&call) noexcept {
    thrown = nullptr; /* the run has gone on after an earlier exception */
    told = MAINSTAY_OK;
    try {
      call();
      return MAINSTAY_OK;
    } catch (const error &e) {
      return keep(e.status());
    } catch (...) {
      return keep(MAINSTAY_INTERNAL);
    }
  }
  int keep(int status) noexcept {
    thrown = std::current_exception();
    return told = status;
  }
  static int lay_out(mainstay_session *, void *context) {
    auto &self = *static_cast<steps *>(context);
    return self.kept([&] { self.layout(self.session); });
  }
  static int take(mainstay_session *, std::uint64_t number, int *over, void *context) {
    auto &self = *static_cast<steps *>(context);
    return self.kept([&] { *over = !self.step(self.session, number); });
  }
};

/* Types that memcpy must not copy, but that have protect() functions of their own. */
template <class T> struct is_view : std::false_type {};
#if __cplusplus >= 202002L
template <class T, std::size_t N> struct is_view<std::span<T, N>> : std::true_type {};
#endif

} // namespace detail

/* mainstay_options that begins with the defaults. */
struct options : mainstay_options {
  options() noexcept : mainstay_options MAINSTAY_OPTIONS_INIT {}

  /* Any setting of the guide's table, such as "memory" to "auto"; its value is written as in the environment. Goes
   * before the field of the same name. Throws mainstay::error. */
  options &set(const std::string &key, const std::string &value) {
    detail::check(mainstay_set(this, detail::text(key), detail::text(value)));
    return *this;
  }
};

/* A number for each side of an array, the slowest dimension first: whole numbers of any types in braces, {rows,
 * columns}, or a vector of them. */
class extents {
public:
  extents() = default;
  template <class... I, std::enable_if_t<(sizeof...(I) > 0 && (std::is_arithmetic_v<I> && ...)), int> = 0>
  extents(I... numbers) {
    (add(numbers), ...);
  }
  template <class I> extents(const std::vector<I> &numbers) {
    for (auto number : numbers) add(number);
  }
  const std::vector<std::uint64_t> &numbers() const noexcept { return numbers_; }
  std::size_t size() const noexcept { return numbers_.size(); }

private:
  template <class I> void add(I number) {
    static_assert(std::is_integral_v<I>, "a shape is made of whole numbers");
    if constexpr (std::is_signed_v<I>)
      if (number < 0) detail::refuse("a shape with a negative number in it: " + std::to_string(number));
    numbers_.push_back(static_cast<std::uint64_t>(number));
  }

  std::vector<std::uint64_t> numbers_;
};

/* Memory of the heap for containers: std::map<int, body *, std::less<int>, mainstay::heap_allocator<...>>. */
template <class T> struct heap_allocator {
  using value_type = T;
  heap_allocator() = default;
  template <class U> heap_allocator(const heap_allocator<U> &) noexcept {}
  T *allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
    void *memory = mainstay_heap_aligned_alloc(alignof(T), count * sizeof(T));
    if (!memory) throw std::bad_alloc();
    return static_cast<T *>(memory);
  }
  void deallocate(T *memory, std::size_t) noexcept { mainstay_heap_free(memory); }
};
template <class T, class U> bool operator==(const heap_allocator<T> &, const heap_allocator<U> &) noexcept {
  return true;
}
template <class T, class U> bool operator!=(const heap_allocator<T> &, const heap_allocator<U> &) noexcept {
  return false;
}

} // namespace mainstay

#endif /* MAINSTAY_VALUES_HPP */
