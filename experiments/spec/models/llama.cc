#include <string>

#include "core/base/strings.h"
#include "experiments/spec/fields.h"
#include "experiments/spec/models/rules.h"

namespace twofold {
namespace {

// 8/3 hidden, rounded up to a multiple of 256, as Llama's published code has it.
int64_t DefaultFfn(int64_t hidden) { return (hidden * 8 / 3 + 255) / 256 * 256; }

void Fill(spec::Model& model) {
  spec::Llama& llama = *model.mutable_llama();
  const bool sane = llama.hidden() >= 1 && llama.hidden() <= 1 << 18 && llama.heads() >= 1;
  if (!llama.has_kv_heads() && llama.has_heads()) llama.set_kv_heads(llama.heads());
  if (!llama.has_head_dim() && sane && llama.hidden() % llama.heads() == 0) {
    llama.set_head_dim(llama.hidden() / llama.heads());
  }
  if (!llama.has_ffn() && sane) llama.set_ffn(DefaultFfn(llama.hidden()));
}

void CheckHeads(const spec::Llama& llama, Problems& problems) {
  constexpr int64_t kWidest = 1 << 18;  // of all heads side by side
  if (!llama.has_head_dim()) {
    return CheckDivides("model.llama.heads", llama.heads(), "model.llama.hidden", llama.hidden(), problems);
  }
  if (!problems.Whole("model.llama.head_dim", llama.head_dim(), 2, kWidest)) return;
  if (llama.head_dim() % 2 != 0) {
    problems.Add("model.llama.head_dim", StrCat(llama.head_dim(), " is odd, and rotary positions turn halves of a head; use ",
                                                llama.head_dim() + 1));
  }
  if (llama.heads() * llama.head_dim() > kWidest) {
    problems.Add("model.llama.head_dim", StrCat(llama.head_dim(), " times model.llama.heads = ", llama.heads(),
                                                " is out of range; use at most ", kWidest / llama.heads()));
  }
}

void CheckRope(const spec::Llama& llama, Problems& problems) {
  const std::string path = "model.llama.rope_scaling";
  problems.Above("model.llama.rope_theta", llama.rope_theta(), 0);
  if (!llama.has_rope_scaling()) return;
  const spec::RopeScaling& scaling = llama.rope_scaling();
  if (scaling.has_linear()) problems.AtLeast(path + ".linear.factor", scaling.linear().factor(), 1);
  if (scaling.has_llama3()) {
    const auto& llama3 = scaling.llama3();
    problems.AtLeast(path + ".llama3.factor", llama3.factor(), 1);
    problems.Above(path + ".llama3.low_freq_factor", llama3.low_freq_factor(), 0);
    problems.Above(path + ".llama3.high_freq_factor", llama3.high_freq_factor(), llama3.low_freq_factor());
    problems.Whole(path + ".llama3.original_sequence", llama3.original_sequence(), 1, 1 << 24);
  } else if (!scaling.has_linear()) {
    problems.Add(path, "says no kind; use linear { ... } or llama3 { ... }, or leave the block out");
  }
}

void CheckWindow(const spec::Llama& llama, Problems& problems) {
  if (!llama.has_sliding_window()) return;
  if (!problems.Whole("model.llama.sliding_window", llama.sliding_window(), 1, int64_t{1} << 40)) return;
  if (llama.sequence() <= llama.sliding_window()) return;
  problems.Add("model.llama.sequence",
               StrCat(llama.sequence(), " is longer than model.llama.sliding_window = ", llama.sliding_window(),
                      ", and attention within a window is not in this build; use at most ", llama.sliding_window()));
}

void Check(const spec::Model& model, Problems& problems) {
  const spec::Llama& llama = model.llama();
  problems.Whole("model.llama.layers", llama.layers(), 1, 1 << 12, llama.has_layers());
  const bool hidden = problems.Whole("model.llama.hidden", llama.hidden(), 1, 1 << 18, llama.has_hidden());
  const bool heads = problems.Whole("model.llama.heads", llama.heads(), 1, 1 << 12, llama.has_heads());
  problems.Whole("model.llama.vocab", llama.vocab(), 2, 1 << 22);
  problems.Whole("model.llama.sequence", llama.sequence(), 1, 1 << 20, llama.has_sequence());
  if (hidden && heads) problems.Whole("model.llama.ffn", llama.ffn(), 1, 1 << 20);
  if (heads && problems.Whole("model.llama.kv_heads", llama.kv_heads(), 1, 1 << 12)) {
    CheckDivides("model.llama.kv_heads", llama.kv_heads(), "model.llama.heads", llama.heads(), problems);
  }
  if (hidden && heads) CheckHeads(llama, problems);
  problems.Above("model.llama.norm_eps", llama.norm_eps(), 0);
  CheckRope(llama, problems);
  CheckWindow(llama, problems);
}

}  // namespace

constinit const ModelRules kLlamaRules = {.kind = spec::Model::kLlama, .fill = Fill, .check = Check};

}  // namespace twofold
