#include "core/memory/source.h"

#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace twofold {
namespace {

constexpr size_t kAlignment = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

bool Fits(Bytes reserved, Bytes size, Bytes limit) { return limit.value() == 0 || reserved + size <= limit; }

}  // namespace

std::optional<Address> MallocSource::Reserve(Bytes size) {
  if (!Fits(reserved_, size, limit_)) return std::nullopt;
  const auto bytes = static_cast<size_t>(size.value());
  const bool huge = bytes >= kHugePage;
  void* p = nullptr;
  if (posix_memalign(&p, huge ? kHugePage : kAlignment, bytes) != 0) return std::nullopt;
#if defined(__linux__)
  // Requests huge pages. Reading tensors of megabytes by rows that are pages apart needs more small pages than the TLB
  // can hold. The kernel may decline the advice. It affects only speed.
  if (huge) madvise(p, bytes, MADV_HUGEPAGE);
#endif
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

std::optional<Address> LenientSource::Reserve(Bytes size) {
  refused_ = !refused_ && !Fits(reserved_, size, limit_);
  if (refused_) return std::nullopt;
  const std::optional<Address> address = own_->Reserve(size);
  if (address) reserved_ += size;
  return address;
}

void LenientSource::Release(Address address, Bytes size) {
  own_->Release(address, size);
  reserved_ -= size;
}

}  // namespace twofold
