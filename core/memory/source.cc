#include "core/memory/source.h"

#include <cstdlib>

namespace twofold {
namespace {

constexpr size_t kAlignment = 4096;

bool Fits(Bytes reserved, Bytes size, Bytes limit) {
  return limit.value() == 0 || reserved + size <= limit;
}

}  // namespace

std::optional<Address> MallocSource::Reserve(Bytes size) {
  if (!Fits(reserved_, size, limit_)) return std::nullopt;
  void* p = nullptr;
  if (posix_memalign(&p, kAlignment, static_cast<size_t>(size.value())) != 0) return std::nullopt;
  reserved_ += size;
  return reinterpret_cast<Address>(p);
}

void MallocSource::Release(Address address, Bytes size) {
  std::free(reinterpret_cast<void*>(address));
  reserved_ -= size;
}

std::optional<Address> VirtualSource::Reserve(Bytes size) {
  if (!Fits(reserved_, size, limit_)) return std::nullopt;
  const Address address = next_;
  next_ += (static_cast<Address>(size.value()) + kAlignment - 1) / kAlignment * kAlignment;
  reserved_ += size;
  return address;
}

void VirtualSource::Release(Address, Bytes size) { reserved_ -= size; }

}  // namespace twofold
