// The outputs of a model for a whole dataset, in one process and in several.
#include "trainers/loop/model_outputs.h"

#include <memory>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/data/in_memory.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/main/testing.h"

namespace belfry::trainers {
namespace {

using ::testing::HasSubstr;

// Example i is i.
std::unique_ptr<data::Dataset> Numbers(int64_t n) {
  Tensor x(DType::kFloat32, {n});
  for (int64_t i = 0; i < n; ++i) x.data<float>()[i] = static_cast<float>(i);
  return data::FromTensors({{"x", x}}).value();
}

struct Squares {
  // [N] or, as a matrix, [N, 2] with the number beside its square.
  explicit Squares(bool matrix) {
    const std::vector<data::Field> fields = {{"x", DType::kFloat32, {}}};
    outputs =
        std::make_unique<ModelOutputs>(Scope(graph).NameScope("evaluation"), fields,
                                       [=](const Scope& scope, const models::Batch& batch) -> absl::StatusOr<Output> {
                                         const Output square = ops::Square(scope, batch["x"]);
                                         return matrix ? ops::Stack(scope, {square, batch["x"]}, 1) : square;
                                       });
    session = Session::Create(graph, devices).value();
  }
  DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value();
  Graph graph{BuiltinOps()};
  std::unique_ptr<ModelOutputs> outputs;
  std::unique_ptr<Session> session;
};

void ExpectSquares(const Tensor& rows, int64_t n, bool matrix) {
  ASSERT_EQ(rows.shape(), matrix ? (Shape{n, 2}) : Shape{n});
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_EQ(rows.data<float>()[matrix ? 2 * i : i], static_cast<float>(i * i));
    if (matrix) {
      EXPECT_EQ(rows.data<float>()[2 * i + 1], static_cast<float>(i));
    }
  }
}

TEST(ModelOutputs, AreInTheOrderOfTheExamples) {
  for (const bool matrix : {false, true}) {
    const Squares squares(matrix);
    for (const int64_t n : {1, 5, 6, 7, 13}) {
      ASSERT_OK_AND_ASSIGN(const auto rows, squares.outputs->Run(*squares.session, *Numbers(n), /*batch_size=*/6));
      ExpectSquares(rows, n, matrix);
    }
  }
}

TEST(ModelOutputs, AreTheSameInAllProcesses) {
  for (const int64_t n : {1, 4, 7, 26}) {  // of 1 to 7 batches, also fewer than there are processes
    const auto statuses = RunRanks(3, {.tell_failures = true}, [&](World& world) -> absl::Status {
      const Squares squares(/*matrix=*/true);
      ASSIGN_OR_RETURN(const Tensor rows, squares.outputs->Run(*squares.session, *Numbers(n), 4, &world));
      ExpectSquares(rows, n, true);
      return absl::OkStatus();
    });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ModelOutputs, OtherDataInAProcessIsAnError) {
  const auto statuses = RunRanks(2, {.tell_failures = true}, [&](World& world) {
    const Squares squares(/*matrix=*/false);
    return squares.outputs->Run(*squares.session, *Numbers(world.rank() == 1 ? 9 : 5), 2, &world).status();
  });
  EXPECT_THAT(statuses[0].message(), HasSubstr("evaluates other data, or another model"));
}

TEST(ModelOutputs, HaveAStepForEachSizeOfBatch) {
  const Squares squares(false);
  const auto sizes = [&](int64_t n) {
    std::vector<int64_t> examples;
    for (const PlannedStep& step : squares.outputs->Steps(n, 4)) examples.push_back(step.feeds[0].shape[0]);
    return examples;
  };
  EXPECT_THAT(sizes(3), testing::ElementsAre(3));
  EXPECT_THAT(sizes(8), testing::ElementsAre(4));
  EXPECT_THAT(sizes(9), testing::ElementsAre(4, 1));
}

TEST(ModelOutputs, AnErrorOfTheModelSticksToTheGraph) {
  Graph graph(BuiltinOps());
  const ModelOutputs outputs(Scope(graph), {{"x", DType::kFloat32, {}}}, [](const Scope&, const models::Batch&) {
    return absl::StatusOr<Output>(absl::InvalidArgumentError("no model"));
  });
  EXPECT_THAT(graph.status().message(), HasSubstr("no model"));
}

}  // namespace
}  // namespace belfry::trainers
