// Residual networks for images (He et al. 2016, "Deep Residual Learning for Image Recognition"), with basic blocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/nn/batch_norm.h"
#include "core/nn/composite.h"
#include "core/nn/model_part.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

struct CnnConfig {
  int64_t channels = 3, height = 32, width = 32;  // of an image
  std::vector<int64_t> widths;                    // channels of each stage
  std::vector<int64_t> blocks;                    // residual blocks of each stage; same length as widths
  int64_t classes = 10;
  // kSmall: a 3x3 convolution (section 4.2, CIFAR-10). kImageNet: 7x7 with stride 2, then 3x3 max pooling with stride 2
  // (table 1).
  enum Stem { kSmall, kImageNet } stem = kSmall;
  bool sync_batch_norm = false;
  double momentum = 0.1, eps = 1e-5;  // of batch normalisation
  DType dtype = DType::kF32;
  std::optional<DType> buffer = {};  // of its running statistics: see BatchNormConfig
};

// A residual block of a network.
struct CnnBlock {
  std::string name;  // "stages.<s>.<b>"
  int64_t in, out, stride;
  int64_t height, width;  // of its output
};
// All of them, in order.
std::vector<CnnBlock> BlocksOf(const CnnConfig& config);

// Two 3x3 convolutions beside a shortcut (figure 2):
//     y = relu(norm2(conv2(relu(norm1(conv1(x))))) + shortcut(x))
// conv1 has the stride. The shortcut is x itself or, where shapes change, a 1x1 convolution with the stride and a norm
// (option B of section 3.3).
struct BasicBlockConfig {
  int64_t in = 0, out = 0, stride = 1;
  bool sync_batch_norm = false;
  double momentum = 0.1, eps = 1e-5;
  DType dtype = DType::kF32;
  std::optional<DType> buffer = {};
};

// x: [n, height, width, in]; y: [n, height / stride, width / stride, out], rounded up. Children: "conv1", "norm1",
// "conv2", "norm2" and, if shapes change, "shortcut_conv", "shortcut_norm".
class BasicBlock : public Composite {
 public:
  explicit BasicBlock(const BasicBlockConfig& config);
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  Tensor Backward(Context& ctx, Tensor dy, Saved& saved) override;
  std::string_view kind() const override { return "basic_block"; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override;

 private:
  static Tensor BackThroughRelu(Context& ctx, Tensor dy, Saved& saved);
  enum Child { kConv1, kNorm1, kConv2, kNorm2, kShortcutConv, kShortcutNorm };
  enum Slot { kY };
  bool projected() const { return children().size() > kShortcutConv; }
};

// The stem is the input side, pooling and the classifier are the output side. x: images [n, height, width, channels],
// or the output of the block before a part; y: logits [n, classes], or the output of the part's last block. Initial
// values: convolutions are normal with deviation sqrt(2 / (kernel^2 * output channels)) (He et al. 2015, equation 14),
// the head is uniform in +-1/sqrt(its inputs). Every stage but the first halves the image. Children: "stem.conv",
// "stem.norm", "stem.pool" (ImageNet), "stages.<s>.<b>", "pool", "head".
class CnnModel : public Sequential {
 public:
  explicit CnnModel(const CnnConfig& config);
  CnnModel(const CnnConfig& config, const ModelPart& part);
  std::string_view kind() const override { return "cnn_model"; }
};

}  // namespace twofold::nn
