#include "core/proto/parse_text.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/elsewhere.h"
#include "core/proto/fields.h"
#include "core/proto/other_names.h"

// Protocol Buffers' parser finds the error. This file reports it in the user's terms. The parser gives only type names
// and a position, so the text before that position is tokenised again to find the path of the field at which the parser
// stopped.
namespace twofold {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::Tokenizer;

struct Position {
  int line = 0, column = 0;  // from 0
  friend auto operator<=>(const Position&, const Position&) = default;
};

// Keeps the first error. Later ones are consequences of it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!message_) position_ = {line, column}, message_ = message;
  }
  Position position() const { return position_; }
  std::string message() const { return message_.value_or("cannot be read"); }

 private:
  Position position_;
  std::optional<std::string> message_;
};

// Follows the tokens of a text proto. Knows which blocks are open and which field is being written.
class FieldTracker {
 public:
  void Next(const Tokenizer::Token& token) {
    const std::string& t = token.text;
    if (t == "{" || t == "<") return Open();
    if (t == "}" || t == ">") return Close();
    const bool name = token.type == Tokenizer::TYPE_IDENTIFIER && state_ != kValue && state_ != kList;
    if (name) {
      field_ = t, field_at_ = {token.line, token.column}, state_ = kNamed;
    } else if (t == ":") {
      state_ = kValue;
    } else if (t == "[" && state_ == kValue) {
      state_ = kList;
    } else if (t == "]") {
      state_ = kIdle;
    } else if (state_ == kValue && t != "-") {
      value_at_ = {token.line, token.column}, state_ = kIdle;
    }
  }

  const std::vector<std::string>& blocks() const { return blocks_; }
  // The last field named in the innermost block, or "".
  const std::string& field() const { return field_; }
  Position field_at() const { return field_at_; }
  Position value_at() const { return value_at_; }
  bool wants_value() const { return state_ != kIdle; }

 private:
  enum State { kIdle, kNamed, kValue, kList };

  void Open() { blocks_.push_back(field_), field_.clear(), state_ = kIdle; }
  void Close() {
    if (!blocks_.empty()) blocks_.pop_back();
    field_.clear(), state_ = kIdle;
  }

  State state_ = kIdle;
  std::vector<std::string> blocks_;
  std::string field_;
  Position field_at_, value_at_;
};

// A tracker that has read all tokens before `end`.
FieldTracker TrackUpTo(const std::string& text, Position end) {
  FieldTracker tracker;
  FirstError ignored;
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  Tokenizer tokenizer(&stream, &ignored);
  tokenizer.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokenizer.set_allow_f_after_float(true);
  tokenizer.set_require_space_after_number(false);
  while (tokenizer.Next() && Position{tokenizer.current().line, tokenizer.current().column} < end) {
    tracker.Next(tokenizer.current());
  }
  return tracker;
}

// The text between the first pair of double quotes.
std::string Quoted(const std::string& message) {
  const size_t first = message.find('"');
  const size_t last = message.find('"', first + 1);
  return last == std::string::npos ? "" : message.substr(first + 1, last - first - 1);
}

struct Told {
  Position at;
  std::string text;
  bool of_block = false;  // the error is in the block around the last named field, not in that field
};

// The parser's message plus what would be correct. `root`: the type of the whole file; `block`: that of
// the innermost open block. `field` may be null.
Told Tell(const FirstError& error, const FieldTracker& tracker, const Descriptor& root, const Descriptor* block,
          const FieldDescriptor* field) {
  const std::string message = error.message();
  const std::string plain(absl::StripSuffix(message, "."));
  if (absl::StrContains(message, "has no field named") && block != nullptr) {
    return {tracker.field_at(),
            StrCat("\"", tracker.field(), "\" is not a field", Suggestion(tracker.field(), FieldNames(*block)),
                   Elsewhere(root, tracker.field()))};
  }
  if (absl::StartsWith(message, "Unknown enumeration value") && field != nullptr && field->enum_type() != nullptr) {
    const std::string value = Quoted(message);
    return {tracker.value_at(), StrCat("\"", value, "\" is not a value of this field", ValueSuggestion(value, *field))};
  }
  if (absl::StartsWith(message, "Non-repeated field")) return {tracker.field_at(), StrCat(plain, "; write it once")};
  if (absl::StrContains(message, "another member of oneof")) {
    return {tracker.field_at(), StrCat(plain, "; keep one of them")};
  }
  if (field != nullptr && absl::StartsWith(message, "Integer out of range")) {
    return {error.position(), StrCat(plain, "; use ", ExpectedRange(*field))};
  }
  if (field != nullptr && (tracker.wants_value() || absl::StartsWith(message, "Invalid value"))) {
    return {error.position(), StrCat(plain, "; use ", ExpectedValue(*field))};
  }
  const bool ended = absl::EndsWith(plain, "got: ");
  return {error.position(),
          StrCat(plain, ended ? "the end of the file" : "",
                 "; write fields as `name: value`, blocks as `name { ... }`, and close every brace"),
          /*of_block=*/true};
}

constexpr char kRemedy[] = "; write text in UTF-8";

// For a file that is not a text proto: a program, a compressed file, Latin-1 text.
absl::Status CheckIsText(const std::string& text, const std::string& file) {
  const std::optional<Odd> odd = FirstOdd(text, "\t\n\v\f\r");
  if (!odd) return absl::OkStatus();
  const auto at = text.begin() + static_cast<std::ptrdiff_t>(odd->at);
  const auto line = std::find(std::make_reverse_iterator(at), text.rend(), '\n').base();
  return InvalidArgument(file, ":", std::count(text.begin(), at, '\n') + 1, ":", at - line + 1, ": ", odd->text,
                         kRemedy);
}

}  // namespace

absl::Status ParseText(const std::string& whole, const std::string& file, google::protobuf::Message& message) {
  if (absl::Status status = CheckIsText(whole, file); !status.ok()) return status;
  constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
  const std::string text(absl::StripPrefix(whole, kByteOrderMark));
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(text, &message)) {
    const std::string odd = OddString(message);  // escapes can put arbitrary bytes into strings
    return odd.empty() ? absl::OkStatus() : InvalidArgument(file, ": ", odd, kRemedy);
  }

  const Descriptor* root = message.GetDescriptor();
  const FieldTracker tracker = TrackUpTo(text, error.position());
  std::vector<std::string> path = tracker.blocks();
  const FieldDescriptor* parent = FindField(*root, path);
  const Descriptor* block = path.empty() ? root : parent ? parent->message_type() : nullptr;
  if (!tracker.field().empty()) path.push_back(tracker.field());
  const Told told = Tell(error, tracker, *root, block, FindField(*root, path));
  if (told.of_block) path = tracker.blocks();
  return InvalidArgument(file, ":", told.at.line + 1, ":", told.at.column + 1, ": ",
                         path.empty() ? "" : StrCat(absl::StrJoin(path, "."), ": "), told.text);
}

}  // namespace twofold
