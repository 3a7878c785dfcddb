// From published config.json files to models: exact parameter counts, and what is refused. The files in tests/data/hf
// hold the fields that their publishers wrote.
#include "experiments/program/spec/hf/hf_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "nlohmann/json.hpp"
#include "strategies/from_spec.h"

namespace twofold {
namespace hf_config_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Path(const std::string& name) { return "tests/data/hf/" + name + ".json"; }

std::string Read(const std::string& name) {
  std::ifstream in(Path(name));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

spec::Spec Resolved(const std::string& name, const std::string& more = "", std::vector<std::string> sets = {}) {
  const absl::StatusOr<spec::Spec> spec =
      ResolveSpec("model { hf_config: \"" + Path(name) + "\" " + more + " }", "test.textproto", "", sets);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : spec::Spec();
}

struct Published {
  const char* name;
  int64_t parameters;
};
void PrintTo(const Published& p, std::ostream* out) { *out << p.name; }
class PublishedConfig : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedConfig, HasThePublishedNumberOfParameters) {
  const spec::Spec spec = Resolved(GetParam().name);
  EXPECT_EQ(ParameterCount(*ModelOf(spec.model())), GetParam().parameters);
}

TEST_P(PublishedConfig, IsWrittenOutAsSizes) {
  const spec::Spec spec = Resolved(GetParam().name);
  EXPECT_FALSE(spec.model().has_hf_config());
  const absl::StatusOr<spec::Spec> again = ResolveSpec(SpecToText(spec), "elsewhere/spec.textproto");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(spec, *again)) << SpecToText(spec);
}

INSTANTIATE_TEST_SUITE_P(
    Files, PublishedConfig,
    ::testing::Values(Published{"gpt2", 124439808}, Published{"gpt2-medium", 354823168},
                      Published{"gpt2-large", 774030080}, Published{"gpt2-xl", 1557611200},
                      Published{"llama-2-7b", 6738415616}, Published{"llama-2-13b", 13015864320},
                      Published{"llama-2-70b", 68976648192}, Published{"llama-3-8b", 8030261248},
                      Published{"llama-3-70b", 70553706496}, Published{"llama-3.1-405b", 405853388800},
                      Published{"llama-3.2-1b", 1235814400}, Published{"llama-30b", 32528943616},
                      Published{"mistral-7b-v0.1", 7241732096}, Published{"mistral-7b-v0.2", 7241732096},
                      Published{"qwen2-7b-instruct", 7615616512}, Published{"qwen2.5-0.5b", 494032768}),
    [](const auto& info) {
      std::string name = info.param.name;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

TEST(HfConfig, ReadsEveryFieldThatMatters) {
  const spec::Gpt gpt = Resolved("gpt2-xl").model().gpt();
  EXPECT_EQ(gpt.layers(), 48);
  EXPECT_EQ(gpt.heads(), 25);
  EXPECT_EQ(gpt.hidden(), 1600);
  EXPECT_EQ(gpt.sequence(), 1024);
  EXPECT_EQ(gpt.dropout(), 0.1);
  const spec::Llama llama = Resolved("llama-3.1-405b").model().llama();
  EXPECT_EQ(llama.kv_heads(), 8);
  EXPECT_EQ(llama.rope_theta(), 500000);
  EXPECT_EQ(llama.norm_eps(), 1e-5);
  EXPECT_EQ(llama.sequence(), 131072);
  EXPECT_FALSE(llama.tied_embeddings());
  EXPECT_EQ(llama.rope_scaling().llama3().factor(), 8);
  EXPECT_EQ(llama.rope_scaling().llama3().original_sequence(), 8192);
  EXPECT_EQ(Resolved("mistral-7b-v0.1").model().llama().sequence(), 4096) << "within its window";
  EXPECT_EQ(Resolved("mistral-7b-v0.2").model().llama().sequence(), 32768) << "it has no window";
  EXPECT_EQ(Resolved("mistral-7b-v0.2").model().llama().rope_theta(), 1e6);
}

TEST(HfConfig, Qwen2HasBiasesAndAWindowOnlyWhereItSaysSo) {
  const auto read = [](const json& changes) {
    json object = json::parse(Read("qwen2.5-0.5b"));
    object.update(changes);
    const absl::StatusOr<spec::Model> model = ReadHfConfig(object.dump(), "c.json", spec::Model::TILED);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? model->llama() : spec::Llama();
  };
  const spec::Llama published = read(json::object());
  EXPECT_TRUE(published.qkv_bias());
  EXPECT_TRUE(published.tied_embeddings());
  EXPECT_EQ(published.kv_heads(), 2);
  EXPECT_FALSE(published.has_sliding_window());
  EXPECT_FALSE(read({{"use_sliding_window", true}, {"sliding_window", 512}}).has_sliding_window())
      << "all 24 layers are among the first max_window_layers";
  const spec::Llama window = read({{"use_sliding_window", true}, {"sliding_window", 512}, {"max_window_layers", 23}});
  EXPECT_EQ(window.sliding_window(), 512);
  EXPECT_EQ(window.sequence(), 512);
  EXPECT_FALSE(
      read({{"use_sliding_window", true}, {"sliding_window", nullptr}, {"max_window_layers", 0}}).has_sliding_window());
  json types = std::vector<std::string>(24, "full_attention");
  EXPECT_FALSE(read({{"layer_types", types}, {"sliding_window", nullptr}}).has_sliding_window());
  types[3] = "sliding_attention";
  EXPECT_FALSE(read({{"layer_types", types}}).has_sliding_window()) << "use_sliding_window is false";
  EXPECT_EQ(read({{"layer_types", types}, {"use_sliding_window", true}}).sliding_window(), 32768);
}

TEST(HfConfig, DropoutOfAttentionFollowsTheKindOfAttention) {
  EXPECT_EQ(Resolved("gpt2").model().gpt().attention_dropout(), 0);
  EXPECT_EQ(Resolved("gpt2", "attention: UNFUSED").model().gpt().attention_dropout(), 0.1);
  EXPECT_EQ(Resolved("gpt2", "", {"model.attention=UNFUSED"}).model().gpt().attention_dropout(), 0.1);
  EXPECT_EQ(Resolved("gpt2", "attention: UNFUSED", {"model.attention=TILED"}).model().gpt().attention_dropout(), 0);
}

TEST(HfConfig, SettingsOnTheCommandLineWin) {
  EXPECT_EQ(Resolved("llama-3-8b", "", {"model.llama.sequence=512"}).model().llama().sequence(), 512);
  const absl::StatusOr<spec::Spec> spec =
      ResolveSpec("model { preset: \"gpt-3m\" }", "t.textproto", "",
                  std::vector<std::string>{"model.hf_config=" + Path("llama-2-7b")});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model().llama().layers(), 32);
  EXPECT_FALSE(spec->model().has_preset());
}

std::string Refused(const std::string& text, std::vector<std::string> sets = {}) {
  const absl::StatusOr<spec::Spec> spec = ResolveSpec(text, "test.textproto", "", sets);
  EXPECT_FALSE(spec.ok());
  return std::string(spec.status().message());
}

TEST(HfConfig, RefusesWhatIsNoFileOrHasAPresetBesideIt) {
  EXPECT_THAT(
      Refused("model { hf_config: \"no/such.json\" }"),
      AllOf(HasSubstr("test.textproto: model.hf_config: \"no/such.json\" cannot be read"), HasSubstr("give the path")));
  EXPECT_THAT(Refused("model { hf_config: \"tests\" }"), HasSubstr("it is not a file"));
  EXPECT_THAT(Refused("model { preset: \"gpt-3m\" hf_config: \"" + Path("gpt2") + "\" }"),
              HasSubstr("keep one of them"));
  EXPECT_THAT(Refused("model { hf_config: \"" + Path("mistral-7b-v0.1") + "\" }", {"model.llama.sequence=8192"}),
              AllOf(HasSubstr("model.llama.sequence: 8192 is longer than model.llama.sliding_window = 4096"),
                    HasSubstr("use at most 4096")));
}

// One field of a published file changed: refused by name, with the value and what would be right.
struct Change {
  const char *file, *field, *value;  // value: JSON; "": the field is taken out
  std::vector<std::string> fragments;
};

TEST(HfConfig, RefusesByNameWhatWouldChangeTheModel) {
  const std::vector<Change> changes = {
      {"gpt2", "activation_function", "\"relu\"", {"activation_function: \"relu\"", "use \"gelu_new\""}},
      {"gpt2", "scale_attn_by_inverse_layer_idx", "true", {"scale_attn_by_inverse_layer_idx: true", "use false"}},
      {"gpt2", "reorder_and_upcast_attn", "true", {"reorder_and_upcast_attn: true", "use false"}},
      {"gpt2", "scale_attn_weights", "false", {"scale_attn_weights: false", "use true"}},
      {"gpt2", "layer_norm_epsilon", "1e-6", {"layer_norm_epsilon: 1e-06", "use 1e-05"}},
      {"gpt2", "n_ctx", "512", {"n_ctx: 512", "use 1024"}},
      {"gpt2", "embd_pdrop", "0.2", {"embd_pdrop: 0.2 differs from resid_pdrop", "use 0.1"}},
      {"gpt2", "resid_pdrop", "1", {"resid_pdrop: 1 is not valid", "below 1"}},
      {"gpt2", "n_layer", "", {"n_layer: is missing", "from 1"}},
      {"gpt2", "n_layer", "12.5", {"n_layer: 12.5 is not valid", "a whole number"}},
      {"gpt2", "n_layer", "99999999999999999999", {"n_layer: ", "is not valid"}},
      {"gpt2", "n_head", "7", {"model.gpt.heads: 7 does not divide"}},
      {"gpt2",
       "model_type",
       "\"bloom\"",
       {"model_type: \"bloom\" is not supported", "\"llama\"", "or \"qwen2\"", "write the sizes",
        "`twofold spec model`"}},
      {"gpt2", "model_type", "", {"model_type: is missing"}},
      {"gpt2", "model_type", "7", {"model_type: 7 is not supported", "\"gpt2\""}},
      {"gpt2",
       "architectures",
       "[\"GPT2ForSequenceClassification\"]",
       {"architectures: \"GPT2ForSequenceClassification\"", "GPT2LMHeadModel"}},
      {"gpt2", "alibi", "true", {"alibi: true is the value of an unknown field", "remove the field"}},
      {"llama-2-7b", "hidden_act", "\"gelu\"", {"hidden_act: \"gelu\"", "use \"silu\""}},
      {"llama-3-8b", "attention_bias", "true", {"attention_bias: true", "use false"}},
      {"llama-3-8b", "mlp_bias", "true", {"mlp_bias: true", "use false"}},
      {"llama-3-8b", "attention_dropout", "0.1", {"attention_dropout: 0.1", "use 0"}},
      {"llama-3-8b",
       "rope_scaling",
       "{\"rope_type\": \"yarn\", \"factor\": 4}",
       {"rope_scaling.rope_type: \"yarn\" is not supported", "\"llama3\""}},
      {"llama-3-8b",
       "rope_scaling",
       "{\"type\": \"linear\", \"factor\": 0}",
       {"rope_scaling.factor: 0 is not valid", "above 0"}},
      {"llama-3-8b",
       "rope_scaling",
       "{\"type\": \"linear\", \"factor\": 2, \"beta\": 1}",
       {"rope_scaling.beta: 1 is the value of an unknown field"}},
      {"llama-3-8b", "rope_scaling", "7", {"rope_scaling: 7 is not valid"}},
      {"llama-3-8b",
       "rope_parameters",
       "{\"rope_type\": \"default\"}",
       {"rope_theta: is given beside rope_parameters", "keep one"}},
      {"llama-3-8b", "head_dim", "127", {"model.llama.head_dim: 127 is odd", "use 128"}},
      {"llama-3-8b", "hidden_size", "-4096", {"hidden_size: -4096 is not valid", "from 1"}},
      {"llama-3-8b", "vocab_size", "1e9", {"vocab_size: ", "is not valid", "a whole number"}},
      {"llama-3-8b", "rms_norm_eps", "0", {"rms_norm_eps: 0 is not valid", "above 0"}},
      {"llama-3-8b",
       "layer_types",
       "[\"full_attention\"]",
       {"layer_types: a list of 1 is the value of an unknown field"}},
      {"llama-3-8b", "text_config", "{}", {"text_config: an object of 0 is the value of an unknown field"}},
      {"llama-3-8b", "num_key_value_heads", "5", {"model.llama.kv_heads: 5 does not divide model.llama.heads = 32"}},
      {"llama-3-8b", "rms_norm_eps", "", {"rms_norm_eps: is missing"}},
      {"llama-3-8b", "quantization_config", "{}", {"quantization_config: an object of 0"}},
      {"mistral-7b-v0.1", "sliding_window", "\"long\"", {"sliding_window: \"long\" is not valid"}},
      {"qwen2.5-0.5b", "use_mrope", "true", {"use_mrope: true", "use false"}},
      {"qwen2.5-0.5b",
       "layer_types",
       "[\"full_attention\"]",
       {"layer_types: a list of 1 is not valid", "num_hidden_layers = 24"}},
      {"qwen2.5-0.5b", "max_window_layers", "-1", {"max_window_layers: -1 is not valid"}},
      {"qwen2.5-0.5b", "rope_scaling", "{\"type\": \"yarn\", \"factor\": 4}", {"rope_scaling.rope_type: \"yarn\""}},
  };
  for (const Change& c : changes) {
    SCOPED_TRACE(std::string(c.field) + " = " + c.value);
    json object = json::parse(Read(c.file));
    if (*c.value == 0)
      object.erase(c.field);
    else
      object[c.field] = json::parse(c.value);
    const std::filesystem::path path =
        std::filesystem::path(::testing::TempDir()) / StrCat("twofold_hf_config-", getpid(), ".json");
    std::ofstream(path) << object.dump();
    const std::string message = Refused("model { hf_config: \"" + path.string() + "\" }");
    EXPECT_THAT(message, HasSubstr("test.textproto: "));
    for (const std::string& fragment : c.fragments) EXPECT_THAT(message, HasSubstr(fragment));
    std::filesystem::remove(path);
  }
}

TEST(HfConfig, AcceptsLinearScalingAndBiggerHeads) {
  json object = json::parse(Read("llama-3-8b"));
  object["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  object["head_dim"] = 256;
  const absl::StatusOr<spec::Model> model = ReadHfConfig(object.dump(), "c.json", spec::Model::TILED);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->llama().rope_scaling().linear().factor(), 2);
  EXPECT_EQ(model->llama().head_dim(), 256);
}

// Transformers 5 writes what was rope_theta and rope_scaling as one object.
TEST(HfConfig, RopeParametersAreThetaAndScaling) {
  const auto read = [](const json& rope) {
    json object = json::parse(Read("llama-3.1-405b"));
    object.erase("rope_theta");
    object.erase("rope_scaling");
    object["rope_parameters"] = rope;
    return ReadHfConfig(object.dump(), "c.json", spec::Model::TILED);
  };
  const json published = json::parse(Read("llama-3.1-405b"));
  json rope = published["rope_scaling"];
  rope["rope_theta"] = published["rope_theta"];
  const absl::StatusOr<spec::Model> newer = read(rope),
                                    older = ReadHfConfig(published.dump(), "c.json", spec::Model::TILED);
  ASSERT_TRUE(newer.ok() && older.ok()) << newer.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*newer, *older));
  const absl::StatusOr<spec::Model> plain = read({{"rope_theta", 1e6}});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->llama().rope_theta(), 1e6);
  EXPECT_FALSE(plain->llama().has_rope_scaling());
  EXPECT_THAT(read({{"full_attention", rope}}).status().message(),
              HasSubstr("rope_parameters.full_attention: an object of 6"));
  EXPECT_THAT(read({{"rope_theta", 0}}).status().message(), HasSubstr("rope_parameters.rope_theta: 0 is not valid"));
  EXPECT_THAT(read({{"rope_type", "yarn"}}).status().message(),
              HasSubstr("rope_parameters.rope_type: \"yarn\" is not supported"));
}

// MistralConfig's own defaults: 8 heads of keys and values, and a window of 4096. Null is another matter.
TEST(HfConfig, WhatMistralLeavesOutIsNotWhatLlamaLeavesOut) {
  const auto read = [](const std::string& name, bool null) {
    json object = json::parse(Read(name));
    for (const char* field : {"num_key_value_heads", "sliding_window"}) {
      object.erase(field);
      if (null) object[field] = nullptr;
    }
    const absl::StatusOr<spec::Model> model = ReadHfConfig(object.dump(), "c.json", spec::Model::TILED);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? model->llama() : spec::Llama();
  };
  EXPECT_EQ(read("mistral-7b-v0.1", false).kv_heads(), 8);
  EXPECT_EQ(read("mistral-7b-v0.1", false).sequence(), 4096);
  EXPECT_EQ(read("mistral-7b-v0.1", true).kv_heads(), 32);
  EXPECT_EQ(read("mistral-7b-v0.1", true).sequence(), 32768);
  EXPECT_EQ(read("llama-3-8b", false).kv_heads(), 32);
  EXPECT_EQ(read("llama-3-8b", false).sequence(), 8192);
  EXPECT_FALSE(read("llama-3-8b", false).has_sliding_window());
}

TEST(HfConfig, RefusesWhatIsGivenTwice) {
  const auto message = [](const std::string& text) {
    return std::string(ReadHfConfig(text, "c.json", spec::Model::TILED).status().message());
  };
  EXPECT_EQ(message(R"({"n_layer": 1, "n_head": 1, "n_layer": 2})"),
            "c.json: n_layer: is given twice; keep one of them");
  EXPECT_EQ(message(R"({"a": {"b": 1}, "rope_scaling": {"type": "linear", "b": 2, "type": "linear"}})"),
            "c.json: rope_scaling.type: is given twice; keep one of them");
  // Not twice in one object; and what lies deeper changes nothing.
  EXPECT_THAT(message(R"({"a": {"a": 1}, "b": {"a": [{"a": 1}, {"a": {"a": 1, "a": 2}}]}})"),
              HasSubstr("model_type: is missing"));
}

TEST(HfConfig, SaysWhereAFileStopsBeingJson) {
  const auto message = [](const std::string& text) {
    return std::string(ReadHfConfig(text, "c.json", spec::Model::TILED).status().message());
  };
  EXPECT_THAT(message("{\"a\": }"), HasSubstr("c.json: is not valid JSON at byte 7"));
  EXPECT_THAT(message("{\"a\": NaN}"), HasSubstr("is not valid JSON at byte 7"));
  EXPECT_THAT(message(""), HasSubstr("at byte 1"));
  EXPECT_THAT(message("[1, 2]"), HasSubstr("holds a list of 2"));
  EXPECT_THAT(message("{\"a\": 1e999}"), HasSubstr("number"));
  EXPECT_THAT(message(std::string(1 << 21, ' ')), HasSubstr("is too long"));
  EXPECT_THAT(message(std::string(1 << 20, '[')), HasSubstr("is not valid JSON"));
}

}  // namespace hf_config_test
}  // namespace twofold
