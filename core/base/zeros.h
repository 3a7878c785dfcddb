// An array of zeros whose memory the system provides page by page, as elements are first used: for arrays that are
// large and of which most runs use a small part.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace twofold {

template <class T>
class Zeros {
  static_assert(std::is_arithmetic_v<T> || std::is_pointer_v<T>, "its zero has no bit set");

 public:
  Zeros() = default;
  explicit Zeros(size_t size) : data_(static_cast<T*>(std::calloc(size > 0 ? size : 1, sizeof(T)))), size_(size) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace twofold
