// Images that the step augments, against those of the threads that make batches.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/in_memory.h"
#include "framework/data/prefetcher.h"
#include "framework/runtime/session.h"
#include "models/towers/batch.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/image.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::models {
namespace {

using data::AugmentBy;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

std::unique_ptr<data::Dataset> RandomImages(FreshRandom& random, int64_t size) {
  Tensor images(DType::kUInt8, {size, 12, 11, 3}), labels(DType::kInt32, {size});
  const std::string bytes = random.Bytes(images.bytes());
  std::copy(bytes.begin(), bytes.end(), images.data<uint8_t>());
  for (int64_t i = 0; i < size; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(i % 10);
  return data::FromTensors({{"image", images}, {"label", labels, 10}}).value();
}

data::PrefetcherOptions OptionsOf(FreshRandom& random, AugmentBy augment) {
  data::PrefetcherOptions options{
      .batch_size = 7, .towers = 3, .seed = random.seed(), .epochs = 2, .augment = augment, .threads = 1};
  options.images["image"] = data::TutorialTraining();
  options.images["image"].crop = 9;
  options.images["image"].cutout = 4;
  return options;
}

// The images and labels that a model sees, of all towers' batches.
std::vector<std::vector<Tensor>> SeenBy(const data::Dataset& dataset, const data::PrefetcherOptions& options) {
  const auto input = data::Prefetcher::Create(dataset, options).value();
  Graph graph(BuiltinOps());
  const Batch batch(Scope(graph), input->fields());
  const std::vector<Output> fetches = {batch["image"], batch["label"]};
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  const auto session = Session::Create(graph, devices).value();
  std::vector<std::vector<Tensor>> seen;
  while (true) {
    const absl::StatusOr<data::Batch> next = input->Next();
    if (!next.ok()) {
      EXPECT_TRUE(absl::IsOutOfRange(next.status())) << next.status();
      return seen;
    }
    for (const data::TowerBatch& tower : next->towers()) {
      absl::StatusOr<std::vector<Tensor>> values = session->Run(batch.Feeds(tower), fetches);
      EXPECT_TRUE(values.ok()) << values.status();
      if (!values.ok()) return seen;
      seen.push_back(*std::move(values));
    }
  }
}

// Reflected crops and alternating flips over two epochs.
TEST(ImagesInStep, SpeedrunImagesAreThoseOfTheWorkers) {
  FreshRandom random;
  const auto dataset = RandomImages(random, 23);
  data::PrefetcherOptions options = OptionsOf(random, AugmentBy::kWorkers);
  options.images["image"] = data::SpeedrunTraining({{120, 110, 100}, {50, 60, 70}});
  options.images["image"].crop = 11;
  const auto expected = SeenBy(*dataset, options);
  for (const AugmentBy augment : {AugmentBy::kStep, AugmentBy::kStepFromResident}) {
    options.augment = augment;
    const auto actual = SeenBy(*dataset, options);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_THAT(actual[i][0].span<float>(), Pointwise(FloatNear(1e-5f), expected[i][0].span<float>()));
    }
  }
}

// 23 examples in batches of 7 over three towers: some have an example less, and the last batch has two in all.
TEST(ImagesInStep, AreThoseOfTheWorkers) {
  FreshRandom random;
  const auto dataset = RandomImages(random, 23);
  const auto expected = SeenBy(*dataset, OptionsOf(random, AugmentBy::kWorkers));
  ASSERT_EQ(expected.size(), 24u);
  for (const AugmentBy augment : {AugmentBy::kStep, AugmentBy::kStepFromResident}) {
    const auto actual = SeenBy(*dataset, OptionsOf(random, augment));
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i][0].shape(), expected[i][0].shape());
      EXPECT_THAT(actual[i][0].span<float>(), Pointwise(FloatNear(1e-5f), expected[i][0].span<float>()));
      EXPECT_EQ(actual[i][1].span<int32_t>(), expected[i][1].span<int32_t>());
    }
  }
}

TEST(ImagesInStep, AreFedAsBytesOrNotAtAll) {
  FreshRandom random;
  const auto dataset = RandomImages(random, 10);
  const auto bytes = data::Prefetcher::Create(*dataset, OptionsOf(random, AugmentBy::kStep)).value();
  EXPECT_EQ(data::FieldsText(bytes->fields()), "image uint8 [12,11,3], label int32 [], position_in_data int64 [2]");
  const auto resident = data::Prefetcher::Create(*dataset, OptionsOf(random, AugmentBy::kStepFromResident)).value();
  EXPECT_EQ(data::FieldsText(resident->fields()), "image uint8 [0], label int32 [], position_in_data int64 [2]");
}

TEST(ImagesInStep, ExcludeMixUp) {
  FreshRandom random;
  const auto dataset = RandomImages(random, 10);
  data::PrefetcherOptions options = OptionsOf(random, AugmentBy::kStep);
  options.mixup = 0.2;
  EXPECT_THAT(data::Prefetcher::Create(*dataset, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("they mix the images")));
}

TEST(ImagesInStep, OutsideOfTheDataAreAnError) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output all = ops::Const(scope, Tensor::Zeros(DType::kUInt8, {4, 3, 3, 1}));
  const Output at = ops::Placeholder(scope, DType::kInt64, {-1, 2});
  const Output images = ops::GatherAndAugmentImages(scope, all, at, {}, 1);
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto session = Session::Create(graph, devices).value();
  EXPECT_TRUE(session->Run({{at, Tensor::Of<int64_t>({0, 3}, {1, 2})}}, {images}).ok());
  for (const int64_t index : {-1, 4}) {
    EXPECT_THAT(session->Run({{at, Tensor::Of<int64_t>({0, 0, 0, index}, {2, 2})}}, {images}).status(),
                StatusIs(absl::StatusCode::kOutOfRange,
                         HasSubstr(absl::StrCat("positions[1] has index ", index, " of 4 images"))));
  }
}

TEST(ImagesInStep, NameWhatDoesNotFit) {
  const auto error_of = [](const Shape& images, const Shape& positions, const data::ImagePolicy& policy) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    ops::AugmentImages(scope, ops::Placeholder(scope, DType::kUInt8, images),
                       ops::Placeholder(scope, DType::kInt64, positions), policy, 1);
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error_of({5, 3, 1}, {5, 2}, {}), HasSubstr("images must be [N, H, W, C], not [5,3,1]"));
  EXPECT_THAT(error_of({5, 3, 3, 1}, {4, 2}, {}), HasSubstr("positions must be [N, 2]"));
  EXPECT_THAT(error_of({5, -1, 3, 1}, {5, 2}, {}), HasSubstr("the extents of an image must be known"));
  EXPECT_THAT(error_of({5, 3, 3, 1}, {5, 2}, {.crop = 4}), HasSubstr("a crop of 4x4"));
}

TEST(ImagesInStep, NeedTheirPositions) {
  FreshRandom random;
  const auto dataset = RandomImages(random, 10);
  const auto input = data::Prefetcher::Create(*dataset, OptionsOf(random, AugmentBy::kStep)).value();
  Graph graph(BuiltinOps());
  const Batch batch(Scope(graph), input->fields().subspan(0, 2));
  EXPECT_THAT(graph.status().message(), HasSubstr("no field 'position_in_data'"));
}

}  // namespace
}  // namespace belfry::models
