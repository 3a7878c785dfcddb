// Text from elsewhere, as messages may show it: what the user wrote moves no terminal's cursor and changes no colour.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace twofold {

// Where text stops being that: a control character (ASCII's, or one of U+0080 to U+009F), or a byte that is no part of UTF-8.
struct Odd {
  size_t at = 0;
  std::string text;  // "byte 3 is \xe9, which is not UTF-8"
};

// The first in `text`. `fine`: control characters that may stand there.
std::optional<Odd> FirstOdd(std::string_view text, std::string_view fine = "");

// `text` with \x1b instead of what is odd.
std::string Printable(std::string_view text, std::string_view fine = "\n");

}  // namespace twofold
