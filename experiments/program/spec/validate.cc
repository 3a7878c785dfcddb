// Validates a spec. The upper bounds are far beyond real sizes; they prevent any product of sizes from overflowing 64
// bits.
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/models/rules.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/spec/validate.h"
#include "strategies/from_spec.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The parser accepts infinities and NaN, but no field allows them.
void CheckFinite(const Message& m, const std::string& path, Problems& problems) {
  const google::protobuf::Reflection* r = m.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(m, &fields);
  for (const FieldDescriptor* f : fields) {
    if (f->is_repeated()) continue;  // repeated numbers are always integers
    const std::string here = path.empty() ? f->name() : StrCat(path, ".", f->name());
    if (f->message_type() != nullptr) CheckFinite(r->GetMessage(m, f), here, problems);
    if (f->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) continue;
    const double value = r->GetDouble(m, f);
    if (!std::isfinite(value)) problems.Add(here, NumberText(value), " is not finite; use a finite number");
  }
}

// The name becomes part of a folder's name, followed by "-<fabric>".
void CheckName(const spec::Spec& spec, Problems& problems) {
  const std::string& name = spec.name();
  const bool odd = std::any_of(name.begin(), name.end(), [](char c) { return c == '/' || absl::ascii_iscntrl(c); });
  if (!name.empty() && name.size() <= 200 && !odd && name[0] != '.' && name[0] != '-') return;
  problems.Add("name", "\"", name, "\" cannot name a folder; use 1 to 200 characters without / and ",
               "control characters, not starting with . or -");
}

void CheckAttention(const spec::Model& model, const ModelRules& rules, Problems& problems) {
  constexpr int64_t kLongest = 1 << 15;  // scores are sequence^2 per head
  if (model.attention() != spec::Model::UNFUSED) return;
  const ModelInput input = ModelOf(model)->input();
  if (input.kind != ModelInput::kTokens) {
    problems.Add("model.attention", "UNFUSED does not apply to ", rules.path, ", which has no attention; use TILED");
  } else if (input.length > kLongest) {
    problems.Add("model.attention", "UNFUSED stores scores of ", rules.path, ".sequence = ", input.length,
                 " squared; use TILED, or a sequence of at most ", kLongest);
  }
}

void CheckModel(const spec::Model& model, Problems& problems) {
  if (const ModelRules* rules = FindModelRules(model.kind_case())) {
    CheckAttention(model, *rules, problems);
    return rules->check(model, problems);
  }
  std::vector<std::string> kinds;
  for (const ModelKind* kind : ModelKinds()) kinds.push_back(StrCat("model { ", kind->name, " { ... } }"));
  problems.Add("model",
               "is missing; use a preset such as model { preset: \"gpt-3m\" }, or sizes: ", absl::StrJoin(kinds, ", "));
}

// ---- Training ----

// The integers next to `value`, below and above and from 1 to `most`, that divide `of`: "3 or 6"; "" if there are none.
std::string DivisorsNextTo(int64_t value, int64_t of, int64_t most) {
  int64_t below = 0, above = 0;
  const auto consider = [&](int64_t divisor) {
    if (divisor < value) below = std::max(below, divisor);
    if (divisor > value && divisor <= most) above = above == 0 ? divisor : std::min(above, divisor);
  };
  for (int64_t i = 1; i * i <= of; ++i) {
    if (of % i == 0) consider(i), consider(of / i);
  }
  return StrCat(below > 0 ? StrCat(below) : "", below > 0 && above > 0 ? " or " : "", above > 0 ? StrCat(above) : "");
}

// The global batch determines how the model learns, so users rather change how it is split. Errors therefore blame the
// micro-batch, or dp if no micro-batch fits.
void CheckBatch(const spec::Spec& spec, Problems& problems) {
  const spec::Train& train = spec.train();
  constexpr int64_t kMostMicroBatch = 1 << 16, kMostRanks = 1 << 20;
  const bool micro = problems.Whole("train.micro_batch", train.micro_batch(), 1, kMostMicroBatch);
  const bool dp = problems.Whole("parallel.dp", spec.parallel().dp(), 1, kMostRanks);
  if (!micro || !dp) return;
  if (!problems.Whole("train.global_batch", train.global_batch(), 1, 1 << 30)) return;
  const int64_t batch = train.global_batch(), micro_batch = train.micro_batch(), ranks = spec.parallel().dp(),
                pass = ranks * micro_batch;
  const int64_t rest = batch % pass, below = batch - rest, above = below + pass;
  if (rest == 0) return;
  const bool by_micro = batch % ranks == 0, by_ranks = !by_micro && batch % micro_batch == 0;
  const std::string others = by_micro ? DivisorsNextTo(micro_batch, batch / ranks, kMostMicroBatch)
                                      : DivisorsNextTo(ranks, by_ranks ? batch / micro_batch : batch, kMostRanks);
  problems.Add(by_micro ? "train.micro_batch" : "parallel.dp", by_micro ? micro_batch : ranks,
               " is not valid: train.global_batch / (parallel.dp * train.micro_batch) = ", batch, " / (", ranks, " * ",
               micro_batch, ") is not a whole number", by_micro ? "" : " with any micro_batch", "; use ",
               by_micro ? "train.micro_batch = " : "parallel.dp = ", others,
               ", or train.global_batch = ", below > 0 ? StrCat(below, " or ") : "", above);
}

template <class Adam>
void CheckAdam(std::string_view path, const Adam& adam, Problems& problems) {
  problems.Above(StrCat(path, ".lr"), adam.lr(), 0);
  problems.Fraction(StrCat(path, ".beta1"), adam.beta1());
  problems.Fraction(StrCat(path, ".beta2"), adam.beta2());
  problems.Above(StrCat(path, ".eps"), adam.eps(), 0);
  problems.AtLeast(StrCat(path, ".weight_decay"), adam.weight_decay(), 0);
}

void CheckSgd(const spec::Sgd& sgd, Problems& problems) {
  problems.Above("train.optimizer.sgd.lr", sgd.lr(), 0);
  problems.Fraction("train.optimizer.sgd.momentum", sgd.momentum());
  problems.AtLeast("train.optimizer.sgd.weight_decay", sgd.weight_decay(), 0);
  if (sgd.nesterov() && sgd.momentum() == 0) {
    problems.Add("train.optimizer.sgd.nesterov", "true needs momentum; use false, or a momentum such as 0.9");
  }
}

void CheckOptimizer(const spec::Optimizer& optimizer, Problems& problems) {
  if (optimizer.has_sgd()) CheckSgd(optimizer.sgd(), problems);
  if (optimizer.has_adam()) CheckAdam("train.optimizer.adam", optimizer.adam(), problems);
  if (optimizer.has_adamw()) CheckAdam("train.optimizer.adamw", optimizer.adamw(), problems);
  if (optimizer.has_one_bit_adam()) CheckAdam("train.optimizer.one_bit_adam", optimizer.one_bit_adam(), problems);
}

template <class Decay>
void CheckDecay(std::string_view path, const Decay& decay, int64_t warmup, Problems& problems) {
  problems.Whole(StrCat(path, ".decay_steps"), decay.decay_steps(), 1, int64_t{1} << 31);
  if (!(decay.min_lr_ratio() >= 0 && decay.min_lr_ratio() <= 1)) {
    problems.Add(StrCat(path, ".min_lr_ratio"), NumberText(decay.min_lr_ratio()),
                 " is out of range; use a number from 0 to 1");
  }
  if (warmup >= decay.decay_steps() && decay.decay_steps() > 0) {
    problems.Add("train.schedule.warmup_steps", warmup, " leaves no step to decay in; use less than ", path,
                 ".decay_steps = ", decay.decay_steps());
  }
}

void CheckSchedule(const spec::Schedule& schedule, Problems& problems) {
  const int64_t warmup = schedule.warmup_steps();
  problems.Whole("train.schedule.warmup_steps", warmup, 0, int64_t{1} << 31);
  if (schedule.has_cosine()) CheckDecay("train.schedule.cosine", schedule.cosine(), warmup, problems);
  if (schedule.has_linear()) CheckDecay("train.schedule.linear", schedule.linear(), warmup, problems);
}

// Whether the number of steps is known and valid. With epochs, it is checked once the data has been read.
bool CheckLength(const spec::Train& train, Problems& problems) {
  if (!train.has_epochs()) return problems.Whole("train.steps", train.steps(), 1, int64_t{1} << 31);
  if (train.has_steps()) {
    problems.Add("train.epochs", train.epochs(), " and train.steps = ", train.steps(),
                 " both set the length of training; keep one of them");
  } else {
    problems.Whole("train.epochs", train.epochs(), 1, 1 << 30);
  }
  return false;
}

void CheckTrain(const spec::Spec& spec, Problems& problems) {
  const spec::Train& train = spec.train();
  const bool steps = CheckLength(train, problems);
  CheckBatch(spec, problems);
  CheckOptimizer(train.optimizer(), problems);
  CheckPrecision(train.precision(), problems);
  CheckFp8(spec, problems);
  CheckActivationCheckpointing(spec, problems);
  problems.AtLeast("train.clip_norm", train.clip_norm(), 0);
  if (train.has_steps()) CheckSchedule(train.schedule(), problems);
  CheckValidation(spec, problems);
  CheckCheckpoint(spec, problems);
  problems.Whole("train.threads_per_rank", train.threads_per_rank(), 1, 1024);
  problems.Whole("train.report_loss_every", train.report_loss_every(), 1, int64_t{1} << 31);
  if (problems.Whole("train.warmup_steps", train.warmup_steps(), 0, int64_t{1} << 31) && steps &&
      train.warmup_steps() >= train.steps()) {
    problems.Add("train.warmup_steps", train.warmup_steps(), " leaves no step of train.steps = ", train.steps(),
                 " to measure; use at most ", train.steps() - 1);
  }
}

// ---- Layout and fabric ----
void CheckBuckets(const spec::Parallel& parallel, Problems& problems) {
  if (problems.Above("parallel.bucket_mib", parallel.bucket_mib(), 0) && parallel.bucket_mib() > 1 << 20) {
    problems.Add("parallel.bucket_mib", NumberText(parallel.bucket_mib()), " is out of range; use at most ", 1 << 20);
  }
}

// Slowed-down links. `path`: the fabric's.
template <class Links>
void CheckLinks(std::string_view path, const Links& links, Problems& problems) {
  const std::string rate = StrCat(path, ".link_gbps"), latency = StrCat(path, ".latency_us");
  if (problems.AtLeast(rate, links.link_gbps(), 0) && links.link_gbps() > 0 &&
      !(links.link_gbps() >= 1e-9 && links.link_gbps() <= 1e9)) {
    problems.Add(rate, NumberText(links.link_gbps()),
                 " is out of range; use 1e-9 to 1e9, or 0 for links at full speed");
  }
  if (links.latency_us() > 1e9) {
    problems.Add(latency, NumberText(links.latency_us()), " is out of range; use at most 1e9");
  } else if (problems.AtLeast(latency, links.latency_us(), 0) && links.latency_us() > 0 && links.link_gbps() == 0) {
    problems.Add(latency, NumberText(links.latency_us()), " only applies to links that are slowed down, but ", rate,
                 " = 0 leaves them at full speed; use a rate above 0, such as 10");
  }
}

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

void CheckSimulated(const spec::Simulated& simulated, Problems& problems) {
  if (simulated.cluster().empty()) {
    problems.Add("fabric.simulated.cluster",
                 "\"\" names no cluster; use \"this-machine\" or one of `twofold list clusters`");
  }
  if (simulated.has_nodes()) problems.Whole("fabric.simulated.nodes", simulated.nodes(), 1, 1 << 20);
}

constexpr double kLongestTimeout = 1e9;  // seconds

void CheckRendezvous(const spec::Rendezvous& rendezvous, Problems& problems) {
  constexpr int kLastPort = 65535;
  if (rendezvous.has_port()) problems.Whole("fabric.rendezvous.port", rendezvous.port(), 1, kLastPort);
  if (problems.Above("fabric.rendezvous.timeout_s", rendezvous.timeout_s(), 0) &&
      rendezvous.timeout_s() > kLongestTimeout) {
    problems.Add("fabric.rendezvous.timeout_s", NumberText(rendezvous.timeout_s()),
                 " is out of range; use at most 1e9");
  }
  if (rendezvous.has_address() && rendezvous.address().empty()) {
    problems.Add("fabric.rendezvous.address",
                 "\"\" names no host; use that of rank 0, or leave it out to use what the launcher says");
  }
  if (rendezvous.has_bind() && rendezvous.bind().empty()) {
    problems.Add("fabric.rendezvous.bind",
                 "\"\" names no address; use one of rank 0's host (0.0.0.0: all), or leave it out to use "
                 "fabric.rendezvous.address");
  }
  if (!rendezvous.has_tls()) return;
  const spec::Tls& tls = rendezvous.tls();
  for (const auto& [name, file] :
       {std::pair("certificate", &tls.certificate()), {"key", &tls.key()}, {"authority", &tls.authority()}}) {
    if (file->empty()) problems.Add(StrCat("fabric.rendezvous.tls.", name), "\"\" names no file; use a PEM file");
  }
}

void CheckFabric(const spec::Spec& spec, Problems& problems) {
  const spec::Fabric& fabric = spec.fabric();
  if (problems.Above("fabric.timeout_s", fabric.timeout_s(), 0) && fabric.timeout_s() > kLongestTimeout) {
    problems.Add("fabric.timeout_s", NumberText(fabric.timeout_s()), " is out of range; use at most 1e9");
  }
  if (fabric.has_simulated()) {
    CheckSimulated(fabric.simulated(), problems);
    CheckSimulatedNetwork(spec, problems);
    CheckLinks("fabric.simulated", fabric.simulated(), problems);
  }
  if (fabric.has_in_memory()) CheckLinks("fabric.in_memory", fabric.in_memory(), problems);
  CheckInMemoryStragglers(spec, problems);
  CheckSites(spec, problems);
  CheckRendezvous(fabric.rendezvous(), problems);
  if (fabric.has_nccl()) {
    constexpr int kMostCtas = 64;  // NCCL's own bound
    problems.Whole("fabric.nccl.max_ctas", fabric.nccl().max_ctas(), 0, kMostCtas);
    if (spec.device() != spec::CUDA) {
      problems.Add("device", spec::Device_Name(spec.device()),
                   " is not possible with fabric.nccl, which moves the memory of GPUs; use CUDA (--set=device=CUDA), "
                   "or fabric in_memory, mpi or gloo");
    }
  }
  if (fabric.mpi().gpu_buffers() != spec::Mpi::AUTO && spec.device() != spec::CUDA) {
    problems.Add("fabric.mpi.gpu_buffers", spec::Mpi::GpuBuffers_Name(fabric.mpi().gpu_buffers()),
                 " is only for device: CUDA, but device is ", spec::Device_Name(spec.device()),
                 "; set that, or leave it out");
  }
}

// Limits on the memory that a rank may reserve.
void CheckMemory(const spec::Memory& memory, Problems& problems) {
  constexpr double kMost = 1 << 30;  // a pebibyte
  const auto check = [&problems](std::string_view path, double mib, std::string_view otherwise) {
    if (problems.AtLeast(path, mib, 0) && mib > kMost) {
      problems.Add(path, NumberText(mib), " is out of range; use at most ", NumberText(kMost), ", or 0 for ",
                   otherwise);
    }
  };
  check("memory.budget_mib", memory.budget_mib(), "what the device has");
  check("memory.host_budget_mib", memory.host_budget_mib(), "what the host has");
}

// What only predictions have.
void CheckPredictedOnly(const spec::Spec& spec, Problems& problems) {
  const bool simulated = spec.fabric().has_simulated();
  if (spec.memory().assume_fits() && !simulated) {
    problems.Add("memory.assume_fits", "true is only for fabric simulated, but fabric is ", FabricName(spec),
                 ": real memory cannot be exceeded; leave it out");
  }
  if (spec.framework() == spec::TWOFOLD) return;
  const std::string& name = spec::Framework_Name(spec.framework());
  if (!simulated) {
    problems.Add("framework", name, " can only be predicted, but fabric is ", FabricName(spec),
                 ", which runs this program; use --fabric=simulated, or TWOFOLD");
  }
  if (spec.device() == spec::EMULATED) {
    problems.Add("framework", name, " is predicted on the cluster's own device; leave device: EMULATED out");
  }
  if (spec.fabric().simulated().data() == spec::Simulated::REAL) {
    problems.Add("framework", name, " computes nothing; use fabric.simulated.data: SYMBOLIC");
  }
}

// What a rank polls for, or loses, is not in its graph.
void CheckExecutionGraph(const spec::Spec& spec, const char* field, Problems& problems) {
  if (!spec.fabric().has_simulated())
    problems.Add(field, "only simulated ranks keep one; use --fabric=simulated, or leave it out");
  if (spec.train().has_elastic() || spec.train().has_async_sgd())
    problems.Add(field, spec.train().has_elastic() ? "train.elastic" : "train.async_sgd",
                 " has ranks that come, go or do not wait for one another; leave one of them out");
  if (!spec.fabric().simulated().faults().empty())
    problems.Add(field, "fabric.simulated.faults are not in it; leave one of them out");
}

void CheckGraphs(const spec::Spec& spec, Problems& problems) {
  if (spec.trace().execution_graph()) CheckExecutionGraph(spec, "trace.execution_graph", problems);
  if (!spec.trace().goal()) return;
  CheckExecutionGraph(spec, "trace.goal", problems);
  if (spec.fabric().has_simulated() && spec.fabric().simulated().folding() != spec::Simulated::OFF)
    problems.Add("trace.goal",
                 "every message has two ends, so no rank can stand for others; add "
                 "fabric.simulated.folding: OFF, or leave it out");
}

absl::Status CheckAll(const spec::Spec& spec, Problems& problems) {
  CheckFinite(spec, "", problems);
  if (absl::Status status = problems.status(); !status.ok()) return status;
  CheckName(spec, problems);
  CheckModel(spec.model(), problems);
  CheckData(spec, problems);
  CheckTrain(spec, problems);
  CheckParallel(spec, problems);
  CheckZeroPlusPlus(spec, problems);
  CheckCompression(spec, problems);
  CheckOneBitAdam(spec, problems);
  CheckLocalUpdate(spec, problems);
  CheckElastic(spec, problems);
  CheckAsyncSgd(spec, problems);
  CheckBuckets(spec.parallel(), problems);
  CheckSharding(spec, problems);
  CheckFabric(spec, problems);
  CheckEmulated(spec, problems);
  CheckCuda(spec, problems);
  CheckMemory(spec.memory(), problems);
  CheckPredictedOnly(spec, problems);
  problems.Whole("trace.last_steps", spec.trace().last_steps(), 1, int64_t{1} << 31);
  problems.Whole("trace.ranks", spec.trace().ranks(), 1, int64_t{1} << 31);
  problems.Above("trace.goal_mib", spec.trace().goal_mib(), 0);
  if (!problems.status().ok()) return problems.status();
  CheckGraphs(spec, problems);
  CheckMessages(spec, problems);
  CheckUnits(spec, problems);
  return problems.status();
}

}  // namespace

absl::Status Validate(const spec::Spec& spec, const std::string& file) {
  Problems problems(file);
  return CheckAll(spec, problems);
}

BoundsByPath BoundsOf(const spec::Spec& spec) {
  BoundsByPath ranges;
  Problems problems("", &ranges);
  CheckAll(spec, problems).IgnoreError();  // the ranges are wanted, whatever is found
  return ranges;
}

}  // namespace twofold
