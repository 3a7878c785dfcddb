// Of specs drawn at random over all fields, no bound of a plan is on the wrong side.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/strings.h"
#include "experiments/program/plan/worker.h"
#include "experiments/program/predict_here.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/training_data.h"
#include "tests/seed.h"
#include "tests/unit/plan/drawn_specs.h"

namespace twofold::plan {
namespace {

// All legal layouts of a drawn spec are alike in what was drawn; one of them is taken.
struct Drawn {
  Question question;
  Layout layout;
  spec::Spec spec;
};

std::optional<Drawn> DrawLegal(std::mt19937_64& random) {
  const test::DrawnSpec drawn = test::DrawSpec(random);
  std::string text;
  google::protobuf::TextFormat::PrintToString(drawn.spec, &text);
  const auto given = GivenSpec(text, "drawn", "simulated");
  if (!given.ok()) return std::nullopt;
  Drawn d{.question = {.given = *given, .file = "drawn", .ranks = drawn.ranks, .ranks_per_node = 8}};
  uint64_t seen = 0;
  Enumerate(d.question, {}, [&](const Layout& layout, const spec::Spec& spec) {
    if (random() % ++seen == 0) d.layout = layout, d.spec = spec;
  });
  return seen == 0 ? std::nullopt : std::optional(std::move(d));
}

struct Tally {
  int simulated = 0, too_large = 0, near = 0;  // near: a bound is above half of what is simulated
};

// False: the cluster refuses the spec, as MakePlan would.
bool Check(Drawn d, Tally& tally) {
  const auto data = LoadTrainingData(d.spec, "drawn");
  EXPECT_TRUE(data.ok()) << data.status();
  auto bounds = Bounds::Make(d.spec, data->samples());
  if (!bounds.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(bounds.status())) << bounds.status();
    return false;
  }
  Worker worker(d.question, **bounds, PredictSteps);
  const auto simulated = SimulatedFrom(worker.Do(Worker::CheckTask(d.layout)));
  EXPECT_TRUE(simulated.ok()) << simulated.status();
  if (!simulated.ok()) return true;
  const Simulated& s = *simulated;
  const Foretold& f = *s.foretold;
  // What only the cluster's library knows: an algorithm that it does not have for some collective.
  if (s.failed && absl::StrContains(s.message, ": fabric.simulated.")) return false;
  EXPECT_FALSE(s.failed) << s.message;
  if (!s.fits) return ++tally.too_large, true;
  ++tally.simulated;
  EXPECT_GT(s.seconds, 0);
  EXPECT_LE(f.quick, f.path * (1 + 1e-12));
  EXPECT_LE(f.path, s.seconds * (1 + 1e-9));
  EXPECT_LE(f.tight, s.seconds * (1 + 1e-9));
  EXPECT_LE(f.bytes, s.bytes);
  EXPECT_FALSE(f.too_large) << s.bytes << " bytes of " << (*bounds)->device_memory().value();
  const double share = std::max(f.path, f.tight) / s.seconds;
  if (share > 0.5) ++tally.near;
  return true;
}

TEST(DrawnSpecs, NoBoundIsOnTheWrongSide) {
  std::mt19937_64 random(TestSeed());
  Tally tally;
  const int wanted = Full() ? 2000 : 300;
  int drawn = 0, checked = 0;
  for (; checked < wanted && drawn < 20 * wanted; ++drawn) {
    const std::optional<Drawn> d = DrawLegal(random);
    if (!d) continue;
    std::string text;
    google::protobuf::TextFormat::PrintToString(d->question.given, &text);
    SCOPED_TRACE(StrCat(Describe(d->layout), " of ", d->question.ranks, " ranks\n", text));
    if (Check(*d, tally)) ++checked;
  }
  std::cout << StrCat(drawn, " specs drawn, ", checked, " legal, ", tally.simulated, " simulated, ", tally.too_large,
                      " too large, ", tally.near, " with a bound above half\n");
  EXPECT_EQ(checked, wanted);
  EXPECT_GT(tally.simulated, wanted / 2);
  EXPECT_GT(tally.too_large, wanted / 100);
  EXPECT_GT(tally.near, wanted / 2);  // a bound of nothing proves nothing
}

void Leaves(const google::protobuf::Descriptor& message, const std::string& prefix, int depth,
            std::vector<std::string>& leaves) {
  for (int i = 0; i < message.field_count(); ++i) {
    const auto& field = *message.field(i);
    const std::string path = StrCat(prefix, std::string(field.name()));
    const auto* inner = field.message_type();
    if (inner == nullptr || inner->field_count() == 0 || depth == 0)
      leaves.push_back(path);
    else
      Leaves(*inner, path + ".", depth - 1, leaves);
  }
}

TEST(DrawnSpecs, AreOfAllFields) {
  std::vector<std::string> leaves;
  Leaves(*spec::Spec::descriptor(), "", 6, leaves);
  const std::vector<std::string> fields = test::DrawnFields();
  const std::set<std::string> drawn(fields.begin(), fields.end());
  std::set<std::string> used;
  for (const std::string& leaf : leaves) {
    bool left_alone = false;
    for (const auto& [field, why] : test::FieldsLeftAlone()) {
      if (leaf == field || leaf.starts_with(field + ".")) left_alone = true, used.insert(field);
    }
    EXPECT_TRUE(left_alone || drawn.contains(leaf))
        << leaf << ": add a row to drawn_specs.cc, or say why it is left alone";
  }
  for (const auto& [field, why] : test::FieldsLeftAlone())
    EXPECT_TRUE(used.contains(field)) << field << " is no field any more";
}

}  // namespace
}  // namespace twofold::plan
