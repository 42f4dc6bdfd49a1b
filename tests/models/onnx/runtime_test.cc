// Compares exported models, as ONNX Runtime runs them and as they are imported again, with ours. A test adds models to
// a folder and lets check_onnx.py run all of them.
#include <cstdlib>
#include <utility>

#include "framework/base/status.h"
#include "framework/io/safetensors.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/norm_layers.h"
#include "models/layers/recurrent.h"
#include "models/networks/pictures/picture_networks.h"
#include "models/onnx/export.h"
#include "ops/attention.h"
#include "ops/nn.h"
#include "ops/sequence.h"
#include "tests/models/networks/saved_networks.h"
#include "tests/models/onnx/onnx_test.h"

namespace belfry::models {
namespace {

constexpr double kFloat32 = 1e-5, kFloat16 = 4e-3, kBFloat16 = 3e-2;
constexpr int64_t kIds = 50, kSteps = 7;  // integers in inputs are below kIds; lengths are at most kSteps

Output Floats(const Scope& scope, const Shape& shape) { return ops::Placeholder(scope, DType::kFloat32, shape); }

class OnnxRuntime : public OnnxTest {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import numpy, onnx, onnxruntime' 2>/dev/null") != 0) {
      GTEST_SKIP() << "python3 with the packages numpy, onnx and onnxruntime is not installed here";
    }
  }

  // Exports a model, and runs it for batches of several sizes and, where they are open, lengths.
  void Add(const Network& network, double tolerance) {
    const absl::Status status = TryAdd(network, tolerance);
    EXPECT_TRUE(status.ok()) << network.name << ": " << status;
  }
  void Check() {
    const std::string command =
        absl::StrCat("python3 ", BELFRY_SOURCE_ROOT, "/tests/models/onnx/check_onnx.py '", folder_.path(), "'");
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }

 private:
  absl::Status TryAdd(const Network& network, double tolerance) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Network::Ends ends = network.build(scope);
    const Node* const initialize = InitializeVariables(scope);
    ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices_));
    RETURN_IF_ERROR(session->RunTarget(initialize));
    RETURN_IF_ERROR(RandomVariables(*session));
    const std::string saved = File(absl::StrCat(network.name, ".saved"));
    RETURN_IF_ERROR(SaveModel(*session, ends.inputs, ends.outputs, saved));
    ASSIGN_OR_RETURN(const SavedModel model, SavedModel::Open(saved, BuiltinOps(), devices_));
    const std::string exported = File(absl::StrCat(network.name, ".onnx"));
    RETURN_IF_ERROR(ExportOnnx(model, exported).status());
    ASSIGN_OR_RETURN(const SavedModel imported, Import(exported));
    for (const auto& [n, steps] : {std::pair(3, 11), std::pair(1, 7), std::pair(8, 16)}) {
      std::vector<io::NamedTensor> tensors;
      std::vector<Tensor> values;
      for (const auto& [name, input] : ends.inputs) {
        values.push_back(ValueFor(name, input, n, steps));
        tensors.push_back({absl::StrCat("in/", name), values.back()});
      }
      ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model.Run(values));
      ASSIGN_OR_RETURN(const std::vector<Tensor> again, imported.Run(values));
      for (size_t k = 0; k < outputs.size(); ++k) {
        EXPECT_LE(Difference(again[k], outputs[k]), tolerance) << network.name << " " << ends.outputs[k].name;
        tensors.push_back({absl::StrCat("out/", ends.outputs[k].name), outputs[k]});
      }
      RETURN_IF_ERROR(io::WriteSafetensors(File(absl::StrCat(network.name, ".", n, ".safetensors")), tensors,
                                           {{"tolerance", absl::StrCat(tolerance)}}));
    }
    return absl::OkStatus();
  }

  Tensor ValueFor(const std::string& name, const Output& input, int64_t n, int64_t steps) {
    Shape shape = input.shape();
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == Shape::kUnknown) shape.set_dim(axis, axis == 0 ? n : steps);
    }
    if (input.dtype() == DType::kFloat32) return Random(shape);
    Tensor value(input.dtype(), shape);
    for (int64_t i = 0; i < value.elements(); ++i) {
      const auto id = static_cast<int64_t>(TestRandom()()) & 0xffff;
      const int64_t number = name == "lengths" ? 1 + id % kSteps : id % kIds;
      if (input.dtype() == DType::kInt32) value.data<int32_t>()[i] = static_cast<int32_t>(number);
      if (input.dtype() == DType::kInt64) value.data<int64_t>()[i] = number;
    }
    return value;
  }
};

TEST_F(OnnxRuntime, ComputesTheBundledNetworks) {
  for (const Network& network : BundledNetworks()) {
    Add(network, absl::StrContains(network.name, "BFloat16") ? kBFloat16 : kFloat32);
  }
  Check();
}

// The outputs of a model, named as they are added.
struct Outputs {
  std::vector<NamedOutput> list;
  void operator()(const std::string& name, const Output& value) { list.push_back({name, value}); }
};

// Functions of x, and of x made positive.
void AddFunctions(const Scope& scope, const Output& x, Outputs& out) {
  const Output positive = ops::Add(scope, ops::Abs(scope, x), ops::Fill(scope, {}, 0.1, x.dtype()));
  out("neg", ops::Neg(scope, x));
  out("abs", ops::Abs(scope, x));
  out("sign", ops::Sign(scope, x));
  out("sin", ops::Sin(scope, x));
  out("cos", ops::Cos(scope, x));
  out("ceil", ops::Ceil(scope, x));
  out("square", ops::Square(scope, x));
  out("scale", ops::Scale(scope, x, -1.7));
  out("clip", ops::ClipByValue(scope, x, -0.5, 0.7));
  out("exp", ops::Exp(scope, x));
  out("expm1", ops::Expm1(scope, x));
  out("log", ops::Log(scope, positive));
  out("log1p", ops::Log1p(scope, positive));
  out("sqrt", ops::Sqrt(scope, positive));
  out("rsqrt", ops::Rsqrt(scope, positive));
  out("reciprocal", ops::Reciprocal(scope, positive));
  out("sigmoid", ops::Sigmoid(scope, x));
  out("tanh", ops::Tanh(scope, x));
  out("erf", ops::Erf(scope, x));
  out("erfc", ops::Erfc(scope, x));
  out("relu", ops::Relu(scope, x));
  out("relu6", ops::Relu6(scope, ops::Scale(scope, x, 5)));
  out("leaky_relu", ops::LeakyRelu(scope, x, 0.3));
  out("elu", ops::Elu(scope, x, 1.3));
  out("selu", ops::Selu(scope, x));
  out("gelu", ops::Gelu(scope, x));
  out("approximate_gelu", ops::Gelu(scope, x, true));
  out("silu", ops::Silu(scope, x));
  out("softplus", ops::Softplus(scope, x));
  out("softmax", ops::Softmax(scope, x, {.axis = 1, .temperature = 2}));
  out("log_softmax", ops::LogSoftmax(scope, x));
}

void AddFunctionsOfTwo(const Scope& scope, const Output& a, const Output& b, Outputs& out) {
  out("add", ops::Add(scope, a, b));
  out("sub", ops::Sub(scope, a, b));
  out("mul", ops::Mul(scope, a, b));
  out("div", ops::Div(scope, a, ops::Exp(scope, b)));
  out("pow", ops::Pow(scope, ops::Exp(scope, a), b));
  out("maximum", ops::Maximum(scope, a, b));
  out("minimum", ops::Minimum(scope, a, b));
  out("squared_difference", ops::SquaredDifference(scope, a, b));
  out("sum_of_three", ops::AddN(scope, {a, ops::Mul(scope, a, b), a}));
}

Network Functions(const char* name, DType dtype) {
  return {name, [dtype](const Scope& scope) -> Network::Ends {
            const Output x = Floats(scope, {Shape::kUnknown, 4}), b = Floats(scope, {4});
            Outputs out;
            AddFunctions(scope, ops::Cast(scope, x, dtype), out);
            AddFunctionsOfTwo(scope, ops::Cast(scope, x, dtype), ops::Cast(scope, b, dtype), out);
            return {{{"x", x}, {"b", b}}, out.list};
          }};
}

TEST_F(OnnxRuntime, ComputesNetworksForPictures) {
  for (const char* name : {"resnet18", "mobilenet_v2", "efficientnet_b0", "vit_s16"}) {
    Add({name,
         [name](const Scope& scope) -> Network::Ends {
           const Output images = Floats(scope, {Shape::kUnknown, 48, 48, 3});
           return {{{"images", images}},
                   {{"logits", FindPictureNetwork(name)->build(scope, images, {.classes = 10, .training = false})}}};
         }},
        kFloat32);
  }
  Check();
}

TEST_F(OnnxRuntime, ComputesFunctions) {
  Add(Functions("functions", DType::kFloat32), kFloat32);
  Add(Functions("functions_in_float16", DType::kFloat16), kFloat16);
  Add(Functions("functions_in_bfloat16", DType::kBFloat16), kBFloat16);
  Add({"comparisons",
       [](const Scope& scope) -> Network::Ends {
         const Output x = Floats(scope, {Shape::kUnknown, 5}), y = Floats(scope, {Shape::kUnknown, 5});
         const Output a = ops::Round(scope, x), b = ops::Round(scope, y);
         const Output equal = ops::Equal(scope, a, b), less = ops::Less(scope, a, b);
         Outputs out;
         out("equal", equal);
         out("not_equal", ops::NotEqual(scope, a, b));
         out("less", less);
         out("less_equal", ops::LessEqual(scope, a, b));
         out("greater", ops::Greater(scope, a, b));
         out("greater_equal", ops::GreaterEqual(scope, a, b));
         out("and", ops::LogicalAnd(scope, ops::LogicalNot(scope, equal), ops::LogicalNot(scope, less)));
         out("or", ops::LogicalOr(scope, equal, less));
         out("xor", ops::LogicalXor(scope, equal, less));
         out("select", ops::Select(scope, less, a, b));
         out("is_nan", ops::IsNan(scope, ops::Log(scope, x)));
         out("is_finite", ops::IsFinite(scope, ops::Div(scope, x, a)));
         out("integers", ops::Cast(scope, ops::Floor(scope, ops::Scale(scope, x, 10)), DType::kInt32));
         return {{{"x", x}, {"y", y}}, out.list};
       }},
      kFloat32);
  Check();
}

TEST_F(OnnxRuntime, MovesElements) {
  Add({"arrays",
       [](const Scope& scope) -> Network::Ends {
         const Output x = Floats(scope, {Shape::kUnknown, Shape::kUnknown, 6});
         const Output ids = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown});
         const ops::Extent n = ops::Extent::Of(x, 0), t = ops::Extent::Of(x, 1);
         Outputs out;
         out("reshape", ops::Reshape(scope, x, {-1, 3}));
         out("two_open", ops::Reshape(scope, x, {n, t, 2, 3}));
         out("three", ops::Reshape(scope, x, {t * 2, -1, 3}));
         out("halves", ops::Reshape(scope, x, {n, t * 6 / 2, 2}));
         out("merged", ops::MergeAxes(scope, x, 0, 1));
         out("of_last", ops::MergeAxes(scope, x, 1, 2));
         out("like", ops::ReshapeLike(scope, ops::MergeAxes(scope, x, 0, 1), x));
         out("unsqueezed", ops::ExpandDims(scope, x, -1));
         out("squeezed", ops::Squeeze(scope, ops::ExpandDims(scope, x, 1), {1}));
         out("transposed", ops::Transpose(scope, x, {1, 0, 2}));
         out("reversed_axes", ops::Transpose(scope, x));
         out("concat", ops::Concat(scope, {x, ops::Relu(scope, x)}, 1));
         out("stack", ops::Stack(scope, {x, x}, -1));
         out("part", ops::Split(scope, x, 2, std::vector<int64_t>{1, 3, 2})[1]);
         out("third", ops::Split(scope, x, 2, 3)[2]);
         out("column", ops::Unstack(scope, x, 2)[4]);
         out("slice", ops::Slice(scope, x, {0, 1, 2}, {-1, -1, 3}));
         out("backward", ops::StridedSlice(scope, x, {0, ops::kSliceEnd}, {ops::kSliceEnd, -ops::kSliceEnd}, {1, -2}));
         out("pad", ops::Pad(scope, x, {{0, 1}, {2, 0}, {-1, 1}}, 0.5));
         out("tile", ops::Tile(scope, x, {1, 2, 1}));
         out("broadcast", ops::BroadcastTo(scope, x, {2, -1, -1, -1}));
         out("broadcast_like", ops::BroadcastLike(scope, ops::Slice(scope, x, {0, 0, 0}, {-1, 1, 1}), x));
         out("gather", ops::Gather(scope, ops::Const(scope, Random({kIds, 3})), ids));
         out("columns", ops::Gather(scope, x, ops::Const(scope, {5, 0, 5}), 2));
         out("cumsum", ops::Cumsum(scope, x, 1, {.exclusive = true, .reverse = true}));
         out("zeros", ops::ZerosLike(scope, ids));
         out("ones", ops::OnesLike(scope, x));
         out("shape", ops::ShapeOf(scope, x));
         return {{{"x", x}, {"ids", ids}}, out.list};
       }},
      kFloat32);
  Add({"reductions",
       [](const Scope& scope) -> Network::Ends {
         const Output x = Floats(scope, {Shape::kUnknown, 5, 4});
         Outputs out;
         out("sum", ops::Sum(scope, x));
         out("row_sums", ops::Sum(scope, x, {-1}));
         out("mean", ops::Mean(scope, x, {1, 2}, true));
         out("max", ops::Max(scope, x, 1));
         out("min", ops::Min(scope, x, {0, 2}));
         out("prod", ops::Prod(scope, x, 2));
         out("arg_max", ops::ArgMax(scope, x, -1, DType::kInt32));
         out("arg_min", ops::ArgMin(scope, x, 1));
         out("product", ops::MatMul(scope, x, x, {.transpose_a = true}));
         out("squares",
             ops::MatMul(scope, ops::MergeAxes(scope, x, 0, 1), ops::MergeAxes(scope, x, 0, 1), {.transpose_b = true}));
         return {{{"x", x}}, out.list};
       }},
      kFloat32);
  Check();
}

// Two convolutions with all between that stays in their order of axes.
Network ImageOps(const char* name, DType dtype, int64_t size) {
  return {name, [dtype, size](const Scope& scope) -> Network::Ends {
            const Output image = Floats(scope, {Shape::kUnknown, size, size, 4});
            const Output x = Conv2D(scope, "conv", ops::Cast(scope, image, dtype), 6, {3, 2},
                                    {.stride = 2, .padding = ops::Padding::Valid()});
            Outputs out;
            out("same", Conv2D(scope, "same", x, 6, 3, {.stride = 2, .groups = 2, .use_bias = false}));
            out("dilated", Conv2D(scope, "dilated", x, 2, 2, {.dilation = 3}));
            out("max_pool", ops::MaxPool(scope, x, {.height = 3, .width = 2, .stride_h = 2, .stride_w = 1}));
            out("avg_pool", ops::AvgPool(scope, x, {.height = 3, .width = 3}));
            out("padded", ops::AvgPool(scope, x, {.padding = ops::Padding::Explicit(1, 0, 0, 1)}));
            out("lrn", ops::LocalResponseNormalization(scope, x, {.depth_radius = 2, .alpha = 0.3, .beta = 0.75}));
            out("mean", ops::GlobalAvgPool(scope, x));
            out("mean_kept", ops::GlobalAvgPool(scope, x, true));
            out("of_columns", ops::Mean(scope, x, 2));
            out("of_channels", ops::Max(scope, x, 3));
            out("group_norm", GroupNorm(scope, "group_norm", x, 3));
            out("layer_norm", LayerNorm(scope, "layer_norm", x));
            out("sum", ops::Add(scope, x, ops::Cast(scope, ops::Const(scope, NormalTensor({6})), dtype)));
            out("channels", ops::Mul(scope, x, ops::GlobalAvgPool(scope, x, true)));
            out("concat", ops::Concat(scope, {x, ops::Relu(scope, x)}, -1));
            out("slice", ops::StridedSlice(scope, x, {0, 1, 0}, {ops::kSliceEnd, ops::kSliceEnd, -1}, {1, 2, 1}));
            out("pad", ops::Pad(scope, x, {{0, 0}, {1, 0}, {0, 2}, {1, 1}}));
            out("softmax", ops::Softmax(scope, x));
            return {{{"image", image}}, out.list};
          }};
}

TEST_F(OnnxRuntime, ComputesOnImages) {
  Add(ImageOps("images", DType::kFloat32, 13), kFloat32);
  Add(ImageOps("images_of_open_size", DType::kFloat32, Shape::kUnknown), kFloat32);
  Add(ImageOps("images_in_float16", DType::kFloat16, 11), kFloat16);
  Add(ImageOps("images_in_bfloat16", DType::kBFloat16, 12), kBFloat16);
  Check();
}

Network AttentionOf(const char* name, int64_t kv_heads, const ops::AttentionOptions& options, bool hides) {
  return {name, [=](const Scope& scope) -> Network::Ends {
            const Output q = Floats(scope, {Shape::kUnknown, 9, 6, 8}),
                         k = Floats(scope, {Shape::kUnknown, Shape::kUnknown, kv_heads, 8}),
                         v = Floats(scope, {Shape::kUnknown, Shape::kUnknown, kv_heads, 8});
            ops::AttentionOptions given = options;
            std::vector<NamedOutput> inputs = {{"q", q}, {"k", k}, {"v", v}};
            if (hides) {
              const Output lengths = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown});
              inputs.push_back({"lengths", lengths});
              const Output mask = ops::SequenceMask(scope, k, lengths);
              given.mask = ops::ExpandDims(scope, ops::ExpandDims(scope, mask, 1), 1);
            }
            return {inputs, {{"y", ops::Attention(scope, q, k, v, given)}}};
          }};
}

Network RotaryOf(const char* name, const ops::RotaryOptions& options) {
  return {name, [options](const Scope& scope) -> Network::Ends {
            const Output x = Floats(scope, {Shape::kUnknown, Shape::kUnknown, 3, 8});
            return {{{"x", x}}, {{"y", ops::Rotary(scope, x, options)}}};
          }};
}

TEST_F(OnnxRuntime, ComputesAttentionAndNorms) {
  Add(AttentionOf("attention", 6, {}, false), kFloat32);
  Add(AttentionOf("grouped", 3, {.scale = 0.4}, false), kFloat32);
  Add(AttentionOf("causal", 1, {.causal = true}, false), kFloat32);
  Add(AttentionOf("masked", 2, {}, true), kFloat32);
  Add(AttentionOf("causal_and_masked", 2, {.causal = true}, true), kFloat32);
  Add(RotaryOf("rotary", {}), kFloat32);
  Add(RotaryOf("far", {.offset = 1'000'000}), kFloat32);
  Add(RotaryOf("partial", {.base = 100, .width = 4, .heads = 2}), kFloat32);
  Add(RotaryOf("interleaved", {.width = 6, .interleaved = true}), kFloat32);
  Add({"batch_norm_of_rows",
       [](const Scope& scope) -> Network::Ends {
         const Output x = Floats(scope, {Shape::kUnknown, 6});
         return {{{"x", x}}, {{"y", BatchNorm(scope, "norm", x, {.training = false})}}};
       }},
      kFloat32);
  Add({"rms_norm",
       [](const Scope& scope) -> Network::Ends {
         const Output x = Floats(scope, {Shape::kUnknown, Shape::kUnknown, 6});
         return {{{"x", x}}, {{"y", RmsNorm(scope, "norm", x)}}};
       }},
      kFloat32);
  Check();
}

// Recurrences of sequences of different lengths, with initial states, and of a projection that is none of weights.
TEST_F(OnnxRuntime, ComputesRecurrences) {
  Add({"lengths",
       [](const Scope& scope) -> Network::Ends {
         const Output x = Floats(scope, {Shape::kUnknown, kSteps, 5});
         const Output lengths = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown});
         const RecurrentStackOutputs lstm = LstmStack(
             scope, "lstm", x, 4, {.layers = 2, .bidirectional = true, .lengths = lengths, .training = false});
         const RecurrentStackOutputs gru = GruStack(scope, "gru", x, 4, {.lengths = lengths, .training = false});
         return {{{"x", x}, {"lengths", lengths}},
                 {{"lstm", lstm.y},
                  {"cell", lstm.cells[1]},
                  {"gru", gru.y},
                  {"hidden", gru.hidden[0]},
                  {"mean", MeanOverSteps(scope, x, lengths)},
                  {"max", MaxOverSteps(scope, x, lengths)}}};
       }},
      kFloat32);
  Add({"states",
       [](const Scope& scope) -> Network::Ends {
         const Output x = Floats(scope, {Shape::kUnknown, Shape::kUnknown, 5});
         const Output hidden = Floats(scope, {Shape::kUnknown, 4}), cell = Floats(scope, {Shape::kUnknown, 4});
         const ops::LstmOutputs lstm = Lstm(scope, "lstm", x, 4, {.initial_hidden = hidden, .initial_cell = cell});
         const ops::GruOutputs gru = Gru(scope, "gru", x, 4, {.initial_hidden = hidden});
         return {{{"x", x}, {"hidden", hidden}, {"cell", cell}},
                 {{"lstm", lstm.y}, {"last", lstm.cell}, {"gru", gru.y}, {"gru_last", gru.hidden}}};
       }},
      kFloat32);
  Add({"projection",
       [](const Scope& scope) -> Network::Ends {
         const Output x = Floats(scope, {Shape::kUnknown, Shape::kUnknown, 12});
         const Output weights = ops::Const(scope, Random({4, 12})), biases = ops::Const(scope, Random({12}));
         return {{{"x", x}}, {{"y", scope.Add("Gru", {ops::Tanh(scope, x), weights, biases})}}};
       }},
      kFloat32);
  Check();
}

}  // namespace
}  // namespace belfry::models
