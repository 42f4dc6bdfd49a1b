// An evaluation that needs more memory than there is.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/trainers/experiment.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(EvaluationMemory, AnEvaluationThatDoesNotFitIsRefusedBeforeTheFirstStep) {
  constexpr size_t kLeft = size_t{256} << 20;
  const auto limited = [&] {
    Experiment run("cpu:1", /*batch=*/16, 0.1);
    bool evaluated = false;
    TrainerOptions options{.steps = 5, .quiet = true};
    options.evaluate = [&](int64_t) {
      evaluated = true;
      return Accuracy(0.5);
    };
    options.evaluation_steps = run.evaluator->Steps(20'000'000, 20'000'000);
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const size_t limit_bytes = pages * sysconf(_SC_PAGESIZE) + kLeft;
    const rlimit limit{.rlim_cur = limit_bytes, .rlim_max = limit_bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    Trainer trainer(*run.session, run.step, *run.input, options);
    const absl::Status status = trainer.Run();
    std::fprintf(stderr, "%s", std::string(status.message()).c_str());
    std::_Exit(absl::IsResourceExhausted(status) && !evaluated && trainer.steps() == 0 ? 0 : 1);
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(0),
              AllOf(HasSubstr("Cannot prepare the evaluation: The step needs "), HasSubstr("address space")));
}

}  // namespace
}  // namespace belfry::trainers
