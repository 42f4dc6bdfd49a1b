// The fixture of the tests of simulated runs.
#pragma once

#include <spdlog/spdlog.h>

#include <algorithm>

#include "tests/main/testing.h"
#include "tests/simulation/training.h"

namespace belfry::simulation {

// Without what the product logs about faults.
class SimulationFixture : public testing::Test {
 protected:
  SimulationFixture() : level_(spdlog::get_level()) { spdlog::set_level(spdlog::level::off); }
  ~SimulationFixture() override { spdlog::set_level(level_); }

  // The time after which all ranks have ended, without the scenario's fault.
  Nanoseconds LengthOf(const Scenario& scenario) {
    Disk disk;
    Nanoseconds end = 0;
    for (const RankResult& rank : Train(scenario, /*disturbed=*/false, disk, machine_).ranks) {
      EXPECT_TRUE(rank.status.ok()) << rank.status.status();
      end = std::max(end, rank.ended_at);
    }
    return end;
  }

  Machine machine_;

 private:
  const spdlog::level::level_enum level_;
};

}  // namespace belfry::simulation
