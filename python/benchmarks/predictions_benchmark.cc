// predictions_benchmark PROGRAM COUNT SPEC: predicts so many variants of a spec's text by Predictor, on all cores.
// predictions.py times it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/predict/predictor.h"
#include "experiments/program/predict/sweep.h"
#include "experiments/program/spec/spec.h"

int main(int argc, char** argv) {
  using namespace twofold;
  if (argc != 4) return std::fputs("usage: predictions_benchmark PROGRAM COUNT SPEC\n", stderr), 2;
  const auto predictor = Predictor::Make({.program = argv[1]});
  if (!predictor.ok()) return std::fprintf(stderr, "%s\n", predictor.status().ToString().c_str()), 1;
  std::vector<spec::Spec> specs;
  for (int seed = 0; seed < std::atoi(argv[2]); ++seed) {
    const auto spec = ResolveSpec(argv[3], "spec", "simulated", SetsOfPrediction({StrCat("train.seed=", seed)}));
    if (!spec.ok()) return std::fprintf(stderr, "%s\n", spec.status().ToString().c_str()), 1;
    specs.push_back(*spec);
  }
  size_t fine = 0;
  (*predictor)->PredictAll(specs, "spec", [&](size_t, const absl::StatusOr<report::Report>& report) {
    fine += report.ok() && report->median_step_seconds() > 0;
  });
  return fine == specs.size() ? 0 : 1;
}
