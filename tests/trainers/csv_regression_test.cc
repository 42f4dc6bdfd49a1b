#include "trainers/csv_regression.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "spdlog/fmt/fmt.h"
#include "tests/main/testing.h"

namespace belfry::trainers {
namespace {

// The numbers of a formula: one for each feature, and the last.
std::vector<double> NumbersIn(const std::string& formula) {
  std::vector<double> numbers;
  for (const absl::string_view line : absl::StrSplit(formula, '\n', absl::SkipEmpty())) {
    double number = 0;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (absl::SimpleAtod(words[0], &number)) numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<Plane> Fit(const std::string& text, double learning_rate) {
  const belfry::TemporaryFolder folder;
  folder.Write("t.csv", text);
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  const std::unique_ptr<World> alone = World::Alone();
  CsvRegression program({.path = folder / "t.csv", .learning_rate = learning_rate});
  ProgramRun run{.world = *alone, .devices = devices, .training = {.steps = 600, .quiet = true}};
  run.order = {.batch_size = 20, .towers = 2, .seed = 1};
  RETURN_IF_ERROR(program.OpenData(run));
  RETURN_IF_ERROR(RunTraining(program, run).status());
  return program.plane();
}

// Features and a target a million away from zero, which vary by some units.
TEST(CsvRegression, TheFormulaPredictsDataFarFromZero) {
  std::mt19937& random = TestRandom();
  std::uniform_real_distribution<double> uniform(0, 10);
  std::string text = "x,z,y\n";
  std::vector<std::vector<double>> rows;
  for (int i = 0; i < 100; ++i) {
    const double x = 1e6 + uniform(random), z = uniform(random);
    rows.push_back({x, z, 2 * x - 3 * z + 5});
    text += fmt::format("{:.17g},{:.17g},{:.17g}\n", rows[i][0], rows[i][1], rows[i][2]);
  }
  ASSERT_OK_AND_ASSIGN(const auto plane, Fit(text, 0.1));
  EXPECT_GT(plane.r2, 0.999999);
  const std::vector<double> numbers = NumbersIn(plane.formula);
  ASSERT_EQ(numbers.size(), 3u) << plane.formula;
  for (const std::vector<double>& row : rows) {
    EXPECT_NEAR(numbers[0] * row[0] + numbers[1] * row[1] + numbers[2], row[2], 1e-3) << plane.formula;
  }
}

TEST(CsvRegression, TheFormulaIsShortWhereThatPredictsTheSame) {
  std::string text = "a,b,y\n";
  for (int i = 1; i <= 40; ++i) {
    const int a = i * 7 % 11, b = i * 5 % 13;
    text += fmt::format("{},{},{}\n", a, b, 3 * a - 2 * b + 100);
  }
  ASSERT_OK_AND_ASSIGN(const auto plane, Fit(text, 0.1));
  EXPECT_EQ(plane.formula, "y =\n  +3 * a\n  -2 * b\n  +100\n");
}

// A constant target, and a column of zeros, have no spread to compare with.
TEST(CsvRegression, TheFormulaOfConstants) {
  ASSERT_OK_AND_ASSIGN(const auto plane, Fit("a,y\n0,0.1\n0,0.1\n", 0.1));
  EXPECT_EQ(plane.formula, "y =\n  +0 * a\n  +0.1\n");
}

// The weight of such a feature, in the units of the file, is no double.
TEST(CsvRegression, RefusesAFeatureOfSubnormalNumbers) {
  EXPECT_THAT(
      Fit("a,b,y\n1,1e-320,1\n2,2e-320,2\n3,3e-320,3\n", 0.1).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("t.csv: column 'b': its numbers differ by no")));
  ASSERT_OK_AND_ASSIGN(const auto small, Fit("a,y\n1e-300,1\n2e-300,2\n3e-300,3\n", 0.1));
  EXPECT_NEAR(small.weights[0], 1e300, 1e296);
}

}  // namespace
}  // namespace belfry::trainers
