#include "framework/data/pictures/pictures.h"

#include <cmath>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/data/pictures/picture_view.h"
#include "framework/data/prefetcher.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/io/encode_pictures.h"
#include "tests/main/testing.h"

namespace belfry::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// One colour.
std::vector<uint8_t> Plain(int height, int width, std::vector<uint8_t> colour) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < height * width; ++i) pixels.insert(pixels.end(), colour.begin(), colour.end());
  return pixels;
}

class PicturesTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) const { folder_.Write(name, bytes); }
  // Three classes of colours, one picture in a folder below, and files that do not count.
  void WriteClasses() const {
    Write("red/1.png", EncodeAnyPng(Plain(20, 30, {250, 10, 20}), 20, 30));
    Write("red/deep/2.JPG", EncodeAnyJpeg(Plain(64, 40, {250, 10, 20}), 64, 40));
    Write("green/1.jpeg", EncodeAnyJpeg(Plain(300, 200, {10, 240, 20}), 300, 200));
    Write("blue/1.png", EncodeAnyPng(Plain(1, 1, {5, 6, 230}), 1, 1));
    Write("blue/notes.txt", "no picture");
    Write("blue/.hidden.png", "none");
    Write(".git/1.png", "none");
  }
  std::string path(const std::string& name = "") const { return folder_ / name; }

  const TemporaryFolder folder_;
};

TEST_F(PicturesTest, AFolderForEachClass) {
  WriteClasses();
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImages(path(), {.height = 12, .width = 16}));
  const Dataset& data = *dataset;
  ASSERT_EQ(data.size(), 4);
  ASSERT_EQ(data.fields().size(), 2u);
  EXPECT_EQ(data.fields()[0].ToString(), "image uint8 [12,16,3]");
  EXPECT_EQ(data.fields()[1].categories, 3);
  EXPECT_THAT(data.fields()[1].category_names, ElementsAre("blue", "green", "red"));
  const std::vector<std::vector<int>> colours = {{5, 6, 230}, {10, 240, 20}, {250, 10, 20}, {250, 10, 20}};
  const std::vector<int> labels = {0, 1, 2, 2};
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto example, ReadExample(data, i));
    EXPECT_EQ(example[1].scalar<int32_t>(), labels[i]);
    const auto pixels = example[0].span<uint8_t>();
    for (size_t at = 0; at < pixels.size(); ++at) ASSERT_NEAR(pixels[at], colours[i][at % 3], 3) << i;
  }
}

TEST_F(PicturesTest, AListWithLabelsNumbersAndMasks) {
  Write("a.png", EncodeAnyPng(Plain(8, 8, {200, 0, 0}), 8, 8));
  Write("b.png", EncodeAnyPng(Plain(8, 4, {0, 200, 0}), 8, 4));
  std::vector<uint8_t> mask(64, 0);
  for (int i = 32; i < 64; ++i) mask[i] = 7;
  Write("a_mask.png", EncodeAnyPng(mask, 8, 8, {.channels = 1}));
  Write("b_mask.png", EncodeAnyPng(Plain(8, 4, {3}), 8, 4, {.channels = 1}));
  Write("list.csv", "picture,mask,weight,kind\na.png,a_mask.png,1.5,cat\nb.png,b_mask.png,-2,dog\n");
  const auto dataset =
      OpenImages(path("list.csv"), {.height = 4, .width = 4, .pictures = {"picture"}, .masks = {"mask"}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(FieldsText((*dataset)->fields()),
            "picture uint8 [4,4,3], mask uint8 [4,4,1], weight float32 [], kind int32 []");
  const auto a = ReadExample(**dataset, 0), b = ReadExample(**dataset, 1);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  // Values of masks are never mixed.
  EXPECT_EQ((*a)[1].ToDoubles(), (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ((*b)[1].ToDoubles(), std::vector<double>(16, 3));
  EXPECT_EQ((*a)[0].ToDoubles(3), (std::vector<double>{200, 0, 0}));
  EXPECT_EQ((*b)[2].scalar<float>(), -2);
  EXPECT_NE((*a)[3].scalar<int32_t>(), (*b)[3].scalar<int32_t>());

  Write("b_mask.png", EncodeAnyPng(Plain(8, 5, {3}), 8, 5, {.channels = 1}));
  EXPECT_THAT(ReadExample(**dataset, 1).status().message(),
              AllOf(HasSubstr("b_mask.png: has 8x5 pixels"), HasSubstr("b.png of the same example has 8x4")));
}

TEST_F(PicturesTest, ResizesAsTheAreaOfEachPixelSays) {
  // Two columns of 10 and 20, made half as wide, and back.
  const io::Picture picture{2, 4, 1, {10, 20, 10, 20, 10, 20, 10, 20}};
  ResizeScratch scratch;
  std::vector<uint8_t> small(2), same(8);
  ResizePicture(picture, {0, 0, 2, 4}, 1, 2, Resampling::kBilinear, small.data(), scratch);
  for (const uint8_t value : small) EXPECT_NEAR(value, 15, 1);
  ResizePicture(picture, {0, 0, 2, 4}, 2, 4, Resampling::kBilinear, same.data(), scratch);
  EXPECT_EQ(same, picture.pixels);
  ResizePicture(picture, {0, 1, 1, 2}, 1, 2, Resampling::kNearest, small.data(), scratch);
  EXPECT_EQ(small, (std::vector<uint8_t>{20, 20}));
  // A constant stays one, whatever the sizes: weights add up to 1 exactly.
  for (int turn = 0; turn < 200; ++turn) {
    const auto extent = [] { return 1 + static_cast<int64_t>(TestRandom()() % 70); };
    io::Picture plain{extent(), extent(), 3, {}};
    plain.pixels.assign(plain.height * plain.width * 3, 255);
    const int64_t height = extent(), width = extent();
    std::vector<uint8_t> to(height * width * 3);
    std::uniform_real_distribution<double> uniform(0, 0.45);
    const auto h = static_cast<double>(plain.height), w = static_cast<double>(plain.width);
    const PictureBox box{uniform(TestRandom()) * h, uniform(TestRandom()) * w, (1 - uniform(TestRandom())) * h,
                         (1 - uniform(TestRandom())) * w};
    ResizePicture(plain, box, height, width, Resampling::kBilinear, to.data(), scratch);
    EXPECT_EQ(to, std::vector<uint8_t>(to.size(), 255));
  }
}

// libjpeg makes a picture smaller in whole blocks, beyond its edge: the sizes are no multiples of 8, and the result is
// that of the whole picture. A smooth ramp with a bright line, whose place shows shifts of a tenth of a pixel.
TEST_F(PicturesTest, SmallerDecodingMovesNothing) {
  constexpr int kHeight = 801, kWidth = 1033;
  const auto pixel = [](int y, int x) {
    const bool line = std::abs(x - 911) < 6 || std::abs(y - 95) < 6;
    return static_cast<uint8_t>(line ? 250 : 40 + (x * 60) / kWidth + (y * 60) / kHeight);
  };
  std::vector<uint8_t> pixels;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) pixels.push_back(pixel(y, x));
  }
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    const std::string bytes =
        EncodeAnyJpeg(pixels, kHeight, kWidth, {.channels = 1, .quality = 100, .orientation = orientation});
    Write("a/1.jpg", bytes);
    ASSERT_OK_AND_ASSIGN(const io::Picture whole, io::DecodePicture(bytes, {.channels = 1}));
    for (const int64_t size : {90, 150, 300}) {  // decoded at an eighth, a quarter and a half
      ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImages(path(), {.height = size, .width = size, .channels = 1}));
      ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> example, ReadExample(*dataset, 0));
      const PictureBox box = DrawView({.height = size, .width = size}, whole.height, whole.width, 0, std::nullopt).box;
      std::vector<uint8_t> expected(static_cast<size_t>(size * size));
      ResizeScratch scratch;
      ResizePicture(whole, box, size, size, Resampling::kBilinear, expected.data(), scratch);
      int largest = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        largest = std::max(largest, std::abs(example[0].data<uint8_t>()[i] - expected[i]));
      }
      EXPECT_LE(largest, 32) << size;
    }
  }
}

TEST_F(PicturesTest, TakesTheMiddle) {
  const PictureOptions options{.height = 10, .width = 20, .central = 0.5};
  const PictureBox box = DrawView(options, 100, 100, 0, std::nullopt).box;
  EXPECT_DOUBLE_EQ(box.top, 37.5);
  EXPECT_DOUBLE_EQ(box.bottom, 62.5);
  EXPECT_DOUBLE_EQ(box.left, 25);
  EXPECT_DOUBLE_EQ(box.right, 75);
}

TEST_F(PicturesTest, RandomPartsAreWithinTheirRanges) {
  const PictureOptions options{.random_crop = RandomResizedCrop{.min_area = 0.2, .max_area = 0.6}};
  std::set<double> areas;
  for (int i = 0; i < 300; ++i) {
    const PictureBox box = DrawView(options, 400, 300, i, Variation{.seed = 5, .epoch = i / 100}).box;
    const double height = box.bottom - box.top, width = box.right - box.left;
    EXPECT_GE(box.top, 0);
    EXPECT_LE(box.bottom, 400);
    EXPECT_LE(box.right, 300);
    EXPECT_GT(height * width / 120000, 0.19);
    EXPECT_LT(height * width / 120000, 0.61);
    EXPECT_GT(width / height, 0.73);
    EXPECT_LT(width / height, 1.36);
    areas.insert(height * width);
  }
  EXPECT_GT(areas.size(), 250u);
  // Long pictures, for which none fits.
  const PictureBox box = DrawView(options, 1000, 2, 0, Variation{}).box;
  EXPECT_GT(box.bottom, box.top);
  EXPECT_LE(box.right, 2);
}

TEST_F(PicturesTest, ColoursChangeByTheirFactors) {
  std::vector<uint8_t> pixels = {100, 150, 200, 0, 255, 30};
  const std::vector<uint8_t> original = pixels;
  ChangeColours({}, 2, 3, pixels.data());
  EXPECT_EQ(pixels, original);
  ChangeColours({.brightness = kFactorOne / 2}, 2, 3, pixels.data());
  EXPECT_THAT(pixels, ElementsAre(50, 75, 100, 0, 128, 15));
  pixels = original;
  ChangeColours({.saturation = 0}, 2, 3, pixels.data());
  EXPECT_THAT(pixels, ElementsAre(141, 141, 141, 153, 153, 153));
  pixels = original;
  ChangeColours({.contrast = 0}, 2, 3, pixels.data());
  EXPECT_EQ(pixels, std::vector<uint8_t>(6, 147));
}

TEST_F(PicturesTest, HuesTurnAndGreysStay) {
  const PictureOptions options{.jitter = {.hue = 0.5}};
  bool redder = false, bluer = false;
  for (int i = 0; i < 200; ++i) {
    const PictureView view = DrawView(options, 8, 8, i, Variation{.seed = 4});
    std::vector<uint8_t> pixels = {128, 128, 128, 120, 130, 140};
    ChangeColours(view, 2, 3, pixels.data());
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(pixels[c], 128, 1);
    const double grey = 0.299 * pixels[3] + 0.587 * pixels[4] + 0.114 * pixels[5];
    EXPECT_NEAR(grey, 0.299 * 120 + 0.587 * 130 + 0.114 * 140, 1.5);
    redder |= pixels[3] > pixels[5];
    bluer |= pixels[5] > pixels[3];
  }
  EXPECT_TRUE(redder && bluer);
}

TEST_F(PicturesTest, TurnsAroundTheMiddle) {
  const std::vector<uint8_t> original = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  ResizeScratch scratch;
  for (const Resampling how : {Resampling::kBilinear, Resampling::kNearest}) {
    std::vector<uint8_t> pixels = original;
    TurnPicture(0, kTurnOne, 3, 3, 1, how, pixels.data(), scratch);
    EXPECT_THAT(pixels, ElementsAre(3, 6, 9, 2, 5, 8, 1, 4, 7));
    TurnPicture(-kTurnOne, 0, 3, 3, 1, how, pixels.data(), scratch);
    EXPECT_THAT(pixels, ElementsAre(7, 4, 1, 8, 5, 2, 9, 6, 3));
  }
  // The corners of a plain picture come from outside of it; the middle does not.
  std::vector<uint8_t> plain(20 * 20 * 3, 200);
  const int half = static_cast<int>(std::lround(std::sqrt(0.5) * kTurnOne));
  TurnPicture(half, half, 20, 20, 3, Resampling::kBilinear, plain.data(), scratch);
  EXPECT_EQ(plain[0], 0);
  EXPECT_EQ(plain.back(), 0);
  EXPECT_EQ(plain[(10 * 20 + 10) * 3], 200);
}

TEST_F(PicturesTest, AMaskTurnsWithItsPicture) {
  std::vector<uint8_t> pixels(31 * 31 * 3, 10), mask(31 * 31, 0);
  for (int i = 0; i < 31 * 31; ++i) {
    if (i % 31 >= 15 || i / 31 >= 15) continue;
    for (int c = 0; c < 3; ++c) pixels[i * 3 + c] = 250;
    mask[i] = 1;
  }
  Write("a.png", EncodeAnyPng(pixels, 31, 31));
  Write("a_mask.png", EncodeAnyPng(mask, 31, 31, {.channels = 1}));
  Write("list.csv", "image,mask\na.png,a_mask.png\n");
  ASSERT_OK_AND_ASSIGN(const auto dataset,
                       OpenImages(path("list.csv"), {.height = 31, .width = 31, .rotation = 180, .masks = {"mask"}}));
  EXPECT_TRUE(dataset->varies());
  std::vector<Tensor> example;
  for (const Field& field : dataset->fields()) example.emplace_back(field.dtype, field.shape);
  for (int epoch = 0; epoch < 5; ++epoch) {
    ASSERT_TRUE(dataset
                    ->ReadVaried(
                        0, {.seed = 3, .epoch = epoch},
                        Example({static_cast<std::byte*>(example[0].raw()), static_cast<std::byte*>(example[1].raw())}))
                    .ok());
    int differ = 0;
    for (int i = 0; i < 31 * 31; ++i)
      differ += (example[0].data<uint8_t>()[i * 3] > 130) != (example[1].data<uint8_t>()[i] == 1);
    EXPECT_LT(differ, 20) << epoch;
  }
}

// The batches of a prefetcher over these pictures.
std::vector<Tensor> Batches(const Dataset& dataset, int threads, int64_t epochs) {
  const auto source =
      ValueOf(Prefetcher::Create(dataset, {.batch_size = 2, .seed = 9, .epochs = epochs, .threads = threads}));
  std::vector<Tensor> batches;
  for (auto batch = source->Next(); batch.ok(); batch = source->Next()) {
    batches.push_back(batch->towers()[0].fields[0].Clone());
  }
  return batches;
}

TEST_F(PicturesTest, VaryFromEpochToEpochAndNotWithThreads) {
  std::vector<uint8_t> noise(90 * 70 * 3);
  for (uint8_t& value : noise) value = static_cast<uint8_t>(TestRandom()());
  for (int i = 0; i < 4; ++i) {
    std::rotate(noise.begin(), noise.begin() + 999, noise.end());
    Write(absl::StrCat("noise/", i, ".png"), EncodeAnyPng(noise, 90, 70));
  }
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImages(path(), {.height = 9,
                                                               .width = 9,
                                                               .random_crop = RandomResizedCrop{},
                                                               .jitter = {.brightness = 0.3, .saturation = 1}}));
  EXPECT_TRUE(dataset->varies());
  const std::vector<Tensor> one = Batches(*dataset, 1, 3), three = Batches(*dataset, 3, 3);
  ASSERT_EQ(one.size(), 6u);
  ASSERT_EQ(three.size(), 6u);
  std::set<std::string> different;
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(SameBits(one[i], three[i])) << i;
    for (int k = 0; k < 2; ++k) {
      different.emplace(static_cast<const char*>(one[i].raw()) + k * one[i].bytes() / 2, one[i].bytes() / 2);
    }
  }
  EXPECT_EQ(different.size(), 12u);
  const auto resident = Prefetcher::Create(
      *dataset, {.batch_size = 2, .images = {{"image", {}}}, .augment = AugmentBy::kStepFromResident});
  EXPECT_THAT(resident.status().message(), HasSubstr("differ from epoch to epoch"));
}

TEST_F(PicturesTest, ACacheChangesNothing) {
  std::vector<uint8_t> noise(80 * 60 * 3);
  for (uint8_t& value : noise) value = static_cast<uint8_t>(TestRandom()());
  for (int i = 0; i < 6; ++i) {
    std::rotate(noise.begin(), noise.begin() + 999, noise.end());
    Write(absl::StrCat("noise/", i, ".jpg"), EncodeAnyJpeg(noise, 80, 60));
  }
  PictureOptions options{.height = 9, .width = 9, .random_crop = RandomResizedCrop{}, .cache = {.bytes = 1}};
  const auto read = [&] {
    const auto dataset = ValueOf(OpenImages(path(), options));
    return Batches(*dataset, 3, 3);
  };
  const std::vector<Tensor> expected = read();  // room for none
  ASSERT_EQ(expected.size(), 9u);
  for (const std::string& folder : {std::string(), path()}) {
    for (const int64_t bytes : {50'000, 1'000'000}) {  // for three, and for all
      options.cache = {.bytes = bytes, .folder = folder};
      const std::vector<Tensor> batches = read();
      ASSERT_EQ(batches.size(), expected.size());
      for (size_t i = 0; i < batches.size(); ++i) EXPECT_TRUE(SameBits(batches[i], expected[i])) << bytes;
    }
  }
  // Once they are kept, the files are not read any more.
  options.cache.folder = "";
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImages(path(), options));
  EXPECT_EQ(Batches(*dataset, 1, 1).size(), 3u);
  fs::remove_all(folder_ / "noise");
  EXPECT_EQ(Batches(*dataset, 1, 1).size(), 3u);

  WriteClasses();
  EXPECT_THAT(OpenImages(path(), {.cache = {.bytes = 9, .folder = path("none")}}).status().message(),
              HasSubstr("cannot make a file in it for the cache of pictures"));
  EXPECT_THAT(OpenImages(path(), {.cache = {.bytes = int64_t{1} << 50, .folder = path()}}).status().message(),
              HasSubstr("No room for a cache of 1125899906842624 bytes of pictures in"));
}

TEST_F(PicturesTest, SkipsBrokenFilesIfAsked) {
  WriteClasses();
  const std::string jpeg = EncodeAnyJpeg(Plain(64, 64, {1, 2, 3}), 64, 64);
  Write("blue/2.jpg", jpeg.substr(0, jpeg.size() / 2));
  Write("green/0.png", "not a picture");
  ASSERT_OK_AND_ASSIGN(const auto all, OpenImages(path(), {.height = 8, .width = 8}));
  ASSERT_EQ(all->size(), 6);
  EXPECT_THAT(ReadExample(*all, 1).status().message(), HasSubstr("blue/2.jpg: the JPEG "));
  EXPECT_THAT(ReadExample(*all, 2).status().message(), HasSubstr("green/0.png: the file is neither"));
  ASSERT_OK_AND_ASSIGN(const auto whole, OpenImages(path(), {.height = 8, .width = 8, .skip_broken = true}));
  ASSERT_EQ(whole->size(), 4);
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t before[] = {0, 3, 4, 5};
    EXPECT_TRUE(SameBits((*ReadExample(*whole, i))[0], (*ReadExample(*all, before[i]))[0])) << i;
  }
}

TEST_F(PicturesTest, AnEmptyFolderIsNoClass) {
  WriteClasses();
  fs::create_directories(folder_ / "aaa");
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImages(path(), {.height = 8, .width = 8}));
  EXPECT_THAT(dataset->fields()[1].category_names, ElementsAre("blue", "green", "red"));
}

TEST_F(PicturesTest, TwoViewsOfTheSameFiles) {
  WriteClasses();
  Write("red/3.png", "broken");
  const auto views =
      OpenImages(path(), {.height = 8, .width = 8, .random_crop = RandomResizedCrop{}, .skip_broken = true},
                 {.height = 5, .width = 7});
  ASSERT_TRUE(views.ok()) << views.status();
  EXPECT_EQ(views->first->size(), 4);
  EXPECT_EQ(views->second->size(), 4);
  EXPECT_TRUE(views->first->varies());
  EXPECT_FALSE(views->second->varies());
  EXPECT_EQ(views->second->fields()[0].ToString(), "image uint8 [5,7,3]");
  EXPECT_EQ((*ReadExample(*views->second, 3))[1].scalar<int32_t>(), 2);
}

TEST_F(PicturesTest, SaysWhatIsWrong) {
  const auto error = [&](const std::string& name, const PictureOptions& options) {
    return std::string(OpenImages(path(name), options).status().message());
  };
  EXPECT_THAT(error("", {}), HasSubstr("has no pictures: expected a folder for each class"));
  EXPECT_THAT(error("none", {}), HasSubstr("none"));
  WriteClasses();
  EXPECT_THAT(error("", {.height = 0}), HasSubstr("0x224 pixels"));
  EXPECT_THAT(error("", {.channels = 4}), HasSubstr("4 channels"));
  EXPECT_THAT(error("", {.central = 0}), HasSubstr("central is 0"));
  EXPECT_THAT(error("", {.random_crop = RandomResizedCrop{.min_area = 0.5, .max_area = 0.4}}),
              HasSubstr("random crop"));
  EXPECT_THAT(error("", {.jitter = {.contrast = NAN}}), HasSubstr("colour jitter"));
  EXPECT_THAT(error("", {.jitter = {.hue = 0.6}}), HasSubstr("hue of 0.6"));
  EXPECT_THAT(error("", {.rotation = -1}), HasSubstr("rotation of up to -1 degrees"));
  EXPECT_THAT(error("", {.cache = {.bytes = -1}}), HasSubstr("cache of -1 bytes"));
  Write("list.csv", "file,label\nred/1.png,1\n");
  EXPECT_THAT(error("list.csv", {}), HasSubstr("image"));
  Write("bad/1.png", "");
  fs::remove_all(folder_ / "red");
  fs::remove_all(folder_ / "green");
  fs::remove_all(folder_ / "blue");
  EXPECT_THAT(error("", {.skip_broken = true}), HasSubstr("none of 1 pictures can be decoded"));
}

}  // namespace
}  // namespace belfry::data
