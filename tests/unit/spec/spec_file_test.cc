// Files of specs: their text, its version, and what is said of one that is something else.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "tests/unit/spec/resolved.h"

namespace twofold {
namespace spec_file_test {

using ::google::protobuf::util::MessageDifferencer;
using resolved::kMinimal;
using resolved::Refused;
using resolved::Resolved;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(File, MayStartWithAByteOrderMark) {
  EXPECT_EQ(Resolved(StrCat("\xef\xbb\xbf", kMinimal)).model().gpt().layers(), 4);
}

TEST(File, SaysWhatItIsInstead) {
  EXPECT_THAT(Refused("name: 'x' star { hosts: 2 link_gbytes_per_second: 1 }"), HasSubstr("is a cluster, not a spec"));
  EXPECT_THAT(Refused("train { steps: 99999999999999999999 }"),
              AllOf(HasSubstr("train.steps: "), HasSubstr("to 9223372036854775807")));
}

// No byte of a message moves a terminal's cursor.
MATCHER(IsPrintable, "") {
  return std::all_of(arg.begin(), arg.end(),
                     [](char c) { return c == '\n' || !absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

TEST(File, HasASchemaVersionThatTheProgramKnows) {
  const spec::Spec spec = Resolved(kMinimal);
  const std::string text = SpecFileText(spec);
  EXPECT_THAT(text, HasSubstr("schema_version: 1"));
  EXPECT_TRUE(MessageDifferencer::Equals(spec, Resolved(text))) << "the version is no part of what is run";
  const std::string later = "is of a later version of Twofold; this one reads 1";
  EXPECT_THAT(Refused(StrCat(kMinimal, " schema_version: 2")), HasSubstr(StrCat("schema_version: 2 ", later)));
  EXPECT_THAT(Refused(StrCat("brand_new: 3 ", kMinimal, " schema_version: 4")), HasSubstr(StrCat("4 ", later)));
  EXPECT_THAT(Refused(R"({"brand_new": 3, "schema_version": 5})"), HasSubstr(StrCat("5 ", later)));
  EXPECT_THAT(Refused(StrCat("brand_new: 3 ", kMinimal)), HasSubstr("brand_new"));
  EXPECT_THAT(Refused(StrCat(kMinimal, " schema_version: 0")), HasSubstr("schema_version: must be 1 or more (got 0)"));
  EXPECT_THAT(Refused(kMinimal, "", {"schema_version=2"}), HasSubstr(StrCat("schema_version: 2 ", later)));
}

TEST(File, IsTextInUtf8) {
  EXPECT_THAT(Refused("name: \"x\"\n  \x1b[31mmodel {}"),
              AllOf(HasSubstr("test.textproto:2:3: byte 12 is \\x1b, a control character; write text in UTF-8"),
                    IsPrintable()));
  EXPECT_THAT(Refused(std::string("\x7f"
                                  "ELF\x02\0\0",
                                  7)),
              AllOf(HasSubstr("test.textproto:1:1: byte 0 is \\x7f"), IsPrintable()));
  EXPECT_THAT(Refused("name: \"caf\xe9\""),
              AllOf(HasSubstr("test.textproto:1:11: byte 10 is \\xe9, which is not UTF-8"), IsPrintable()));
  EXPECT_THAT(Refused("name: \"\xc2\x9b"
                      "31m\""),
              HasSubstr("byte 7 is \\xc2\\x9b, a control character"))
      << "of the second kind";
  EXPECT_THAT(Refused("# \xf0\x9f\x98\n"), HasSubstr("byte 2 is \\xf0, which is not UTF-8")) << "cut short";
  EXPECT_THAT(Refused("name: \"\xed\xa0\x80\""), HasSubstr("which is not UTF-8")) << "a surrogate";
  EXPECT_THAT(Refused("name: \"\xc0\xaf\""), HasSubstr("which is not UTF-8")) << "too long for what it says";
  EXPECT_EQ(
      Resolved(StrCat("# d\xc3\xa9j\xc3\xa0 \t \xf0\x9f\x98\x80\r\n", "name: \"caf\xc3\xa9\"\n", kMinimal)).name(),
      "caf\xc3\xa9");
}

// An escape is text in the file, and a byte in the field.
TEST(File, HasStringsInUtf8) {
  EXPECT_THAT(
      Refused(StrCat("name: \"caf\\xe9\"\n", kMinimal)),
      AllOf(HasSubstr("test.textproto: name: \"caf\\xe9\": byte 3 is \\xe9, which is not UTF-8"), IsPrintable()));
  EXPECT_THAT(Refused("model { preset: \"\\033[31m\" }"),
              AllOf(HasSubstr("test.textproto: model.preset: \"\\x1b[31m\": byte 0 is \\x1b, a control character"),
                    IsPrintable()));
  EXPECT_THAT(
      Refused(kMinimal, "", {"name=caf\xe9"}),
      AllOf(HasSubstr("--set name=caf\\xe9: name: "), HasSubstr("byte 3 is \\xe9, which is not UTF-8"), IsPrintable()));
  EXPECT_THAT(Refused(kMinimal, "", {"name=\x1b[31m"}),
              AllOf(HasSubstr("--set name=\\x1b[31m: name: "), IsPrintable()));
  EXPECT_THAT(Refused(kMinimal, "", {"data={ text { path: \"a\\xe9\" } }"}),
              AllOf(HasSubstr("data.text.path: "), HasSubstr("byte 1 is \\xe9"), IsPrintable()));
  EXPECT_THAT(Refused(kMinimal, "", {"train.\x1b[31m=5"}), IsPrintable());
  EXPECT_THAT(Refused(kMinimal, "\x1b[31m"), IsPrintable());
}

TEST(LoadSpec, NamesAFileThatCannotBeRead) {
  EXPECT_THAT(std::string(LoadSpec("no/such.textproto").status().message()),
              AllOf(HasSubstr("no/such.textproto: cannot be read"), HasSubstr("give the path")));
  EXPECT_THAT(std::string(LoadSpec("tests").status().message()), HasSubstr("it is a folder"));
}

TEST(File, TellsWhatDoesNotDivideOnce) {
  const std::string refusal = Refused(StrCat(kMinimal, " parallel { tp: 3 }"));
  EXPECT_THAT(refusal,
              AllOf(HasSubstr("parallel.tp: 3 does not divide model.gpt.heads = 4"), Not(HasSubstr("kv_heads"))));
}

}  // namespace spec_file_test
}  // namespace twofold
