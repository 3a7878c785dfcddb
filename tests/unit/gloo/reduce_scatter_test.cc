// reduce_scatter by pairwise exchange. Each rank is a thread with a transport of its own.
#include "backends/gloo/reduce_scatter.h"

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/tensor/dtype.h"
#include "kernels/cpu/convert.h"
#include "tests/unit/gloo/meeting.h"

namespace twofold::gloo {
namespace reduce_scatter_test {

// Runs `body` on each of `size` connected ranks.
void OnRanks(int size, const std::function<void(int rank, const ContextPtr&)>& body) {
  const auto abortion = std::make_shared<Abortion>();
  Meeting meeting(size), end(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      const auto exchange = [&](std::string bytes) { return meeting.Exchange(r, std::move(bytes)); };
      const ContextPtr context = Connect(r, size, exchange, MakeTransport(true, ""), abortion, 60);
      body(r, context);
      end.Exchange(r, "");  // a context that goes away resets its connections
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// What rank `rank` gives: values whose sums are exact in F32, and differ by rank, element and call.
std::vector<float> Given(int rank, int64_t count, int call) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>((i * 7 + rank * 1000 + call * 13) % 8191);
  return values;
}

float Sum(int size, int64_t index, int call) {
  float sum = 0;
  for (int r = 0; r < size; ++r) sum += static_cast<float>((index * 7 + r * 1000 + call * 13) % 8191);
  return sum;
}

// Calls of many sizes follow each other: one element; parts that are full, and not; more parts than may be sent ahead.
void ExpectSums(int size, bool in_place) {
  const std::vector<int64_t> counts = {1, 3'000'001, 5, 262'144, 2'500'000, 262'145, 700'000, 2};
  OnRanks(size, [&](int rank, const ContextPtr& context) {
    ReduceScatter reduce_scatter;
    for (int call = 0; call < static_cast<int>(counts.size()); ++call) {
      const int64_t block = counts[static_cast<size_t>(call)] / (size - 1) + 1;
      std::vector<float> in = Given(rank, block * size, call), apart(static_cast<size_t>(block));
      float* const out = in_place ? in.data() + rank * block : apart.data();
      reduce_scatter({reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out), block * 4,
                      DType::kF32, ReduceOp::kSum},
                     context);
      int64_t wrong = 0;
      for (int64_t i = 0; i < block; ++i) wrong += out[i] != Sum(size, rank * block + i, call);
      EXPECT_EQ(wrong, 0) << "rank " << rank << ", call " << call << ", block of " << block;
    }
  });
}

TEST(ReduceScatterTest, TwoRanks) { ExpectSums(2, false); }
TEST(ReduceScatterTest, FourRanks) { ExpectSums(4, false); }
TEST(ReduceScatterTest, FiveRanksInPlace) { ExpectSums(5, true); }

// 1 and seven times 2^-8, the half of BF16's step: F32 sums keep the small values, a sum rounded at every step loses
// them.
TEST(ReduceScatterTest, RoundsBf16Once) {
  constexpr int kSize = 8;
  OnRanks(kSize, [](int rank, const ContextPtr& context) {
    const std::vector<float> values(kSize, rank == 0 ? 1.0f : 1.0f / 256);
    std::vector<uint16_t> in(kSize), out(1);
    cpu::Convert(values.data(), DType::kF32, in.data(), DType::kBF16, kSize);
    ReduceScatter reduce_scatter;
    reduce_scatter({reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()), 2,
                    DType::kBF16, ReduceOp::kSum},
                   context);
    float sum = 0;
    cpu::Convert(out.data(), DType::kBF16, &sum, DType::kF32, 1);
    EXPECT_EQ(sum, 1.03125f);  // 1 + 7/256, rounded to the even multiple of 2^-7
  });
}

}  // namespace reduce_scatter_test
}  // namespace twofold::gloo
