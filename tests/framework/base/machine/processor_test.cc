#include "framework/base/machine/processor.h"

#include <string>

#include "tests/main/testing.h"

namespace belfry {
namespace {

TEST(Processor, HasTheFieldsOfTheFirstOne) {
  const TemporaryFolder folder;
  const std::string root = folder.path();
  EXPECT_EQ(ProcessorField("processor", root), "");
  folder.Write("proc/cpuinfo",
               "processor\t: 0\nmodel\t\t: 207\nmodel name\t: A: B\nempty\t:\n\nprocessor\t: 1\nflags\t\t: fpu\n");
  EXPECT_EQ(ProcessorField("processor", root), "0");
  EXPECT_EQ(ProcessorField("model", root), "207");
  EXPECT_EQ(ProcessorField("model name", root), "A: B");
  EXPECT_EQ(ProcessorField("empty", root), "");
  EXPECT_EQ(ProcessorField("flags", root), "");  // of the second one
}

}  // namespace
}  // namespace belfry
