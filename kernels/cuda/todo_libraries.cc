#include "kernels/cuda/libraries.h"

namespace twofold::cuda {

struct Libraries::Handles {};
Libraries::Libraries() : handles_(std::make_unique<Handles>()) {}
Libraries::~Libraries() = default;

}  // namespace twofold::cuda
