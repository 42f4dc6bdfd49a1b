#include "tests/main/seed.h"

#include <atomic>
#include <cstdlib>

namespace belfry {
namespace {

uint32_t Draw() {
  const char* text = std::getenv("BELFRY_TEST_SEED");
  return text == nullptr ? std::random_device()() : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

std::atomic<uint32_t>& Current() {
  static std::atomic<uint32_t> seed = Draw();
  return seed;
}

}  // namespace

uint32_t TestSeed() { return Current(); }

std::mt19937& TestRandom() {
  static std::mt19937 random(TestSeed());
  return random;
}

void DrawTestSeed() { Current() = Draw(); }
void RestartTestRandom() { TestRandom().seed(TestSeed()); }

}  // namespace belfry
