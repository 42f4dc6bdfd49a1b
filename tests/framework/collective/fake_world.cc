#include "tests/framework/collective/fake_world.h"

#include <memory>
#include <thread>

#include "framework/collective/mpi/mpi_world.h"

namespace belfry {

std::vector<absl::Status> RunRanks(int size, const Ranks& ranks, const std::function<absl::Status(World&)>& body) {
  FakeNetwork network(size);
  std::vector<absl::Status> results(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      const auto i = static_cast<size_t>(r);
      auto mpi = std::make_unique<FakeMpi>(network, r, i < ranks.options.size() ? ranks.options[i] : FakeMpiOptions());
      const auto world =
          OpenMpiWorld(std::move(mpi), {size, "a test", "fake"}, i < ranks.builds.size() ? ranks.builds[i] : "1",
                       In(ranks.patience), ranks.warn_after);
      results[r] = world.ok() ? body(**world) : world.status();
      if (ranks.tell_failures && world.ok() && !results[r].ok()) (*world)->Fail(results[r]);
      if (ranks.notice_ends) network.End(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace belfry
