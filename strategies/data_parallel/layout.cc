#include "strategies/data_parallel/layout.h"

namespace twofold {

std::vector<nn::Parameter*> ParameterLayout::Parameters() const {
  std::vector<nn::Parameter*> all;
  for (const std::unique_ptr<nn::Module>& chunk : chunks_) {
    for (nn::Parameter* p : chunk->Parameters()) all.push_back(p);
  }
  return all;
}

std::vector<nn::Parameter*> ParameterLayout::Buffers() const {
  std::vector<nn::Parameter*> all;
  for (const std::unique_ptr<nn::Module>& chunk : chunks_) {
    for (nn::Parameter* b : chunk->Buffers()) all.push_back(b);
  }
  return all;
}

}  // namespace twofold
