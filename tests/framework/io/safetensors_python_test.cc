// Exchanges files with the reference implementation, if it is installed.
#include <cstdlib>

#include "framework/io/safetensors.h"
#include "tests/main/testing.h"

namespace belfry::io {
namespace {

constexpr char kScript[] = R"(
import sys
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
ours = load_file(sys.argv[1])
assert sorted(ours) == ['flags', 'half', 'none', 'step', 'w'], sorted(ours)
assert ours['w'].dtype == numpy.float32 and ours['w'].tolist() == [[1, 2], [3, 4]]
assert ours['step'].dtype == numpy.int64 and ours['step'].shape == () and int(ours['step']) == 7
assert ours['flags'].dtype == numpy.bool_ and ours['flags'].tolist() == [True, False, True]
assert ours['half'].dtype == numpy.float16 and ours['half'].tolist() == [0.5]
assert ours['none'].shape == (0, 3)
with safe_open(sys.argv[1], 'np') as file:
    assert file.metadata()['note'] == 'for python'
save_file({'x': numpy.arange(6, dtype=numpy.int32).reshape(2, 3), 'y': numpy.array([2.5]), 'z': numpy.array(True)},
          sys.argv[2], {'by': 'python'})
)";

TEST(SafetensorsPython, ReadsAndWritesTheSameFiles) {
  if (std::system("python3 -c 'import numpy, safetensors' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3 with the packages numpy and safetensors is not installed here";
  }
  const TemporaryFolder folder;
  folder.Write("script.py", kScript);
  Tensor half(DType::kFloat16, {1});
  *static_cast<uint16_t*>(half.raw()) = 0x3800;
  ASSERT_EQ(WriteSafetensors(folder / "ours",
                             {{"w", Tensor::Of<float>({1, 2, 3, 4}, {2, 2})},
                              {"step", Tensor::Scalar(int64_t{7})},
                              {"flags", Tensor::Of<bool>({true, false, true})},
                              {"half", half},
                              {"none", Tensor(DType::kFloat64, {0, 3})}},
                             {{"note", "for python"}}),
            absl::OkStatus());
  const std::string command =
      "python3 '" + (folder / "script.py") + "' '" + (folder / "ours") + "' '" + (folder / "theirs") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  ASSERT_OK_AND_ASSIGN(const auto theirs, SafetensorsFile::Open(folder / "theirs"));
  EXPECT_EQ(theirs.metadata(), (Metadata{{"by", "python"}}));
  ASSERT_EQ(theirs.tensors().size(), 3u);
  const Tensor x = ValueOf(theirs.Read(*theirs.Find("x")));
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_THAT(x.span<int32_t>(), testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(ValueOf(theirs.Read(*theirs.Find("y"))).span<double>(), testing::ElementsAre(2.5));
  EXPECT_TRUE(ValueOf(theirs.Read(*theirs.Find("z"))).scalar<bool>());
}

}  // namespace
}  // namespace belfry::io
