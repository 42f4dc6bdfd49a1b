// 10,000 mutations of the bundled steps, or a tenth of them, and the time that it takes to verify each.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "framework/compiler/verify/verify.h"
#include "tests/main/testing.h"
#include "tests/models/plans/bundled.h"
#include "tests/models/plans/mutations.h"

namespace belfry::models {
namespace {

// `./dev test --long` makes all of them.
int Mutations() { return std::getenv("BELFRY_LONG") != nullptr ? 10'000 : 1'000; }

TEST(PlanMutations, AreCaughtOrHarmless) {
  const int mutations = Mutations();
  MutationTable table;
  const std::vector<BundledStep> steps = BundledSteps();
  int done = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto planned = MakePlan(steps[i]);
    ASSERT_TRUE(planned.ok()) << steps[i].name << ": " << planned.status();
    const Plan& plan = (*planned)->plan();
    const auto begin = std::chrono::steady_clock::now();
    const auto certificate = VerifyPlan(plan);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(certificate.ok()) << certificate.status();
    std::printf("%s: %zu nodes, %.1f ms. %s\n", steps[i].name.c_str(), plan.program.nodes.size(), took.count(),
                certificate->ToText().c_str());
    const int share = mutations * static_cast<int>(i + 1) / static_cast<int>(steps.size()) - done;
    MutatePlan(steps[i].name, plan, share, TestRandom(), table);
    done += share;
  }
  EXPECT_EQ(done, mutations);
  Report(table);
}

}  // namespace
}  // namespace belfry::models
