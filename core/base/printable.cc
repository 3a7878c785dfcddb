#include "core/base/printable.h"

#include "core/base/strings.h"

namespace twofold {
namespace {

unsigned char ByteAt(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

// The size in bytes of the UTF-8 character at the start of `text`. 0: there is no valid one.
size_t CharacterSize(std::string_view text) {
  const unsigned char lead = ByteAt(text, 0);
  const size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (size < 2 || size > text.size()) return size < 2 ? size : 0;
  for (size_t i = 1; i < size; ++i) {
    if ((ByteAt(text, i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char next = ByteAt(text, 1);
  const bool longer_than_it_needs = (lead == 0xe0 && next < 0xa0) || (lead == 0xf0 && next < 0x90);
  const bool surrogate = lead == 0xed && next > 0x9f, beyond_unicode = lead == 0xf4 && next > 0x8f;
  return longer_than_it_needs || surrogate || beyond_unicode ? 0 : size;
}

bool IsControl(std::string_view character) {
  const unsigned char lead = ByteAt(character, 0);
  if (character.size() == 1) return lead < 0x20 || lead == 0x7f;
  return lead == 0xc2 && ByteAt(character, 1) < 0xa0;
}

std::string Escaped(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i)
    StrAppend(&text, "\\x", std::string{kDigits[ByteAt(bytes, i) / 16], kDigits[ByteAt(bytes, i) % 16]});
  return text;
}

}  // namespace

std::optional<Odd> FirstOdd(std::string_view text, std::string_view fine) {
  for (size_t at = 0, size; at < text.size(); at += size) {
    size = CharacterSize(text.substr(at));
    if (size == 0) return Odd{at, StrCat("byte ", at, " is ", Escaped(text.substr(at, 1)), ", which is not UTF-8")};
    const std::string_view character = text.substr(at, size);
    if (IsControl(character) && fine.find(character) == fine.npos)
      return Odd{at, StrCat("byte ", at, " is ", Escaped(character), ", a control character")};
  }
  return std::nullopt;
}

std::string Printable(std::string_view text, std::string_view fine) {
  std::string shown;
  for (size_t at = 0, size; at < text.size(); at += size) {
    size = CharacterSize(text.substr(at));
    const bool odd = size == 0 || (IsControl(text.substr(at, size)) && fine.find(text.substr(at, size)) == fine.npos);
    if (size == 0) size = 1;
    StrAppend(&shown, odd ? Escaped(text.substr(at, size)) : std::string(text.substr(at, size)));
  }
  return shown;
}

}  // namespace twofold
