// The cases of nodes that the onnx package states, such as indices from the end, empty axes and odd pads.
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "framework/base/status.h"
#include "framework/io/safetensors.h"
#include "tests/models/onnx/onnx_test.h"

namespace belfry::models {
namespace {

using Tensors = std::map<std::string, Tensor>;

class OnnxNodeCases : public OnnxTest {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import numpy, onnx.backend.test.case.node' 2>/dev/null") != 0) {
      GTEST_SKIP() << "python3 with the packages numpy and onnx is not installed here";
    }
  }

  // The largest difference of outputs. An error that names the node: the import refuses it.
  absl::StatusOr<double> Compare(const std::string& name) const {
    ASSIGN_OR_RETURN(const SavedModel model, Import(File(name + ".onnx")));
    ASSIGN_OR_RETURN(const std::vector<io::NamedTensor> list, io::ReadSafetensors(File(name + ".safetensors")));
    Tensors tensors;
    for (const io::NamedTensor& tensor : list) tensors[tensor.name] = tensor.value;
    std::vector<Tensor> inputs;
    for (int i = 0; tensors.contains(absl::StrCat("in/", i)); ++i) inputs.push_back(tensors[absl::StrCat("in/", i)]);
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model.Run(inputs));
    double difference = 0;
    for (size_t k = 0; k < outputs.size(); ++k) {
      difference = std::max(difference, Difference(outputs[k], tensors[absl::StrCat("out/", k)]));
    }
    return difference;
  }
};

TEST_F(OnnxNodeCases, GiveTheStatedOutputsOrAreRefused) {
  const std::string command = absl::StrCat("python3 ", BELFRY_SOURCE_ROOT, "/tests/models/onnx/export_node_cases.py '",
                                           folder_.path(), "' > '", File("log"), "' 2>&1");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string file = entry.path().filename();
    if (file.ends_with(".onnx") && !file.ends_with(".known.onnx")) names.insert(file.substr(0, file.size() - 5));
  }
  int compared = 0;
  for (const std::string& name : names) {
    absl::StatusOr<double> difference = Compare(name);
    const std::string known = name + ".known";
    const bool again = difference.status().code() == absl::StatusCode::kUnimplemented;
    if (again && std::filesystem::exists(File(known + ".onnx"))) difference = Compare(known);
    if (difference.ok()) {
      EXPECT_LE(*difference, 1e-3) << name;  // some are stated with four digits
      ++compared;
    } else {
      EXPECT_THAT(difference.status().message(), testing::HasSubstr("(op_type ")) << name;
      std::cout << name << " is refused: " << difference.status().message() << "\n";
    }
  }
  EXPECT_GE(compared, 450);
}

}  // namespace
}  // namespace belfry::models
