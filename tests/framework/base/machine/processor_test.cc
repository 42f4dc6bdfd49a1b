#include "framework/base/machine/processor.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/main/testing.h"

namespace belfry {
namespace {

TEST(Processor, HasTheFieldsOfTheFirstOne) {
  const std::string root = testing::TempDir() + "processor_test." + std::to_string(getpid());
  std::filesystem::create_directories(root + "/proc");
  std::ofstream(root + "/proc/cpuinfo") << "processor\t: 0\nmodel\t\t: 207\nmodel name\t: A: B\nempty\t:\n\n"
                                           "processor\t: 1\nflags\t\t: fpu\n";
  EXPECT_EQ(ProcessorField("processor", root), "0");
  EXPECT_EQ(ProcessorField("model", root), "207");
  EXPECT_EQ(ProcessorField("model name", root), "A: B");
  EXPECT_EQ(ProcessorField("empty", root), "");
  EXPECT_EQ(ProcessorField("flags", root), "");  // of the second one
  std::filesystem::remove_all(root);
  EXPECT_EQ(ProcessorField("processor", root), "");
}

}  // namespace
}  // namespace belfry
