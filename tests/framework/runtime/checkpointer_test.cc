#include "framework/runtime/checkpointer.h"

#include <filesystem>

#include "tests/framework/base/same_bits.h"
#include "tests/framework/io/io_testing.h"
#include "tests/framework/runtime/checkpoint_fixture.h"

namespace belfry {
namespace {

using absl::StatusCode;

class CheckpointerTest : public testing::Test {
 protected:
  void SetUp() override {
    training_.Initialize();
    ASSERT_OK_AND_ASSIGN(auto directory, io::CheckpointDirectory::Open(path_, {.keep_latest = 100}));
    ASSERT_OK_AND_ASSIGN(checkpointer_, Checkpointer::Create(*training_.session, std::move(directory)));
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "checkpoints";
  Training training_{2};
  std::unique_ptr<Checkpointer> checkpointer_;
};

TEST_F(CheckpointerTest, EachCheckpointHoldsTheStepItWasTakenAt) {
  std::vector<Tensor> weights;
  for (int n = 0; n < 20; ++n) {
    weights.push_back(training_.Value("logits/weights"));
    ASSERT_EQ(checkpointer_->Save(n, {{"n", std::to_string(n)}}, io::Metric{"accuracy", n == 7 ? 1.0 : 0.0, true}),
              absl::OkStatus());
    training_.Step(n);
  }
  ASSERT_EQ(checkpointer_->Finish(), absl::OkStatus());
  EXPECT_EQ(checkpointer_->folder(), path_);
  for (int n = 0; n < 20; ++n) {
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, io::LoadCheckpointOfStep(path_, n));
    EXPECT_EQ(checkpoint.metadata, (io::Metadata{{"n", std::to_string(n)}}));
    for (const io::NamedTensor& tensor : checkpoint.tensors) {
      if (tensor.name == "global_step") {
        EXPECT_EQ(tensor.value.scalar<int64_t>(), n);
      }
      if (tensor.name == "logits/weights") {
        EXPECT_TRUE(SameBits(tensor.value, weights[n]));
      }
    }
  }
  EXPECT_EQ(ValueOf(io::LoadBestCheckpoint(path_)).step, 7);
}

TEST_F(CheckpointerTest, TheLastWriteIsFinishedBeforeTheEnd) {
  ASSERT_EQ(checkpointer_->Save(5), absl::OkStatus());
  checkpointer_.reset();
  EXPECT_EQ(ValueOf(io::LoadLatestCheckpoint(path_)).step, 5);
}

TEST_F(CheckpointerTest, AnErrorIsReportedOnceByTheNextCall) {
  std::filesystem::remove_all(path_);
  ASSERT_EQ(checkpointer_->Save(1), absl::OkStatus());
  ExpectError(checkpointer_->Finish(), StatusCode::kNotFound, path_);
  EXPECT_EQ(checkpointer_->Finish(), absl::OkStatus());
  ASSERT_EQ(checkpointer_->Save(2), absl::OkStatus());
  ExpectError(checkpointer_->Save(3), StatusCode::kNotFound, "step-00000002");
  ExpectError(checkpointer_->Finish(), StatusCode::kNotFound, "step-00000003");
  std::filesystem::create_directory(path_);
  ASSERT_EQ(checkpointer_->Save(4), absl::OkStatus());
  ASSERT_EQ(checkpointer_->Finish(), absl::OkStatus());
  EXPECT_EQ(ValueOf(io::LoadLatestCheckpoint(path_)).step, 4);
}

TEST_F(CheckpointerTest, TheCallAfterAnErrorSavesAllTheSame) {
  // A folder with the name of the file to be written.
  std::filesystem::create_directory(path_ + "/step-00000001.safetensors");
  ASSERT_EQ(checkpointer_->Save(1), absl::OkStatus());
  ExpectError(checkpointer_->Save(2), StatusCode::kUnavailable, "step-00000001");
  ASSERT_EQ(checkpointer_->Finish(), absl::OkStatus());
  EXPECT_EQ(ValueOf(io::LoadLatestCheckpoint(path_)).step, 2);
}

TEST_F(CheckpointerTest, WhatCannotBeTakenIsAnErrorAtOnce) {
  training_.session->Close();
  ExpectError(checkpointer_->Save(1), StatusCode::kCancelled, "closed");
  EXPECT_EQ(checkpointer_->Finish(), absl::OkStatus());
}

}  // namespace
}  // namespace belfry
