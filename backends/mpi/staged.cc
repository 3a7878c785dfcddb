#include "backends/mpi/staged.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold::mpi {
namespace {

constexpr int64_t kLine = 64;  // alignment of the two sides; a message's piece is preceded by its size

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// ---- Collectives ----

struct Copy {
  std::byte *to, *from;
  int64_t bytes;
};
struct Piece {
  Collective collective;
  std::vector<Copy> down, up;
};

// A collective split into pieces of all its blocks.
class Pieces {
 public:
  Pieces(const Communication& c, const Operands& at, const Channel& channel, int64_t bytes)
      : kind_(c.kind), in_(at.in), out_(at.out), op_(c.op), root_(c.peer), rank_(channel.rank), size_(channel.size) {
    const bool from_in = kind_ == Communication::kAllGather || kind_ == Communication::kGather;
    block_ = from_in ? in_.count : kind_ == Communication::kAllToAll ? out_.count / size_ : out_.count;
    element_ = ElementSize(from_in ? in_.dtype : out_.dtype);
    most_ = (bytes - kLine) / (element_ * BlocksOfARank());
    TWOFOLD_CHECK_GE(most_, 1);
  }
  int64_t count() const { return CeilDiv(block_, most_); }

  // Piece number `k`, in `memory`.
  Piece At(int64_t k, std::byte* memory) const {
    const int64_t first = k * most_, count = std::min(most_, block_ - first);
    Piece piece;
    const auto side = [&](const Elements& of, int blocks) {
      const Elements staged(memory, blocks * count, of.dtype);
      memory += CeilDiv(blocks * count * element_, kLine) * kLine;
      return staged;
    };
    // The piece's part of block b on the device, and its staged copy.
    const auto on_device = [&](const Elements& e, int b) { return e.At(b * block_ + first); };
    const auto staged = [&](const Elements& e, int b) { return e.At(b * count); };
    const auto down = [&](const Elements& to, int to_block, const Elements& from, int from_block) {
      piece.down.push_back({staged(to, to_block), on_device(from, from_block), count * element_});
    };
    const auto up = [&](const Elements& to, int to_block, const Elements& from, int from_block) {
      piece.up.push_back({on_device(to, to_block), staged(from, from_block), count * element_});
    };
    // `whole` holds P blocks at this rank; `own` is, or will become, this rank's block of it.
    const auto up_but_own = [&](const Elements& whole, const Elements& own, const Elements& from) {
      for (int b = 0; b < size_; ++b) {
        if (b != rank_ || whole.At(b * block_) != own.data) up(whole, b, from, b);
      }
    };
    Elements in, out;
    switch (kind_) {
      case Communication::kAllReduce:
      case Communication::kReduce:
      case Communication::kBroadcast:
        in = out = side(out_, 1);
        if (kind_ != Communication::kBroadcast || rank_ == root_) down(out, 0, out_, 0);
        if (kind_ == Communication::kAllReduce || (rank_ == root_) == (kind_ == Communication::kReduce))
          up(out_, 0, out, 0);
        break;
      case Communication::kAllGather:
      case Communication::kGather:
        if (kind_ == Communication::kGather && rank_ != root_) {
          in = side(in_, 1);
          down(in, 0, in_, 0);
          break;
        }
        out = side(out_, size_);
        in = Elements(staged(out, rank_), count, out.dtype);
        down(in, 0, in_, 0);
        up_but_own(out_, in_, out);
        break;
      case Communication::kScatter:
        if (rank_ != root_) {
          out = side(out_, 1);
          up(out_, 0, out, 0);
          break;
        }
        in = side(in_, size_);
        out = Elements(staged(in, rank_), count, in.dtype);
        for (int b = 0; b < size_; ++b) down(in, b, in_, b);
        if (in_.At(rank_ * block_) != out_.data) up(out_, 0, out, 0);
        break;
      case Communication::kReduceScatter:
        in = side(in_, size_), out = side(out_, 1);
        for (int b = 0; b < size_; ++b) down(in, b, in_, b);
        up(out_, 0, out, 0);
        break;
      case Communication::kAllToAll:
        in = side(in_, size_), out = side(out_, size_);
        for (int b = 0; b < size_; ++b) down(in, b, in_, b), up(out_, b, out, b);
        break;
      default: TWOFOLD_CHECK(false, StrCat(KindName(kind_), " is not a collective of equal blocks"));
    }
    piece.collective = {kind_, in, out, op_, root_};
    return piece;
  }

 private:
  // The largest number of blocks that any rank must stage, since pieces must be equal on all ranks.
  int BlocksOfARank() const {
    switch (kind_) {
      case Communication::kAllGather:
      case Communication::kGather:
      case Communication::kScatter: return size_;
      case Communication::kReduceScatter: return size_ + 1;
      case Communication::kAllToAll: return 2 * size_;
      default: return 1;
    }
  }

  const Communication::Kind kind_;
  const Elements in_, out_;
  const ReduceOp op_;
  const int root_, rank_, size_;
  int64_t block_ = 0, most_ = 0;  // elements of a block, and of one piece of a block
  int64_t element_ = 1;           // bytes
};

// Uses one stream, so that a piece is copied down only after the last-but-one piece, whose memory it reuses, has been
// copied up.
void InPieces(const Communication& c, const Operands& operands, const Channel& channel, host::Mover& mover,
              std::span<std::byte> memory) {
  const int64_t half = static_cast<int64_t>(memory.size()) / 2;
  const Pieces pieces(c, operands, channel, half);
  const std::unique_ptr<host::Mover> on_host = host::MakeHostMover();
  std::array<Piece, 2> piece;
  std::array<Event, 2> is_down;
  const auto begin = [&](int64_t k) {
    const auto at = static_cast<size_t>(k % 2);
    piece[at] = pieces.At(k, memory.data() + (k % 2) * half);
    for (const Copy& copy : piece[at].down) mover.Copy(copy.to, copy.from, copy.bytes);
    is_down[at] = mover.Record();
  };
  for (int64_t k = 0; k < pieces.count(); ++k) {
    if (k == 0) begin(0);
    if (k + 1 < pieces.count()) begin(k + 1);
    const auto at = static_cast<size_t>(k % 2);
    is_down[at].Wait();
    Communicate(piece[at].collective, channel, *on_host);
    for (const Copy& copy : piece[at].up) mover.Copy(copy.to, copy.from, copy.bytes);
  }
}

// ---- Messages ----

struct Message {
  P2p::Kind kind;
  std::byte* data;
  int64_t bytes;
  int peer;  // for a receive from any source: the sender, once known
  Tag tag;
};

// The messages of one call, all in flight together. If two could be mistaken for each other, the second starts when the
// first is done, on both sides, so that their pieces arrive in order.
class Exchange {
 public:
  // `what` is the prefix of errors.
  Exchange(std::span<Message> messages, const Channel& channel, host::Mover& mover, std::span<std::byte> memory,
           int64_t slot, std::string_view what)
      : channel_(channel), mover_(mover), slot_(slot), payload_(slot - kLine), what_(what) {
    const int64_t slots = static_cast<int64_t>(memory.size()) / slot,
                  window = slots / static_cast<int64_t>(messages.size());
    TWOFOLD_CHECK_GE(window, 1);
    for (Message& m : messages)
      lines_.push_back({.message = &m, .pieces = std::max<int64_t>(1, CeilDiv(m.bytes, payload_))});
    for (size_t s = 0; s < lines_.size() * static_cast<size_t>(window); ++s) {
      places_.push_back({.memory = memory.data() + static_cast<int64_t>(s) * slot});
    }
    window_ = static_cast<size_t>(window);
    requests_.assign(places_.size(), MPI_REQUEST_NULL);
    finished_.resize(places_.size());
    statuses_.resize(places_.size());
  }

  void Run() {
    while (true) {
      bool through = true;
      for (size_t l = 0; l < lines_.size(); ++l) {
        through = through && lines_[l].through();
        if (MayBegin(l)) BeginPieces(l);
      }
      if (through) return;
      if (!copied_.empty())
        Send();
      else
        AwaitSome();
    }
  }

 private:
  struct Line {
    Message* message;
    int64_t pieces, begun = 0, done = 0;
    bool through() const { return done == pieces; }
  };
  // A buffer for one piece at a time.
  struct Place {
    std::byte* memory;
    bool busy = false;
    int64_t piece = 0;
    Event copied = Event();  // copied down or up
  };

  static bool Alike(const Message& a, const Message& b) {
    return a.kind == b.kind && a.tag == b.tag && (a.peer == b.peer || a.peer == kAnySource || b.peer == kAnySource);
  }
  bool MayBegin(size_t l) const {
    if (lines_[l].begun == lines_[l].pieces) return false;
    return std::none_of(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(l), [&](const Line& before) {
      return !before.through() && Alike(*before.message, *lines_[l].message);
    });
  }
  int64_t BytesOf(const Line& line, int64_t piece) const {
    return std::min(payload_, line.message->bytes - piece * payload_);
  }

  void BeginPieces(size_t l) {
    Line& line = lines_[l];
    const Message& m = *line.message;
    for (; line.begun < line.pieces; ++line.begun) {
      if (m.peer == kAnySource && line.begun > 0) return;  // the rest comes from the sender of the first
      const size_t p = l * window_ + static_cast<size_t>(line.begun) % window_;
      Place& place = places_[p];
      if (place.busy) return;
      place.busy = true, place.piece = line.begun;
      if (m.kind == P2p::kSend) {
        mover_.Copy(place.memory + kLine, m.data + line.begun * payload_, BytesOf(line, line.begun));
        place.copied = mover_.Record();
        copied_.push_back(p);
        continue;
      }
      place.copied.Wait();
      Check(MPI_Irecv(place.memory, static_cast<int>(slot_), MPI_BYTE, m.peer == kAnySource ? MPI_ANY_SOURCE : m.peer,
                      m.tag, channel_.comm, &requests_[p]),
            "MPI_Irecv");
    }
  }

  // Sends the first of the pieces that are being copied down.
  void Send() {
    const size_t p = copied_.front();
    copied_.pop_front();
    const Line& line = lines_[p / window_];
    const Message& m = *line.message;
    places_[p].copied.Wait();
    std::memcpy(places_[p].memory, &m.bytes, sizeof m.bytes);
    Check(MPI_Isend(places_[p].memory, static_cast<int>(kLine + BytesOf(line, places_[p].piece)), MPI_BYTE, m.peer,
                    m.tag, channel_.comm, &requests_[p]),
          "MPI_Isend");
  }

  void AwaitSome() {
    int count = 0;
    const int code =
        MPI_Waitsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(), statuses_.data());
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; ++i)
      Check(statuses_[static_cast<size_t>(i)].MPI_ERROR, "MPI_Waitsome");
    Check(code, "MPI_Waitsome");
    TWOFOLD_CHECK(count != MPI_UNDEFINED, "at least one piece is in flight");
    for (int i = 0; i < count; ++i) {
      const auto p = static_cast<size_t>(finished_[static_cast<size_t>(i)]);
      if (lines_[p / window_].message->kind == P2p::kRecv) Received(p, statuses_[static_cast<size_t>(i)]);
      places_[p].busy = false;
      ++lines_[p / window_].done;
    }
  }

  void Received(size_t p, const MPI_Status& status) {
    const Line& line = lines_[p / window_];
    Place& place = places_[p];
    int64_t whole = 0;
    int came = 0;
    std::memcpy(&whole, place.memory, sizeof whole);
    MPI_Get_count(&status, MPI_BYTE, &came);
    const int64_t bytes = BytesOf(line, place.piece);
    if (whole != line.message->bytes || came != kLine + bytes) {
      throw SizeMismatch(StrCat(what_, "a message of ", whole, " bytes came from rank ", status.MPI_SOURCE,
                                " of the group with tag ", status.MPI_TAG, ", but ", line.message->bytes,
                                " were expected"));
    }
    line.message->peer = status.MPI_SOURCE;
    mover_.Copy(line.message->data + place.piece * payload_, place.memory + kLine, bytes);
    place.copied = mover_.Record();
  }

  const Channel& channel_;
  host::Mover& mover_;
  const int64_t slot_, payload_;
  const std::string_view what_;
  std::vector<Line> lines_;
  size_t window_ = 1;                  // places per line
  std::vector<Place> places_;          // line by line
  std::vector<MPI_Request> requests_;  // by place
  std::deque<size_t> copied_;          // places whose piece is being copied down
  std::vector<int> finished_;
  std::vector<MPI_Status> statuses_;
};

Message MessageOf(P2p::Kind kind, const Elements& e, int peer, Tag tag) {
  return {.kind = kind, .data = e.data, .bytes = e.count * ElementSize(e.dtype), .peer = peer, .tag = tag};
}

// Pairwise exchange; a rank's data for itself is not staged.
void AllToAllV(const Communication& c, const Operands& at, const Channel& channel, host::Mover& mover,
               std::span<std::byte> memory, int64_t slot) {
  const Elements &in = at.in, &out = at.out;
  const std::vector<int64_t> from = Places(c.in_counts), to = Places(c.out_counts);
  const auto message = [&](P2p::Kind kind, const Elements& e, const std::vector<int64_t>& places, int peer) {
    const auto p = static_cast<size_t>(peer);
    return Message{.kind = kind,
                   .data = e.At(places[p]),
                   .bytes = (places[p + 1] - places[p]) * ElementSize(e.dtype),
                   .peer = peer,
                   .tag = kCollectiveTag};
  };
  const Message own = message(P2p::kSend, in, from, channel.rank);
  mover.Copy(message(P2p::kRecv, out, to, channel.rank).data, own.data, own.bytes);
  for (int s = 1; s < channel.size; ++s) {
    Message both[] = {message(P2p::kSend, in, from, (channel.rank + s) % channel.size),
                      message(P2p::kRecv, out, to, (channel.rank - s + channel.size) % channel.size)};
    Exchange(both, channel, mover, memory, slot, "all_to_all_v: ").Run();
    mover.Record().Wait();  // the next step's messages use the same memory
  }
}

}  // namespace

int CommunicateStaged(const Communication& c, const Operands& at, const Channel& channel, host::Mover& mover,
                      const Event& after, std::span<std::byte> memory, int64_t slot) {
  if (c.kind == Communication::kBarrier) {
    after.Wait();
    return Communicate(c, at, channel, mover);
  }
  if (c.kind == Communication::kAllToAllV) {
    AllToAllV(c, at, channel, mover, memory, slot);
    return -1;
  }
  if (c.is_collective()) {
    InPieces(c, at, channel, mover, memory);
    return -1;
  }
  std::vector<Message> messages;
  if (c.kind == Communication::kSend) messages.push_back(MessageOf(P2p::kSend, at.in, c.peer, c.tag));
  if (c.kind == Communication::kRecv) messages.push_back(MessageOf(P2p::kRecv, at.out, c.peer, c.tag));
  for (size_t i = 0; i < c.batch.size(); ++i)
    messages.push_back(MessageOf(c.batch[i].kind, at.batch[i], c.batch[i].peer, c.batch[i].tag));
  Exchange(messages, channel, mover, memory, slot, "").Run();
  return c.kind == Communication::kRecv ? messages[0].peer : -1;
}

}  // namespace twofold::mpi
