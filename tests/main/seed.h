// The seed of the random numbers that tests draw.
#pragma once

#include <cstdint>
#include <random>

namespace belfry {

// The value of the environment variable BELFRY_TEST_SEED, or a new number in each iteration of the test program. All
// tests of the program share it, so BELFRY_TEST_SEED=N --gtest_filter=CASE draws what the case drew among others. The
// program prints it when it starts and after each test that fails (tests/main/main.cc). Thread-safe.
uint32_t TestSeed();

// A generator seeded with TestSeed() when the running test began. Not thread-safe: for the test's own thread.
std::mt19937& TestRandom();

// Starts a new iteration and a new test; for main.cc.
void DrawTestSeed();
void RestartTestRandom();

}  // namespace belfry
