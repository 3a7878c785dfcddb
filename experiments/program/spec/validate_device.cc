// Checks `cuda` and `emulated`: what only one kind of device has.
#include <set>
#include <string>
#include <string_view>

#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

// What steps launch must repeat.
void CheckCudaGraphs(const spec::Spec& spec, Problems& problems) {
  if (!spec.cuda().graphs()) return;
  const auto refuse = [&problems](std::string_view what, std::string_view why) {
    problems.Add("cuda.graphs", "true, but with ", what, " ", why, "; use false");
  };
  if (spec.model().moe().dropless())
    refuse("model.moe.dropless", "the shapes of operations depend on the data, so that steps do not repeat");
  if (spec.train().has_elastic())
    refuse("train.elastic", "what a step launches depends on the members, so that steps do not repeat");
  if (spec.train().has_async_sgd())
    refuse("train.async_sgd", "servers and workers launch what arrives, so that steps do not repeat");
  if (spec.framework() != spec::TWOFOLD) {
    refuse(StrCat("framework: ", spec::Framework_Name(spec.framework())),
           "the launches are not Twofold's, and are not known to repeat");
  }
}

// What has no backward attention by cuDNN.
void CheckAttentionWorkspace(const spec::Spec& spec, Problems& problems) {
  constexpr std::string_view kPath = "cuda.attention_workspace_mib";
  const double mib = spec.cuda().attention_workspace_mib();
  if (mib == 0) return;
  if (!(mib > 0 && mib <= 1 << 20)) return problems.Add(kPath, NumberText(mib), " is out of range; use 0 to ", 1 << 20);
  const auto refuse = [&](std::string_view what, std::string_view why) {
    problems.Add(kPath, NumberText(mib), " has no effect with ", what, ", ", why, "; use 0");
  };
  if (spec.cuda().attention() == spec::Cuda::OWN || spec.cuda().attention() == spec::Cuda::HOPPER) {
    refuse(StrCat("cuda.attention: ", spec::Cuda::Attention_Name(spec.cuda().attention())),
           "whose kernels store no scores");
  }
  if (spec.model().attention() == spec::Model::UNFUSED)
    refuse("model.attention: UNFUSED", "which stores all scores by itself");
  if (spec.parallel().cp() > 1) refuse("parallel.cp", "whose blocks of scores our own kernels compute");
  if (spec.framework() != spec::TWOFOLD)
    refuse(StrCat("framework: ", spec::Framework_Name(spec.framework())), "whose memory is not Twofold's");
}

void CheckOwnFp8(const spec::Spec& spec, Problems& problems) {
  if (spec.cuda().fp8() == spec::Cuda::Fp8::AUTO || spec.train().precision().matmul() == spec::Precision::FP8) return;
  problems.Add("cuda.fp8", spec::Cuda::Fp8::Kernels_Name(spec.cuda().fp8()),
               " is only for train.precision.matmul: FP8, but that is ",
               spec::Precision::MatMul_Name(spec.train().precision().matmul()), "; set that, or leave this field out");
}

}  // namespace

void CheckEmulated(const spec::Spec& spec, Problems& problems) {
  if (spec.device() != spec::EMULATED) {
    if (!spec.has_emulated()) return;
    return problems.Add("emulated", "is only for device: EMULATED, but device is ", spec::Device_Name(spec.device()),
                        "; set that, or leave the block out");
  }
  const spec::Emulated& emulated = spec.emulated();
  if (emulated.cluster().empty()) {
    problems.Add("emulated.cluster", "\"\" names no cluster; use \"this-machine\" or one of `twofold list clusters`");
  }
  if (problems.Above("emulated.speed", emulated.speed(), 0) && !(emulated.speed() >= 1e-9 && emulated.speed() <= 1e9)) {
    problems.Add("emulated.speed", NumberText(emulated.speed()), " is out of range; use 1e-9 to 1e9");
  }
  if (spec.fabric().simulated().data() == spec::Simulated::REAL) {
    problems.Add("fabric.simulated.data",
                 "REAL is not possible with device: EMULATED, which computes nothing; use SYMBOLIC, or device: CPU");
  }
}

void CheckCuda(const spec::Spec& spec, Problems& problems) {
  if (spec.device() != spec::CUDA) {
    if (!spec.has_cuda()) return;
    return problems.Add("cuda", "is only for device: CUDA, but device is ", spec::Device_Name(spec.device()),
                        "; set that, or leave the block out");
  }
  CheckCudaGraphs(spec, problems);
  CheckAttentionWorkspace(spec, problems);
  CheckOwnFp8(spec, problems);
  std::set<int> seen;
  for (int i = 0; i < spec.cuda().gpus_size(); ++i) {
    const int gpu = spec.cuda().gpus(i);
    const std::string path = StrCat("cuda.gpus[", i, "]");
    if (problems.Whole(path, gpu, 0, 1023) && !seen.insert(gpu).second)
      problems.Add(path, gpu, " is listed twice; ranks take GPUs in turn, so list each once");
  }
}

}  // namespace twofold
