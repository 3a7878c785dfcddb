// A conformance case's view of the rank that it runs on; it collects the errors found.
//
// A fabric may run its ranks in other processes, so cases return their findings as text, and tests assert. Tensors are
// written and read through the device, which may be asynchronous.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/run/rank_context.h"
#include "tests/conformance/reference.h"

namespace twofold::conformance {

class Rig {
 public:
  // `world` is the context's, or a test's wrapper around it. Exact reductions: Backend::canonical_reductions.
  Rig(RankContext& context, ProcessGroup& world, bool exact_reductions)
      : context_(context), world_(world), exact_reductions_(exact_reductions) {}

  RankContext& context() { return context_; }
  Device& device() { return context_.device(); }
  ProcessGroup& world() { return world_; }
  int rank() const { return context_.rank(); }
  int size() const { return context_.world_size(); }

  // Elements 0, 1, ... of a series.
  Tensor Put(DType dtype, int64_t count, const Series& series);
  void Fill(Tensor t, const Series& series, int64_t first = 0);
  // All bits set. Only a series of bytes contains that value, so unwritten elements are detected.
  Tensor Blank(DType dtype, int64_t count);
  Tensor Put(const std::vector<int32_t>& values);

  void Expect(bool ok, const std::string& what) {
    if (!ok) Wrong(what);
  }
  void ExpectSeries(const Tensor& t, const Series& series, int64_t first, const std::string& what);
  void ExpectReduced(const Tensor& t, std::span<const Series> inputs, ReduceOp op, int64_t first,
                     const std::string& what);
  void ExpectEqual(const Tensor& t, const std::vector<int32_t>& expected, const std::string& what);

  const std::string& wrong() const { return wrong_; }  // empty: no error

 private:
  void Wrong(const std::string& what);
  // Reads `t` piece by piece; compare(bytes, index of their first element) returns what is wrong with a piece.
  template <class F>
  void ReadAndCompare(const Tensor& t, const std::string& what, F compare);

  RankContext& context_;
  ProcessGroup& world_;
  const bool exact_reductions_;
  std::vector<std::byte> piece_;
  std::string wrong_;
};

}  // namespace twofold::conformance
