#include "experiments/program/desk/desk.h"

#include <httplib.h>

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/desk/shelf.h"
#include "experiments/program/desk/web_texts.h"
#include "experiments/program/desk/what_if.h"
#include "experiments/program/page/page.h"
#include "experiments/program/page/page_data.h"
#include "experiments/program/page/whole_page.h"
#include "experiments/program/predict/predictor.h"
#include "experiments/program/report/files.h"
#include "experiments/program/spec/presets.h"
#include "topologies/catalogue.h"

namespace twofold::desk {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using httplib::Request;
using httplib::Response;

std::string RandomToken() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json ToJson(const Item& item) {
  constexpr const char* kKinds[] = {"run", "plan", "sweep", "storm"};
  return {
      {"kind", kKinds[item.kind]}, {"path", item.path},   {"name", item.name},       {"title", item.title},
      {"outcome", item.outcome},   {"ranks", item.ranks}, {"seconds", item.seconds}, {"peak_bytes", item.peak_bytes},
      {"written", item.written},   {"error", item.error}};
}

class Server final : public Desk {
 public:
  explicit Server(const DeskOptions& options)
      : options_(options), shelf_(options.folder), token_(options.token.empty() ? RandomToken() : options.token) {}
  ~Server() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen() {
    Route();
    // The library would let two servers share a port.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    if (options_.port == 0)
      port_ = server_.bind_to_any_port("127.0.0.1");
    else if (server_.bind_to_port("127.0.0.1", options_.port))
      port_ = options_.port;
    if (port_ <= 0)
      return absl::UnavailableError(
          absl::StrFormat("--port=%d: cannot be listened on; is it taken? --port=0 takes any "
                          "that is free",
                          options_.port));
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
    return absl::OkStatus();
  }
  std::string address() const override { return StrCat("http://127.0.0.1:", port_, "/", token_, "/"); }

 private:
  void Route() {
    server_.set_pre_routing_handler([this](const Request& request, Response& response) {
      const std::string host = request.get_header_value("Host");
      const bool here = host == StrCat("127.0.0.1:", port_) || host == StrCat("localhost:", port_);
      if (here && request.path.rfind(StrCat("/", token_, "/"), 0) == 0)
        return httplib::Server::HandlerResponse::Unhandled;
      response.status = request.path == "/favicon.ico" ? 204 : 404;  // browsers ask for it; there is none
      if (response.status == 204) return httplib::Server::HandlerResponse::Handled;
      response.set_content("Not found. Open the address that `twofold desk` printed.\n", "text/plain");
      return httplib::Server::HandlerResponse::Handled;
    });
    const std::string at = StrCat("/", token_, "/");
    server_.Get(at, [](const Request&, Response& r) { r.set_content(IndexPage(), "text/html"); });
    server_.Get(at + "items", [this](const Request&, Response& r) { r.set_content(Items(), "application/json"); });
    server_.Get(at + "choices", [](const Request&, Response& r) { r.set_content(Choices(), "application/json"); });
    server_.Get(at + "report", [this](const Request& request, Response& r) { Report(request, r); });
    server_.Post(at + "what-if", [this](const Request& request, Response& r) { Answer(request, r); });
  }

  static std::string IndexPage() {
    std::string scripts(kDeskScript);
    return page::WholePage("Twofold", page::Filled(kDeskBody, {{"script", scripts}}),
                           page::Packed("{\"kind\":\"desk\"}"));
  }
  std::string Items() const {
    Json all = Json::array();
    for (const Item& item : shelf_.Items()) all.push_back(ToJson(item));
    return Dump(all);
  }
  static std::string Choices() {
    Json models = Json::array(), clusters = Json::array();
    for (const ModelPreset& preset : ModelPresets()) models.push_back(preset.name);
    for (const ClusterInfo& cluster : ListClusters())
      clusters.push_back({{"name", cluster.name}, {"summary", cluster.summary}});
    return Dump({{"models", models}, {"clusters", clusters}});
  }

  // A folder that the list has. Anything else is refused, so that no other file of this machine can be read.
  absl::StatusOr<std::string> FolderOf(const std::string& path) const {
    for (const Item& item : shelf_.Items()) {
      if (item.path == path) return (fs::path(options_.folder) / path).string();
    }
    return absl::NotFoundError(StrCat("\"", path, "\" is not a run, a plan, a sweep or a storm in ", options_.folder));
  }
  static void Fail(const absl::Status& status, Response& response) {
    response.status = absl::IsNotFound(status) ? 404 : absl::IsInvalidArgument(status) ? 400 : 500;
    response.set_content(Dump({{"error", std::string(status.message())}}), "application/json");
  }

  void Report(const Request& request, Response& response) const {
    std::vector<std::string> folders;
    for (size_t i = 0; i < request.get_param_value_count("dir"); ++i) {
      absl::StatusOr<std::string> folder = FolderOf(request.get_param_value("dir", i));
      if (!folder.ok()) return Fail(folder.status(), response);
      folders.push_back(*std::move(folder));
    }
    const absl::StatusOr<std::string> page = page::PageOfFolders(folders);
    if (!page.ok()) return Fail(page.status(), response);
    response.set_content(*page, "text/html");
  }

  void Answer(const Request& request, Response& response) {
    const absl::StatusOr<WhatIfAsked> asked = AskedIn(request.body);
    if (!asked.ok()) return Fail(asked.status(), response);
    const absl::StatusOr<Json> answer =
        WhatIf(*asked, [this, &asked](const spec::Spec& spec) { return Predicted(spec, asked->name); });
    if (!answer.ok()) return Fail(answer.status(), response);
    response.set_content(Dump(*answer), "application/json");
  }

  absl::StatusOr<WhatIfAsked> AskedIn(const std::string& body) const try {
    const Json json = Json::parse(body);
    WhatIfAsked asked;
    if (json.contains("base")) {
      const absl::StatusOr<std::string> folder = FolderOf(json.at("base").get<std::string>());
      if (!folder.ok()) return folder.status();
      absl::StatusOr<std::string> text = ReadFile(*folder + "/spec.textproto");
      if (!text.ok()) return text.status();
      asked.text = *std::move(text), asked.name = *folder + "/spec.textproto";
    } else {
      asked.name = json.at("model").get<std::string>();
      asked.text = StrCat("model { preset: \"", asked.name,
                          "\" }\ntrain { clip_norm: 1 precision { parameter: BF16 reduce: F32 } }\n");
    }
    for (const auto& [field, value] : json.at("sets").items())
      asked.sets.push_back(StrCat(field, "=", value.is_string() ? value.get<std::string>() : value.dump()));
    return asked;
  } catch (const Json::exception& error) {
    return InvalidArgument("the question: ", error.what());
  }

  absl::StatusOr<report::Report> Predicted(const spec::Spec& spec, const std::string& name) {
    {
      const std::lock_guard lock(mutex_);
      if (predictor_ == nullptr) {  // its processes start with the first question
        absl::StatusOr<std::unique_ptr<Predictor>> made = Predictor::Make({.program = options_.program});
        if (!made.ok()) return made.status();
        predictor_ = *std::move(made);
      }
    }
    return predictor_->Predict(spec, name);
  }

  const DeskOptions options_;
  mutable Shelf shelf_;
  const std::string token_;
  int port_ = 0;
  std::mutex mutex_;
  std::unique_ptr<Predictor> predictor_;
  httplib::Server server_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Desk>> Desk::Open(const DeskOptions& options) {
  std::error_code error;
  if (!fs::is_directory(options.folder, error))
    return InvalidArgument("DIR: ", options.folder, " is not a folder; give one in which runs are, such as runs");
  constexpr int kMostPort = 65535;
  if (options.port < 0 || options.port > kMostPort)
    return InvalidArgument("--port=", options.port, ": use a port from 1 to ", kMostPort,
                           ", or 0 for any that is free");
  auto server = std::make_unique<Server>(options);
  if (absl::Status s = server->Listen(); !s.ok()) return s;
  return server;
}

}  // namespace twofold::desk
