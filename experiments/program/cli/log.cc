#include "experiments/program/cli/log.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "core/base/printable.h"
#include "experiments/program/cli/output.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace twofold {
namespace {

// Messages quote files, arguments and file names. None of these may send control characters to the terminal.
class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = Printable({message.payload.data(), message.payload.size()}, "\n\t");
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableMessage>(); }
};

}  // namespace

void LogToStderr() {
  auto logger = spdlog::stderr_color_mt("twofold");
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableMessage>('*').set_pattern("%n: %^%l%$: %*");
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(std::move(logger));
  StyleLog();
}

void StyleLog() {
  for (const auto& sink : spdlog::default_logger()->sinks()) {
    auto* const stderr_sink = dynamic_cast<spdlog::sinks::stderr_color_sink_mt*>(sink.get());
    if (stderr_sink == nullptr) continue;
    stderr_sink->set_color_mode(ColourOnStderr() ? spdlog::color_mode::always : spdlog::color_mode::never);
  }
  spdlog::set_level(HowVerbose() == Verbosity::kQuiet ? spdlog::level::warn : spdlog::level::info);
}

void internal::Log(LogLevel level, const std::string& text) {
  std::fflush(stdout);  // where both go to one file, a message does not end up within a line of results
  switch (level) {
    case LogLevel::kInfo: return spdlog::info("{}", text);
    case LogLevel::kWarning: return spdlog::warn("{}", text);
    case LogLevel::kError: return spdlog::error("{}", text);
  }
}

}  // namespace twofold
