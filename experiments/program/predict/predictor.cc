#include "experiments/program/predict/predictor.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "core/proto/bytes.h"
#include "experiments/program/predict/processes.h"

namespace twofold {

Predictor::Predictor(std::unique_ptr<prediction::Processes> processes) : processes_(std::move(processes)) {}
Predictor::~Predictor() = default;

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Make(Options options) {
  auto processes = prediction::Processes::Make({.processes = options.processes, .program = std::move(options.program)});
  if (!processes.ok()) return processes.status();
  return std::unique_ptr<Predictor>(new Predictor(*std::move(processes)));
}

absl::StatusOr<report::Report> Predictor::Predict(const spec::Spec& spec, const std::string& file) {
  prediction::Request request;
  absl::StatusOr<std::string> bytes = ToBytes(spec, "a spec");
  if (!bytes.ok()) return bytes.status();
  request.set_spec(*std::move(bytes));
  request.set_file(file);
  const absl::StatusOr<prediction::Answer> answer = processes_->Ask(request, file);
  if (!answer.ok()) return answer.status();
  if (answer->code() != 0) return absl::Status(static_cast<absl::StatusCode>(answer->code()), answer->message());
  report::Report report;
  if (absl::Status s = FromBytes(answer->report(), "a report", report); !s.ok()) return s;
  return report;
}

void Predictor::PredictAll(std::span<const spec::Spec> specs, const std::string& file, const Done& done) {
  std::atomic<size_t> next = 0;
  std::mutex telling;
  std::vector<std::jthread> threads;
  const size_t count = std::min(specs.size(), static_cast<size_t>(processes()));
  for (size_t t = 0; t < count; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < specs.size(); i = next++) {
        absl::StatusOr<report::Report> report = Predict(specs[i], file);
        const std::lock_guard lock(telling);
        done(i, std::move(report));
      }
    });
  }
}

int Predictor::processes() const { return processes_->processes(); }

}  // namespace twofold
