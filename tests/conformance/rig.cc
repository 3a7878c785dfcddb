#include "tests/conformance/rig.h"

#include <algorithm>

namespace twofold::conformance {
namespace {

constexpr int64_t kPiece = 1 << 17;   // elements that are read at once
constexpr size_t kEnoughText = 2000;  // characters; a case that goes wrong often does so in every call

}  // namespace

void Rig::Wrong(const std::string& what) {
  if (wrong_.size() < kEnoughText) StrAppend(&wrong_, "rank ", rank(), ": ", what, "\n");
}

Tensor Rig::Put(DType dtype, int64_t count, const Series& series) {
  Tensor t = device().NewTensor(Shape{count}, dtype, Category::kOther);
  Fill(t, series);
  return t;
}

void Rig::Fill(Tensor t, const Series& series, int64_t first) {
  device().Upload(t, [&](std::span<std::byte> bytes) { Write(t.dtype(), series, first, bytes); });
}

Tensor Rig::Blank(DType dtype, int64_t count) {
  Tensor t = device().NewTensor(Shape{count}, dtype, Category::kOther);
  device().Upload(t, [](std::span<std::byte> bytes) {
    if (!bytes.empty()) std::memset(bytes.data(), 0xff, bytes.size());
  });
  return t;
}

Tensor Rig::Put(const std::vector<int32_t>& values) {
  Tensor t = device().NewTensor(Shape{static_cast<int64_t>(values.size())}, DType::kI32, Category::kOther);
  device().Upload(t, [&](std::span<std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  });
  return t;
}

template <class F>
void Rig::ReadAndCompare(const Tensor& t, const std::string& what, F compare) {
  for (int64_t begin = 0; begin < t.numel(); begin += kPiece) {
    const Tensor part = t.Slice(begin, std::min(kPiece, t.numel() - begin));
    piece_.resize(static_cast<size_t>(part.bytes().value()));
    device().Download(part, piece_);
    const std::optional<Difference> d = compare(std::span<const std::byte>(piece_), begin);
    if (!d) continue;
    return Wrong(StrCat(what, ": element ", begin + d->index, " of ", t.ToString(), " is ", d->value, ", expected ",
                        d->expected, d->tolerance == 0 ? "" : StrCat(" within ", d->tolerance)));
  }
}

void Rig::ExpectSeries(const Tensor& t, const Series& series, int64_t first, const std::string& what) {
  ReadAndCompare(t, what, [&](std::span<const std::byte> bytes, int64_t begin) {
    return Compare(t.dtype(), bytes, series, first + begin);
  });
}

void Rig::ExpectReduced(const Tensor& t, std::span<const Series> inputs, ReduceOp op, int64_t first,
                        const std::string& what) {
  ReadAndCompare(t, what, [&](std::span<const std::byte> bytes, int64_t begin) {
    return CompareReduced(t.dtype(), bytes, inputs, op, first + begin, exact_reductions_);
  });
}

void Rig::ExpectEqual(const Tensor& t, const std::vector<int32_t>& expected, const std::string& what) {
  std::vector<int32_t> values(static_cast<size_t>(t.numel()));
  device().Download(t, std::as_writable_bytes(std::span(values)));
  if (values == expected) return;
  const auto [value, right] = std::mismatch(values.begin(), values.end(), expected.begin(), expected.end());
  if (value == values.end() || right == expected.end()) {
    return Wrong(StrCat(what, ": ", values.size(), " elements, expected ", expected.size()));
  }
  Wrong(
      StrCat(what, ": element ", value - values.begin(), " of ", t.ToString(), " is ", *value, ", expected ", *right));
}

}  // namespace twofold::conformance
