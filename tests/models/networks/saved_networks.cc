#include "tests/models/networks/saved_networks.h"

#include "models/layers/layers.h"
#include "models/layers/recurrent.h"
#include "models/networks/autoencoder.h"
#include "models/networks/cifar_net.h"
#include "models/networks/mlp.h"
#include "models/networks/resnet.h"
#include "models/networks/transformer.h"
#include "models/networks/unet.h"
#include "models/networks/wide_deep.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

Network::Ends OfImages(const Scope& scope, int64_t size, const std::function<Output(Output)>& logits) {
  const Output images = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, size, size, 3});
  return {{{"image", images}}, {{"logits", logits(images)}}};
}

Network::Ends Gpt(const Scope& scope, TransformerOptions options) {
  options.vocabulary = 50;
  options.length = 16;
  options.layers = 2;
  options.heads = 4;
  options.width = 16;
  options.training = false;
  const Output tokens = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown, Shape::kUnknown});
  return {{{"tokens", tokens}}, {{"logits", Transformer(scope, tokens, options)}}};
}

}  // namespace

void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }

const std::vector<Network>& BundledNetworks() {
  static const auto* const networks = new std::vector<Network>{
      {"CifarNet",
       [](const Scope& scope) { return OfImages(scope, 24, [&](Output x) { return CifarNet(scope, x); }); }},
      {"ResNet20",
       [](const Scope& scope) {
         return OfImages(scope, 16, [&](Output x) { return ResNet(scope, x, {.training = false}); });
       }},
      {"ResNet20InBFloat16",
       [](const Scope& scope) {
         return OfImages(scope, 16, [&](Output x) {
           return ResNet(scope, ops::Cast(scope, x, DType::kBFloat16), {.training = false});
         });
       }},
      {"UNet",
       [](const Scope& scope) {
         return OfImages(scope, 16, [&](Output x) { return UNet(scope, x, {.classes = 3, .width = 8, .depth = 2}); });
       }},
      {"Mlp",
       [](const Scope& scope) {
         return OfImages(scope, 5, [&](Output x) { return Mlp(scope, x, {.training = false}); });
       }},
      {"Gpt", [](const Scope& scope) { return Gpt(scope, {}); }},
      {"GptWithWeightsOfItsOwn", [](const Scope& scope) { return Gpt(scope, {.tied = false}); }},
      {"GptRotary", [](const Scope& scope) { return Gpt(scope, {.kv_heads = 2, .rotary = true}); }},
      {"GptOfOneKeyHead", [](const Scope& scope) { return Gpt(scope, {.kv_heads = 1, .rotary = true}); }},
      {"GptInBFloat16", [](const Scope& scope) { return Gpt(scope, {.dtype = DType::kBFloat16}); }},
      {"ResNet20OfProjections",
       [](const Scope& scope) {
         return OfImages(scope, 16, [&](Output x) {
           return ResNet(scope, x, {.shortcut = Shortcut::kProjection, .training = false});
         });
       }},
      {"WideDeep",
       [](const Scope& scope) -> Network::Ends {
         const Output numbers = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 4});
         const Output ids = ops::Placeholder(scope, DType::kInt64, {Shape::kUnknown});
         const TableInput table{.numbers = numbers, .categories = {{.name = "town", .ids = ids, .categories = 50}}};
         return {{{"numbers", numbers}, {"town", ids}},
                 {{"logit", WideDeep(scope, table, {.width = 8, .hidden = {16}, .training = false})}}};
       }},
      {"Vae",
       [](const Scope& scope) -> Network::Ends {
         const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 20});
         const VaeCode code = VaeEncoder(scope, x);
         return {{{"x", x}}, {{"mean", code.mean}, {"decoded", ops::Sigmoid(scope, VaeDecoder(scope, code.mean, 20))}}};
       }},
      {"Lstm",
       [](const Scope& scope) -> Network::Ends {
         const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 7, 5});
         const ops::LstmOutputs lstm = Lstm(scope, "lstm", x, 9);
         return {{{"x", x}}, {{"y", Dense(scope, "dense", lstm.y, 3)}, {"cell", lstm.cell}}};
       }},
      {"Gru",
       [](const Scope& scope) -> Network::Ends {
         const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown, 5});
         const ops::GruOutputs gru = Gru(scope, "gru", x, 9);
         return {{{"x", x}}, {{"y", Dense(scope, "dense", gru.y, 3)}, {"hidden", gru.hidden}}};
       }},
      {"BidirectionalLstm",
       [](const Scope& scope) -> Network::Ends {
         const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown, 5});
         const RecurrentStackOutputs stack =
             LstmStack(scope, "stack", x, 4, {.layers = 2, .bidirectional = true, .training = false});
         return {{{"x", x}}, {{"y", stack.y}, {"hidden", stack.hidden[1]}, {"cell", stack.cells[0]}}};
       }},
  };
  return *networks;
}

}  // namespace belfry::models
