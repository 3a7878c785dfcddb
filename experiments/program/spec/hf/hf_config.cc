#include "experiments/program/spec/hf/hf_config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/hf/fields.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

using hf::Fields;
using hf::ValueText;
using nlohmann::json;

constexpr size_t kLongestFile = 1 << 20;  // bytes of a file
constexpr int64_t kMostLayers = 1 << 12, kMostHidden = 1 << 18, kMostVocab = 1 << 22, kMostSequence = 1 << 20;

// https://github.com/huggingface/transformers, models/gpt2/configuration_gpt2.py
void ReadGpt2(Fields& f, spec::Model& model) {
  spec::Gpt& gpt = *model.mutable_gpt();
  gpt.set_layers(f.Whole("n_layer", 1, kMostLayers));
  gpt.set_hidden(f.Whole("n_embd", 1, kMostHidden));
  gpt.set_heads(f.Whole("n_head", 1, kMostLayers));
  gpt.set_vocab(f.Whole("vocab_size", 2, kMostVocab));
  gpt.set_sequence(f.Whole("n_positions", 1, kMostSequence));
  gpt.set_ffn(f.Whole("n_inner", 1, 1 << 20, std::min<int64_t>(4 * gpt.hidden(), 1 << 20)));
  gpt.set_tied_embeddings(f.Flag("tie_word_embeddings", true));
  f.Only("n_ctx", {gpt.sequence()});
  f.Only("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  f.Only("layer_norm_epsilon", {1e-5});
  f.Only("initializer_range", {0.02});
  f.Only("scale_attn_weights", {true});
  for (const char* off :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention", "is_encoder_decoder"})
    f.Only(off, {false});
  gpt.set_dropout(f.Fraction("resid_pdrop", 0.1));
  if (const double embedding = f.Fraction("embd_pdrop", 0.1); embedding != gpt.dropout()) {
    f.Refuse("embd_pdrop", NumberText(embedding), " differs from resid_pdrop; use ", NumberText(gpt.dropout()),
             ", as model.gpt.dropout is one number");
  }
  const double attention = f.Fraction("attn_pdrop", 0.1);
  if (model.attention() == spec::Model::UNFUSED) gpt.set_attention_dropout(attention);
}

// The object `name`: rope_scaling or, in Transformers 5, rope_parameters, which includes rope_theta.
void ReadRopeObject(const std::string& name, const json& object, Fields& parent, Problems& problems,
                    spec::Llama& llama) {
  if (!object.is_object()) return parent.Refuse(name, ValueText(object), " is not valid; use null or an object");
  Fields f(object, name + ".", problems);
  const bool has_theta = name == "rope_parameters";
  if (has_theta) llama.set_rope_theta(f.Above("rope_theta", 0, 10000));
  const std::string newer = f.Text("rope_type", ""), older = f.Text("type", newer);
  std::string type = newer.empty() ? older : newer;
  if (older != type) f.Refuse("type", ValueText(older), " differs from rope_type; keep one of them");
  if (has_theta && f.Find("rope_type") == nullptr && f.Find("type") == nullptr) type = "default";
  if (type == "linear") {
    llama.mutable_rope_scaling()->mutable_linear()->set_factor(f.Above("factor", 0));
  } else if (type == "llama3") {
    auto& llama3 = *llama.mutable_rope_scaling()->mutable_llama3();
    llama3.set_factor(f.Above("factor", 0));
    llama3.set_low_freq_factor(f.Above("low_freq_factor", 0));
    llama3.set_high_freq_factor(f.Above("high_freq_factor", 0));
    llama3.set_original_sequence(f.Whole("original_max_position_embeddings", 1, 1 << 24));
  } else if (type != "default") {
    return f.Refuse("rope_type", ValueText(type), " is not supported; use \"llama3\", \"linear\" or \"default\"");
  }
  f.Finish();
}

void ReadRope(Fields& f, Problems& problems, spec::Llama& llama) {
  llama.set_rope_theta(f.Above("rope_theta", 0, 10000));
  const json *scaling = f.Find("rope_scaling"), *parameters = f.Find("rope_parameters");
  if (parameters == nullptr) {
    if (scaling != nullptr) ReadRopeObject("rope_scaling", *scaling, f, problems, llama);
    return;
  }
  for (const char* older : {"rope_theta", "rope_scaling"})
    if (f.Find(older) != nullptr) f.Refuse(older, "is given beside rope_parameters; keep one of them");
  ReadRopeObject("rope_parameters", *parameters, f, problems, llama);
}

// Likewise, models/llama/configuration_llama.py and models/mistral/configuration_mistral.py. If the fields are absent,
// Mistral has grouped queries and a window. Null means as many KV heads as query heads and no window, in both.
void ReadMistralsAttention(Fields& f, spec::Llama& llama) {
  constexpr int64_t kKvHeads = 8, kWindow = 4096;
  const bool grouped = !f.Has("num_key_value_heads");
  llama.set_kv_heads(f.Whole("num_key_value_heads", 1, kMostLayers, grouped ? kKvHeads : llama.heads()));
  if (!f.Has("sliding_window") || f.Find("sliding_window") != nullptr) {
    llama.set_sliding_window(f.Whole("sliding_window", 1, int64_t{1} << 40, kWindow));
  }
}

// Whether layer_types, which newer versions of Transformers write, names a layer with a window.
bool NamesAWindow(Fields& f, int64_t layers) {
  const json* types = f.Find("layer_types");
  if (types == nullptr) return false;
  if (!types->is_array() || types->size() != static_cast<size_t>(layers)) {
    f.Refuse("layer_types", ValueText(*types), " is not valid; use a list of num_hidden_layers = ", layers);
    return false;
  }
  bool window = false;
  for (const json& type : *types) {
    if (type == "full_attention") continue;
    if (type != "sliding_attention") {
      f.Refuse("layer_types", ValueText(type),
               " is not a kind of layer; use \"full_attention\" or \"sliding_attention\"");
      return false;
    }
    window = true;
  }
  return window;
}

// models/qwen2/configuration_qwen2.py: the projections to queries, keys and values have biases. A window is used only
// where use_sliding_window says so, by the layers behind the first max_window_layers.
void ReadQwen2sAttention(Fields& f, spec::Llama& llama) {
  constexpr int64_t kKvHeads = 32, kWindow = 4096, kFirstWindow = 28;
  llama.set_qkv_bias(true);
  const bool grouped = !f.Has("num_key_value_heads");
  llama.set_kv_heads(f.Whole("num_key_value_heads", 1, kMostLayers, grouped ? kKvHeads : llama.heads()));
  const int64_t without = f.Whole("max_window_layers", 0, kMostLayers, kFirstWindow);
  const int64_t window = f.Whole("sliding_window", 1, int64_t{1} << 40, kWindow);
  const bool off = f.Has("sliding_window") && f.Find("sliding_window") == nullptr;
  const bool typed = f.Find("layer_types") != nullptr, by_type = NamesAWindow(f, llama.layers());
  f.Only("use_mrope", {false});
  if (!f.Flag("use_sliding_window", false) || off) return;
  if (typed ? by_type : without < llama.layers()) llama.set_sliding_window(window);
}

void ReadLlama(Fields& f, Problems& problems, const std::string_view family, spec::Model& model) {
  spec::Llama& llama = *model.mutable_llama();
  llama.set_layers(f.Whole("num_hidden_layers", 1, kMostLayers));
  llama.set_hidden(f.Whole("hidden_size", 1, kMostHidden));
  llama.set_heads(f.Whole("num_attention_heads", 1, kMostLayers));
  if (f.Find("head_dim") != nullptr) llama.set_head_dim(f.Whole("head_dim", 2, kMostHidden, 2));
  llama.set_ffn(f.Whole("intermediate_size", 1, 1 << 20));
  llama.set_vocab(f.Whole("vocab_size", 2, kMostVocab));
  llama.set_sequence(f.Whole("max_position_embeddings", 1, kMostSequence));
  if (family == "mistral") {
    ReadMistralsAttention(f, llama);
  } else if (family == "qwen2") {
    ReadQwen2sAttention(f, llama);
  } else {
    llama.set_kv_heads(f.Whole("num_key_value_heads", 1, kMostLayers, llama.heads()));
    if (f.Find("sliding_window") != nullptr) llama.set_sliding_window(f.Whole("sliding_window", 1, int64_t{1} << 40));
    f.Only("attention_bias", {false});
  }
  if (llama.has_sliding_window()) llama.set_sequence(std::min(llama.sequence(), llama.sliding_window()));
  llama.set_norm_eps(f.Above("rms_norm_eps", 0));
  ReadRope(f, problems, llama);
  llama.set_tied_embeddings(f.Flag("tie_word_embeddings", false));
  f.Only("hidden_act", {"silu", "swish"});
  f.Only("initializer_range", {0.02});
  f.Only("attention_dropout", {0});
  for (const char* off : {"mlp_bias", "is_encoder_decoder"}) f.Only(off, {false});
}

struct Family {
  std::string_view type, architecture;
};
constexpr Family kFamilies[] = {{"gpt2", "GPT2LMHeadModel"},
                                {"llama", "LlamaForCausalLM"},
                                {"mistral", "MistralForCausalLM"},
                                {"qwen2", "Qwen2ForCausalLM"}};

const Family* FindFamily(Fields& f) {
  const json* type = f.Find("model_type");
  for (const Family& family : kFamilies)
    if (type != nullptr && *type == family.type) return &family;
  std::string right = "use ";
  for (const Family& family : kFamilies) {
    const char* before = &family == std::begin(kFamilies) ? "" : &family == std::end(kFamilies) - 1 ? " or " : ", ";
    StrAppend(&right, before, "\"", family.type, "\"");
  }
  StrAppend(&right,
            ", or write the sizes as model { gpt { ... } }, llama { ... } or moe { ... }: `twofold spec model`");
  f.Refuse("model_type",
           type == nullptr ? StrCat("is missing; ", right) : StrCat(ValueText(*type), " is not supported; ", right));
  return nullptr;
}

void CheckArchitectures(Fields& f, const Family& family) {
  const json* list = f.Find("architectures");
  const std::string right = StrCat("use [\"", family.architecture, "\"]");
  if (list == nullptr) return;
  if (!list->is_array() || list->size() != 1)
    return f.Refuse("architectures", ValueText(*list), " is not valid; ", right);
  if ((*list)[0] != family.architecture) f.Refuse("architectures", ValueText((*list)[0]), " is not supported; ", right);
}

// Finds a name that occurs twice in one object, among the names of the outer object and of the objects directly inside
// it. JSON readers differ in which of the two they take. Empty: there is none.
class Twice {
 public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    const auto level = static_cast<size_t>(depth);
    if (event == json::parse_event_t::object_start && level < 2) names_[level].clear();
    if (event != json::parse_event_t::key || level > 2) return true;  // a name in an object that began one level above
    const std::string& name = parsed.get_ref<const std::string&>();
    if (!names_[level - 1].insert(name).second && found.empty()) found = level == 1 ? name : StrCat(outer_, ".", name);
    if (level == 1) outer_ = name;
    return true;
  }
  std::string found;

 private:
  std::set<std::string> names_[2];
  std::string outer_;
};

absl::StatusOr<json> Parse(const std::string& text, const std::string& file) {
  if (text.size() > kLongestFile) {
    return InvalidArgument(file, ": is too long; a config.json has at most ", kLongestFile, " bytes");
  }
  std::string why;
  try {
    Twice twice;
    json value = json::parse(text, std::ref(twice));
    if (!twice.found.empty()) {
      return InvalidArgument(file, ": ", hf::NameText(twice.found), ": is given twice; keep one of them");
    }
    if (value.is_object()) return value;
    why = StrCat("holds ", ValueText(value));
  } catch (const json::parse_error& error) {
    why = StrCat("is not valid JSON at byte ", error.byte);
  } catch (const json::exception&) {
    why = "holds a number that is out of range";
  }
  return InvalidArgument(file, ": ", why, "; give a model's config.json, an object { ... }");
}

}  // namespace

absl::StatusOr<spec::Model> ReadHfConfig(const std::string& text, const std::string& file,
                                         spec::Model::Attention attention) {
  const absl::StatusOr<json> object = Parse(text, file);
  if (!object.ok()) return object.status();
  Problems problems(file);
  Fields fields(*object, "", problems);
  spec::Model model;
  model.set_attention(attention);
  if (const Family* family = FindFamily(fields)) {
    CheckArchitectures(fields, *family);
    family->type == "gpt2" ? ReadGpt2(fields, model) : ReadLlama(fields, problems, family->type, model);
    fields.Ignore();
    fields.Finish();
  }
  if (absl::Status status = problems.status(); !status.ok()) return status;
  return model;
}

absl::Status ExpandHfConfig(spec::Spec& spec, const std::string& file) {
  if (!spec.model().has_hf_config()) return absl::OkStatus();
  const std::string path = spec.model().hf_config(), where = StrCat(file, ": model.hf_config: ");
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!regular || !in) {
    return InvalidArgument(where, "\"", path, "\" cannot be read: ",
                           error      ? error.message()
                           : !regular ? "it is not a file"
                                      : std::strerror(errno),
                           "; give the path of a model's config.json");
  }
  const auto bytes = std::filesystem::file_size(path, error);
  // at most one byte more than is accepted
  std::string text(std::min<size_t>(error ? 0 : bytes, kLongestFile + 1), '\0');
  text.resize(static_cast<size_t>(in.read(text.data(), static_cast<std::streamsize>(text.size())).gcount()));
  absl::StatusOr<spec::Model> model = ReadHfConfig(text, StrCat(where, path), spec.model().attention());
  if (!model.ok()) return model.status();
  if (!spec.model().has_attention()) model->clear_attention();
  spec.mutable_model()->MergeFrom(*model);  // the model replaces hf_config
  return absl::OkStatus();
}

}  // namespace twofold
