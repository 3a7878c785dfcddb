#include "experiments/program/pictures/style.h"

#include <map>
#include <regex>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "core/device/kernel_names.h"
#include "experiments/program/report/gpu_kernels.h"

namespace twofold::pictures {

namespace {

// The hues are those of Paul Tol's "bright" scheme, which stays distinct for colour-blind readers.
constexpr char kLight[] =
    "--page:#fdfdfc;--ink:#22262b;--soft:#667078;--rule:#dfe2e5;--panel:#f4f5f6;--blue:#4477aa;--cyan:#5bb8dd;"
    "--green:#2f8f46;--yellow:#c9b037;--red:#e25f6f;--purple:#a23b78;--grey:#a9aeb3;--orange:#e0883a;--teal:#1f9e9a";
constexpr char kDark[] =
    "--page:#16181b;--ink:#e3e6e9;--soft:#98a1a9;--rule:#33383d;--panel:#1e2125;--blue:#5c93cc;--cyan:#6fcaea;"
    "--green:#48ad60;--yellow:#d8c455;--red:#ee7885;--purple:#c766a2;--grey:#7d848a;--orange:#eb9d57;--teal:#3cbcb7";

// What is drawn of each of several runs, or of a panel's lines.
std::string OfEachSeries() {
  constexpr std::string_view kColours[] = {"blue", "red", "green", "purple", "orange", "cyan", "yellow", "teal"};
  std::string css;
  for (size_t i = 0; i < std::size(kColours); ++i) {
    const std::string colour = StrCat("var(--", kColours[i], ")");
    StrAppend(&css, "svg .line", i, "{fill:none;stroke-width:2;stroke-linejoin:round;stroke:", colour, "}svg .dot", i,
              "{fill:", colour, "}svg .band", i, "{fill:", colour, ";opacity:.15}svg .median", i, "{stroke:", colour,
              ";stroke-dasharray:4 3;fill:none}svg .p", i, "{stroke:", colour, "}svg .q", i, "{fill:", colour, "}\n");
  }
  return css;
}

}  // namespace

std::string ChosenThemes() {
  return StrCat(":root[data-theme=light]{color-scheme:light;", kLight, "}\n:root[data-theme=dark]{color-scheme:dark;",
                kDark, "}\n");
}

std::string Style() {
  return StrCat(
      "\n:root{color-scheme:light dark;", kLight, "}\n@media (prefers-color-scheme:dark){:root{", kDark, "}}\n",
      R"css(svg{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:12px;background:var(--page)}
svg text{fill:var(--ink)}svg .soft{fill:var(--soft)}svg .head{font-size:13px;font-weight:600}
svg .end{text-anchor:end}svg .mid{text-anchor:middle}
svg .rule{stroke:var(--rule);stroke-width:1;fill:none}svg .lane{fill:var(--panel)}
.c-product{fill:var(--blue)}.c-attention{fill:var(--cyan)}.c-norm{fill:var(--green)}.c-element{fill:var(--yellow)}
.c-loss{fill:var(--purple)}.c-optimizer{fill:var(--orange)}.c-communication{fill:var(--red)}.c-transfer{fill:var(--teal)}.c-other{fill:var(--grey)}
.s-forward{fill:var(--blue)}.s-backward{fill:var(--green)}.s-input{fill:var(--teal)}.s-weights{fill:var(--purple)}.s-recompute{fill:var(--cyan)}
.s-other{fill:var(--orange)}.s-idle{fill:var(--rule)}svg .s-number{font-size:10px;fill:#fff}
.m-parameters{fill:var(--blue)}.m-gradients{fill:var(--red)}.m-optimizer{fill:var(--orange)}
.m-activations{fill:var(--green)}.m-communication{fill:var(--purple)}.m-other{fill:var(--grey)}
svg .reserved{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:5 3;fill:none}
svg .mark{fill:var(--ink);stroke:var(--page);stroke-width:1.5}
svg .wire{fill:none;stroke-linecap:round}svg .faint{opacity:.45}svg .small{font-size:9px}
svg .w-network{stroke:var(--blue)}svg .w-nvlink{stroke:var(--green)}svg .w-pcie{stroke:var(--orange)}svg .w-memory{stroke:var(--grey)}
svg .b-device,svg .b-nic,svg .b-host,svg .b-switch,svg .b-node{fill:var(--page);stroke-width:1.6}
svg .b-device{stroke:var(--green)}svg .b-nic{stroke:var(--orange)}svg .b-host{stroke:var(--grey)}svg .b-switch{stroke:var(--blue)}svg .b-node{stroke:var(--ink)}
svg .series{fill:none;stroke-width:2;stroke-linejoin:round}svg .dashed{stroke-dasharray:6 4}svg .thin{stroke-width:1}
svg .ideal{fill:none;stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}
)css",
      OfEachSeries());
}

namespace {

// Adds plain colours for programs that draw SVG without CSS variables. They skip what uses variables and find the light
// colour before it.
std::string WithPlainColours(const std::string& style) {
  std::map<std::string, std::string> colours;
  static const std::regex kColour("--(\\w+):(#\\w+)"), kUse("([\\w-]+):var\\(--(\\w+)\\)");
  for (std::sregex_iterator it(style.begin(), style.end(), kColour), end; it != end; ++it)
    colours.try_emplace((*it)[1], (*it)[2]);
  std::string out;
  auto from = style.cbegin();
  for (std::sregex_iterator it(style.begin(), style.end(), kUse), end; it != end; ++it) {
    out.append(from, (*it)[0].first)
        .append((*it)[1])
        .append(":")
        .append(colours.at((*it)[2]))
        .append(";")
        .append((*it)[0]);
    from = (*it)[0].second;
  }
  return out.append(from, style.cend());
}

}  // namespace

std::string StandAlone(const std::string& svg) {
  const size_t end = svg.find('>');
  TWOFOLD_CHECK(end != std::string::npos, "a picture begins with its svg element");
  return svg.substr(0, end + 1) + "<style>" + WithPlainColours(Style()) + "</style>" + svg.substr(end + 1) + "\n";
}

static SpanClass ClassOf(GpuWork work) {
  switch (work) {
    case GpuWork::kProduct: return SpanClass::kProduct;
    case GpuWork::kAttention: return SpanClass::kAttention;
    case GpuWork::kNorm: return SpanClass::kNorm;
    case GpuWork::kElement: return SpanClass::kElement;
    case GpuWork::kLoss: return SpanClass::kLoss;
    case GpuWork::kOptimizer: return SpanClass::kOptimizer;
    case GpuWork::kCommunication: return SpanClass::kCommunication;
    case GpuWork::kTransfer: return SpanClass::kTransfer;
    case GpuWork::kOther: return SpanClass::kOther;
  }
  return SpanClass::kOther;
}

// An operation's class is in its row (core/device/kernel_names.cc).
SpanClass ClassOf(std::string_view stream, std::string_view name) {
  if (name == "transfer") return SpanClass::kTransfer;
  if (!stream.starts_with("compute")) return SpanClass::kCommunication;
  const ops::KernelRow* row = ops::FindKernel(name);
  if (row == nullptr) return ClassOf(GpuWorkOf(name));  // an imported trace
  switch (row->is) {
    case ops::KernelClass::kProduct: return SpanClass::kProduct;
    case ops::KernelClass::kAttention: return SpanClass::kAttention;
    case ops::KernelClass::kNorm: return SpanClass::kNorm;
    case ops::KernelClass::kElement: return SpanClass::kElement;
    case ops::KernelClass::kLoss: return SpanClass::kLoss;
    case ops::KernelClass::kOptimizer: return SpanClass::kOptimizer;
    case ops::KernelClass::kOther: return SpanClass::kOther;
  }
  return SpanClass::kOther;
}

std::string_view ShortName(SpanClass c) {
  constexpr std::string_view kNames[] = {"product",   "attention",     "norm",     "element", "loss",
                                         "optimizer", "communication", "transfer", "other"};
  return kNames[static_cast<int>(c)];
}

std::string CssClass(SpanClass c) { return StrCat("c-", ShortName(c)); }

std::string LegendName(SpanClass c) {
  constexpr std::string_view kNames[] = {"products",
                                         "attention",
                                         "norms",
                                         "element by element",
                                         "embedding and loss",
                                         "optimizer",
                                         "communication",
                                         "to and from the host",
                                         "other"};
  return std::string(kNames[static_cast<int>(c)]);
}

std::string MemoryCss(std::string_view category) {
  if (category == "parameters") return "m-parameters";
  if (category == "gradients") return "m-gradients";
  if (category.starts_with("optimizer")) return "m-optimizer";
  if (category == "activations") return "m-activations";
  if (category == "communication") return "m-communication";
  return "m-other";
}

}  // namespace twofold::pictures
