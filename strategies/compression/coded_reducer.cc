#include "strategies/compression/coded_reducer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// One exchange of encoded tensors. Its input is divided into parts of equal size, of which the last ones may be
// shorter. A part may consist of several pieces, which are encoded one by one: with P ranks, piece k of part j is the
// input's piece number k P + j.
struct Stage {
  enum Kind {
    kScatter,  // rank j receives part j from every rank, and averages
    kGather,   // every rank sends its part to all
    kAverage,  // every rank sends its whole input to all, and averages
  } kind;
  ProcessGroup* group;
  int64_t first;    // of the input: its place in the bucket
  int64_t in, out;  // elements that this rank encodes, and that it has afterwards
  int64_t piece;    // elements of a piece
  int64_t pieces;   // of a part
  ErrorFeedback feedback;

  int64_t whole() const { return kind == kScatter ? in : out; }
  // The elements of the input's piece number i.
  int64_t PieceOf(int64_t i) const { return std::clamp<int64_t>(whole() - i * piece, 0, piece); }
};

// The encoded tensor number `i` of several for `most` elements each. It has `numel` elements.
Encoded At(const Encoded& all, int64_t i, const EncodedSize& most, const EncodedSize& size) {
  return {all.body.Slice(i * most.body, size.body),
          all.side.empty() ? Tensor() : all.side.Slice(i * most.side, size.side)};
}

class CodedReducer final : public Reducer {
 public:
  CodedReducer(nn::Context& ctx, const Bucket& bucket, const MakeCodec& make_codec, const FeedbackOptions& feedback)
      : wide_(ops::AccumulationType(bucket.dtype)), codec_(make_codec(ctx, bucket)) {
    AddStages(ctx, bucket, feedback);
    FindPadding(bucket);
  }

  void BeginStep(nn::Context& ctx, double loss_scale) override {
    round_ = 0, scale_ = loss_scale;
    for (Stage& stage : stages_) stage.feedback.BeginStep(ctx);
  }

  Work Start(nn::Context& ctx, Tensor in, Tensor out, bool) override {
    out_ = std::move(out), at_ = 0;
    if (stages_.empty()) {
      value_ = codec_->Prepare(ctx, std::move(in));
      return Work();
    }
    const nn::CodecWork work(ctx);
    const Bytes before = in.bytes();
    value_ = codec_->Prepare(ctx, std::move(in));
    Work sending = Send(ctx);
    work.Encoded(before, sent_bytes_);
    return sending;
  }

  std::optional<Work> Next(nn::Context& ctx) override {
    const nn::CodecWork work(ctx);
    if (at_ < stages_.size()) Receive(ctx);
    if (++at_ >= stages_.size()) return std::nullopt;
    return Send(ctx);
  }

  Tensor Mean(nn::Context& ctx) override {
    const nn::CodecWork work(ctx);
    ++round_;
    out_ = Tensor();
    for (const auto& [first, count] : padding_) ctx.Launch(ops::Fill{.out = value_.Slice(first, count), .value = 0});
    return std::exchange(value_, Tensor());
  }

  void Skip(nn::Context&) override {
    for (Stage& stage : stages_) stage.feedback.Skip();
  }

  bool has_next() const override { return stages_.size() > 1; }

  // What a stage leaves out of its input is averaged by this stage and those after it.
  std::vector<ReducerState> State() const override {
    std::vector<ReducerState> states = codec_->State();
    double weight = 1;
    for (size_t i = stages_.size(); i-- > 0;) {
      const Stage& s = stages_[i];
      if (s.kind != Stage::kGather) weight /= s.group->size();
      if (s.feedback.residual().empty()) continue;
      states.push_back({.name = "residual",
                        .tensor = s.feedback.residual(),
                        .stage = static_cast<int>(i),
                        .first = s.first,
                        .weight = weight});
    }
    return states;
  }

 private:
  void AddStages(nn::Context& ctx, const Bucket& bucket, const FeedbackOptions& feedback) {
    const auto add = [&](Stage::Kind kind, ProcessGroup* group, int64_t first, int64_t in, int64_t out, int64_t piece,
                         int64_t pieces = 1) {
      stages_.push_back({kind, group, first, in, out, piece, pieces, ErrorFeedback(ctx, in, wide_, feedback)});
    };
    const auto shares = [](const ProcessGroup* group) { return group != nullptr && group->size() > 1; };
    const auto& [scatter, replicate, near, far] = bucket.groups;
    int64_t first = 0, numel = bucket.numel;
    if (shares(scatter)) {
      const int64_t shard = numel / scatter->size();
      if (near != nullptr) {
        TWOFOLD_CHECK(!feedback.enabled, "what the second stage leaves out has no place in the bucket");
        add(Stage::kScatter, near, 0, numel, numel / near->size(), shard, far->size());
        add(Stage::kScatter, far, 0, numel / near->size(), shard, shard);
      } else {
        add(Stage::kScatter, scatter, 0, numel, shard, shard);
      }
      first = scatter->rank() * shard, numel = shard;
    }
    if (!shares(replicate)) return;
    if (!codec_->encodes_sums()) return add(Stage::kAverage, replicate, first, numel, numel, numel);
    const int64_t part = (numel + replicate->size() - 1) / replicate->size();
    const int64_t begin = replicate->rank() * part, mine = std::clamp<int64_t>(numel - begin, 0, part);
    add(Stage::kScatter, replicate, first, numel, mine, part);
    add(Stage::kGather, replicate, first + begin, mine, numel, part);
  }

  // Padding must stay zero, which a codec may decode to something else.
  void FindPadding(const Bucket& bucket) {
    if (bucket.kept.empty() || stages_.empty()) return;
    int64_t end = 0;
    const auto add = [&](int64_t first, int64_t count) {
      if (count > 0) padding_.push_back({first, count});
    };
    optim::ForStretches(bucket.kept, [&](int64_t first, const nn::Parameter&, const nn::Parameter::Stretch& stretch) {
      add(end, first - end);
      end = first + stretch.where.count;
      if (stretch.part.padding) add(first, stretch.where.count);
    });
    add(end, stages_.back().out - end);
  }

  Encoded NewEncoded(nn::Context& ctx, const EncodedSize& size, int64_t count) const {
    const auto tensor = [&](int64_t numel, DType type) {
      return numel == 0 ? Tensor() : ctx.device.NewTensor(Shape{count * numel}, type, Category::kCommunication);
    };
    return {tensor(size.body, size.body_type), tensor(size.side, size.side_type)};
  }

  EncodedSize SizeOf(nn::Context& ctx, int64_t numel) const { return codec_->SizeOf(numel, ctx.step); }

  // Encodes this rank's input of the stage, and starts to send it.
  Work Send(nn::Context& ctx) {
    Stage& stage = stages_[at_];
    const int ranks = stage.group->size();
    const bool scatters = stage.kind == Stage::kScatter;
    size_ = SizeOf(ctx, stage.piece);
    const Encoded sent = NewEncoded(ctx, size_, scatters ? ranks * stage.pieces : 1);
    sent_bytes_ = sent.body.bytes() + sent.side.bytes();
    received_ = NewEncoded(ctx, size_, ranks * stage.pieces);
    Tensor in = std::exchange(value_, Tensor());
    if (stage.in > 0) in = stage.feedback.Add(ctx, in, scale_);
    for (int64_t i = 0; i < (scatters ? ranks * stage.pieces : 1); ++i) {
      const int64_t first = i * stage.piece, numel = scatters ? stage.PieceOf(i) : stage.in;
      if (numel == 0) continue;
      const int64_t place = i % ranks * stage.pieces + i / ranks;  // of the piece in its part, and of the part
      const Tensor& residual = stage.feedback.residual();
      codec_->Encode(ctx, in.Slice(first, numel), residual.empty() ? Tensor() : residual.Slice(first, numel),
                     At(sent, place, size_, SizeOf(ctx, numel)),
                     {.stage = static_cast<int>(at_), .first = stage.first + first, .round = round_});
    }
    stage.feedback.Encoded(ctx, scale_);
    const auto send = [&](Tensor& to, const Tensor& from) {
      return scatters ? stage.group->AllToAll(to, from) : stage.group->AllGather(to, from);
    };
    Work work = send(received_.body, sent.body);
    return sent.side.empty() ? work : send(received_.side, sent.side);  // a group's work runs in order
  }

  // Decodes what was received.
  void Receive(nn::Context& ctx) {
    Stage& stage = stages_[at_];
    const int ranks = stage.group->size();
    const bool gathers = stage.kind == Stage::kGather;
    if (!gathers) codec_->Scale(ctx, received_, 1.0 / ranks);
    const bool here = at_ + 1 == stages_.size() && !out_.empty() && (gathers || out_.dtype() == wide_);
    if (stage.out > 0) value_ = here ? out_ : ctx.device.NewTensor(Shape{stage.out}, wide_, Category::kCommunication);
    for (int64_t i = 0; i < ranks * stage.pieces; ++i) {
      const int64_t rank = i / stage.pieces, piece = i % stage.pieces;
      const int64_t numel = gathers ? stage.PieceOf(rank) : stage.out / stage.pieces;
      if (numel == 0) continue;
      codec_->Decode(ctx, At(received_, i, size_, SizeOf(ctx, numel)),
                     value_.Slice((gathers ? rank : piece) * stage.piece, numel), /*accumulate=*/!gathers && rank > 0);
    }
    received_ = {};
  }

  const DType wide_;  // of sums
  const std::unique_ptr<Codec> codec_;
  std::vector<Stage> stages_;
  std::vector<std::pair<int64_t, int64_t>> padding_;  // first element and count, in what this rank keeps
  int64_t round_ = 0;                                 // reductions of this step that are complete
  double scale_ = 1;                                  // the loss scale

  // Of the reduction in flight:
  size_t at_ = 0;  // the stage
  Tensor value_, out_;
  EncodedSize size_;  // of one encoded tensor of the stage
  Encoded received_;
  Bytes sent_bytes_;  // of what this rank has encoded
};

}  // namespace

MakeReducer CodedReducers(MakeCodec make_codec, FeedbackOptions feedback) {
  return [make_codec = std::move(make_codec), feedback](nn::Context& ctx, const Bucket& bucket) {
    return std::make_unique<CodedReducer>(ctx, bucket, make_codec, feedback);
  };
}

}  // namespace twofold
