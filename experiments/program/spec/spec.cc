#include "experiments/program/spec/spec.h"

#include <google/protobuf/text_format.h>

#include "core/base/check.h"

namespace twofold {

bool WritesCheckpoints(const spec::Spec& spec) {
  const bool symbolic = spec.fabric().has_simulated() && spec.fabric().simulated().data() != spec::Simulated::REAL;
  return spec.train().has_checkpoint() && !symbolic;
}

int64_t AccumulationSteps(const spec::Spec& spec) {
  const int64_t per_pass = spec.parallel().dp() * spec.train().micro_batch();
  TWOFOLD_CHECK_GT(per_pass, 0);
  return spec.train().has_global_batch() ? spec.train().global_batch() / per_pass : 1;
}

std::string SpecToText(const spec::Spec& spec) {
  std::string text;
  TWOFOLD_CHECK(google::protobuf::TextFormat::PrintToString(spec, &text), "a spec can always be written as text");
  return text;
}

}  // namespace twofold
