#include "experiments/program/predict/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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

// While it exists, this process ends if the other end of the pipe closes: nobody waits for the answer any more. A
// leader of a process group takes its group with it. The kernel signals what happens on the pipe, and nothing else ever
// does. On the socket it would also signal a request that has already been read: sending wakes the reader, then
// signals. (No thread may look instead: answers fork.)
class EndsWithTheOther {
 public:
  explicit EndsWithTheOther(int pipe) : pipe_(pipe), flags_(fcntl(pipe, F_GETFL)) {
    fcntl(pipe_, F_SETOWN, getpgrp() == getpid() ? -getpid() : getpid());
    fcntl(pipe_, F_SETSIG, SIGTERM);
    fcntl(pipe_, F_SETFL, flags_ | O_ASYNC);
    pollfd gone = {.fd = pipe_, .events = 0, .revents = 0};  // POLLHUP is always asked for
    if (poll(&gone, 1, 0) > 0) raise(SIGTERM);               // before the kernel was asked
  }
  ~EndsWithTheOther() { fcntl(pipe_, F_SETFL, flags_); }
  EndsWithTheOther(const EndsWithTheOther&) = delete;
  EndsWithTheOther& operator=(const EndsWithTheOther&) = delete;

 private:
  const int pipe_, flags_;
};

Answer AnswerOrEnd(int pipe, const Request& request, const Answers& answers) {
  const EndsWithTheOther ends(pipe);
  return AnswerTo(request, answers);
}

}  // namespace

int Serve(int socket, int pipe, const Answers& answers) {
  Answer greeting;
  greeting.set_greeting(kGreeting);
  if (!Send(socket, greeting).ok()) return 1;
  for (Request request; Receive(socket, request).ok();) {
    if (!Send(socket, AnswerOrEnd(pipe, request, answers)).ok()) return 1;
  }
  return 0;
}

}  // namespace twofold::prediction
