// What `twofold spec` says of the fields: all of them, from the comments and from validation.
#include "experiments/program/describe/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/base/strings.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/describe/find.h"
#include "experiments/program/describe/json.h"
#include "experiments/program/describe/text.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace fields_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

const std::vector<SpecField>& All() {
  static const std::vector<SpecField> kAll = SpecFields();
  return kAll;
}

const SpecField& At(const std::string& path) {
  const auto found = std::find_if(All().begin(), All().end(), [&](const SpecField& f) { return f.path == path; });
  EXPECT_NE(found, All().end()) << path;
  return found == All().end() ? All().front() : *found;
}

TEST(Fields, EachSaysWhatItMeans) {
  EXPECT_GE(All().size(), 400u);
  for (const SpecField& field : All()) {
    EXPECT_NE(field.meaning, "") << field.path << ": give it a comment in core/proto/spec.proto";
    EXPECT_THAT(field.meaning, Not(HasSubstr("----"))) << field.path;
    EXPECT_THAT(field.meaning, Not(HasSubstr("//"))) << field.path;
  }
}

TEST(Fields, MeaningsAreTheCommentsOfTheirOwnField) {
  EXPECT_EQ(At("train.micro_batch").meaning, "samples per rank and micro-batch");                 // behind it
  EXPECT_THAT(At("train.resume").meaning, StartsWith("Continue from this checkpoint, or from"));  // before it
  EXPECT_THAT(At("parallel.sharding").meaning, StartsWith("What the ranks of dp divide"));        // its type's
  EXPECT_EQ(At("parallel.sharding").values[0].name, "NO_SHARD");
  EXPECT_EQ(At("parallel.sharding").values[0].meaning, "nothing: DDP");
  EXPECT_EQ(At("parallel.wrap").meaning, "sharded: which modules become units");
  EXPECT_THAT(At("parallel.wrap").block_meaning, StartsWith("A unit's parameters are one flat tensor"));
}

TEST(Fields, ValuesAreThoseThatTheFieldTakes) {
  std::vector<std::string> names;
  for (const NamedValue& value : At("train.precision.buffer").values) names.push_back(value.name);
  EXPECT_THAT(names, ElementsAre("F32", "F64"));
}

TEST(Fields, RangesAreThoseOfValidation) {
  const auto range = [](const char* path) { return RangeText(At(path).range); };
  EXPECT_EQ(range("train.micro_batch"), "from 1 to 65536");
  EXPECT_EQ(range("train.optimizer.adam.beta1"), "from 0 to below 1");
  EXPECT_EQ(range("train.optimizer.adamw.lr"), "above 0");
  EXPECT_EQ(range("train.clip_norm"), "0 or more");
  EXPECT_EQ(range("model.cnn.widths"), "from 1 to 16384");  // of an element
  EXPECT_EQ(range("model.moe.llama.kv_heads"), "from 1 to 4096");
  EXPECT_EQ(range("train.validation.fraction"), "above 0 and below 1");
  // dp is a bound of these, so that it is not stated
  EXPECT_EQ(range("train.elastic.min_dp"), "1 or more");
  EXPECT_EQ(range("fabric.simulated.stragglers.rank"), "0 or more");
  EXPECT_EQ(range("name"), "");
}

// Each range holds: what lies just outside is refused, where the field can be set alone.
TEST(Fields, ValuesOutsideOfRangesAreRefused) {
  int tried = 0;
  for (const SpecField& field : All()) {
    if (!field.path.starts_with("train.") && !field.path.starts_with("trace.")) continue;
    if (field.field->is_repeated() || field.field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_INT64)
      continue;
    if (!field.range.least || field.path.find(".events.") != std::string::npos) continue;
    const std::string set = StrCat(field.path, "=", static_cast<int64_t>(*field.range.least) - 1);
    EXPECT_FALSE(ResolveSpec("model { preset: \"gpt-3m\" }", "a", "", std::vector<std::string>{set}).ok()) << set;
    ++tried;
  }
  EXPECT_GE(tried, 20);
}

TEST(Fields, AreFoundByPathAndByWord) {
  const auto paths = [](const std::string& word) {
    std::vector<std::string> found;
    const absl::StatusOr<FoundFields> fields = FindFields(All(), word);
    EXPECT_TRUE(fields.ok()) << fields.status();
    if (fields.ok())
      for (const SpecField* field : fields->fields) found.push_back(field->path);
    return found;
  };
  const auto refused = [](const std::string& word) { return std::string(FindFields(All(), word).status().message()); };
  EXPECT_THAT(paths("train.schedule.cosine"), ElementsAre("train.schedule.cosine", "train.schedule.cosine.decay_steps",
                                                          "train.schedule.cosine.min_lr_ratio"));
  EXPECT_THAT(paths("BUCKET"), ElementsAre("parallel.bucket_mib", "parallel.compression.top_k.clip_norm"));
  EXPECT_EQ(paths("staleness")[0], "train.async_sgd.staleness");  // names come before meanings
  EXPECT_THAT(paths("tectonic"), ElementsAre("fabric.simulated.storage"));
  EXPECT_THAT(refused("parallel.shardin"), HasSubstr("\"shardin\" is not a field of parallel; did you mean sharding?"));
  EXPECT_THAT(refused("train.steps.first"), HasSubstr("train.steps is not a block; end the path there"));
  EXPECT_THAT(refused("micro_bacth"), HasSubstr("did you mean micro_batch?"));
}

TEST(Fields, TextHasDefaultTypeRangeMeaningAndValues) {
  const std::string steps = FieldsText({&At("train.micro_batch")}, 80, false);
  EXPECT_EQ(steps, "train.micro_batch = 1  (whole number, from 1 to 65536)\n    samples per rank and micro-batch\n");
  const std::string offload = FieldsText({&At("parallel.offload")}, 80, true);
  EXPECT_THAT(offload, StartsWith("\033[1mparallel.offload\033[0m = NO_OFFLOAD  (one of these values)\n"));
  EXPECT_THAT(offload, HasSubstr("\n      NO_OFFLOAD         nothing\n"));
  EXPECT_THAT(FieldsText({&At("train.optimizer.sgd")}, 80, false), HasSubstr("Excludes adam, adamw, one_bit_adam.\n"));
}

// Each default is what the schema allows, and each field has a description.
void CheckSchema(const Json& schema, const std::string& path, int& fields) {
  for (const auto& [name, field] : schema["properties"].items()) {
    const std::string here = StrCat(path, ".", name);
    ++fields;
    EXPECT_TRUE(field.contains("description")) << here;
    const Json& one = field["type"] == "array" ? field["items"] : field;
    if (one["type"] == "object") {
      EXPECT_EQ(one["additionalProperties"], false) << here;
      CheckSchema(one, here, fields);
    }
    if (!field.contains("default")) continue;
    const Json& value = field["default"];
    EXPECT_TRUE(!field.contains("minimum") || value >= field["minimum"]) << here;
    EXPECT_TRUE(!field.contains("maximum") || value <= field["maximum"]) << here;
    EXPECT_TRUE(!field.contains("exclusiveMinimum") || value > field["exclusiveMinimum"]) << here;
    const Json values = field.value("enum", Json::array({value}));
    EXPECT_NE(std::find(values.begin(), values.end(), value), values.end()) << here;
  }
}

TEST(Fields, SchemaDescribesAll) {
  const Json schema = SpecSchema(All());
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  int fields = 0;
  CheckSchema(schema, "", fields);
  EXPECT_EQ(fields, static_cast<int>(All().size()) + 1);  // and "$schema"
  const Json& optimizer = schema["properties"]["train"]["properties"]["optimizer"];
  EXPECT_EQ(optimizer["allOf"].size(), 6u);  // no two of four
  EXPECT_EQ(optimizer["allOf"][0]["not"]["required"], Json::parse(R"(["sgd", "adam"])"));
  EXPECT_EQ(schema["properties"]["train"]["properties"]["micro_batch"]["maximum"], 65536);
}

TEST(Fields, TheProtoIsTheOneOfThisProgram) {
  EXPECT_THAT(std::string(SpecProto()), HasSubstr("\npackage twofold.spec;\n"));
  for (int i = 0; i < spec::Spec::descriptor()->field_count(); ++i)
    EXPECT_THAT(std::string(SpecProto()), HasSubstr(StrCat(" ", spec::Spec::descriptor()->field(i)->name(), " = ")));
}

}  // namespace fields_test
}  // namespace twofold
