// Specs in JSON, and files of settings.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/strings.h"
#include "experiments/program/spec/json_text.h"
#include "experiments/program/spec/set_files.h"
#include "experiments/program/spec/spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace json_spec_test {

namespace fs = std::filesystem;
using ::google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Refused(const std::string& json, const std::string& file = "job.json") {
  const absl::StatusOr<spec::Spec> spec = ParseSpec(json, file);
  EXPECT_FALSE(spec.ok()) << json;
  return std::string(spec.status().message());
}

// Both of Protocol Buffers' own forms: its names and camelCase, where 64-bit numbers are texts.
TEST(JsonSpec, EveryGoodSpecIsTheSameInJson) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator("tests/specs/good")) {
    const absl::StatusOr<std::string> text = ReadSpecText(entry.path());
    ASSERT_TRUE(text.ok());
    const absl::StatusOr<spec::Spec> spec = ParseSpec(*text, entry.path());
    ASSERT_TRUE(spec.ok()) << spec.status();
    for (const bool own_names : {true, false}) {
      google::protobuf::util::JsonPrintOptions how;
      how.preserve_proto_field_names = own_names;
      std::string json;
      ASSERT_TRUE(google::protobuf::util::MessageToJsonString(*spec, &json, how).ok());
      const absl::StatusOr<spec::Spec> again = ParseSpec(json, "any.ending");
      ASSERT_TRUE(again.ok()) << again.status() << json;
      EXPECT_TRUE(MessageDifferencer::Equals(*spec, *again)) << json;
    }
    ++files;
  }
  EXPECT_GE(files, 5);
}

TEST(JsonSpec, IsKnownByItsEndingOrItsBeginning) {
  EXPECT_TRUE(IsJson("", "a/job.json"));
  EXPECT_TRUE(IsJson("\xef\xbb\xbf \n{", "job"));
  EXPECT_FALSE(IsJson("# { \nmodel { }", "job.textproto"));
  EXPECT_FALSE(IsJson("", "job"));
  EXPECT_TRUE(ParseSpec(R"({"$schema": "spec.schema.json", "name": "a"})", "job").ok());
}

TEST(JsonSpec, ErrorsNameFileFieldValueAndWhatIsRight) {
  EXPECT_THAT(Refused(R"({"train": {"stps": 3}})"),
              HasSubstr("job.json: train.stps: \"stps\" is not a field; did you mean steps?"));
  EXPECT_THAT(Refused(R"({"parallel": {"micro_batch": 4}})"), HasSubstr("; there is train.micro_batch"));
  EXPECT_THAT(Refused(R"({"train": {"steps": "many"}})"),
              HasSubstr("job.json: train.steps: \"many\" is not valid; use a whole number"));
  EXPECT_THAT(Refused(R"({"train": {"steps": 1.5}})"), HasSubstr("train.steps: 1.5 is not valid; use a whole number"));
  EXPECT_THAT(Refused(R"({"train": {"steps": 99999999999999999999}})"), HasSubstr("train.steps: 1e+20 is not valid"));
  EXPECT_THAT(Refused(R"({"train": {"seed": -1}})"),
              HasSubstr("train.seed: -1 is not valid; use a whole number from 0"));
  EXPECT_THAT(Refused(R"({"train": {"shuffle": "perhaps"}})"), HasSubstr("use true or false"));
  EXPECT_THAT(Refused(R"({"parallel": {"sharding": "FSDP"}})"),
              HasSubstr("parallel.sharding: \"FSDP\" is not a value of this field; did you mean FULL_SHARD?"));
  EXPECT_THAT(Refused(R"({"parallel": 4})"), HasSubstr("parallel: 4 is not valid; use an object"));
  EXPECT_THAT(Refused(R"({"model": {"mlp": {"hidden": 4}}})"),
              HasSubstr("model.mlp.hidden: 4 is not valid; use a list"));
  EXPECT_THAT(Refused(R"({"model": {"mlp": {"hidden": [4, "x"]}}})"), HasSubstr("model.mlp.hidden"));
  EXPECT_THAT(Refused(R"({"train": {"elastic": {"events": [{}, {"stp": 1}]}}})"),
              HasSubstr("train.elastic.events[1].stp: \"stp\" is not a field; did you mean step?"));
  EXPECT_THAT(Refused(R"({"model": {"gpt": {}, "mlp": {}}})"), HasSubstr("model.mlp: another member of \"kind\""));
  EXPECT_THAT(Refused("[1]"), HasSubstr("job.json: [1] is not valid; use an object"));
}

TEST(JsonSpec, RefusesWhatIsNoJson) {
  EXPECT_THAT(Refused("{\n  \"name\": \"a\",\n}"), HasSubstr("job.json:3:1: "));
  EXPECT_THAT(Refused(R"({"train": {"clip_norm": 1e999}})"), HasSubstr("job.json: number overflow parsing '1e999'"));
  EXPECT_THAT(Refused("{"), HasSubstr("unexpected end of input"));
  EXPECT_THAT(Refused(""), HasSubstr("job.json:1:1: "));
  EXPECT_THAT(Refused(R"({"name": "a", "name": "b"})"), HasSubstr("\"name\" is given twice; write it once"));
  EXPECT_THAT(Refused(R"({"train": {"microBatch": 1, "micro_batch": 2}})"), HasSubstr("is given twice"));
  EXPECT_THAT(Refused("{\"name\": \"caf\xe9\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(Refused(R"({"name": "a\u0007"})"), HasSubstr("name: "));
  EXPECT_THAT(Refused(StrCat("{\"model\": ", std::string(100000, '['))), HasSubstr("more than 64 brackets"));
}

class SetFile : public ::testing::Test {
 protected:
  SetFile() { fs::create_directories(folder_); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  const fs::path folder_ = test::ScratchFolder("set_file");
};

TEST_F(SetFile, IsAsItsFieldsOneByOne) {
  const std::string file = Write("more.textproto",
                                 "train { steps: 7 optimizer { sgd { lr: 0.5 } } resume: \"a b\" }\n"
                                 "model { mlp { hidden: [8, 9] } } fabric { gloo {} }\n"
                                 "trace { }");
  const absl::StatusOr<std::vector<std::string>> sets =
      ExpandSets(std::vector<std::string>{"train.steps=3", StrCat("@", file), "train.seed=2"});
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_THAT(*sets,
              ElementsAre("train.steps=3", "model.mlp.hidden=[8, 9]", "train.steps=7", "train.optimizer.sgd.lr=0.5",
                          "train.resume=\"a b\"", "fabric.gloo={}", "trace={}", "train.seed=2"));
}

TEST_F(SetFile, LaterOnesCountAndModelsComeFirst) {
  const std::string json = Write("sizes.json", R"({"model": {"preset": "mlp-small"}, "train": {"steps": 7}})");
  const std::string text = Write("more.textproto", "model { mlp { inputs: 5 } } train { steps: 8 }");
  const absl::StatusOr<spec::Spec> spec =
      ResolveSpec("model { preset: \"gpt-3m\" }", "job.textproto", "",
                  std::vector<std::string>{StrCat("@", text), StrCat("@", json), "train.micro_batch=3"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model().mlp().inputs(), 5);
  EXPECT_EQ(spec->model().mlp().hidden_size(), 2);
  EXPECT_EQ(spec->train().steps(), 7);
  EXPECT_EQ(spec->train().micro_batch(), 3);
}

TEST_F(SetFile, IsNamedByErrors) {
  const auto refused = [](const std::string& set) {
    return std::string(ResolveSpec("model { preset: \"gpt-3m\" }", "job.textproto", "", std::vector<std::string>{set})
                           .status()
                           .message());
  };
  const std::string bad = Write("bad.textproto", "train { micro_batch: 0 }");
  EXPECT_THAT(refused(StrCat("@", bad)), HasSubstr(StrCat(bad, ": train.micro_batch: 0 is out of range")));
  const std::string odd = Write("odd.json", R"({"train": {"stps": 1}})");
  EXPECT_THAT(refused(StrCat("@", odd)), HasSubstr(StrCat(odd, ": train.stps: \"stps\" is not a field")));
  EXPECT_THAT(refused("@/none.json"), HasSubstr("--set=@/none.json: cannot be read: No such file"));
}

}  // namespace json_spec_test
}  // namespace twofold
