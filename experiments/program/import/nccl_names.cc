#include "experiments/program/import/nccl_names.h"

#include <algorithm>
#include <utility>

namespace twofold {
namespace {

// In lower case and without underscores. The first that occurs decides.
constexpr std::pair<std::string_view, std::string_view> kOperations[] = {{"allreduce", "all_reduce"},
                                                                         {"reducescatter", "reduce_scatter"},
                                                                         {"allgather", "all_gather"},
                                                                         {"alltoall", "all_to_all"},
                                                                         {"broadcast", "broadcast"},
                                                                         {"sendrecv", "send_recv"},
                                                                         {"coalesced", "send_recv"},
                                                                         {"barrier", "barrier"},
                                                                         {"gather", "gather"},
                                                                         {"scatter", "scatter"},
                                                                         {"reduce", "reduce"},
                                                                         {"send", "send"},
                                                                         {"recv", "recv"}};

constexpr std::pair<std::string_view, int64_t> kTypes[] = {{"Float", 4},
                                                           {"BFloat16", 2},
                                                           {"Half", 2},
                                                           {"Double", 8},
                                                           {"Int", 4},
                                                           {"Long", 8},
                                                           {"Short", 2},
                                                           {"Byte", 1},
                                                           {"Char", 1},
                                                           {"Bool", 1},
                                                           {"Float8_e4m3fn", 1},
                                                           {"Float8_e5m2", 1},
                                                           {"Float8_e4m3fnuz", 1},
                                                           {"Float8_e5m2fnuz", 1},
                                                           {"float", 4},
                                                           {"c10::BFloat16", 2},
                                                           {"c10::Half", 2},
                                                           {"double", 8},
                                                           {"int", 4},
                                                           {"long int", 8},
                                                           {"short int", 2},
                                                           {"unsigned char", 1},
                                                           {"signed char", 1},
                                                           {"bool", 1}};

}  // namespace

std::string OperationOf(std::string_view name) {
  std::string plain;
  for (const char c : name.substr(0, name.find('('))) {
    if (c != '_') plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const auto& [part, operation] : kOperations) {
    if (plain.find(part) != plain.npos) return std::string(operation);
  }
  return "";
}

int64_t BytesOfType(std::string_view torch_type) {
  for (const auto& [name, bytes] : kTypes) {
    if (name == torch_type) return bytes;
  }
  return 0;
}

}  // namespace twofold
