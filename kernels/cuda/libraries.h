// The matrix products and convolutions of NVIDIA's libraries, one set of handles a device.
//
// They get no memory of their own: a workspace of kLibraryWorkspace bytes (core/device/ops/rules.h) is part of the operations that
// use them, so that it is in the ledger and can be predicted. The emulation (cmake/cuda.cmake) has its own libraries.cc.
#pragma once

#include <memory>

namespace twofold::cuda {

class Libraries {
 public:
  Libraries();  // for the current GPU
  ~Libraries();
  struct Handles;
  Handles& handles() const { return *handles_; }

 private:
  const std::unique_ptr<Handles> handles_;
};

}  // namespace twofold::cuda
