// The native part of the Python module `twofold`: asks the program's processes, without the interpreter's lock.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/proto/prediction.pb.h"
#include "experiments/program/predict/processes.h"

namespace twofold {
namespace {

namespace py = pybind11;
using prediction::Processes;

// (code, message, JSON): a code of 0, or an error; INTERNAL: a failure at run time.
py::tuple Said(const absl::Status& status, const std::string& json = "") {
  const auto text = [](absl::string_view s) { return py::str(s.data(), s.size()); };
  return py::make_tuple(static_cast<int>(status.code()), text(status.message()), text(json));
}

// Ctrl-C while an answer is awaited. Python tells its main thread alone.
bool SignalIsPending() {
  const py::gil_scoped_acquire lock;
  return PyErr_CheckSignals() != 0;
}

prediction::Request RequestOf(const std::string& command, const std::string& folder, const std::string& arguments) {
  prediction::Request request;
  request.mutable_question()->set_command(command);
  request.mutable_question()->set_folder(folder);
  request.mutable_question()->set_arguments(arguments);
  return request;
}

py::tuple Said(const absl::StatusOr<prediction::Answer>& answer) {
  if (!answer.ok()) return Said(absl::InternalError(answer.status().message()));
  if (answer->code() != 0) return Said(absl::Status(static_cast<absl::StatusCode>(answer->code()), answer->message()));
  return Said(absl::OkStatus(), answer->json());
}

py::tuple Ask(Processes& processes, const std::string& command, const std::string& folder, const std::string& arguments,
              const std::string& name, bool another) {
  const prediction::Request request = RequestOf(command, folder, arguments);
  absl::StatusOr<prediction::Answer> answer;
  {
    const py::gil_scoped_release unlocked;
    answer =
        another ? processes.AskAnother(request, name, SignalIsPending) : processes.Ask(request, name, SignalIsPending);
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return Said(answer);
}

// The answers to many questions, as many at a time as there are processes. None of them is asked by an interpreter's
// thread: these would wait for each other's lock between two answers, and the processes for them.
class Questions {
 public:
  Questions(Processes& processes, const std::string& command, const std::string& folder,
            const std::vector<std::string>& arguments, const std::string& name)
      : processes_(processes),
        command_(command),
        folder_(folder),
        arguments_(arguments),
        name_(name),
        answers_(arguments.size()) {}

  // Blocks until all are answered, or a signal is pending; then what waits is not asked, and what is asked is ended.
  void Ask() {
    const size_t count = std::min(arguments_.size(), static_cast<size_t>(processes_.processes()));
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < count; ++t) threads.emplace_back([this] { AskInTurn(); });
    std::unique_lock lock(mutex_);
    while (!end_.wait_for(lock, kBetweenLooks, [this] { return answered_ == arguments_.size(); })) {
      if (SignalIsPending()) break;
    }
    cancelled_ = true;
  }
  const std::vector<absl::StatusOr<prediction::Answer>>& answers() const { return answers_; }

 private:
  static constexpr std::chrono::milliseconds kBetweenLooks{50};

  void AskInTurn() {
    for (size_t i = next_++; i < arguments_.size() && !cancelled_; i = next_++) {
      answers_[i] =
          processes_.Ask(RequestOf(command_, folder_, arguments_[i]), name_, [this] { return cancelled_.load(); });
      const std::lock_guard lock(mutex_);
      if (++answered_ == arguments_.size()) end_.notify_one();
    }
  }

  Processes& processes_;
  const std::string &command_, &folder_;
  const std::vector<std::string>& arguments_;
  const std::string& name_;
  std::vector<absl::StatusOr<prediction::Answer>> answers_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::condition_variable end_;
  size_t answered_ = 0;
};

py::list AskAll(Processes& processes, const std::string& command, const std::string& folder,
                const std::vector<std::string>& arguments, const std::string& name) {
  Questions questions(processes, command, folder, arguments, name);
  {
    const py::gil_scoped_release unlocked;
    questions.Ask();
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  py::list said;
  for (const auto& answer : questions.answers()) said.append(Said(answer));
  return said;
}

// (processes, None) or (None, message).
py::tuple Make(int count, const std::string& program) {
  absl::StatusOr<std::unique_ptr<Processes>> made;
  {
    const py::gil_scoped_release unlocked;
    made = Processes::Make({.processes = count, .program = program, .own_groups = true});
  }
  if (!made.ok()) return py::make_tuple(py::none(), std::string(made.status().message()));
  return py::make_tuple(*std::move(made), py::none());
}

PYBIND11_MODULE(_native, module) {
  module.attr("version") = TWOFOLD_VERSION;
  py::class_<Processes>(module, "Processes")
      .def_property_readonly("processes", &Processes::processes)
      .def("ask", &Ask, py::arg("command"), py::arg("folder"), py::arg("arguments"), py::arg("name"),
           py::arg("another"))
      .def("ask_all", &AskAll, py::arg("command"), py::arg("folder"), py::arg("arguments"), py::arg("name"));
  module.def("make", &Make, py::arg("processes"), py::arg("program"));
}

}  // namespace
}  // namespace twofold
