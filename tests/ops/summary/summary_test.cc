#include "ops/summary.h"
#include "ops/builtin_ops.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "framework/io/event_file.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/framework/io/event_reader.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class SummaryTest : public testing::Test {
 protected:
  Session& session() {
    if (session_ == nullptr) {
      session_ = ValueOf(Session::Create(graph_, devices_));
    }
    return *session_;
  }
  FetchedSummaries Read(const std::vector<Output>& summaries, const std::vector<Tensor>& values,
                        TowerSummaries towers = TowerSummaries::kMean) {
    return ValueOf(ReadSummaries(summaries, values, towers));
  }
  // The summary as read from an event file.
  static std::vector<io::SummaryValue> Parsed(const io::Summary& summary) {
    // An event whose only field, number 5, is the summary.
    std::string event = "\x2a";
    for (size_t size = summary.bytes().size(); true; size >>= 7) {
      event.push_back(static_cast<char>((size & 0x7F) | (size > 0x7F ? 0x80 : 0)));
      if (size <= 0x7F) break;
    }
    const auto file = io::ParseEventFile(io::FrameRecord(event + summary.bytes()));
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() && !file->events.empty() ? file->events[0].values : std::vector<io::SummaryValue>();
  }
  void ExpectFailure(const Output& output, const std::string& text) {
    EXPECT_FALSE(output.valid());
    EXPECT_THAT(graph_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }

  const DeviceSet devices_ = DeviceSet::Open("cpu:2").value();
  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
  std::unique_ptr<Session> session_;
};

// The name scope of a tower is not shown; what only looks like one is.
TEST_F(SummaryTest, TagsAreShownWithoutTheirTower) {
  const auto shown = [&](const Scope& scope, absl::string_view tag) {
    const Output summary = ScalarSummary(scope, tag, Const(scope, 1.f));
    const FetchedSummaries fetched = Read({summary}, {Tensor::Scalar(1.f)});
    return fetched.scalars.empty() ? "none" : fetched.scalars[0].first;
  };
  EXPECT_EQ(shown(root_.NameScope("tower_0").InTower(0).NameScope("conv1"), "loss"), "conv1/loss");
  EXPECT_EQ(shown(root_.NameScope("train/tower_12").InTower(12), "loss"), "train/loss");
  EXPECT_EQ(shown(root_.NameScope("replica").InTower(1).NameScope("tower_2"), "x"), "tower_2/x");
  EXPECT_EQ(shown(root_, "lost"), "lost");
  EXPECT_EQ(shown(root_.NameScope("tower_1a"), "x"), "tower_1a/x");
  EXPECT_EQ(shown(root_.NameScope("my_tower_1"), "x"), "my_tower_1/x");
  EXPECT_EQ(shown(root_.NameScope("tower_3"), "x"), "tower_3/x");  // of no tower
  EXPECT_EQ(shown(root_.NameScope("y"), "tower_1"), "y/tower_1");
  EXPECT_EQ(shown(root_, ""), "");

  // One that is added beside a tower shows the tower's tensor.
  const Output inside = Const(root_.NameScope("tower_5").InTower(5).Named("inside"), 1.f);
  const Output beside = ScalarSummary(root_, inside.node->name(), inside);
  EXPECT_EQ(Read({beside}, {Tensor::Scalar(1.f)}).scalars[0].first, "inside");
}

TEST_F(SummaryTest, PassesItsInputOnAndIsCollected) {
  const Scope tower = root_.NameScope("tower_0");
  const Output x = Const(tower, {1.f, 2.f, 6.f});
  const Output scalar = ScalarSummary(tower, "mean", Mean(tower, x));
  const Output histogram = HistogramSummary(tower, "values", x);
  EXPECT_EQ(scalar.name(), "tower_0/mean/ScalarSummary:0");
  EXPECT_EQ(histogram.shape(), Shape({3}));
  EXPECT_THAT(graph_.GetCollection(kSummaries, "tower_0"), ElementsAre(scalar, histogram));
  EXPECT_THAT(graph_.GetCollection(kSummaries, "tower_1"), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto values, session().Run({scalar, histogram}));
  EXPECT_EQ(values[0].scalar<float>(), 3);
  EXPECT_THAT(values[1].ToDoubles(), ElementsAre(1, 2, 6));
}

TEST_F(SummaryTest, TheGradientPasses) {
  const Output x = Const(root_, 3.f);
  const Output y = Square(root_, ScalarSummary(root_, "x", x));
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(root_, {y}, {x}));
  EXPECT_EQ(session().Run({gradients[0]}).value()[0].scalar<float>(), 6);
}

TEST_F(SummaryTest, NothingRunsForIt) {
  const Output x = Placeholder(root_, DType::kFloat32, {4});
  const Output y = Exp(root_, Exp(root_, HistogramSummary(root_, "x", Exp(root_, x))));
  ASSERT_OK_AND_ASSIGN(const auto step, session().Prepare({{x, {4}}}, {y}));
  int runs = 0;
  for (const StreamProgram& stream : step->plan().streams) {
    for (const Instruction& instruction : stream.instructions) runs += instruction.kind == Instruction::Kind::kRun;
  }
  EXPECT_EQ(runs, 3);
}

TEST_F(SummaryTest, AnyTagIsFineAndTagsAreUnique) {
  const Output x = Const(root_, 1.f);
  const std::vector<Output> summaries = {
      ScalarSummary(root_, "a b: c\xc3\xa9", x), ScalarSummary(root_, "_x/", x),     ScalarSummary(root_, "", x),
      ScalarSummary(root_, "same", x),           HistogramSummary(root_, "same", x), ScalarSummary(root_, "same", x)};
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  std::vector<std::string> tags;
  for (const auto& value : Parsed(Read(summaries, std::vector<Tensor>(6, Tensor::Scalar(1.f))).summary)) {
    tags.push_back(value.tag);
  }
  EXPECT_THAT(tags, ElementsAre("a b: c\xc3\xa9", "_x/", "", "same", "same_1", "same_2"));
}

TEST_F(SummaryTest, AScalarIsNoVector) {
  ExpectFailure(ScalarSummary(root_, "x", Const(root_, {1.f, 2.f})), "x is [2], not a scalar");
}
TEST_F(SummaryTest, AnImageHasOneThreeOrFourChannels) {
  ExpectFailure(ImageSummary(root_, "x", Placeholder(root_, DType::kFloat32, {-1, 8, 8, 2})), "x has 2 channels");
}
TEST_F(SummaryTest, AnImageHasThreeOrFourAxes) {
  ExpectFailure(ImageSummary(root_, "x", Placeholder(root_, DType::kFloat32, {8, 3})), "[N, H, W, C] or [H, W, C]");
}
TEST_F(SummaryTest, OneImageAtLeast) {
  ExpectFailure(ImageSummary(root_, "x", Placeholder(root_, DType::kUInt8, {8, 8, 3}), 0), "max_images is 0");
}
TEST_F(SummaryTest, ThereIsSomethingToMerge) { ExpectFailure(MergeAllSummaries(root_), "no summaries to merge"); }
TEST_F(SummaryTest, OnlySummariesAreMerged) {
  ExpectFailure(MergeSummary(root_, {Const(root_, 1.f)}), "Const:0 is not a summary");
}

// Two towers with one summary of each kind.
class TowersTest : public SummaryTest {
 protected:
  TowersTest() {
    for (int i = 0; i < 2; ++i) {
      const Scope tower = root_.NameScope(absl::StrCat("train/tower_", i)).InTower(i).Device(absl::StrCat("/cpu:", i));
      x_.push_back(Placeholder(tower.Named("x"), DType::kFloat32, {Shape::kUnknown, 2}));
      images_.push_back(Placeholder(tower.Named("images"), DType::kUInt8, {Shape::kUnknown, 2, Shape::kUnknown, 3}));
      HistogramSummary(tower, "x", x_[i]);
      ScalarSummary(tower, "mean", Mean(tower, x_[i]));
      ImageSummary(tower, "images", images_[i], 2);
      merged_.push_back(MergeAllSummaries(tower.Named("merged")));
    }
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  }

  // Feeds tower 0 one row and tower 1 two.
  std::vector<Tensor> Run(const std::vector<Output>& fetches) {
    Tensor first(DType::kUInt8, {1, 2, 4, 3}), second = Tensor::Zeros(DType::kUInt8, {3, 2, 5, 3});
    for (int64_t i = 0; i < first.elements(); ++i) first.data<uint8_t>()[i] = static_cast<uint8_t>(10 * i);
    const std::vector<Feed> feeds = {{x_[0], Tensor::Of<float>({1, 2}, {1, 2})},
                                     {x_[1], Tensor::Of<float>({3, 4, 5, NAN}, {2, 2})},
                                     {images_[0], first},
                                     {images_[1], second}};
    return ValueOf(session().Run(feeds, fetches));
  }

  std::vector<Output> x_, images_, merged_;
};

TEST_F(TowersTest, AreShownAsOne) {
  const std::vector<Output> summaries = graph_.GetCollection(kSummaries);
  std::vector<Tensor> values = Run(summaries);
  ASSERT_EQ(values.size(), 6u);
  values[4] = Tensor::Scalar(4.5f);
  const FetchedSummaries fetched = Read(summaries, values);
  EXPECT_THAT(fetched.scalars, ElementsAre(Pair("train/mean", 3)));
  const auto parsed = Parsed(fetched.summary);
  ASSERT_EQ(parsed.size(), 4u);
  EXPECT_EQ(parsed[0].tag, "train/x");
  const auto& histogram = std::get<io::HistogramValue>(parsed[0].value);
  EXPECT_EQ(histogram.num, 5);
  EXPECT_EQ(histogram.sum, 15);
  EXPECT_EQ(parsed[1].tag, "train/x/not_finite");
  EXPECT_EQ(parsed[2].tag, "train/mean");
  EXPECT_EQ(std::get<float>(parsed[2].value), 3);
  EXPECT_EQ(parsed[3].tag, "train/images/image/0");
  EXPECT_EQ(std::get<io::ImageValue>(parsed[3].value).width, 4);
}

TEST_F(TowersTest, AreShownOneByOne) {
  const std::vector<Output> summaries = graph_.GetCollection(kSummaries);
  std::vector<std::string> tags;
  for (const auto& value : Parsed(Read(summaries, Run(summaries), TowerSummaries::kEach).summary)) {
    tags.push_back(value.tag);
  }
  EXPECT_THAT(tags, ElementsAre("train/tower_0/x", "train/tower_0/mean", "train/tower_0/images/image/0",
                                "train/tower_1/x", "train/tower_1/x/not_finite", "train/tower_1/mean",
                                "train/tower_1/images/image/0", "train/tower_1/images/image/1"));
}

TEST_F(TowersTest, MergedHoldsTheSame) {
  const std::vector<Output> summaries = graph_.GetCollection(kSummaries);
  for (const TowerSummaries towers : {TowerSummaries::kMean, TowerSummaries::kEach}) {
    EXPECT_EQ(Read(merged_, Run(merged_), towers).summary.bytes(),
              Read(summaries, Run(summaries), towers).summary.bytes());
  }
}

TEST_F(TowersTest, ValuesThatDoNotFitAreErrors) {
  const std::vector<Output> summaries = graph_.GetCollection(kSummaries);
  const auto rejects = [](absl::Span<const Output> outputs, absl::Span<const Tensor> values, const std::string& text) {
    EXPECT_THAT(ReadSummaries(outputs, values).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  rejects({summaries[0]}, {}, "0 values for 1 summaries");
  rejects({x_[0]}, {Tensor::Of<float>({1, 2}, {1, 2})}, "train/tower_0/x:0 is not a summary");
  rejects({Output()}, {Tensor()}, "an invalid Output");
  rejects({summaries[1]}, {Tensor::Of<float>({1})}, "train/tower_0/mean/ScalarSummary:0");
  rejects({summaries[1]}, {Tensor::Scalar(1.0)}, "float64");
  rejects({summaries[2]}, {Tensor(DType::kUInt8, {1, 2, 3, 5})}, "train/images");
  const Tensor whole = Run(merged_)[0];
  for (int64_t size = 0; size <= whole.elements() + 1; ++size) {
    if (size == whole.elements()) continue;
    Tensor part = Tensor::Zeros(DType::kFloat32, {size});
    for (int64_t i = 0; i < std::min(size, whole.elements()); ++i) part.data<float>()[i] = whole.data<float>()[i];
    rejects({merged_[0]}, {part}, "do not match");
  }
  for (const float extent : {-1.0f, 1e30f, NAN, 7.0f}) {
    Tensor wrong = whole.Clone();
    wrong.data<float>()[0] = extent;
    rejects({merged_[0]}, {wrong}, "do not match");
  }
}

TEST_F(SummaryTest, OneTagIsOfOneKind) {
  const Output x = Const(root_, 1.f);
  const std::vector<Output> summaries = {ScalarSummary(root_.NameScope("tower_0").InTower(0), "x", x),
                                         HistogramSummary(root_.NameScope("tower_1").InTower(1), "x", x)};
  const auto fetched = ReadSummaries(summaries, {Tensor::Scalar(1.f), Tensor::Scalar(1.f)});
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(ReadSummaries(summaries, {Tensor::Scalar(1.f), Tensor::Scalar(1.f)}, TowerSummaries::kEach).ok());
}

}  // namespace
}  // namespace belfry::ops
