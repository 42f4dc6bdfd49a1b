// Some mutations of every bundled step; plan_mutations_test makes 10,000.
#include "tests/main/testing.h"
#include "tests/models/plans/bundled.h"
#include "tests/models/plans/mutations.h"

namespace belfry::models {
namespace {

TEST(PlanMutations, AreCaughtOrHarmless) {
  MutationTable table;
  for (const BundledStep& step : BundledSteps()) {
    const auto planned = MakePlan(step);
    ASSERT_TRUE(planned.ok()) << step.name << ": " << planned.status();
    MutatePlan(step.name, (*planned)->plan(), 15, TestRandom(), table);
  }
  Report(table);
}

}  // namespace
}  // namespace belfry::models
