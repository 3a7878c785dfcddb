// The mean of gradients that travel encoded. A codec (codec.h) says how a tensor is encoded; this file says who sends
// what to whom:
//   * Ranks that keep a shard each (ZeRO): each rank encodes the N shards of its gradients, sends shard j to rank j
//     and averages what it receives. This is an all-to-all in place of a reduce-scatter.
//   * Ranks that all keep the mean (DDP): the same with N parts of the bucket. Then each rank encodes its part of the
//     mean, and all gather the parts (Tang et al. 2021, "1-bit Adam", section 3.2, compressed_allreduce). If the codec
//     does not encode sums, all gather what all have encoded, and average it.
//   * Ranks that keep a shard each and reduce in two stages (ReductionGroups::near): an all-to-all among the m near
//     ranks, of the N / m shards that ranks at their places keep; their means are encoded again, for a second one among
//     the far ranks (Wang et al. 2023, "ZeRO++", section 4.3). It takes no error feedback.
//   * Both (hybrid sharding): first the one, then the other on the shards.
//
// With N ranks, c(n) the bytes of n encoded elements and n elements in a bucket:
//   memory         error feedback (error_feedback.h) for n elements, and for n / N of a part of the mean. During a
//                  reduction the encoded messages that are sent and received, and the mean's part
//   communication  each rank sends (N - 1) c(n / N) bytes; if all keep the mean, twice that. Codecs that do not encode
//                  sums: (N - 1) c(n). In two stages: (m - 1) N / m c(n / N), and then (N / m - 1) c(n / N), the only
//                  bytes for far ranks
//   compute        n elements encoded and n decoded; if all keep the mean, also n / N encoded and n decoded.
//                  Codecs that do not encode sums: n encoded, N n decoded
// Means differ from those of uncompressed gradients, but all ranks that keep an element keep the same value.
#pragma once

#include "strategies/compression/codec.h"
#include "strategies/compression/error_feedback.h"
#include "strategies/data_parallel/reducer.h"

namespace twofold {

MakeReducer CodedReducers(MakeCodec make_codec, FeedbackOptions feedback);

}  // namespace twofold
