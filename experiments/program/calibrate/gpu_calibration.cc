#include "experiments/program/calibrate/gpu_calibration.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "experiments/program/calibrate/fit_products.h"
#include "experiments/program/calibrate/gpu_cases.h"
#include "experiments/program/calibrate/measure_gpu.h"
#include "experiments/program/calibrate/profile_from.h"
#include "sim/cost/measured_products.h"

namespace twofold::calibrate {
namespace {

// for samples; first uses and operands come on top
constexpr Seconds kBudget = Seconds(75), kTf32Budget = Seconds(10), kTinyBudget = Seconds(0.01);
constexpr int kRounds = 7, kTinyRounds = 2;

class Progress {
 public:
  Progress(std::string what, const std::function<void(const std::string&)>& tell)
      : what_(std::move(what)), tell_(tell) {}
  void operator()(double share) {
    const double now = Elapsed();
    if (now < last_ + 5 || share <= 0) return;
    last_ = now;
    tell_(absl::StrFormat("%s: %.0f %%, about %.0f s left", what_, 100 * share, now * (1 - share) / share));
  }

 private:
  double Elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  const std::string what_;
  const std::function<void(const std::string&)>& tell_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double last_ = 0;
};

// Measurements of all cases with the same tf32.
struct Measured {
  std::vector<const GpuCase*> cases;
  std::vector<ops::KernelKey> keys;
  std::vector<ops::Cost> costs;
  GpuSamples samples;
  std::string Type(size_t i) const { return cases[i]->tf32 ? "tf32" : std::string(DTypeName(keys[i].dtype)); }
};

Measured Measure(GpuBench& bench, const std::vector<GpuCase>& cases, bool tf32, Seconds budget,
                 const std::function<void(const std::string&)>& tell) {
  Measured m;
  std::vector<const Case*> raw;
  ShapesOnly shapes(bench.vocabulary());
  for (const GpuCase& c : cases) {
    if (c.tf32 != tf32) continue;
    const ops::Op op = c.of.make(shapes);
    m.cases.push_back(&c), m.keys.push_back(ops::Key(op)), m.costs.push_back(ops::CostOf(op)), raw.push_back(&c.of);
  }
  tell(absl::StrCat(raw.size(), " kernels and sizes", tf32 ? " with TF32" : ""));
  Progress progress("kernels", tell);
  m.samples = MeasureGpuKernels(bench, raw, budget, bench.tiny() ? kTinyRounds : kRounds,
                                [&](double share) { progress(share); });
  return m;
}

void AddTo(profile::Profile& profile, const Measured& m) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> launches;
  for (size_t i = 0; i < m.cases.size(); ++i) {
    if (m.cases[i]->between) continue;
    AddPoint(m.keys[i], m.Type(i), m.costs[i], m.samples.seconds[i], profile);
    std::vector<double>& all = launches[{std::string(m.keys[i].name), m.Type(i)}];
    all.insert(all.end(), m.samples.launches[i].begin(), m.samples.launches[i].end());
  }
  for (profile::Kernel& kernel : *profile.mutable_kernels()) {
    const auto found = launches.find({kernel.name(), kernel.dtype()});
    if (found != launches.end()) kernel.set_launch_s(Quantile(found->second, 0.5));
  }
}

void AddProducts(profile::Profile& profile, const Measured& m) {
  // of the grid, and between its points
  std::map<std::string, std::pair<std::vector<ProductTime>, std::vector<ProductTime>>> types;
  for (size_t i = 0; i < m.cases.size(); ++i) {
    if (!IsProduct(m.keys[i].name)) continue;
    auto& [grid, between] = types[m.Type(i)];
    (m.cases[i]->between ? between : grid)
        .push_back({std::string(m.keys[i].name), m.keys[i].dims, Quantile(m.samples.seconds[i], 0.5)});
  }
  for (const auto& [type, times] : types)
    *profile.mutable_gpu()->add_products() =
        FitProducts(type, times.first, times.second, profile.gpu().multiprocessors());
}

absl::Status Run(const spec::Cuda& cuda, bool tiny, const std::function<void(const std::string&)>& tell,
                 profile::Profile& profile) {
  std::vector<GpuCase> cases;
  int late = 0;
  for (const bool tf32 : {false, true}) {
    spec::Cuda with = cuda;
    with.set_tf32(tf32);
    absl::StatusOr<std::unique_ptr<GpuBench>> bench = GpuBench::Make(with, tiny);
    if (!bench.ok()) return bench.status();
    if (cases.empty()) {
      cases = GpuCases(tiny, (*bench)->most_elements());
      const int rounds = tiny ? 3 : 31;
      tell("launches and copies");
      (*bench)->MeasureHost(*profile.mutable_gpu(), rounds);
      (*bench)->MeasureCopies(*profile.mutable_gpu(), rounds);
    }
    const Measured measured = Measure(**bench, cases, tf32, tiny ? kTinyBudget : tf32 ? kTf32Budget : kBudget, tell);
    AddTo(profile, measured);
    AddProducts(profile, measured);
    late += (*bench)->late();
  }
  if (late > 0)
    tell(absl::StrCat(late,
                      " samples include time of the host, which launched kernels more slowly than the GPU ran them"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<profile::Profile> CalibrateGpu(const spec::Cuda& cuda, bool tiny,
                                              const std::function<void(const std::string&)>& tell) {
  spec::Spec spec;
  *spec.mutable_cuda() = cuda;
  const absl::StatusOr<host::CudaChoice> choice = host::ChooseCuda(spec);
  if (!choice.ok()) return choice.status();
  const int number = choice->gpus[0];
  const host::GpuFigures figures = host::FiguresOfGpu(number);
  profile::Profile profile;
  profile.set_name(host::NameOfGpu(number)), profile.set_processor(host::NameOfGpu(number));
  profile.set_source(absl::StrCat("measured by `twofold calibrate --device=cuda", tiny ? " --quick" : "",
                                  "`, kernels alone, operands not in its L2 cache"));
  profile::Gpu& gpu = *profile.mutable_gpu();
  gpu.set_memory_bytes(figures.memory_bytes), gpu.set_multiprocessors(figures.multiprocessors),
      gpu.set_l2_bytes(figures.l2_bytes);
  gpu.set_clock_hz(figures.clock_hz), gpu.set_software(figures.software);
  gpu.set_compute_capability(figures.compute_capability);
  gpu.set_time_algorithms(cuda.time_algorithms());
  spec::Cuda one = cuda;
  one.clear_gpus(), one.add_gpus(number);
  try {
    if (absl::Status s = Run(one, tiny, tell, profile); !s.ok()) return s;
  } catch (const std::exception& e) {  // CUDA errors or out of memory
    return Internal(e.what());
  }
  // the libraries are loaded by now
  for (const std::string& library : host::DescribeGpuLibraries())
    gpu.set_software(absl::StrCat(gpu.software(), "; ", library));
  return profile;
}

}  // namespace twofold::calibrate
