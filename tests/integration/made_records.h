// Records of ranks as a run leaves them, made up, and the report of them: for the arithmetic of reports and
// comparisons.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "experiments/program/assemble.h"
#include "tests/integration/run_spec.h"

namespace twofold::made_records {

// Two ranks, steps of 9, 2, 4 and 3 seconds of which the first is warm-up.
inline RunResult Records(double low = 1, double high = 1) {
  RunResult result;
  for (int rank = 0; rank < 2; ++rank) {
    report::RankRecord record;
    record.set_rank(rank);
    for (const double seconds : {9.0, 2.0, 4.0, 3.0}) {
      report::Step* step = record.add_steps();
      step->set_seconds(seconds);
      step->set_loss(seconds / 2);
      step->set_exposed_communication_seconds(seconds / 4);
    }
    record.mutable_memory()->set_rank(rank);
    record.mutable_memory()->set_peak_bytes(1000 + rank);
    record.set_compute_low_ratio(rank == 0 ? 1 : low);
    record.set_compute_high_ratio(rank == 0 ? high : 1);
    record.add_notes("said by both");
    result.results.push_back(record.SerializeAsString());
  }
  return result;
}

inline spec::Spec Spec(const std::string& more = "") {
  return test::Resolve(StrCat(
      test::kTinyMlp, "train { steps: 4 global_batch: 6 micro_batch: 3 warmup_steps: 1 }\nparallel { dp: 2 }\n", more));
}

inline report::Report Of(const spec::Spec& spec, const RunResult& result, bool predicted, double peak = 0) {
  return Assemble(spec, {.fabric = "f", .predicted = predicted, .world_size = 2, .peak_flops_per_second = peak}, result,
                  *ReadRecords(spec, result));
}

// Two ranks whose last step, of 3 s, was traced: kernels 0 to 1 and 2.5 to 2.75, an all-reduce of 0.5 s at rank 1 that
// rank 0 began 0.75 s earlier, beside its first kernel; from 1.25 on its compute stream stood still for it.
inline RunResult Traced(double waiting_known = 0) {
  RunResult result = Records();
  std::vector<std::string> all = result.results.Copies();
  for (int rank = 0; rank < 2; ++rank) {
    report::RankRecord record;
    record.ParseFromString(all[static_cast<size_t>(rank)]);
    const auto add = [&](const char* stream, const char* name, double start, double end) {
      report::Span* span = record.add_spans();
      span->set_stream(stream), span->set_name(name), span->set_start(start), span->set_end(end);
      return span;
    };
    report::Span* call = add("communication dp", "all_reduce", rank == 0 ? 0.75 : 1.5, 2);
    call->set_waiting(waiting_known), call->set_exposed(rank == 0 ? 0.75 : 0.5);
    add("compute", "matmul_nn", 0, 1);
    add("compute", "adam_step", 2.5, 2.75);
    for (const auto& [name, seconds] : {std::pair("adam_step", 0.25), std::pair("matmul_nn", 1.0)}) {
      report::KernelTotal* kernel = record.add_kernels();
      kernel->set_kernel(name), kernel->set_count(1), kernel->set_seconds(seconds);
    }
    report::Collective* collective = record.add_collectives();
    collective->set_operation("all_reduce"), collective->set_group("dp"), collective->set_count(4),
        collective->set_seconds(4);
    all[static_cast<size_t>(rank)] = record.SerializeAsString();
  }
  result.results = all;
  return result;
}

// Two ranks of one process: for 4 of 10 s other work had their processors.
inline RunResult RecordsOfALoadedMachine(double waited) {
  RunResult result = Records();
  std::vector<std::string> longer = result.results.Copies();
  for (std::string& bytes : longer) {
    report::RankRecord more;
    report::ProcessorUse& use = *more.mutable_processors();
    use.set_host("h"), use.set_process(1), use.set_wall(10), use.set_ran(5), use.set_waited(waited),
        use.set_process_ran(10), use.set_busy(19);
    bytes += more.SerializeAsString();
  }
  result.results = std::move(longer);
  return result;
}

}  // namespace twofold::made_records
