// Traces of PyTorch's profiler as measured runs. The traces in tests/data/traces are written by hand from the format's
// documentation; the figures here are worked out from their times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "core/base/strings.h"
#include "experiments/program/compare.h"
#include "experiments/program/import/kineto.h"
#include "experiments/program/import/nccl_names.h"
#include "experiments/program/measured_run.h"
#include "experiments/program/report/gpu_kernels.h"
#include "experiments/program/report/gzip.h"

namespace twofold {
namespace import_test {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kMicro = 1e-6, kClose = 1e-12;

std::string TextOf(const std::string& name) {
  std::ifstream file(StrCat("tests/data/traces/", name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<RankTrace> Traces(const std::vector<std::string>& names) {
  std::vector<RankTrace> traces;
  for (const std::string& name : names) {
    absl::StatusOr<RankTrace> trace = ReadKineto(TextOf(name), name);
    EXPECT_TRUE(trace.ok()) << trace.status();
    if (trace.ok()) traces.push_back(*std::move(trace));
  }
  return traces;
}

MeasuredRun Imported(const std::vector<std::string>& names,
                     const MeasuredRunOptions& options = {.import = {}, .name = "r"}) {
  absl::StatusOr<MeasuredRun> run = MeasuredRunOf(Traces(names), options);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : MeasuredRun{};
}

double Kernels(const report::Report& r) {
  double seconds = 0;
  for (const report::KernelTotal& k : r.kernels()) seconds += k.seconds();
  return seconds;
}

double Exposed(const report::Report& r) {
  double seconds = r.waiting_seconds() + r.exposed_other_seconds();
  for (const report::Collective& c : r.collectives()) seconds += c.exposed_seconds();
  return seconds;
}

// Steps 5 and 6; the profiler's last annotation has no work.
TEST(Import, StepsBeginWithTheirFirstWorkOnTheGpu) {
  const report::Report r = Imported({"ddp-rank0.json", "ddp-rank1.json"}).report;
  ASSERT_EQ(r.steps_size(), 2);
  EXPECT_NEAR(r.steps(0).seconds(), 1000 * kMicro, kClose);
  EXPECT_NEAR(r.steps(1).seconds(), 900 * kMicro, kClose);  // until the host's annotation ends
  EXPECT_NEAR(r.median_step_seconds(), 950 * kMicro, kClose);
  EXPECT_NEAR(r.traced_step_seconds(), 950 * kMicro, kClose);
  EXPECT_EQ(r.fabric(), "pytorch");
  EXPECT_FALSE(r.predicted());
  EXPECT_EQ(r.world_size(), 2);
  EXPECT_EQ(r.device(), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(r.imported_from(), "PyTorch's profiler");
  EXPECT_THAT(r.notes(), Contains(HasSubstr("1 annotated step without work")));
}

TEST(Import, PartsOfAStepAreKernelsExposedCommunicationAndTheHost) {
  const report::Report r = Imported({"ddp-rank1.json", "ddp-rank0.json"}).report;  // the order of files does not matter
  EXPECT_NEAR(Kernels(r), 600 * kMicro, kClose);
  ASSERT_EQ(r.collectives_size(), 1);
  const report::Collective& c = r.collectives(0);
  EXPECT_EQ(c.operation(), "all_reduce");
  EXPECT_EQ(c.group(), "world");
  EXPECT_EQ(c.count(), 2);
  EXPECT_EQ(c.bytes(), 2 * 1000 * 2);
  EXPECT_NEAR(c.seconds(), (250 + 310) * kMicro, kClose);
  // Of 200 and 260 µs, the second call waits 100 for rank 1, where it is 150 shorter and 50 are hidden.
  EXPECT_NEAR(r.waiting_seconds(), 50 * kMicro, kClose);
  EXPECT_NEAR(c.exposed_seconds(), 180 * kMicro, kClose);
  EXPECT_NEAR(r.exposed_other_seconds(), 20 * kMicro, kClose);  // the copy of step 5
  EXPECT_NEAR(r.steps(0).exposed_communication_seconds(), 240 * kMicro, kClose);
  EXPECT_NEAR(r.steps(1).exposed_communication_seconds(), 260 * kMicro, kClose);
  EXPECT_NEAR(Exposed(r), 250 * kMicro, kClose);
  const double host = r.traced_step_seconds() - Kernels(r) - Exposed(r);
  EXPECT_NEAR(host, 100 * kMicro, kClose);
}

TEST(Import, OneRankAloneWaitsForNobody) {
  const report::Report r = Imported({"ddp-rank0.json"}).report;
  EXPECT_EQ(r.waiting_seconds(), 0);
  EXPECT_NEAR(r.collectives(0).exposed_seconds(), 230 * kMicro, kClose);
  EXPECT_EQ(r.ranks_size(), 1);
  EXPECT_EQ(r.world_size(), 2);
  EXPECT_THAT(r.notes(), Contains(HasSubstr("waiting for other ranks is part of the collectives")));
}

TEST(Import, MemoryIsTheAllocatorsOfTheGpu) {
  const MeasuredRun run = Imported({"ddp-rank0.json", "ddp-rank1.json"});
  ASSERT_EQ(run.report.ranks_size(), 2);
  EXPECT_EQ(run.report.ranks(1).rank(), 1);
  EXPECT_EQ(run.report.ranks(1).peak_bytes(), 7000);
  EXPECT_EQ(run.report.ranks(1).reserved_bytes(), 8192);
  EXPECT_EQ(run.records[0].record.samples_size(), 2);
}

TEST(Import, SpansHaveStreamsAndExposedTime) {
  const MeasuredRun run = Imported({"ddp-rank0.json", "ddp-rank1.json"});
  std::vector<std::string> streams;
  for (const report::Span& s : run.records[0].record.spans()) {
    if (streams.empty() || streams.back() != s.stream()) streams.push_back(s.stream());
    if (s.stream() == "communication world") {
      EXPECT_EQ(s.name(), "all_reduce");
      EXPECT_EQ(s.bytes(), 2000);
    }
  }
  EXPECT_THAT(streams, ElementsAre("communication world", "compute"));
}

TEST(Import, OlderTracesHaveOtherCategoriesAndCallsOnTheHost) {
  const report::Report r = Imported({"old-categories.json"}).report;
  ASSERT_EQ(r.steps_size(), 1);
  EXPECT_NEAR(r.steps(0).seconds(), 450 * kMicro, 1e-9);
  EXPECT_NEAR(Kernels(r), 120 * kMicro, 1e-9);
  EXPECT_EQ(r.world_size(), 4) << "the size of the group";
  ASSERT_EQ(r.collectives_size(), 2);
  EXPECT_EQ(r.collectives(0).operation(), "all_reduce");
  EXPECT_EQ(r.collectives(0).group(), "unknown group");
  EXPECT_EQ(r.collectives(0).bytes(), 256 * 4) << "of the host's call around the launch";
  EXPECT_EQ(r.collectives(1).operation(), "broadcast");
  EXPECT_EQ(r.collectives(1).bytes(), 0);
  EXPECT_NEAR(Exposed(r), 210 * kMicro, 1e-9);
  EXPECT_THAT(r.notes(), Contains(HasSubstr("sizes of some collectives are not in the trace")));
  EXPECT_THAT(r.notes(), Contains(HasSubstr("has no memory")));
}

TEST(Import, OtherAnnotationsCanBeSteps) {
  MeasuredRunOptions options{.import = {.step = "train_step", .groups = {{"mesh_pp", "stages"}}}, .name = "r"};
  const report::Report r = Imported({"own-steps.json"}, options).report;
  ASSERT_EQ(r.steps_size(), 2);
  EXPECT_NEAR(r.steps(0).seconds(), 400 * kMicro, kClose);
  EXPECT_NEAR(r.steps(1).seconds(), 300 * kMicro, kClose);
  // Two streams compute for 20 µs of 140: the moment counts once.
  EXPECT_NEAR(Kernels(r), 120 * kMicro, kClose);
  EXPECT_NEAR(Exposed(r), 70 * kMicro, kClose);
  std::vector<std::string> calls;
  for (const report::Collective& c : r.collectives())
    calls.push_back(StrCat(c.operation(), " on ", c.group(), " ", c.count(), " ", c.bytes()));
  EXPECT_THAT(calls,
              ElementsAre("all_gather on tp 2 1600", "reduce_scatter on tp 2 1600", "send_recv on stages 2 200"));
  EXPECT_THAT(r.notes(), Contains(HasSubstr("kernels ran beside others for 20.0 µs per step")));

  options.import.step = "no_such_step";
  const absl::Status status = MeasuredRunOf(Traces({"own-steps.json"}), options).status();
  EXPECT_EQ(status.message(),
            "own-steps.json: has no annotations called no_such_step (--step); it has optimizer, train_step 1, "
            "train_step 2");
}

TEST(Import, WithoutAnnotationsTheTraceIsOneStep) {
  const report::Report r = Imported({"own-steps.json"}).report;
  ASSERT_EQ(r.steps_size(), 1);
  EXPECT_NEAR(r.steps(0).seconds(), 600 * kMicro, kClose);
  EXPECT_NEAR(Kernels(r), 240 * kMicro, kClose);
  EXPECT_THAT(r.notes(), Contains(HasSubstr("all of it is taken as one step")));
}

TEST(Import, ReadsGzip) {
  const std::string text = TextOf("ddp-rank0.json");
  const absl::StatusOr<RankTrace> plain = ReadKineto(text, "f"), zipped = ReadKineto(Gzip(text), "f");
  ASSERT_TRUE(plain.ok() && zipped.ok()) << zipped.status();
  EXPECT_EQ(zipped->device.size(), plain->device.size());
  const std::string half = Gzip(text).substr(0, 200);
  EXPECT_EQ(ReadKineto(half, "f.json.gz").status().message(), "f.json.gz: is a gzip file that is cut short");
  EXPECT_EQ(Gunzip(Gzip(text), 100).status().message(), "holds more than 100 bytes when it is unpacked");
  EXPECT_EQ(*Gunzip(Gzip("one ") + Gzip("two"), 100), "one two");
}

TEST(Import, SaysWhatIsWrongWithAFile) {
  const auto refusal = [](const std::string& text) {
    return std::string(ReadKineto(text, "f.json").status().message());
  };
  const auto of_event = [&](const std::string& event) {
    return refusal(StrCat("{\"traceEvents\": [{}, ", event, "]}"));
  };
  EXPECT_THAT(refusal(""), HasSubstr("f.json: is empty; give a file that torch.profiler's export_chrome_trace wrote"));
  EXPECT_THAT(refusal("{\"traceEvents\": ["), HasSubstr("f.json: ends at byte 17 and seems to be cut short"));
  EXPECT_THAT(refusal("<html>"), HasSubstr("f.json: byte 1: is not JSON"));
  EXPECT_THAT(refusal("{\"a\": 1}"), HasSubstr("f.json: is not a trace: it has no list of traceEvents"));
  EXPECT_THAT(refusal("{\"traceEvents\": 3}"), HasSubstr("f.json: traceEvents: 3 is not a list"));
  EXPECT_THAT(refusal("[]"),
              HasSubstr("f.json: has 0 events, but no kernels of a GPU and no operators of a CPU; profile with "));
  EXPECT_THAT(of_event("7"), HasSubstr("f.json: traceEvents[1].7 is not an object"));
  const std::string kernel = R"("ph": "X", "cat": "kernel", "name": "k")";
  EXPECT_EQ(of_event(StrCat("{", kernel, "}")), "f.json: traceEvents[1].ts: is missing; expected microseconds");
  EXPECT_EQ(of_event(StrCat("{", kernel, R"(, "ts": "now"})")),
            "f.json: traceEvents[1].ts: \"now\" is not a number; expected microseconds");
  EXPECT_EQ(of_event(StrCat("{", kernel, R"(, "ts": 1e300})")),
            "f.json: traceEvents[1].ts: 1e+300 is out of range; expected microseconds");
  EXPECT_EQ(of_event(StrCat("{", kernel, R"(, "ts": 1, "dur": -2})")),
            "f.json: traceEvents[1].dur: -2 is out of range; expected 0 or more microseconds");
  EXPECT_EQ(of_event(StrCat("{", kernel, R"(, "ts": 1, "args": {"stream": "seven"}})")),
            "f.json: traceEvents[1].stream: \"seven\" is not a whole number");
  EXPECT_EQ(of_event(StrCat("{", kernel, R"(, "ts": 1, "args": []})")),
            "f.json: traceEvents[1].args: [] is not an object");
  EXPECT_EQ(refusal(R"({"distributedInfo": {"rank": 4, "world_size": 4}, "traceEvents": []})"),
            "f.json: distributedInfo.rank: 4 is out of range; expected 0 to 3");
}

TEST(Import, ARankWithoutAWorldSizeSaysNothing) {
  const absl::StatusOr<RankTrace> trace = ReadKineto(
      R"({"distributedInfo": {"rank": 0}, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}]})",
      "f.json");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_FALSE(trace->rank.has_value());
  EXPECT_FALSE(trace->world_size.has_value());
}

TEST(Import, RefusesTracesOfSeveralJobs) {
  const auto refusal = [](const std::vector<std::string>& names) {
    return std::string(MeasuredRunOf(Traces(names), {.import = {}, .name = "r"}).status().message());
  };
  EXPECT_EQ(refusal({"ddp-rank0.json", "ddp-rank0.json"}),
            "ddp-rank0.json: is of rank 0, as is ddp-rank0.json; give one file for each rank");
  EXPECT_THAT(refusal({"ddp-rank0.json", "own-steps.json"}), HasSubstr("own-steps.json: does not say which rank"));
  std::vector<RankTrace> traces = Traces({"ddp-rank0.json", "ddp-rank1.json"});
  traces[1].world_size = 8;
  EXPECT_EQ(MeasuredRunOf(traces, {.import = {}, .name = "r"}).status().message(),
            "ddp-rank1.json: is of a job of 8 ranks, but ddp-rank0.json of 2; give traces of one job");
}

TEST(Import, KernelsHaveClasses) {
  for (const auto& [name, work] :
       {std::pair("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_TNT", "products"),
        {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "products"},
        {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu>(Params)", "products"},
        {"Cijk_Ailk_Bljk_BBS_BH_MT128x128x32", "products"},
        {"void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<cutlass::bfloat16_t>()", "attention"},
        {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::Params)", "attention"},
        {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128", "attention"},
        {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>()", "norms"},
        {"triton_red_fused_native_layer_norm_add_3", "norms"},
        {"triton_poi_fused_gelu_1", "element by element"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>()", "element by element"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl()::{lambda()#1}>(int)",
         "element by element"},
        {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>()", "optimizer"},
        {"void (anonymous namespace)::softmax_warp_forward<float>()", "attention"},
        {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<LogSoftMaxForwardEpilogue>()",
         "embedding and loss"},
        {"void at::native::(anonymous namespace)::indexSelectLargeIndex<float>()", "element by element"},
        {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"},
        {"Memcpy DtoH (Device -> Pageable)", "to and from the host"},
        {"Memcpy DtoD (Device -> Device)", "element by element"},
        {"matmul_nt", "products"},
        {"somebodys_kernel", "other"}}) {
    EXPECT_EQ(WorkName(name), work) << name;
  }
  for (const GpuKernelRow& row : GpuKernelRows()) {  // no row is hidden by one before it
    EXPECT_EQ(GpuWorkOf(row.part), row.is) << row.part;
  }
}

TEST(Import, CollectivesHaveOurNames) {
  for (const auto& [name, operation] : {std::pair("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)", "all_reduce"),
                                        {"ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)", "reduce_scatter"},
                                        {"ncclDevKernel_SendRecv(args)", "send_recv"},
                                        {"_allgather_base", "all_gather"},
                                        {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
                                        {"all_to_allv", "all_to_all"},
                                        {"ncclDevKernel_Reduce_Sum_f32_RING_LL(args)", "reduce"},
                                        {"ncclDevKernel_Generic_4(args)", ""}})
    EXPECT_EQ(OperationOf(name), operation) << name;
}

// Two ranks' steps on CPUs, as the legacy profiler writes them: 100 µs of a product that copies for 10 µs within it, an
// all-reduce of Gloo that 40 µs of another operator hide, and an optimizer.
std::string OnCpu(int64_t reduce_ends) {
  std::string events;
  const auto add = [&](const char* name, int64_t ts, int64_t dur, int thread = 1, const char* args = "{}") {
    StrAppend(&events, events.empty() ? "" : ",\n", R"({"name": ")", name, R"(", "ph": "X", "ts": )", ts,
              R"(, "dur": )", dur, R"(, "tid": )", thread, R"(, "pid": "CPU functions", "args": )", args, "}");
  };
  for (int64_t at : {1000, 2000}) {
    add(at == 1000 ? "step 1" : "step 2", at, 900);
    add("DistributedDataParallel.forward", at + 5, 200);
    add("aten::linear", at + 10, 120);
    add("aten::addmm", at + 20, 100);
    add("aten::copy_", at + 30, 10);
    add("aten::copy_", at + 35, 0);
    add("autograd::engine::evaluate_function: AddmmBackward0", at + 300, 400);
    add("c10d::allreduce_", at + 310, 2);
    add("gloo:all_reduce", at + 311, reduce_ends - 311, 2,
        R"({"Input Dims": [[50, 20]], "Input type": ["c10::BFloat16"]})");
    add("aten::mul", at + 320, 40);
    add("Optimizer.step#SGD.step", at + 800, 60);
    add("aten::add_", at + 810, 30);
  }
  return StrCat("[", events, "]");
}

TEST(Import, WithoutAGpuOperatorsAreTheWork) {
  std::vector<RankTrace> traces = {*ReadKineto(OnCpu(600), "a.json"), *ReadKineto(OnCpu(600), "b.json")};
  const MeasuredRun run = *MeasuredRunOf(traces, {.import = {.step = "step", .groups = {}}, .name = "r"});
  const report::Report& r = run.report;
  ASSERT_EQ(r.steps_size(), 2);
  EXPECT_EQ(r.world_size(), 2);
  EXPECT_EQ(r.device(), "CPU");
  EXPECT_NEAR(r.steps(0).seconds(), 1000 * kMicro, kClose) << "from its first operator to the next step's";
  EXPECT_NEAR(r.steps(1).seconds(), 890 * kMicro, kClose) << "until the annotation ends";
  std::map<std::string, std::pair<int64_t, double>> kernels;
  for (const report::KernelTotal& k : r.kernels()) kernels[k.kernel()] = {k.count(), k.seconds()};
  const auto is = [&](const char* name, int64_t count, double us) {
    EXPECT_EQ(kernels[name].first, count) << name;
    EXPECT_NEAR(kernels[name].second, us * kMicro, kClose) << name;
  };
  is("aten::linear", 1, 20), is("aten::addmm", 1, 90), is("aten::copy_", 2, 10), is("aten::mul", 1, 40);
  is("Optimizer.step#SGD.step: aten::add_", 1, 30);
  EXPECT_EQ(kernels.size(), 5u) << "the engine's and the user's ranges are the host's";
  ASSERT_EQ(r.collectives_size(), 1);
  EXPECT_EQ(r.collectives(0).operation(), "all_reduce");
  EXPECT_EQ(r.collectives(0).bytes(), 2 * 2 * 50 * 20);
  EXPECT_NEAR(r.collectives(0).seconds(), 2 * 289 * kMicro, kClose);
  EXPECT_NEAR(Exposed(r), (289 - 40) * kMicro, kClose);
  EXPECT_EQ(WorkName("aten::addmm"), "products");
  EXPECT_EQ(WorkName("Optimizer.step#SGD.step: aten::add_"), "optimizer");
  EXPECT_EQ(WorkName("aten::nll_loss_forward"), "embedding and loss");
  EXPECT_EQ(WorkName("aten::mul"), "element by element");
  EXPECT_THAT(r.notes(), Contains(HasSubstr("rank 0: the trace has no work of a GPU: operators on the CPU are taken")));
  EXPECT_THAT(r.notes(), Contains(HasSubstr("time lines of several ranks are not aligned")));
  EXPECT_THAT(r.notes(), Contains(HasSubstr("a step lasts from its first operator to the next step's")));

  // of a call that lasts 100 µs longer than the other rank's, these 100 are waiting; an operator hides 40 of them
  traces[0] = *ReadKineto(OnCpu(700), "a.json");
  EXPECT_NEAR(MeasuredRunOf(traces, {.import = {.step = "step", .groups = {}}, .name = "r"})->report.waiting_seconds(),
              60 * kMicro, kClose);
}

// Parameter servers' trainers have such steps, in a trace that somebody filtered.
TEST(Import, AStepOfCommunicationAloneHasParts) {
  std::vector<RankTrace> traces = {*ReadKineto(
      R"([{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
          {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": 10, "dur": 80,
           "args": {"Input Dims": [[1000]], "Input type": ["float"]}}])",
      "a.json")};
  const MeasuredRun run = *MeasuredRunOf(traces, {.import = {.step = "", .groups = {}}, .name = "r"});
  EXPECT_GT(run.report.traced_step_seconds(), 0);
  EXPECT_EQ(run.report.traced_step_seconds(), run.report.steps(0).seconds());
  EXPECT_NEAR(Exposed(run.report), 80 * kMicro, kClose);
  EXPECT_EQ(run.report.collectives(0).bytes(), 4000);
}

TEST(Import, OperatorsAreNoWorkOfAJobOnGpus) {
  const auto refusal = [](const std::string& events, const std::string& more = "") {
    const std::string text = StrCat("{", more, "\"traceEvents\": [", events, "]}");
    return std::string(ReadKineto(text, "f.json").status().message());
  };
  const std::string op = R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2})";
  EXPECT_EQ(refusal(op), "");
  const std::string no_kernels = "but no kernels of a GPU; profile with ProfilerActivity.CUDA";
  EXPECT_EQ(refusal(op, R"("deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], )"),
            StrCat("f.json: has 1 events, ", no_kernels));
  EXPECT_THAT(
      refusal(StrCat(op, R"(, {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, )",
                     R"("ts": 1, "dur": 1, "args": {"correlation": 4}})")),
      HasSubstr(no_kernels));
  EXPECT_THAT(
      refusal(StrCat(op, R"(, {"ph": "X", "cat": "cpu_op", "name": "nccl:all_reduce", "pid": 1, "tid": 1, "ts": 1})")),
      HasSubstr(no_kernels));
  EXPECT_THAT(refusal(R"({"ph": "X", "name": "mm", "ts": 1, "dur": 2, "tid": 0, "pid": "CUDA functions", "args": {}})"),
              HasSubstr("traceEvents[0].pid: \"CUDA functions\" is of PyTorch's legacy profiler"));
}

// A prediction held against the trace: groups of other names, kernels by what they do, parts that add up.
TEST(Import, IsComparedWithAPrediction) {
  const MeasuredRun measured = Imported({"ddp-rank0.json", "ddp-rank1.json"});
  report::Report predicted;
  predicted.set_fabric("simulated"), predicted.set_predicted(true), predicted.set_world_size(2);
  predicted.set_median_step_seconds(1000 * kMicro), predicted.set_traced_step_seconds(1000 * kMicro);
  predicted.set_low(930 * kMicro), predicted.set_high(1070 * kMicro);
  predicted.set_exposed_communication_seconds(300 * kMicro);
  for (const auto& [name, us] :
       {std::pair("matmul_nt", 350), {"matmul_nn", 50}, {"gelu_forward", 100}, {"adamw", 200}}) {
    report::KernelTotal& k = *predicted.add_kernels();
    k.set_kernel(name), k.set_seconds(us * kMicro);
  }
  report::Collective& c = *predicted.add_collectives();
  c.set_operation("all_reduce"), c.set_group("dp"), c.set_count(1), c.set_seconds(300 * kMicro);
  c.set_exposed_seconds(300 * kMicro);
  report::Rank& rank = *predicted.add_ranks();
  rank.set_peak_bytes(1), rank.mutable_framework()->set_allocated_bytes(7700);
  rank.mutable_framework()->set_reserved_bytes(8192);
  const Comparison out = Compare(predicted, spec::Spec(), measured.report, measured.spec);
  EXPECT_THAT(out.remarks, Contains(HasSubstr("both runs are taken to be of the same job")));
  EXPECT_THAT(out.remarks, Contains("the process group world of the trace is taken to be dp"));
  EXPECT_EQ(out.inside_interval, true);
  for (const auto side : {&ComparedValue::predicted, &ComparedValue::measured}) {
    double parts = 0, kernels = 0, exposed = 0;
    for (const ComparedValue& v : out.step_parts) parts += v.*side;
    for (const ComparedValue& v : out.kernels) kernels += v.*side;
    for (const ComparedValue& v : out.exposed) exposed += v.*side;
    EXPECT_NEAR(parts, out.values[0].*side, kClose);
    EXPECT_NEAR(kernels, out.step_parts[0].*side, kClose);
    EXPECT_NEAR(exposed, out.step_parts[1].*side, kClose);
  }
  std::vector<std::string> rows;
  for (const ComparedValue& v : out.kernels) rows.push_back(v.name);
  EXPECT_THAT(rows, ElementsAre("products", "element by element", "optimizer"));
  ASSERT_EQ(out.collectives.size(), 1u);
  EXPECT_THAT(out.collectives[0].measured, DoubleNear(280 * kMicro, kClose));
  std::vector<std::string> values;
  for (const ComparedValue& v : out.values) values.push_back(v.name);
  EXPECT_THAT(values, ElementsAre("step time", "exposed communication", "peak memory", "reserved memory"));
  EXPECT_EQ(out.values[2].predicted, 7700) << "what the framework allocates";
  EXPECT_EQ(out.values[2].measured, 7000);
}

}  // namespace import_test
}  // namespace twofold
