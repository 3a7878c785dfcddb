// A dataset: numbered samples, each one input and one target of fixed shape and element type.
//
// Datasets know nothing of ranks or batches (see distributed_sampler.h and load_batch.h). They check the user's files
// when they are made, so that Read cannot fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace twofold {

// Shape and element type of one sample's input or target. A scalar (a class label) has rank 0.
struct SampleType {
  Shape shape;
  DType dtype = DType::kF32;
  int64_t bytes() const { return shape.numel() * ElementSize(dtype); }
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;  // samples, at least 1
  virtual SampleType input() const = 0;
  virtual SampleType target() const = 0;

  // Writes sample `index`, row-major. REQUIRES: 0 <= index < size(), and spans of exactly input().bytes() and
  // target().bytes(). Any number of threads may read at the same time.
  virtual void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const = 0;

  virtual std::string Describe() const = 0;  // one line for people: what it is, its source, its number of samples
};

}  // namespace twofold
