#include "experiments/program/predict/worker.h"

#include <exception>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/bytes.h"
#include "core/proto/prediction.pb.h"
#include "experiments/program/predict/frames.h"

namespace twofold::prediction {
namespace {

absl::StatusOr<report::Report> AnswerTo(const Request& request, const Predict& predict) {
  spec::Spec spec;
  if (absl::Status s = FromBytes(request.spec(), "a spec", spec); !s.ok()) return s;
  try {
    return predict(std::move(spec), request.file());
  } catch (const std::exception& error) {
    return Internal(request.file(), ": ", error.what());
  }
}

}  // namespace

int Serve(int socket, const Predict& predict) {
  Answer greeting;
  greeting.set_greeting(kGreeting);
  if (!Send(socket, greeting).ok()) return 1;
  for (Request request; Receive(socket, request).ok();) {
    const absl::StatusOr<report::Report> report = AnswerTo(request, predict);
    absl::StatusOr<std::string> bytes = report.ok() ? ToBytes(*report, "a report") : report.status();
    Answer answer;
    answer.set_code(static_cast<int>(bytes.status().code()));
    answer.set_message(std::string(bytes.status().message()));
    if (bytes.ok()) answer.set_report(*std::move(bytes));
    if (!Send(socket, answer).ok()) return 1;
  }
  return 0;
}

}  // namespace twofold::prediction
