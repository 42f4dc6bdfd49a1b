// The C++ and with it the C interface of libbelfry_inference, in a program that links nothing else of Belfry.
#include "models/inference/belfry_inference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

namespace belfry::inference {
namespace {

// A file of version 1: x [?, 3], a layer of 4 with ReLU, logits [?, 2].
const char* const kMlp = BELFRY_TEST_FILES "/version_1.safetensors";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A tensor of the file, found by the text of its header.
std::vector<float> TensorOf(const std::string& bytes, const std::string& name) {
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t entry = bytes.find('"' + name + "\":{"), offsets = bytes.find("\"data_offsets\":[", entry);
  size_t begin = 0, end = 0;
  EXPECT_EQ(std::sscanf(bytes.c_str() + offsets, "\"data_offsets\":[%zu,%zu]", &begin, &end), 2) << name;
  std::vector<float> values((end - begin) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + 8 + header + begin, end - begin);
  return values;
}

class InferenceTest : public testing::Test {
 protected:
  void SetUp() override {
    model_ = Model::Open(kMlp, 1, error_);
    ASSERT_TRUE(model_) << error_;
  }
  // The logits of rows drawn from `seed`.
  std::vector<float> Logits(unsigned seed, int64_t rows) const {
    std::string error;
    Runner runner = model_.Prepare({{rows, 3}}, error);
    EXPECT_TRUE(runner) << error;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::generate_n(runner.input<float>(0), 3 * rows, [&] { return normal(random); });
    EXPECT_TRUE(runner.Run(error)) << error;
    return {runner.output<float>(0), runner.output<float>(0) + 2 * rows};
  }

  std::string error_;
  Model model_;
};

TEST_F(InferenceTest, DescribesInputsAndOutputs) {
  ASSERT_EQ(model_.input_count(), 1);
  ASSERT_EQ(model_.output_count(), 1);
  const belfry_tensor &x = model_.input(0), &logits = model_.output(0);
  EXPECT_STREQ(x.name, "x");
  EXPECT_EQ(x.dtype, BELFRY_FLOAT32);
  EXPECT_EQ(std::vector<int64_t>(x.extents, x.extents + x.rank), (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(x.data, nullptr);
  EXPECT_STREQ(logits.name, "logits");
  EXPECT_EQ(std::vector<int64_t>(logits.extents, logits.extents + logits.rank), (std::vector<int64_t>{-1, 2}));
}

TEST_F(InferenceTest, KnowsNoOtherIndices) {
  Runner runner = model_.Prepare({{1, 3}}, error_);
  ASSERT_TRUE(runner) << error_;
  belfry_model* const model = belfry_model_open(kMlp, 1, nullptr);
  ASSERT_NE(model, nullptr);
  for (const int index : {-1, 1}) {
    EXPECT_EQ(belfry_model_input(model, index), nullptr);
    EXPECT_EQ(belfry_model_output(model, index), nullptr);
  }
  belfry_model_close(model);
  belfry_model_close(nullptr);
  belfry_runner_destroy(nullptr);
  belfry_free(nullptr);
}

// A program in C passes on NULL where it has not looked at an error.
TEST_F(InferenceTest, TakesNullForAnError) {
  EXPECT_EQ(belfry_model_input_count(nullptr), 0);
  EXPECT_EQ(belfry_model_output_count(nullptr), 0);
  EXPECT_EQ(belfry_model_input(nullptr, 0), nullptr);
  EXPECT_EQ(belfry_model_output(nullptr, 0), nullptr);
  EXPECT_EQ(belfry_runner_input(nullptr, 0), nullptr);
  EXPECT_EQ(belfry_runner_output(nullptr, 0), nullptr);
  const auto message_of = [](const auto& fails) {
    char* error = nullptr;
    EXPECT_TRUE(fails(&error));
    const std::string message = error == nullptr ? "" : error;
    belfry_free(error);
    return message;
  };
  belfry_model* const model = belfry_model_open(kMlp, 1, nullptr);
  ASSERT_NE(model, nullptr);
  const int64_t row[] = {1, 3};
  const int64_t* const whole[] = {row};
  const int64_t* const none[] = {nullptr};
  const auto create = [&](const belfry_model* of, const int64_t* const* extents) {
    return message_of([=](char** error) { return belfry_runner_create(of, extents, error) == nullptr; });
  };
  EXPECT_EQ(create(nullptr, whole), "no model was given: it is NULL");
  EXPECT_EQ(create(model, nullptr), "no extents of input 'x' were given");
  EXPECT_EQ(create(model, none), "no extents of input 'x' were given");
  EXPECT_EQ(message_of([](char** error) { return belfry_runner_run(nullptr, error) == -1; }),
            "no runner was given: it is NULL");
  EXPECT_NE(message_of([](char** error) { return belfry_model_open(nullptr, 1, error) == nullptr; }), "");
  EXPECT_EQ(belfry_runner_run(nullptr, nullptr), -1);
  belfry_model_close(model);
}

TEST_F(InferenceTest, ComputesWhatAFileOfVersion1Says) {
  const std::string bytes = ReadFile(kMlp);
  ASSERT_NE(bytes.find("\\\"version\\\":1"), std::string::npos);
  const std::vector<float> w1 = TensorOf(bytes, "hidden1/weights"), b1 = TensorOf(bytes, "hidden1/biases"),
                           w2 = TensorOf(bytes, "softmax_linear/weights"),
                           b2 = TensorOf(bytes, "softmax_linear/biases");
  ASSERT_EQ(w1.size(), 12u);
  ASSERT_EQ(w2.size(), 8u);
  Runner runner = model_.Prepare({{1, 3}}, error_);
  ASSERT_TRUE(runner) << error_;
  const float x[] = {0.5f, -1.25f, 2};
  std::copy_n(x, 3, runner.input<float>(0));
  ASSERT_TRUE(runner.Run(error_)) << error_;
  float hidden[4];
  for (int j = 0; j < 4; ++j) {
    hidden[j] = b1[j];
    for (int i = 0; i < 3; ++i) hidden[j] += x[i] * w1[4 * i + j];
    hidden[j] = std::max(hidden[j], 0.0f);
  }
  for (int k = 0; k < 2; ++k) {
    float logit = b2[k];
    for (int j = 0; j < 4; ++j) logit += hidden[j] * w2[2 * j + k];
    EXPECT_NEAR(runner.output<float>(0)[k], logit, 1e-5);
  }
}

TEST_F(InferenceTest, RowsDoNotDependOnTheBatch) {
  Runner all = model_.Prepare({{5, 3}}, error_), one = model_.Prepare({{1, 3}}, error_);
  ASSERT_TRUE(all && one) << error_;
  for (int i = 0; i < 15; ++i) all.input<float>(0)[i] = static_cast<float>(std::sin(i));
  ASSERT_TRUE(all.Run(error_)) << error_;
  EXPECT_EQ(all.output(0).bytes, 5 * 2 * sizeof(float));
  for (int row = 0; row < 5; ++row) {
    std::copy_n(all.input<float>(0) + 3 * row, 3, one.input<float>(0));
    ASSERT_TRUE(one.Run(error_)) << error_;
    for (int i = 0; i < 2; ++i) EXPECT_NEAR(one.output<float>(0)[i], all.output<float>(0)[2 * row + i], 1e-6);
  }
}

TEST_F(InferenceTest, ThreadsShareAModel) {
  constexpr int kThreads = 4;
  std::vector<std::vector<float>> expected(kThreads), actual(kThreads);
  for (int i = 0; i < kThreads; ++i) expected[i] = Logits(i, 1 + i);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 20; ++turn) actual[i] = Logits(i, 1 + i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(actual, expected);
}

TEST_F(InferenceTest, TakesNoRows) {
  Runner runner = model_.Prepare({{0, 3}}, error_);
  ASSERT_TRUE(runner) << error_;
  EXPECT_TRUE(runner.Run(error_)) << error_;
  EXPECT_EQ(runner.output(0).bytes, 0u);
}

TEST_F(InferenceTest, SaysWhichInputDoesNotFit) {
  EXPECT_FALSE(model_.Prepare({{2, 4}}, error_));
  EXPECT_NE(error_.find("Input 'x' is float32 [2,4], but must be float32 [?,3]"), std::string::npos) << error_;
  EXPECT_FALSE(model_.Prepare({{-1, 3}}, error_));
  EXPECT_NE(error_.find("Input 'x' is [?,3], of which an extent is not known"), std::string::npos) << error_;
  EXPECT_FALSE(Model().Prepare({{2, 3}}, error_));
  EXPECT_FALSE(model_.Prepare({{-7, 3}}, error_));
  EXPECT_FALSE(model_.Prepare({{3}}, error_));
  EXPECT_FALSE(model_.Prepare({}, error_));
  EXPECT_FALSE(model_.Prepare({{2, 3}, {2, 3}}, error_));
  EXPECT_FALSE(model_.Prepare({{int64_t{1} << 58, 3}}, error_)) << "more memory than there is";
}

TEST_F(InferenceTest, SaysWhatIsWrongWithAFile) {
  EXPECT_FALSE(Model::Open("/nowhere/model", 1, error_));
  EXPECT_NE(error_.find("/nowhere/model"), std::string::npos) << error_;
  EXPECT_FALSE(Model::Open(__FILE__, 1, error_));
  EXPECT_FALSE(Model::Open("", 1, error_));
  EXPECT_EQ(belfry_model_open(nullptr, 1, nullptr), nullptr);
  EXPECT_FALSE(Model::Open(kMlp, -1, error_));
  EXPECT_EQ(belfry_model_open(kMlp, 100000, nullptr), nullptr);
  std::string bytes = ReadFile(kMlp);
  bytes[bytes.size() - 5] ^= 1;
  const std::string damaged = testing::TempDir() + "belfry_inference_damaged.safetensors";
  std::ofstream(damaged, std::ios::binary) << bytes;
  EXPECT_FALSE(Model::Open(damaged, 1, error_));
  EXPECT_NE(error_.find("checksum"), std::string::npos) << error_;
  std::remove(damaged.c_str());
}

TEST(Inference, HasAVersion) { EXPECT_STREQ(belfry_inference_version(), BELFRY_TEST_VERSION); }

}  // namespace
}  // namespace belfry::inference
