#include <string>

#include "core/base/strings.h"
#include "experiments/program/spec/models/rules.h"

namespace twofold {
namespace {

// 8/3 hidden, rounded up to a multiple of 256, as in Llama's published code.
int64_t DefaultFfn(int64_t hidden) { return (hidden * 8 / 3 + 255) / 256 * 256; }

}  // namespace

void FillLlama(spec::Llama& llama) {
  const bool sane = llama.hidden() >= 1 && llama.hidden() <= 1 << 18 && llama.heads() >= 1;
  if (!llama.has_kv_heads() && llama.has_heads()) llama.set_kv_heads(llama.heads());
  if (!llama.has_head_dim() && sane && llama.hidden() % llama.heads() == 0) {
    llama.set_head_dim(llama.hidden() / llama.heads());
  }
  if (!llama.has_ffn() && sane) llama.set_ffn(DefaultFfn(llama.hidden()));
}

namespace {

void CheckHeads(const spec::Llama& llama, const std::string& path, Problems& problems) {
  constexpr int64_t kWidest = 1 << 18;  // of all heads together
  if (!llama.has_head_dim()) {
    return CheckDivides(path + ".heads", llama.heads(), path + ".hidden", llama.hidden(), problems);
  }
  if (!problems.Whole(path + ".head_dim", llama.head_dim(), 2, kWidest)) return;
  if (llama.head_dim() % 2 != 0) {
    problems.Add(path + ".head_dim", llama.head_dim(),
                 " is odd, but rotary embeddings need two halves of equal size; use ", llama.head_dim() + 1);
  }
  if (llama.heads() * llama.head_dim() > kWidest) {
    problems.Add(path + ".head_dim", llama.head_dim(), " times ", path, ".heads = ", llama.heads(),
                 " is out of range; use at most ", kWidest / llama.heads());
  }
}

void CheckRope(const spec::Llama& llama, const std::string& path, Problems& problems) {
  const std::string in = path + ".rope_scaling";
  problems.Above(path + ".rope_theta", llama.rope_theta(), 0);
  if (!llama.has_rope_scaling()) return;
  const spec::RopeScaling& scaling = llama.rope_scaling();
  if (scaling.has_linear()) problems.AtLeast(in + ".linear.factor", scaling.linear().factor(), 1);
  if (scaling.has_llama3()) {
    const auto& llama3 = scaling.llama3();
    problems.AtLeast(in + ".llama3.factor", llama3.factor(), 1);
    problems.Above(in + ".llama3.low_freq_factor", llama3.low_freq_factor(), 0);
    problems.Above(in + ".llama3.high_freq_factor", llama3.high_freq_factor(), llama3.low_freq_factor());
    problems.Whole(in + ".llama3.original_sequence", llama3.original_sequence(), 1, 1 << 24);
  } else if (!scaling.has_linear()) {
    problems.Add(in, "names no kind of scaling; use linear { ... } or llama3 { ... }, or leave the block out");
  }
}

void CheckWindow(const spec::Llama& llama, const std::string& path, Problems& problems) {
  if (!llama.has_sliding_window()) return;
  if (!problems.Whole(path + ".sliding_window", llama.sliding_window(), 1, int64_t{1} << 40)) return;
  if (llama.sequence() <= llama.sliding_window()) return;
  problems.Add(path + ".sequence", llama.sequence(), " is longer than ", path,
               ".sliding_window = ", llama.sliding_window(),
               ", and sliding-window attention is not supported; use at most ", llama.sliding_window());
}

}  // namespace

void CheckLlama(const spec::Llama& llama, const std::string& path, Problems& problems) {
  problems.Whole(path + ".layers", llama.layers(), 1, 1 << 12, llama.has_layers());
  const bool hidden = problems.Whole(path + ".hidden", llama.hidden(), 1, 1 << 18, llama.has_hidden());
  const bool heads = problems.Whole(path + ".heads", llama.heads(), 1, 1 << 12, llama.has_heads());
  problems.Whole(path + ".vocab", llama.vocab(), 2, 1 << 22);
  problems.Whole(path + ".sequence", llama.sequence(), 1, 1 << 20, llama.has_sequence());
  if (hidden && heads) problems.Whole(path + ".ffn", llama.ffn(), 1, 1 << 20);
  if (heads && problems.Whole(path + ".kv_heads", llama.kv_heads(), 1, 1 << 12)) {
    CheckDivides(path + ".kv_heads", llama.kv_heads(), path + ".heads", llama.heads(), problems);
  }
  if (hidden && heads) CheckHeads(llama, path, problems);
  problems.Above(path + ".norm_eps", llama.norm_eps(), 0);
  CheckRope(llama, path, problems);
  CheckWindow(llama, path, problems);
}

constinit const ModelRules kLlamaRules = {
    .kind = spec::Model::kLlama,
    .path = "model.llama",
    .fill = [](spec::Model& model) { FillLlama(*model.mutable_llama()); },
    .check = [](const spec::Model& model, Problems& problems) { CheckLlama(model.llama(), "model.llama", problems); },
};

}  // namespace twofold
