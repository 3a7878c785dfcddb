// Makes text from outside safe to print in messages: user input must not move the terminal's cursor or change its
// colours.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace twofold {

// The first unprintable place in a text: a control character (ASCII or U+0080 to U+009F) or a byte that is not valid
// UTF-8.
struct Odd {
  size_t at = 0;
  std::string text;  // "byte 3 is \xe9, which is not UTF-8"
};

// The first such place in `text`. `fine` lists control characters that are allowed.
std::optional<Odd> FirstOdd(std::string_view text, std::string_view fine = "");

// `text` with every odd byte escaped as \x1b.
std::string Printable(std::string_view text, std::string_view fine = "\n");

}  // namespace twofold
