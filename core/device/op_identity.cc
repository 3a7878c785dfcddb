#include "core/device/op_identity.h"

#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include "absl/container/inlined_vector.h"
#include "core/device/op_fields.h"
#include "xxhash.h"

namespace twofold::ops {
namespace {

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// Gathers the words that identify an operation.
class Words {
 public:
  template <class T>
  void Add(const T& field) {
    if constexpr (std::is_same_v<T, Tensor>) {
      AddTensor(field);
    } else if constexpr (std::is_floating_point_v<T>) {
      values_.push_back(Bits(static_cast<double>(field)));
    } else if constexpr (std::is_same_v<T, PhiloxKey>) {
      values_.push_back(field.value);
    } else if constexpr (Number<T>) {
      place_.push_back(static_cast<uint64_t>(field));
    } else if constexpr (std::is_same_v<T, IndexMap>) {
      for (const int64_t x :
           {field.first, field.block, field.stride, int64_t{field.blocks}, field.offset[0], field.offset[1]})
        place_.push_back(static_cast<uint64_t>(x));
    } else if constexpr (std::is_same_v<T, ElementRanges> || std::is_same_v<T, RoundingKeys>) {
      place_.push_back(field == nullptr ? 0 : field->size() + 1);
      if (field != nullptr) Add(*field);
    } else if constexpr (requires { typename T::value_type; }) {  // their number is known to kernels as numbers are
      for (const auto& element : field) AddElement(element);
    } else {
      ForEachField(field, [this](const auto& part) { Add(part); });
    }
  }
  // The step's number is an argument as a learning rate is. SGD has it for the keys of rounding alone.
  void Add(const SgdStep& o) { AddUpdate(o, o.rounding_keys != nullptr); }
  void Add(const AdamStep& o) { AddUpdate(o, true); }

  OpIdentity Hash() const {
    const XXH128_hash_t place = XXH3_128bits(place_.data(), place_.size() * sizeof(uint64_t));
    return {{place.high64, place.low64}, XXH3_64bits(values_.data(), values_.size() * sizeof(uint64_t))};
  }
  void AddPlace(uint64_t word) { place_.push_back(word); }
  void AddTensor(const Tensor& t) {
    if (t.empty()) return place_.push_back(0);
    place_.push_back(t.address());
    place_.push_back(static_cast<uint64_t>(t.dtype()) << 32 | static_cast<uint64_t>(t.shape().rank() + 1));
    for (const int64_t dim : t.shape()) place_.push_back(static_cast<uint64_t>(dim));
  }

 private:
  static uint64_t Bits(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  }
  void AddElement(const ElementRange& range) { AddNumbers(range.begin, range.end); }
  void AddElement(const RoundingKeyRange& range) {
    AddNumbers(range.begin, range.shift);
    place_.push_back(range.key.value);
  }
  void AddElement(double element) { place_.push_back(Bits(element)); }
  void AddNumbers(int64_t a, int64_t b) {
    place_.push_back(static_cast<uint64_t>(a));
    place_.push_back(static_cast<uint64_t>(b));
  }
  template <class Update>
  void AddUpdate(const Update& o, bool uses_step) {
    ForEachField(o, [this, &o, uses_step](const auto& field) {
      if (static_cast<const void*>(&field) != &o.step)
        Add(field);
      else if (uses_step)
        values_.push_back(static_cast<uint64_t>(o.step));
    });
  }

  absl::InlinedVector<uint64_t, 96> place_;
  absl::InlinedVector<uint64_t, 16> values_;
};

template <class T>
void Borrow(T& field) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (!field.empty()) field = field.Borrowed();
  } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, PhiloxKey> && !std::is_same_v<T, IndexMap> &&
                       !std::is_same_v<T, ElementRanges> && !std::is_same_v<T, RoundingKeys> &&
                       !requires { typename T::value_type; }) {
    ForEachField(field, [](auto& part) { Borrow(part); });
  }
}

}  // namespace

OpIdentity IdentityOf(const Op& op, const Tensor& workspace) {
  Words words;
  words.AddPlace(op.any().index());
  words.AddTensor(workspace);
  std::visit([&words](const auto& o) { words.Add(o); }, op.any());
  return words.Hash();
}

Op Borrowed(const Op& op) {
  return std::visit(
      [](auto o) {
        Borrow(o);
        return Op(std::move(o));
      },
      op.any());
}

}  // namespace twofold::ops
