// What members tell each other when they form a new generation, as bytes (core/proto/elastic.proto).
#pragma once

#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/proto/elastic.pb.h"
#include "core/run/rank_context.h"
#include "strategies/elastic/redistribute.h"

namespace twofold::elastic {

using PieceMessages = google::protobuf::RepeatedPtrField<PieceMessage>;

PieceMessages ToMessages(const Pieces& pieces);
Pieces FromMessages(const PieceMessages& messages);

// The messages of all members, by rank. Collective over the generation. Throws what RankContext::Exchange throws, and
// kOther if a member's bytes are no such message.
template <class Message>
std::vector<Message> ExchangeMessages(RankContext& ctx, const Message& mine) {
  std::vector<Message> all;
  for (const std::string& bytes : ctx.Exchange(mine.SerializeAsString())) {
    if (!all.emplace_back().ParseFromString(bytes))
      throw RankFailure(RankFailure::Kind::kOther, ctx.member(), "a member sent a description that cannot be read");
  }
  return all;
}

}  // namespace twofold::elastic
