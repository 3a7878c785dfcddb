// Evaluates a graph (kernels/cuda/library_graph.h) step by step, in F64, by what its steps mean.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/library_graph.h"
#include "tests/unit/kernels/lab.h"

namespace twofold::cuda {

// Where the elements of a graph's tensor are.
struct Stored {
  std::shared_ptr<Values> values;
  int64_t first = 0;
};
using Index = std::array<int64_t, 4>;

class Interpreter {
 public:
  Interpreter(const LibraryGraph& graph, std::map<GraphOperand, Stored> operands)
      : graph_(graph), operands_(std::move(operands)) {}

  void Run() {
    for (size_t i = 0; i < graph_.tensors.size(); ++i) stored_.push_back(StoreOf(graph_.tensors[i]));
    for (const GraphNode& node : graph_.nodes) Run(node);
  }

 private:
  static Values NaNs(int64_t n) { return Values(At(n), std::numeric_limits<double>::quiet_NaN()); }
  static int64_t Elements(const GraphTensor& t) { return t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]; }
  Stored StoreOf(const GraphTensor& t) const {
    if (t.operand) return operands_.at(*t.operand);
    if (t.value) return {std::make_shared<Values>(1, *t.value)};
    return {std::make_shared<Values>(NaNs(Elements(t)))};
  }

  // Dimensions of size 1 are repeated; a head that several share stands for each of them.
  double& Element(size_t tensor, const Index& i, const Index& of) {
    const GraphTensor& t = graph_.tensors[tensor];
    int64_t at = stored_[tensor].first;
    for (size_t d = 0; d < 4; ++d) {
      EXPECT_EQ(of[d] % t.dims[d], 0) << "dimension " << d;
      const int64_t share = of[d] / t.dims[d];
      EXPECT_TRUE(share == 1 || t.dims[d] == 1 || d == 1) << "dimension " << d;
      at += i[d] / share * t.strides[d];
    }
    return stored_[tensor].values->at(At(at));
  }
  double& Element(size_t tensor, const Index& i) { return Element(tensor, i, graph_.tensors[tensor].dims); }

  template <class F>
  static void ForEach(const Index& dims, F&& f) {
    Index i;
    for (i[0] = 0; i[0] < dims[0]; ++i[0]) {
      for (i[1] = 0; i[1] < dims[1]; ++i[1]) {
        for (i[2] = 0; i[2] < dims[2]; ++i[2]) {
          for (i[3] = 0; i[3] < dims[3]; ++i[3]) f(i);
        }
      }
    }
  }

  void Run(const GraphNode& node) {
    const Index& dims = graph_.tensors[node.out].dims;
    switch (node.step) {
      case GraphStep::kView: stored_[node.out] = stored_[node.in[0]]; return;
      case GraphStep::kMatMul: return MatMul(node, dims);
      case GraphStep::kSum:
      case GraphStep::kMaximum: return Reduce(node);
      case GraphStep::kConvolve:
      case GraphStep::kConvolveBack:
      case GraphStep::kConvolveWeights: return Convolve(node);
      default: ForEach(dims, [&](const Index& i) { Element(node.out, i) = OfElement(node, i, dims); });
    }
  }

  void MatMul(const GraphNode& node, const Index& dims) {
    const Index &a = graph_.tensors[node.in[0]].dims, &b = graph_.tensors[node.in[1]].dims;
    ASSERT_EQ(a[3], b[2]);
    ASSERT_TRUE(a[0] == dims[0] && b[0] == dims[0] && a[1] == dims[1] && a[2] == dims[2] && b[3] == dims[3]);
    ForEach(dims, [&](const Index& i) {
      double sum = 0;
      for (int64_t k = 0; k < a[3]; ++k) {
        sum += Element(node.in[0], {i[0], i[1], i[2], k}) *
               Element(node.in[1], {i[0], i[1], k, i[3]}, {b[0], dims[1], b[2], b[3]});
      }
      Element(node.out, i) = sum;
    });
  }

  void Reduce(const GraphNode& node) {
    const Index &in = graph_.tensors[node.in[0]].dims, &out = graph_.tensors[node.out].dims;
    const bool sum = node.step == GraphStep::kSum;
    ForEach(out, [&](const Index& i) { Element(node.out, i) = sum ? 0 : -std::numeric_limits<double>::infinity(); });
    ForEach(in, [&](const Index& i) {
      double& to = Element(node.out, i, in);
      const double x = Element(node.in[0], i);
      to = sum ? to + x : std::max(to, x);
    });
  }

  // Each product of an element of x and one of w belongs to one element of y.
  void Convolve(const GraphNode& node) {
    const bool forward = node.step == GraphStep::kConvolve, back = node.step == GraphStep::kConvolveBack;
    const size_t x = forward ? node.in[0]
                     : back  ? node.out
                             : node.in[1],
                 w = forward || back ? node.in[1] : node.out, y = forward ? node.out : node.in[0];
    const Index &images = graph_.tensors[x].dims, &kernel = graph_.tensors[w].dims;
    ForEach(graph_.tensors[node.out].dims, [&](const Index& i) { Element(node.out, i) = 0; });
    ForEach(graph_.tensors[y].dims, [&](const Index& i) {
      ForEach({1, kernel[1], kernel[2], kernel[3]}, [&](const Index& k) {
        const Index seen = {i[0], k[1], i[2] * node.stride + k[2] - node.padding,
                            i[3] * node.stride + k[3] - node.padding};
        if (seen[2] < 0 || seen[2] >= images[2] || seen[3] < 0 || seen[3] >= images[3]) return;
        const Index tap = {i[1], k[1], k[2], k[3]};
        if (forward)
          Element(y, i) += Element(x, seen) * Element(w, tap);
        else if (back)
          Element(x, seen) += Element(y, i) * Element(w, tap);
        else
          Element(w, tap) += Element(y, i) * Element(x, seen);
      });
    });
  }

  double OfElement(const GraphNode& node, const Index& i, const Index& dims) {
    const auto x = [&](size_t n) { return Element(node.in.at(n), i, dims); };
    switch (node.step) {
      case GraphStep::kMultiply: return x(0) * x(1);
      case GraphStep::kSubtract: return x(0) - x(1);
      case GraphStep::kAdd: return x(0) + x(1);
      case GraphStep::kDivide: return x(0) / x(1);
      case GraphStep::kExp: return std::exp(x(0));
      case GraphStep::kLog: return std::log(x(0));
      case GraphStep::kIdentity: return x(0);
      case GraphStep::kRow: return static_cast<double>(i[2]);
      case GraphStep::kColumn: return static_cast<double>(i[3]);
      case GraphStep::kNotBefore: return x(0) >= x(1) ? 1 : 0;
      case GraphStep::kSelect: return x(2) != 0 ? x(0) : x(1);
      default: ADD_FAILURE() << "a step of another kind"; return 0;
    }
  }

  const LibraryGraph graph_;
  const std::map<GraphOperand, Stored> operands_;
  std::vector<Stored> stored_;
};

inline Stored ValuesAt(const Tensor& t, int64_t first = 0) { return {std::make_shared<Values>(ValuesOf(t)), first}; }

inline void ExpectNear(const Values& got, const Values& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-11) << "element " << i;
}

}  // namespace twofold::cuda
