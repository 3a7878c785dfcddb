// The fabrics that the conformance suite runs over, and what its rank functions use.
//
// A fabric may run its ranks in other processes, so rank functions return what they found wrong as text, and only the
// test itself asserts. Tensors are written and read through the device, which may be asynchronous.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/philox.h"
#include "core/base/strings.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"
#include "gtest/gtest.h"

namespace twofold::conformance {

struct TestedFabric {
  std::string name;
  std::string why_not;  // empty: available
  std::function<absl::StatusOr<std::unique_ptr<Fabric>>(const spec::Spec&)> make;
};
// Every row of the registry, and the in-memory fabric with collectives built from its messages.
const std::vector<TestedFabric>& TestedFabrics();

// A spec that names `fabric`, with real data where that is a choice.
spec::Spec SpecFor(const std::string& fabric);

struct Parameter {
  TestedFabric fabric;
  int ranks;
};
inline void PrintTo(const Parameter& p, std::ostream* out) { *out << p.fabric.name << " with " << p.ranks << " ranks"; }
std::vector<Parameter> Parameters(std::vector<int> sizes);
std::string ParameterName(const testing::TestParamInfo<Parameter>& info);

// A rank function's view: collects what is wrong.
class Rig {
 public:
  explicit Rig(RankContext& context) : context_(context) {}
  RankContext& context() { return context_; }
  ProcessGroup& world() { return context_.world(); }
  int rank() const { return context_.rank(); }
  int size() const { return context_.world_size(); }
  void Expect(bool ok, const std::string& what) {
    if (!ok && wrong_.size() < 2000) StrAppend(&wrong_, "rank ", rank(), ": ", what, "\n");
  }

  template <class T>
  Tensor Put(const std::vector<T>& values) {
    Tensor t = context_.device().NewTensor(Shape{static_cast<int64_t>(values.size())}, DTypeOf<T>::value, Category::kOther);
    Fill(t, values);
    return t;
  }
  template <class T>
  void Fill(Tensor t, const std::vector<T>& values) {
    context_.device().Upload(t, [&](std::span<std::byte> bytes) {
      if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    });
  }
  template <class T>
  std::vector<T> Get(const Tensor& t) {
    std::vector<T> values(static_cast<size_t>(t.numel()));
    context_.device().Download(t, std::as_writable_bytes(std::span<T>(values)));
    return values;
  }
  // Bit for bit.
  template <class T>
  void ExpectEqual(const Tensor& t, const std::vector<T>& expected, const std::string& what) {
    const std::vector<T> values = Get<T>(t);
    const bool sizes = values.size() == expected.size();
    Expect(sizes && (values.empty() || std::memcmp(values.data(), expected.data(), values.size() * sizeof(T)) == 0),
           StrCat(what, ", ", DTypeName(DTypeOf<T>::value), "[", expected.size(), "]"));
  }
  const std::string& wrong() const { return wrong_; }

 private:
  RankContext& context_;
  std::string wrong_;
};

class ConformanceTest : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    if (!GetParam().fabric.why_not.empty()) GTEST_SKIP() << GetParam().fabric.name << ": " << GetParam().fabric.why_not;
  }
  // Runs `body` on every rank and asserts that none found anything wrong.
  void OnEveryRank(const std::function<void(Rig&)>& body) {
    auto fabric = GetParam().fabric.make(SpecFor(GetParam().fabric.name));
    ASSERT_TRUE(fabric.ok()) << fabric.status();
    const RunResult result = (*fabric)->Run(GetParam().ranks, [&body](RankContext& context) {
      Rig rig(context);
      body(rig);
      return rig.wrong().empty() ? std::string("fine") : rig.wrong();
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(result.results.size(), static_cast<size_t>(GetParam().ranks));
    for (const std::string& r : result.results) EXPECT_EQ(r, "fine");
  }
};

// Element i of `rank`'s data: floats in [-8, 8), integers in [-100, 100), bytes.
template <class T>
T ValueAt(int rank, int64_t i, uint64_t salt = 0) {
  const uint64_t stream = salt * 1000 + static_cast<uint64_t>(rank);
  const auto bits = static_cast<uint32_t>(MakeKey(stream, static_cast<uint64_t>(i)).value >> 32);
  if constexpr (std::is_same_v<T, uint8_t>) return static_cast<uint8_t>(bits % 256);
  else if constexpr (std::is_same_v<T, int32_t>) return static_cast<int32_t>(bits % 200) - 100;
  else if constexpr (std::is_same_v<T, double>) return ToUniform(bits) * 16.0 - 8.0;
  else return T(ToUniform(bits) * 16.0f - 8.0f);
}
template <class T>
std::vector<T> Values(int rank, int64_t count, uint64_t salt = 0) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(ValueAt<T>(rank, i, salt));
  return values;
}

// Calls f.operator()<T>() for every element type.
template <class F>
void ForEachType(F&& f) {
  f.template operator()<float>();
  f.template operator()<double>();
  f.template operator()<BF16>();
  f.template operator()<F16>();
  f.template operator()<int32_t>();
  f.template operator()<uint8_t>();
}

inline constexpr int64_t kCounts[] = {0, 1, 10, 100003};

}  // namespace twofold::conformance
