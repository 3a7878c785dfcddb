#include "backends/watch/card.h"

#include <random>
#include <stdexcept>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/strings.h"

namespace twofold::watch {

std::string ToText(const Card& card) {
  return StrCat(absl::StrJoin(card.addresses, ","), " ", card.port, " ", card.token, " ", card.process);
}

Card CardFrom(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 3));
  if (parts.size() != 4)
    throw std::runtime_error(StrCat("rank 0 did not send its address in the expected form: \"", text, "\""));
  return {.addresses = absl::StrSplit(parts[0], ','), .port = parts[1], .token = parts[2], .process = parts[3]};
}

std::string MakeToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) StrAppend(&token, absl::StrFormat("%08x", random()));
  return token;
}

}  // namespace twofold::watch
