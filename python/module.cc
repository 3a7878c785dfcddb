// The native part of the Python module `twofold`: asks the program's processes, without the interpreter's lock.
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

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

py::tuple Ask(Processes& processes, const std::string& command, const std::string& folder, const std::string& arguments,
              const std::string& name, bool another) {
  prediction::Request request;
  request.mutable_question()->set_command(command);
  request.mutable_question()->set_folder(folder);
  request.mutable_question()->set_arguments(arguments);
  absl::StatusOr<prediction::Answer> answer;
  {
    const py::gil_scoped_release unlocked;
    answer =
        another ? processes.AskAnother(request, name, SignalIsPending) : processes.Ask(request, name, SignalIsPending);
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (!answer.ok()) return Said(absl::InternalError(answer.status().message()));
  if (answer->code() != 0) return Said(absl::Status(static_cast<absl::StatusCode>(answer->code()), answer->message()));
  return Said(absl::OkStatus(), answer->json());
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
           py::arg("another"));
  module.def("make", &Make, py::arg("processes"), py::arg("program"));
}

}  // namespace
}  // namespace twofold
