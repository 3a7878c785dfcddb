// An array of zeros whose memory the system provides page by page, as elements are first used: for arrays that are
// large and of which most runs use a small part.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace twofold {

template <class T>
class Zeros {
  static_assert(std::is_arithmetic_v<T> || std::is_pointer_v<T>, "its zero has no bit set");

 public:
  Zeros() = default;
  // Throws std::bad_alloc. Not by calloc: once a process has freed an array as large, calloc takes memory that was used
  // before, and writes all of it.
  explicit Zeros(size_t size) : size_(size) {
    if (size == 0) return;
    void* const pages = mmap(nullptr, Bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    madvise(pages, Bytes(), MADV_HUGEPAGE);  // fewer page faults; it may be refused
    data_ = static_cast<T*>(pages);
  }
  Zeros(Zeros&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Zeros& operator=(Zeros&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Zeros() {
    if (data_ != nullptr) munmap(data_, Bytes());
  }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return size_; }

 private:
  size_t Bytes() const { return size_ * sizeof(T); }
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace twofold
