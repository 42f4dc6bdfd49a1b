#include "networks.h"

#include <vector>

namespace peer {
namespace {

using torch::Tensor;

bool EndsWith(const std::string& name, const std::string& end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

// Sums nine neighbouring channels of 64, written as the weights of a convolution; this halves the time of a step
// compared with local_response_norm.
Tensor Window() {
  const Tensor channels = torch::arange(64);
  const Tensor near = (channels.unsqueeze(1) - channels).abs() <= 4;
  return (near * (0.001 / 9)).view({64, 64, 1, 1}).contiguous(torch::MemoryFormat::ChannelsLast);
}

Tensor Norm(const Tensor& x, const Tensor& window) { return x * (1 + torch::conv2d(x * x, window)).pow(-0.75); }

Tensor Pool(const Tensor& x) { return torch::max_pool2d(x, 3, 2, 0, 1, /*ceil_mode=*/true); }

Tensor Perceptron(Tensors& p, Tensor x, const std::vector<std::string>& hidden) {
  for (const std::string& name : hidden) {
    x = torch::relu(torch::linear(x, p.at(name + "/weights"), p.at(name + "/biases")));
  }
  return torch::linear(x, p.at("softmax_linear/weights"), p.at("softmax_linear/biases"));
}

Tensor CifarNet(Tensors& p, Tensor x, bool norms) {
  const auto convolution = [&](const Tensor& in, const std::string& name) {
    return torch::relu(torch::conv2d(in, p.at(name + "/weights"), p.at(name + "/biases"), 1, 2));
  };
  const Tensor window = Window();
  x = Pool(convolution(x, "conv1"));
  if (norms) x = Norm(x, window);
  x = convolution(x, "conv2");
  x = Pool(norms ? Norm(x, window) : x);
  return Perceptron(p, x.permute({0, 2, 3, 1}).flatten(1), {"local3", "local4"});
}

Tensor ConvolutionAndNorm(Tensors& p, const Tensor& x, const std::string& name, int stride = 1) {
  // Padding SAME: with stride 2 and an even image, one pixel on the far sides only.
  const Tensor& weights = p.at(name + "/weights");
  const Tensor y = stride == 2 ? torch::conv2d(torch::constant_pad_nd(x, {0, 1, 0, 1}), weights, Tensor(), 2)
                               : torch::conv2d(x, weights, Tensor(), 1, 1);
  const std::string norm = name + "/bn/";
  return torch::batch_norm(y, p.at(norm + "gamma"), p.at(norm + "beta"), p.at(norm + "moving_mean"),
                           p.at(norm + "moving_variance"), /*training=*/true, 0.1, 1e-5, false);
}

Tensor ResNet(Tensors& p, Tensor x, int depth) {
  using torch::indexing::None;
  using torch::indexing::Slice;
  x = torch::relu(ConvolutionAndNorm(p, x, "conv1"));
  for (int stage = 1; stage <= 3; ++stage) {
    for (int block = 1; block <= (depth - 2) / 6; ++block) {
      const std::string name = "stage" + std::to_string(stage) + "/block" + std::to_string(block);
      const int stride = stage > 1 && block == 1 ? 2 : 1;
      const Tensor y = torch::relu(ConvolutionAndNorm(p, x, name + "/conv1", stride));
      if (stride == 2) {
        const int64_t half = x.size(1) / 2;
        x = x.index({Slice(), Slice(), Slice(None, None, 2), Slice(None, None, 2)});
        x = torch::constant_pad_nd(x, {0, 0, 0, 0, half, half});
      }
      x = torch::relu(ConvolutionAndNorm(p, y, name + "/conv2") + x);
    }
  }
  return torch::linear(x.mean({2, 3}), p.at("logits/weights"), p.at("logits/biases"));
}

double Decay(const std::string& model, const std::string& name) {
  if (model.rfind("resnet", 0) == 0) return EndsWith(name, "/weights") ? 1e-4 : 0;
  return name == "local3/weights" || name == "local4/weights" ? 0.004 : 0;
}

Tensor Logits(const std::string& model, Tensors& p, const Tensor& x) {
  if (model.rfind("resnet", 0) == 0) return ResNet(p, x, std::stoi(model.substr(6)));
  if (model == "mlp") return Perceptron(p, x, {"hidden1", "hidden2"});
  return CifarNet(p, x, model == "cifar_net");
}

}  // namespace

Tensor Loss(const std::string& model, Tensors& p, const Tensor& inputs, const Tensor& labels) {
  if (model == "s5") return (p.at("weight") * inputs + p.at("bias") - labels).square().mean();
  Tensor loss = torch::cross_entropy_loss(Logits(model, p, inputs), labels);
  for (const auto& [name, variable] : p) {
    if (const double decay = Decay(model, name); decay > 0) loss = loss + decay / 2 * variable.square().sum();
  }
  return loss;
}

bool IsStatistic(const std::string& name) {
  return EndsWith(name, "/moving_mean") || EndsWith(name, "/moving_variance");
}

bool IsTrained(const std::string& name) {
  return name != "inputs" && name != "labels" && name != "global_step" && !EndsWith(name, "/Momentum") &&
         !IsStatistic(name);
}

}  // namespace peer
