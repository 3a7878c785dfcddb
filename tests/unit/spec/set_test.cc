// --set: which fields it reaches, in what order, and what is wrong with others.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"
#include "tests/unit/spec/resolved.h"

namespace twofold {
namespace set_test {

using namespace resolved;
using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Set, ReachesEveryKindOfField) {
  const spec::Spec spec =
      Resolved(kMinimal, "",
               {"model.gpt.layers=6", "train.optimizer.adamw.lr=1e-3", "train.seed=18446744073709551615",
                "fabric.simulated.data=REAL", "train.shuffle=false", "name= with spaces ",
                "train.schedule.cosine={ decay_steps: 9 }", "parallel.sharding=NO_SHARD"});
  EXPECT_EQ(spec.model().gpt().layers(), 6);
  EXPECT_DOUBLE_EQ(spec.train().optimizer().adamw().lr(), 1e-3);
  EXPECT_EQ(spec.train().seed(), ~uint64_t{0});
  EXPECT_EQ(spec.fabric().simulated().data(), spec::Simulated::REAL);
  EXPECT_FALSE(spec.train().shuffle());
  EXPECT_EQ(spec.name(), "with spaces");
  EXPECT_EQ(spec.train().schedule().cosine().decay_steps(), 9);
}

TEST(Set, ReplacesLists) {
  EXPECT_THAT(Resolved(kMlp, "", {"model.mlp.hidden=8, 16,32"}).model().mlp().hidden(), ElementsAre(8, 16, 32));
  EXPECT_THAT(Resolved(kMlp, "", {"model.mlp.hidden=[8, 16]"}).model().mlp().hidden(), ElementsAre(8, 16));
  EXPECT_THAT(Resolved(kMlp, "", {"device=CUDA", "cuda.gpus=[1,0]"}).cuda().gpus(), ElementsAre(1, 0));
  for (const char* none : {"model.mlp.hidden=", "model.mlp.hidden=[ ]"}) {
    EXPECT_THAT(Resolved(kMlp, "", {none}).model().mlp().hidden(), ElementsAre());
  }
}

TEST(Set, AppliesInOrderAfterPresetAndFabric) {
  const spec::Spec spec =
      Resolved(kMinimal, "in_memory", {"train.steps=3", "train.steps=4", "fabric.in_memory.link_gbps=2"});
  EXPECT_EQ(spec.train().steps(), 4);
  EXPECT_EQ(spec.fabric().in_memory().link_gbps(), 2);
  EXPECT_THAT(Refused(kMinimal, "simulated", {"fabric.in_memory={}"}),
              HasSubstr("contradicts --fabric=simulated; leave one out"));
}

TEST(Set, APresetReplacesTheModelAndLeavesOtherSettings) {
  const spec::Spec spec = Resolved(kMinimal, "", {"model.gpt.layers=3", "model.preset=gpt2-350m"});
  EXPECT_EQ(spec.model().gpt().layers(), 3);
  EXPECT_EQ(spec.model().gpt().hidden(), 1024);
  EXPECT_TRUE(Resolved(kMlp, "", {"model.preset=gpt-3m"}).model().has_gpt());
}

TEST(Set, TakesAModelAsABlock) {
  const spec::Spec preset = Resolved(kMinimal, "", {"model={preset: \"gpt2-350m\"}"});
  EXPECT_EQ(preset.model().gpt().hidden(), 1024);
  EXPECT_EQ(preset.model().preset(), "gpt2-350m");
  EXPECT_TRUE(Resolved(kMlp, "", {"model={ preset: \"llama-3m\" }"}).model().has_llama())
      << "of another kind than the file's";
  EXPECT_TRUE(Resolved("model { preset: \"llama-3m\" }", "", {"model={ preset: \"gpt-3m\" }"}).model().has_gpt());
  EXPECT_EQ(Resolved(kMlp, "", {"model.gpt.layers=2", "model={ preset: \"gpt-3m\" }"}).model().gpt().layers(), 2)
      << "sizes count after it, as after model.preset";
  EXPECT_EQ(Resolved(kMinimal, "", {"model={ preset: \"gpt-3m\" gpt { layers: 3 } }"}).model().gpt().layers(), 3);
  EXPECT_THAT(Resolved("model { preset: \"gpt-3m\" }", "",
                       {"model={ mlp { inputs: 4 hidden: 8 classes: 3 } }", "data={ synthetic {} }"})
                  .model()
                  .mlp()
                  .hidden(),
              ElementsAre(8));
  EXPECT_THAT(Refused(kMinimal, "", {"model={ preset: \"gpt5\" }"}),
              testing::StartsWith("--set model={ preset: \"gpt5\" }: model.preset: \"gpt5\" is not a preset"));
}

TEST(Set, AListEmptiedByHandStaysEmptyWhenWrittenOut) {
  const spec::Spec spec = Resolved("model { preset: \"mlp-small\" }", "", {"model.mlp.hidden="});
  EXPECT_THAT(Resolved(SpecToText(spec)).model().mlp().hidden(), ElementsAre());
}

TEST(Set, SaysWhatIsWrong) {
  EXPECT_THAT(Refused(kMinimal, "", {"train.stepz=4"}),
              AllOf(HasSubstr("--set train.stepz=4: train.stepz:"), HasSubstr("did you mean steps?")));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps=four"}), AllOf(HasSubstr("\"four\""), HasSubstr("a whole number")));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps=1e3"}), HasSubstr("a whole number"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps=99999999999999999999"}),
              HasSubstr("\"99999999999999999999\" is not valid; use a whole number from -9223372036854775808 to "
                        "9223372036854775807"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.precision.parameter=FP8"}),
              AllOf(HasSubstr("known: F32, F64, BF16, F16"), Not(HasSubstr("U8"))));
  EXPECT_THAT(Refused(kMinimal, "", {"train.precision.buffer=FP8"}),
              AllOf(HasSubstr("known: F32, F64"), Not(HasSubstr("16"))));
  EXPECT_THAT(Refused(std::string(kMinimal) + " train { precision { buffer: FP8 } }"),
              AllOf(HasSubstr("known: F32, F64"), Not(HasSubstr("16"))));
  EXPECT_THAT(Refused(std::string(kMinimal) + " train { precision { buffer: \"F32\" } }"),
              AllOf(HasSubstr("one of F32, F64"), Not(HasSubstr("16"))));
  EXPECT_THAT(Refused(kMinimal, "", {"train.shuffle=maybe"}), HasSubstr("true or false"));
  EXPECT_THAT(Refused(kMinimal, "", {"fabric.simulated.data=REEL"}), HasSubstr("did you mean REAL?"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps.more=1"}), HasSubstr("not a block"));
  EXPECT_THAT(Refused(kMinimal, "", {"train=5"}), HasSubstr("a block { ... }"));
  EXPECT_THAT(Refused(kMinimal, "", {"train={ stepz: 5 }"}), HasSubstr("stepz"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps"}), HasSubstr("path=value"));
  EXPECT_THAT(Refused(kMinimal, "", {"=5"}), HasSubstr("path=value"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps="}), HasSubstr("a whole number"));
  EXPECT_THAT(Refused(kMlp, "", {"model.mlp.hidden=8,,9"}), HasSubstr("a whole number"));
  EXPECT_THAT(Refused(kMlp, "", {"model.mlp.hidden=[8, 9"}),
              AllOf(HasSubstr("\"[8\" is not valid; use a whole number"), HasSubstr("8,16 or [8, 16]")));
  EXPECT_THAT(Refused(kMlp, "", {"device=CUDA", "cuda.gpus=4294967296"}), HasSubstr("a whole number"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.optimizer.adamw.lr=-1"}), HasSubstr("train.optimizer.adamw.lr: -1"));
}

TEST(Set, IsNamedForTheValuesItWrote) {
  const std::string steps =
      Refused(std::string(kMinimal) + " train { steps: 4 }", "", {"train.steps=2", "train.steps=-1"});
  EXPECT_THAT(steps, testing::StartsWith("--set train.steps=-1: train.steps: -1 is out of range"));
  EXPECT_THAT(
      Refused(std::string(kMinimal) + " parallel { tp: 4 }", "", {"parallel.dp=1048576", "fabric.in_memory={}"}),
      HasSubstr("--set parallel.dp=1048576: parallel: pp * dp * cp * tp"));
  EXPECT_THAT(Refused(kMinimal, "", {"train={ steps: -1 }"}),
              testing::StartsWith("--set train={ steps: -1 }: train.steps: -1"));
  EXPECT_THAT(Refused(kMinimal, "", {"model.preset=gpt5"}),
              testing::StartsWith(
                  "--set model.preset=gpt5: model.preset: \"gpt5\" is not a preset; did you mean gpt-3m or gpt2"));
  EXPECT_THAT(Refused(std::string(kMinimal) + " train { steps: -1 }", "", {"train.seed=1"}), Not(HasSubstr("--set")));
}

TEST(Set, TakesListsOfBlocks) {
  const auto factors = [](const std::string& list) {
    const spec::Spec spec = Resolved(kMinimal, "simulated", {"parallel.dp=4", "fabric.simulated.stragglers=" + list});
    std::vector<double> all;
    for (const spec::Straggler& s : spec.fabric().simulated().stragglers()) all.push_back(s.factor());
    return all;
  };
  EXPECT_THAT(factors("{rank: 1 factor: 2}"), ElementsAre(2));
  EXPECT_THAT(factors("[{rank: 1 factor: 2}, {rank: 3, factor: 4}]"), ElementsAre(2, 4));
  EXPECT_THAT(factors("[]"), ElementsAre());
  EXPECT_THAT(Refused(kMinimal, "simulated", {"fabric.simulated.stragglers.rank=1"}),
              HasSubstr("\"stragglers\" is a list of blocks; set all of it: stragglers=[{ ... }, { ... }]"));
  EXPECT_THAT(Refused(kMinimal, "simulated", {"fabric.simulated.stragglers=[{rank: 1}, 7]"}),
              HasSubstr("use a block { ... } with the fields"));
  EXPECT_THAT(Refused(kMinimal, "simulated", {"fabric.simulated.stragglers={rnk: 1}"}), HasSubstr("rnk"));
  EXPECT_THAT(Refused(kMinimal, "", {"train={ steps: 5 } parallel { dp: 2 }"}),
              HasSubstr("use a block { ... } with the fields"));
}

TEST(Set, TakesTextWithAndWithoutQuotes) {
  EXPECT_EQ(Resolved(kMinimal, "", {"name=\"a b\""}).name(), "a b");
  EXPECT_EQ(Resolved(kMinimal, "", {"name='a b'"}).name(), "a b");
  EXPECT_EQ(Resolved(kMinimal, "", {"name=a'b'"}).name(), "a'b'");
}

TEST(Set, ARefusedAssignmentLeavesTheSpecAsItWas) {
  spec::Spec spec = Resolved(kMlp);
  const spec::Spec before = spec;
  EXPECT_FALSE(ApplySet(spec, "model.mlp.hidden=8,x").ok());
  EXPECT_FALSE(ApplySet(spec, "fabric.simulated.data=REEL").ok());
  EXPECT_TRUE(MessageDifferencer::Equals(spec, before));
}

}  // namespace set_test
}  // namespace twofold
