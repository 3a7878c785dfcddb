#include "topologies/import/gpu_names.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace twofold {
namespace {

constexpr BytesPerSecond kNvlink1{20e9}, kNvlink2{25e9}, kNvlink5{50e9};  // versions 2, 3 and 4 have the same rate
constexpr BytesPerSecond kPcie3{12.5e9}, kPcie4{25e9}, kPcie5{50e9};

constexpr NamedGpu kGpus[] = {
    {"P100", 60, kNvlink1, kPcie3, ""},
    {"V100", 70, kNvlink2, kPcie3, "dgx-1v"},
    {"T4", 75, kNvlink2, kPcie3, ""},
    {"A100", 80, kNvlink2, kPcie4, "dgx-a100"},
    {"A800", 80, kNvlink2, kPcie4, "dgx-a100"},
    {"A30", 80, kNvlink2, kPcie4, ""},
    {"A10", 86, kNvlink2, kPcie4, ""},
    {"A40", 86, kNvlink2, kPcie4, ""},
    {"A6000", 86, kNvlink2, kPcie4, ""},
    {"L4", 89, kNvlink2, kPcie4, ""},
    {"L40", 89, kNvlink2, kPcie4, ""},
    {"L40S", 89, kNvlink2, kPcie4, "l40s"},
    {"H100", 90, kNvlink2, kPcie5, "dgx-h100"},
    {"H800", 90, kNvlink2, kPcie5, "dgx-h100"},
    {"H20", 90, kNvlink2, kPcie5, ""},
    {"H200", 90, kNvlink2, kPcie5, "h200-datasheet"},
    {"GH200", 90, kNvlink2, kPcie5, ""},
    {"B200", 100, kNvlink5, kPcie5, "dgx-b200"},
    {"GB200", 100, kNvlink5, kPcie5, "gb200-nvl72"},
};

bool InWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

const NamedGpu* FindGpu(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && InWord(name[end])) ++end;
    const std::string_view word = name.substr(at, end - at);
    for (const NamedGpu& gpu : kGpus) {
      if (gpu.word == word) return &gpu;
    }
    at = end + 1;
  }
  return nullptr;
}

}  // namespace twofold
