#include "experiments/program/predict/worker.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/bytes.h"
#include "experiments/program/predict/frames.h"

namespace twofold::prediction {
namespace {

absl::StatusOr<std::string> ReportOf(const Request& request, const Answers& answers) {
  spec::Spec spec;
  if (absl::Status s = FromBytes(request.spec(), "a spec", spec); !s.ok()) return s;
  const absl::StatusOr<report::Report> report = answers.predict(std::move(spec), request.file());
  if (!report.ok()) return report.status();
  return ToBytes(*report, "a report");
}

absl::StatusOr<std::string> AnswerTo(const Question& question, const Answers& answers) {
  if (chdir(question.folder().c_str()) != 0)
    return InvalidArgument("this process's folder, ", question.folder(), ": ", std::strerror(errno));
  return answers.answer(question);
}

Answer AnswerTo(const Request& request, const Answers& answers) {
  Answer answer;
  absl::StatusOr<std::string> said = std::string();
  try {
    said = request.has_question() ? AnswerTo(request.question(), answers) : ReportOf(request, answers);
  } catch (const std::exception& error) {
    said = Internal(request.has_question() ? request.question().command() : request.file(), ": ", error.what());
  }
  answer.set_code(static_cast<int>(said.status().code()));
  answer.set_message(std::string(said.status().message()));
  if (said.ok()) *(request.has_question() ? answer.mutable_json() : answer.mutable_report()) = *std::move(said);
  return answer;
}

}  // namespace

int Serve(int socket, const Answers& answers) {
  Answer greeting;
  greeting.set_greeting(kGreeting);
  if (!Send(socket, greeting).ok()) return 1;
  for (Request request; Receive(socket, request).ok();) {
    if (!Send(socket, AnswerTo(request, answers)).ok()) return 1;
  }
  return 0;
}

}  // namespace twofold::prediction
