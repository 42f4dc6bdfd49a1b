// Compares networks of PyTorch with what they compute here, forward and, as a step of training, backward.
#include <cstdlib>
#include <map>

#include "framework/base/status.h"
#include "framework/io/safetensors.h"
#include "models/layers/losses.h"
#include "models/networks/saved_network.h"
#include "ops/array.h"
#include "optim/apply.h"
#include "tests/models/onnx/onnx_test.h"

namespace belfry::models {
namespace {

constexpr double kOutputs = 1e-5, kGradients = 1e-4;

using Tensors = std::map<std::string, Tensor>;

class OnnxOfTorch : public OnnxTest {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import numpy, onnx, torch' 2>/dev/null") != 0) {
      GTEST_SKIP() << "python3 with the packages numpy, onnx and torch is not installed here";
    }
  }

  static absl::StatusOr<Tensors> Read(const std::string& path) {
    ASSIGN_OR_RETURN(const std::vector<io::NamedTensor> list, io::ReadSafetensors(path));
    Tensors tensors;
    for (const io::NamedTensor& tensor : list) tensors[tensor.name] = tensor.value;
    return tensors;
  }

  absl::Status CompareOutputs(const std::string& name, const Tensors& tensors) {
    ASSIGN_OR_RETURN(const SavedModel model, Import(File(name + ".onnx")));
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model.Run({tensors.at("in/x")}));
    for (size_t k = 0; k < outputs.size(); ++k) {
      EXPECT_LE(Difference(outputs[k], tensors.at(absl::StrCat("out/", k))), kOutputs) << name << " output " << k;
    }
    return absl::OkStatus();
  }

  // The gradients of the cross-entropy by variables that have the name of a parameter.
  absl::Status CompareGradients(const std::string& name, const Tensors& tensors) {
    ASSIGN_OR_RETURN(const ModelContents contents, ModelContents::Open(File(name + ".onnx.imported")));
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Tensor &x = tensors.at("in/x"), &label = tensors.at("in/label");
    const Output input = ops::Placeholder(scope, x.dtype(), x.shape().Remove(0).Insert(0, Shape::kUnknown));
    const Output labels = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown});
    ASSIGN_OR_RETURN(const std::vector<Output> outputs, BuildSavedModel(scope, contents, {{"x", input}}));
    AddCrossEntropy(scope, outputs[0], labels);
    const Output loss = TotalLoss(scope);
    std::vector<std::string> names;
    std::vector<Output> fetches = {loss};
    for (const auto& gradient : optim::ComputeGradients(scope, loss, optim::TrainableVariables(scope))) {
      const std::string key = absl::StrCat("grad/", gradient.variable.name());
      if (!tensors.contains(key)) continue;
      names.push_back(key);
      fetches.push_back(gradient.gradient);
    }
    const Node* const initialize = InitializeVariables(scope);
    ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices_));
    RETURN_IF_ERROR(session->RunTarget(initialize));
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, session->Run({{input, x}, {labels, label}}, fetches));
    EXPECT_LE(Difference(values[0], tensors.at("loss")), kOutputs) << name;
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_LE(Difference(values[i + 1], tensors.at(names[i])), kGradients) << name << " " << names[i];
    }
    EXPECT_GE(names.size(), 2u) << name;
    std::cout << name << ": " << names.size() << " gradients\n";
    return absl::OkStatus();
  }
};

TEST_F(OnnxOfTorch, ComputesAndTrainsAsPyTorchDoes) {
  const std::string command = absl::StrCat("python3 ", BELFRY_SOURCE_ROOT, "/tests/models/onnx/export_torch.py '",
                                           folder_.path(), "' > '", File("log"), "' 2>&1");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  int networks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = entry.path().stem().string();
    ASSERT_OK_AND_ASSIGN(const Tensors tensors, Read(entry.path().string()));
    absl::Status status = CompareOutputs(name, tensors);
    if (status.ok() && tensors.contains("loss")) status = CompareGradients(name, tensors);
    EXPECT_TRUE(status.ok()) << name << ": " << status;
    ++networks;
  }
  EXPECT_GE(networks, 8);
}

}  // namespace
}  // namespace belfry::models
