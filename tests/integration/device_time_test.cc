// What a report says of when a simulated GPU did what, on a cluster whose times can be said by heart: what its compute
// stream waited for, and when its memory changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/device/transfers.h"
#include "experiments/program/compare.h"
#include "strategies/from_spec.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace device_time_test {

// 1 GB/s devices on links of 1 GB/s and 1 ms. A host of `launch_us` a launch.
std::string ByHeart(double launch_us) {
  const std::string path = test::ScratchFolder("by_heart.textproto");
  std::ofstream(path)
      << "name: \"by-heart\" source: \"made up for tests\"\n"
         "device { kind: GPU_DEVICE memory_bytes: 4000000000 memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9 "
         "matmul_efficiency: 1 memory_efficiency: 1 host_link_gbytes_per_second: 1 host_link_us: 0 launch_us: "
      << launch_us << " }\nstar { hosts: 64 link_gbytes_per_second: 1 latency_us: 1000 }\n";
  return path;
}

struct OneStep {
  spec::Spec spec;
  report::Report report;
  std::vector<report::RankRecord> records;
};

// One step of each of `ranks` ranks, recorded and assembled. `more`: of the spec.
OneStep Recorded(int ranks, double launch_us, const std::function<void(RankContext&)>& step,
                 const std::string& more = "") {
  spec::Spec spec =
      test::Resolve(StrCat(test::kTinyMlp, "train { steps: 1 warmup_steps: 0 micro_batch: 1 global_batch: ", ranks,
                           " }\nparallel { dp: ", ranks, " }\nfabric { simulated { cluster: \"", ByHeart(launch_us),
                           "\" folding: OFF algorithm: \"auto\" } }\n", more));
  auto fabric = MakeFabric(spec);
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  const RunResult result = (*fabric)->Run(ranks, [&](RankContext& ctx) {
    Recorder recorder(ctx, RecorderOptionsOf(spec));
    recorder.BeginStep(0);
    step(ctx);
    ctx.device().compute().Synchronize();
    recorder.EndStep(0);
    return recorder.Record();
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  OneStep out{.spec = spec, .report = {}, .records = test::RecordsOf(spec, result)};
  out.report = Assemble(spec, {.fabric = "simulated", .predicted = true, .world_size = ranks}, result,
                        *ReadRecords(spec, result));
  return out;
}

Tensor Gigabytes(RankContext& ctx, double n, Category category = Category::kActivations) {
  return ctx.device().NewTensor(Shape{static_cast<int64_t>(n * 1e9 / 4)}, DType::kF32, category);
}
void BusyFor(RankContext& ctx, double seconds) {
  ctx.device().Launch(ctx.device().compute(), ops::Fill{Gigabytes(ctx, seconds), 0});
}

double ExposedOf(const report::Report& r, const std::string& operation, const std::string& group) {
  for (const report::Collective& c : r.collectives()) {
    if (c.operation() == operation && c.group() == group) return c.exposed_seconds();
  }
  ADD_FAILURE() << "no " << operation << " on " << group;
  return 0;
}

// Two stages of two tensor-parallel ranks. Ranks 0 and 1 post the receive of what ranks 2 and 3 send much later, and
// meanwhile wait for a sum of their own: that wait is the sum's.
OneStep StagesThatReceiveEarly(double launch_us = 0) {
  return Recorded(4, launch_us, [](RankContext& ctx) {
    const std::vector<std::vector<int>> rows = {{0, 1}, {2, 3}}, columns = {{0, 2}, {1, 3}};
    auto tp = ctx.world().Partition(rows, "tp"), pp = ctx.world().Partition(columns, "pp");
    Tensor message = Gigabytes(ctx, 0.1), sum = Gigabytes(ctx, 0.1);
    Stream& compute = ctx.device().compute();
    if (ctx.rank() < 2) {
      Work received = pp->Recv(message, 1);  // from 0
      BusyFor(ctx, 0.1);                     // to 0.1
      tp->AllReduce(sum).WaitOn(compute);    // stalls 0.101
      BusyFor(ctx, 0.05);                    // to 0.251
      received.WaitOn(compute);              // until 0.5 for the sender, then for the message: 0.101
    } else {
      BusyFor(ctx, 0.5);
      pp->Send(message, 0).Wait();
    }
  });
}

TEST(ExposedCommunication, IsOfWhatTheComputeStreamWaitsFor) {
  const report::Report r = StagesThatReceiveEarly().report;
  EXPECT_NEAR(r.exposed_communication_seconds(), 0.101 + 0.249 + 0.101, 1e-9);
  EXPECT_NEAR(ExposedOf(r, "all_reduce", "tp"), 0.101, 1e-9);
  EXPECT_NEAR(ExposedOf(r, "recv", "pp"), 0.101, 1e-9);
  EXPECT_NEAR(r.waiting_seconds(), 0.249, 1e-9);
}

TEST(ExposedCommunication, IsOneThingInTheHeadlineAndInTheBreakdown) {
  const OneStep run = StagesThatReceiveEarly();
  const Comparison c = Compare(run.report, run.spec, run.report, run.spec);
  const auto named = [](const std::vector<ComparedValue>& values) {
    for (const ComparedValue& v : values)
      if (v.name == "exposed communication") return v.predicted;
    return -1.0;
  };
  double details = 0, parts = 0;
  for (const ComparedValue& v : c.exposed) details += v.predicted;
  for (const ComparedValue& v : c.step_parts) parts += v.predicted;
  EXPECT_DOUBLE_EQ(named(c.values), named(c.step_parts));
  EXPECT_NEAR(details, named(c.values), 1e-12);
  EXPECT_NEAR(parts, c.values[0].predicted, 1e-12);
}

// Before a gather of 0.05 GB a framework converts F32 shards, 8 bytes an element, on the compute stream: 0.1 s. Then
// come 0.05 GB from the other rank. It converts nothing before a sum, and nothing of other types.
TEST(ConversionsOfAFramework, DelayTheCallAndTakeTheComputeStream) {
  const std::string profile = test::ScratchFolder("converting.textproto");
  std::ofstream(profile) << "name: \"converting\" summary: \"made up\" source: \"made up for tests\"\n"
                            "time { moved { before: ALL_GATHER type: F32 bytes_per_element: 8 } "
                            "moved { before: REDUCE_SCATTER type: BF16 bytes_per_element: 1000 } }\n";
  const std::string framework = StrCat("framework: PYTORCH_EAGER framework_profile: \"", profile, "\"\n");
  const auto seconds = [](const std::string& more) {
    const OneStep run = Recorded(
        2, 0,
        [](RankContext& ctx) {
          Tensor whole = Gigabytes(ctx, 0.1), part = Gigabytes(ctx, 0.05);
          ctx.world().AllGather(whole, part).WaitOn(ctx.device().compute());
          ctx.world().ReduceScatter(part, whole).WaitOn(ctx.device().compute());
        },
        more);
    return run.report.steps(0).seconds();
  };
  EXPECT_NEAR(seconds(framework) - seconds(""), 0.1, 1e-9);
}

double Overlap(double a, double b, double c, double d) { return std::max(0.0, std::min(b, d) - std::max(a, c)); }

// Trained stages post receives early, too. Every sum along tp is waited for before anything else is: what is idle
// beside it is its own.
TEST(ExposedCommunication, OfATrainedHybridAddsUp) {
  spec::Spec spec = test::Resolve(
      StrCat("model { gpt { layers: 4 hidden: 64 heads: 8 vocab: 512 sequence: 32 } }\n",
             "train { steps: 3 warmup_steps: 1 micro_batch: 1 global_batch: 4 }\nparallel { pp: 2 tp: 2 }\n",
             "fabric { simulated { cluster: \"", ByHeart(0), "\" } }\ntrace { last_steps: 2 }\n"));
  const RunResult result = test::RunResolved(spec);
  ASSERT_TRUE(result.status.ok()) << result.status;
  const std::vector<report::RankRecord> records = test::RecordsOf(spec, result);
  const report::Report r =
      Assemble(spec, {.fabric = "simulated", .predicted = true, .world_size = 4}, result, *ReadRecords(spec, result));
  double expected = 0, tp = 0, sum = r.waiting_seconds();
  for (const report::Span& call : records[0].spans()) {
    if (call.stream() != "communication tp") continue;
    double idle_from = 0;
    for (const report::Span& s : records[0].spans()) {
      if (s.stream() != "compute") continue;
      expected += Overlap(idle_from, s.start(), call.start() + call.waiting(), call.end()) / 2;  // steps
      idle_from = s.end();
    }
  }
  for (const report::Collective& c : r.collectives()) {
    sum += c.exposed_seconds();
    if (c.group() == "tp") tp += c.exposed_seconds();
  }
  EXPECT_GT(tp, 0.1 * r.median_step_seconds());
  EXPECT_NEAR(tp, expected, 1e-9);
  EXPECT_NEAR(sum, r.exposed_communication_seconds(), 1e-9);
  EXPECT_EQ(r.exposed_other_seconds(), 0);
}

// Threads and a device that sleeps: each wait of the compute stream is some call's.
TEST(ExposedCommunication, OfMeasuredRunsAddsUp) {
  for (const char* device : {"", "device: EMULATED emulated { cluster: \"star-a100\" }"}) {
    spec::Spec spec = test::Resolve(StrCat(
        test::kTinyGpt, "train { steps: 4 warmup_steps: 1 micro_batch: 2 global_batch: 8 }\nparallel { pp: 2 tp: 2 }\n",
        test::kInMemory, device, " trace { last_steps: 3 }\n"));
    const RunResult result = test::RunResolved(spec);
    ASSERT_TRUE(result.status.ok()) << result.status;
    const report::Report r =
        Assemble(spec, {.fabric = "in_memory", .world_size = 4}, result, *ReadRecords(spec, result));
    double sum = r.waiting_seconds(), stood = 0;
    for (const report::Collective& c : r.collectives()) sum += c.exposed_seconds();
    for (int s = 1; s < 4; ++s) stood += r.steps(s).exposed_communication_seconds() / 3;
    EXPECT_GT(stood, 0);
    EXPECT_NEAR(sum, stood, 1e-6 * stood) << device;
    EXPECT_EQ(r.exposed_other_seconds(), 0) << device;
  }
}

// While the host is at something else the stream has nothing to do: that is not the message's doing.
TEST(ExposedCommunication, IsNotTheHosts) {
  const report::Report r = Recorded(2, /*launch_us=*/200'000, [](RankContext& ctx) {
                             Tensor sum = Gigabytes(ctx, 0.1), little = Gigabytes(ctx, 0.001);
                             const Tensor host =
                                 ctx.device().NewHostTensor(little.shape(), DType::kF32, Category::kOther);
                             TransferStream out(ctx.device(), "device to host");
                             BusyFor(ctx, 0.1);                         // launched at 0.2, done at 0.3
                             Transfer copied = out.Copy(little, host);  // launched at 0.4
                             Work work = ctx.world().AllReduce(sum);    // from 0.4 to 0.501
                             work.WaitOn(ctx.device().compute());
                             copied.Wait();
                           }).report;
  EXPECT_NEAR(r.exposed_communication_seconds(), 0.101, 1e-9);
  EXPECT_NEAR(ExposedOf(r, "all_reduce", "world"), 0.101, 1e-9);
  EXPECT_NEAR(r.waiting_seconds(), 0, 1e-9);
}

// A rank that computes for D seconds a step. After each wait its device stands still for h, the time of a launch.
// Warm-up ends after step 2, and step 12 is traced.
TEST(StepsWithoutALoss, HaveTheMeanTimeFromWaitToWait) {
  const auto record = [](int every, int warmup_steps) {
    return test::RunText(StrCat("model { mlp { inputs: 64 hidden: [512, 512] classes: 8 } }\ntrain { steps: 12 ",
                                "micro_batch: 8 global_batch: 8 report_loss_every: ", every, " warmup_steps: ",
                                warmup_steps, " }\nfabric { simulated { cluster: \"", ByHeart(20), "\" } }\n"))[0];
  };
  const report::RankRecord each = record(1, 2), fourth = record(4, 2);
  ASSERT_EQ(fourth.steps_size(), 12);
  const auto seconds = [&](const report::RankRecord& r, int step) { return r.steps(step - 1).seconds(); };
  for (int step = 1; step <= 12; ++step) {
    EXPECT_TRUE(each.steps(step - 1).has_loss());
    EXPECT_EQ(fourth.steps(step - 1).has_loss(), step % 4 == 0) << "step " << step;
  }
  for (const auto& [first, last] : {std::pair(1, 2), std::pair(3, 4), std::pair(5, 8), std::pair(9, 11)}) {
    for (int step = first; step <= last; ++step) EXPECT_EQ(seconds(fourth, step), seconds(fourth, first));
  }
  const double alone = seconds(each, 7), of_two = seconds(fourth, 3), of_four = seconds(fourth, 5), h = 20e-6;
  EXPECT_NEAR(alone - of_two, h - h / 2, 1e-9);
  EXPECT_NEAR(alone - of_four, h - h / 4, 1e-9);
  EXPECT_NEAR(seconds(fourth, 12), seconds(each, 12), 1e-9) << "the traced step shares its time with no other";
  const report::RankRecord warm = record(4, 0);
  EXPECT_EQ(seconds(warm, 1), seconds(warm, 4));
}

// The host is through with all of it at 0; the device reaches each change when what was launched before it is done.
TEST(MemoryOverTime, IsWhenTheDeviceReachesEachChange) {
  const OneStep run = Recorded(2, 0, [](RankContext& ctx) {
    BusyFor(ctx, 0.1);  // 0.1 GB from 0 to 0.1
    Tensor kept = Gigabytes(ctx, 0.2, Category::kParameters);
    BusyFor(ctx, 0.3);                                           // from 0.1 to 0.4
    ctx.world().AllReduce(kept).WaitOn(ctx.device().compute());  // to 0.601
    kept = Tensor();
    BusyFor(ctx, 0.1);
  });
  const auto live = [&](double time) {
    double gigabytes = -1;
    for (const report::MemorySample& s : run.records[0].samples()) {
      if (s.time() > time) break;
      gigabytes = 0;
      for (const int64_t bytes : s.live_by_category()) gigabytes += 1e-9 * static_cast<double>(bytes);
    }
    return gigabytes;
  };
  EXPECT_NEAR(live(0.05), 0.1, 0.005);
  EXPECT_NEAR(live(0.25), 0.5, 0.005);
  EXPECT_NEAR(live(0.5), 0.2, 0.005);
  EXPECT_NEAR(live(0.65), 0.1, 0.005);
  EXPECT_NEAR(live(0.75), 0, 0.005);
  for (int i = 1; i < run.records[0].samples_size(); ++i)
    EXPECT_GE(run.records[0].samples(i).time(), run.records[0].samples(i - 1).time());
  EXPECT_NEAR(1e-9 * static_cast<double>(run.report.ranks(0).peak_bytes()), 0.5, 0.005);
}

// A rank that hands back what it has while its device still waits for another: no change is lost.
TEST(MemoryOverTime, HasWhatTheDeviceNeverReached) {
  spec::Spec spec = test::Resolve(
      StrCat(test::kTinyMlp, "train { steps: 1 warmup_steps: 0 micro_batch: 1 global_batch: 2 }\nparallel { dp: 2 }\n",
             "fabric { simulated { cluster: \"", ByHeart(0), "\" folding: OFF algorithm: \"auto\" } }\n"));
  auto fabric = MakeFabric(spec);
  ASSERT_TRUE(fabric.ok()) << fabric.status();
  const RunResult result = (*fabric)->Run(2, [&](RankContext& ctx) {
    Recorder recorder(ctx, RecorderOptionsOf(spec));
    recorder.BeginStep(0);
    BusyFor(ctx, ctx.rank() == 0 ? 0.1 : 0.5);
    Tensor sum = Gigabytes(ctx, 0.1);
    ctx.world().AllReduce(sum).WaitOn(ctx.device().compute());
    const Tensor more = Gigabytes(ctx, 0.2);
    return recorder.Record();
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  const report::RankRecord record = test::RecordsOf(spec, result)[0];
  ASSERT_GT(record.samples_size(), 3);
  const report::MemorySample& last = record.samples(record.samples_size() - 1);
  EXPECT_NEAR(1e-9 * static_cast<double>(last.live_by_category(static_cast<int>(Category::kActivations))), 0.3, 0.005);
  EXPECT_NEAR(last.time(), 0.1, 1e-9);  // the last that was reached
}

}  // namespace device_time_test
}  // namespace twofold
