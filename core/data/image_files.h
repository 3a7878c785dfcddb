// Files of labelled images: MNIST's IDX format and CIFAR-10's binary one.
//
// Inputs are U8 pixels with channels last, [height, width, channels], or the same bytes as a row of features for models
// that take features. The files are memory-mapped and must not shrink while the dataset lives. Everything is checked
// when a dataset is made; errors name the file, the byte offset, the value found and what would be right.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"

namespace twofold {

// What the model takes. Labels are scalars, U8.
struct ImageType {
  Shape input;          // [height, width, channels], or [features]
  int64_t classes = 0;  // every label must be below it
};

// IDX as MNIST uses it (LeCun et al. 1998, yann.lecun.com/exdb/mnist): big-endian; two zero bytes, the element type 8
// (unsigned bytes), the number of dimensions, a 32-bit size of each, then the elements. Images have the dimensions
// count, height, width (magic number 2051; one channel); labels have count (2049).
absl::StatusOr<std::unique_ptr<Dataset>> MakeIdxDataset(const std::string& images, const std::string& labels,
                                                        const ImageType& type);

// CIFAR-10's binary version (Krizhevsky 2009): records of 3,073 bytes, each a label below 10 and then 32 x 32 pixels of
// red, of green, of blue. `path` is such a file or a folder. In a folder, all data_batch_*.bin are read in the order of
// their names or, with `test`, test_batch.bin.
absl::StatusOr<std::unique_ptr<Dataset>> MakeCifar10Dataset(const std::string& path, bool test, const ImageType& type);

}  // namespace twofold
