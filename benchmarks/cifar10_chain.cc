#include "benchmarks/cifar10_chain.h"

#include <dnnl.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "ops/onednn/versions.h"

namespace belfry::benchmarks {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using ops::onednn::AppendEltwise;
using ops::onednn::Describe;
using ops::onednn::DescribeAlike;
using ops::onednn::DescribeBackward;
using ops::onednn::DescribeBackwardAlike;
using ops::onednn::DimsOf;
using ops::onednn::PoolWindow;
using ops::onednn::Target;
using ops::onednn::WithWindow;
using tag = memory::format_tag;

constexpr auto kFloat = memory::data_type::f32;
constexpr auto kTraining = prop_kind::forward_training;
constexpr auto kDirect = algorithm::convolution_direct;
constexpr float kWeightDecay = 0.004f;
// A 5 x 5 window that keeps the size of a convolution's images.
const memory::dims kStrides = {1, 1}, kPads = {2, 2};
// A 3 x 3 window with which pooling halves the size of its images.
const PoolWindow kWindow{.strides = {2, 2}, .size = {3, 3}, .pads_low = {0, 0}, .pads_high = {1, 1}};

// Attributes of a primitive, with a ReLU applied to its result if `relu`.
dnnl::primitive_attr Attributes(bool relu) {
  dnnl::post_ops ops;
  if (relu) AppendEltwise(ops, algorithm::eltwise_relu, 0, 0);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(ops);
  return attributes;
}

float* Floats(const memory& m) { return static_cast<float*>(m.get_data_handle()); }
int64_t Count(const memory& m) { return static_cast<int64_t>(m.get_desc().get_size() / sizeof(float)); }

}  // namespace

class Cifar10Chain::Impl {
 public:
  Impl(int64_t batch, uint64_t seed) : batch_(batch), random_(seed) { Build(); }

  float Step(const float* images, const int32_t* labels, float learning_rate) {
    Feed(images, labels, learning_rate);
    for (const Link& link : chain_) link.run();
    return loss_;
  }

  std::vector<Part> Profile(const float* images, const int32_t* labels, float learning_rate, int steps) {
    using Clock = std::chrono::steady_clock;
    Feed(images, labels, learning_rate);
    std::vector<Part> parts;
    for (const Link& link : chain_) parts.push_back(link.part);
    for (int step = 0; step < steps; ++step) {
      for (size_t i = 0; i < chain_.size(); ++i) {
        const Clock::time_point start = Clock::now();
        chain_[i].run();
        const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
        parts[i].milliseconds = std::min(parts[i].milliseconds, taken.count());
      }
    }
    return parts;
  }

 private:
  using Arguments = std::unordered_map<int, memory>;

  struct Link {
    Part part;
    std::function<void()> run;
  };

  // A parameter, its gradient, and its weight decay.
  struct Variable {
    memory value, gradient;
    float decay;
  };

  // The state that a layer's forward pass keeps for its backward pass.
  struct Convolved {
    dnnl::convolution_forward::primitive_desc desc;
    memory x, weights, y;
    std::string name;
    double flops;
  };
  struct Pooled {
    dnnl::pooling_forward::primitive_desc desc;
    memory winners;
    memory::dims x;
  };
  struct Normalised {
    dnnl::lrn_forward::primitive_desc desc;
    memory x, saved;
  };

  void Feed(const float* images, const int32_t* labels, float learning_rate) {
    images_.set_data_handle(const_cast<float*>(images));
    labels_ = labels;
    learning_rate_ = learning_rate;
  }

  // A buffer that lives as long as the chain, so that others may point into it.
  memory Buffer(const memory::desc& desc) { return buffers_.emplace_back(desc, cpu_); }
  memory::desc Nhwc(const memory::dims& dims) { return memory::desc(dims, kFloat, tag::nhwc); }
  memory::desc Matrix(int64_t rows, int64_t columns) { return memory::desc({rows, columns}, kFloat, tag::ab); }

  void Add(const std::string& name, const dnnl::primitive_desc_base& desc, Arguments arguments, double flops = 0) {
    const std::string implementation = desc.impl_info_str();
    if (implementation.find("ref") != std::string::npos) {
      throw std::runtime_error(name + ": only a reference implementation: " + implementation);
    }
    chain_.push_back({{name, implementation, flops},
                      [this, primitive = dnnl::primitive(desc.get()), arguments = std::move(arguments)] {
                        primitive.execute(stream_, arguments);
                        stream_.wait();
                      }});
  }

  void AddLoop(const std::string& name, std::function<void()> run) { chain_.push_back({{name, "loop"}, run}); }

  // Fills `value` from a truncated normal distribution around `mean`; the library zeroes the padding of its layouts.
  void Initialize(memory value, float mean, float deviation) {
    const memory::dims dims = DimsOf(value.get_desc());
    const tag plain = dims.size() == 4 ? tag::abcd : dims.size() == 2 ? tag::ab : tag::a;
    memory samples(memory::desc(dims, kFloat, plain), cpu_);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < Count(samples); ++i) {
      float sample = normal(random_);
      while (std::abs(sample) > 2) sample = normal(random_);
      Floats(samples)[i] = mean + deviation * sample;
    }
    dnnl::reorder(samples, value).execute(stream_, samples, value);
    stream_.wait();
  }

  memory NewVariable(const memory::desc& desc, float mean, float deviation, float decay = 0) {
    variables_.push_back({Buffer(desc), Buffer(desc), decay});
    Initialize(variables_.back().value, mean, deviation);
    return variables_.back().value;
  }

  // `from` in the layout `to`; adds a reorder if the layouts differ.
  memory In(const std::string& name, const memory& from, const memory::desc& to) {
    if (from.get_desc() == to) return from;
    const memory result = Buffer(to);
    Reorder(name, from, result);
    return result;
  }

  void Reorder(const std::string& name, const memory& from, const memory& to) {
    Add(name + " reorder", dnnl::reorder::primitive_desc(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  Convolved Convolve(const std::string& name, const memory& x, float bias) {
    const memory::dims in = DimsOf(x.get_desc());
    const memory::dims weights{64, in[1], 5, 5}, out{in[0], 64, in[2], in[3]};
    const auto desc = Describe<dnnl::convolution_forward>(
        {.engine = cpu_, .attributes = Attributes(true)}, kTraining, kDirect, x.get_desc(),
        memory::desc(weights, kFloat, tag::any), memory::desc({64}, kFloat, tag::a), Nhwc(out), kStrides, kPads, kPads);
    Convolved layer{desc,
                    x,
                    NewVariable(desc.weights_desc(), 0, 0.05f),
                    Buffer(desc.dst_desc()),
                    name,
                    2.0 * 25 * 64 * in[0] * in[1] * in[2] * in[3]};
    Add(name + " forward", desc,
        {{DNNL_ARG_SRC, x},
         {DNNL_ARG_WEIGHTS, layer.weights},
         {DNNL_ARG_BIAS, NewVariable(memory::desc({64}, kFloat, tag::a), bias, 0)},
         {DNNL_ARG_DST, layer.y}},
        layer.flops);
    return layer;
  }

  // The weights and the bias of a layer are adjacent in variables_.
  memory ConvolveBackward(const Convolved& layer, const memory& dy, bool first) {
    const memory::desc any(DimsOf(layer.weights.get_desc()), kFloat, tag::any);
    const memory::desc x = layer.x.get_desc(), y = dy.get_desc(), bias({64}, kFloat, tag::a);
    const auto weights = std::find_if(variables_.begin(), variables_.end(), [&](const Variable& v) {
      return v.value.get_data_handle() == layer.weights.get_data_handle();
    });
    const auto for_weights = DescribeBackward<dnnl::convolution_backward_weights>(
        {.engine = cpu_}, layer.desc, kDirect, x, any, bias, y, kStrides, kPads, kPads);
    const bool same = for_weights.diff_weights_desc() == layer.weights.get_desc();
    const memory gradient = same ? weights->gradient : Buffer(for_weights.diff_weights_desc());
    Add(layer.name + " backward weights", for_weights,
        {{DNNL_ARG_SRC, layer.x},
         {DNNL_ARG_DIFF_DST, dy},
         {DNNL_ARG_DIFF_WEIGHTS, gradient},
         {DNNL_ARG_DIFF_BIAS, (weights + 1)->gradient}},
        layer.flops);
    if (!same) Reorder(layer.name + " gradient", gradient, weights->gradient);
    if (first) return {};
    const auto for_x = DescribeBackward<dnnl::convolution_backward_data>({.engine = cpu_}, layer.desc, kDirect, x, any,
                                                                         y, kStrides, kPads, kPads);
    const memory dx = Buffer(x);
    const memory reordered = In(layer.name + " weights", layer.weights, for_x.weights_desc());
    Add(layer.name + " backward data", for_x,
        {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, reordered}, {DNNL_ARG_DIFF_SRC, dx}}, layer.flops);
    return dx;
  }

  std::pair<Pooled, memory> Pool(const std::string& name, const memory& x) {
    const memory::dims in = DimsOf(x.get_desc());
    const memory y = Buffer(Nhwc({in[0], in[1], in[2] / 2, in[3] / 2}));
    using Pooling = dnnl::pooling_forward;
    const auto desc = WithWindow<Pooling>(kWindow, [&](const auto&... window) {
      return Describe<Pooling>({.engine = cpu_}, kTraining, algorithm::pooling_max, x.get_desc(), y.get_desc(),
                               window...);
    });
    const memory winners = Buffer(desc.workspace_desc());
    Add(name + " forward", desc, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, winners}});
    return {{desc, winners, in}, y};
  }

  memory PoolBackward(const std::string& name, const Pooled& layer, const memory& dy) {
    const memory dx = Buffer(Nhwc(layer.x));
    using Pooling = dnnl::pooling_backward;
    const auto desc = WithWindow<Pooling>(kWindow, [&](const auto&... window) {
      return DescribeBackward<Pooling>({.engine = cpu_}, layer.desc, algorithm::pooling_max, dx.get_desc(),
                                       layer.desc.dst_desc(), window...);
    });
    Add(name + " backward", desc,
        {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_WORKSPACE, layer.winners}});
    return dx;
  }

  // Radius 4, bias 1, alpha 0.001 / 9, beta 0.75. The library divides its alpha by the 9 channels itself.
  std::pair<Normalised, memory> Normalise(const std::string& name, const memory& x) {
    const auto desc = DescribeAlike<dnnl::lrn_forward>({.engine = cpu_}, kTraining, algorithm::lrn_across_channels,
                                                       x.get_desc(), 9, 0.001f, 0.75f, 1.0f);
    const memory y = Buffer(x.get_desc()), saved = Buffer(desc.workspace_desc());
    Add(name + " forward", desc, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, saved}});
    return {{desc, x, saved}, y};
  }

  memory NormaliseBackward(const std::string& name, const Normalised& layer, const memory& dy) {
    const memory::desc data = layer.x.get_desc();
    const auto desc = DescribeBackwardAlike<dnnl::lrn_backward>(
        {.engine = cpu_}, layer.desc, algorithm::lrn_across_channels, data, 9, 0.001f, 0.75f, 1.0f);
    const memory dx = Buffer(data);
    Add(name + " backward", desc,
        {{DNNL_ARG_SRC, layer.x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_WORKSPACE, layer.saved}});
    return dx;
  }

  // In place: zeroes dy where y is 0.
  void ReluBackward(const std::string& name, const memory& y, const memory& dy) {
    const auto relu = algorithm::eltwise_relu_use_dst_for_bwd;
    const memory::desc data = y.get_desc();
    const Target target{.engine = cpu_};
    const auto hint = DescribeAlike<dnnl::eltwise_forward>(target, kTraining, relu, data, 0.0f, 0.0f);
    const auto desc = DescribeBackwardAlike<dnnl::eltwise_backward>(target, hint, relu, data, 0.0f, 0.0f);
    Add(name + " relu backward", desc, {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dy}});
  }

  // op(a) op(b) of row-major matrices, with an optional bias and ReLU, into a new buffer or `into`.
  memory Product(const std::string& name, const memory& a, bool transpose_a, const memory& b, bool transpose_b,
                 const memory* bias, bool relu, const memory* into) {
    const auto operand = [](const memory& m, bool transpose) {
      memory::dims dims = DimsOf(m.get_desc());
      if (transpose) std::swap(dims[0], dims[1]);
      return memory::desc(dims, kFloat, transpose ? tag::ba : tag::ab);
    };
    const memory::desc a_desc = operand(a, transpose_a), b_desc = operand(b, transpose_b);
    const int64_t m = DimsOf(a_desc)[0], k = DimsOf(a_desc)[1], n = DimsOf(b_desc)[1];
    const memory y = into != nullptr ? *into : Buffer(Matrix(m, n));
    const Target target{.engine = cpu_, .attributes = Attributes(relu)};
    const auto desc = bias != nullptr ? Describe<dnnl::matmul>(target, a_desc, b_desc, Matrix(1, n), Matrix(m, n))
                                      : Describe<dnnl::matmul>(target, a_desc, b_desc, Matrix(m, n));
    Arguments arguments{{DNNL_ARG_SRC, memory(a_desc, cpu_, a.get_data_handle())},
                        {DNNL_ARG_WEIGHTS, memory(b_desc, cpu_, b.get_data_handle())},
                        {DNNL_ARG_DST, y}};
    if (bias != nullptr) arguments.insert({DNNL_ARG_BIAS, *bias});
    Add(name, desc, arguments, 2.0 * m * n * k);
    return y;
  }

  memory Dense(const std::string& name, const memory& x, int64_t outputs, float deviation, float bias, float decay,
               bool relu) {
    const memory weights = NewVariable(Matrix(DimsOf(x.get_desc())[1], outputs), 0, deviation, decay);
    const memory biases = NewVariable(Matrix(1, outputs), bias, 0);
    return Product(name + " forward", x, false, weights, false, &biases, relu, nullptr);
  }

  // `weights`: the index of the layer's first variable.
  memory DenseBackward(const std::string& name, const memory& x, size_t weights, const memory& dy) {
    Product(name + " backward weights", x, true, dy, false, nullptr, false, &variables_[weights].gradient);
    const int64_t rows = DimsOf(dy.get_desc())[0], columns = DimsOf(dy.get_desc())[1];
    float* const sums = Floats(variables_[weights + 1].gradient);
    const float* const data = Floats(dy);
    AddLoop(name + " backward bias", [=] {
      std::fill_n(sums, columns, 0.0f);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) sums[column] += data[row * columns + column];
      }
    });
    return Product(name + " backward data", dy, false, variables_[weights].value, true, nullptr, false, nullptr);
  }

  void CrossEntropy(const memory& logits, const memory& gradient) {
    const float* const scores = Floats(logits);
    float* const slope = Floats(gradient);
    AddLoop("softmax cross-entropy", [this, scores, slope] {
      double loss = 0;
      for (int64_t n = 0; n < batch_; ++n) {
        const float* const row = scores + n * kClasses;
        float* const out = slope + n * kClasses;
        const float largest = *std::max_element(row, row + kClasses);
        float sum = 0;
        for (int64_t i = 0; i < kClasses; ++i) sum += out[i] = std::exp(row[i] - largest);
        loss += std::log(sum) + largest - row[labels_[n]];
        for (int64_t i = 0; i < kClasses; ++i) out[i] /= sum * static_cast<float>(batch_);
        out[labels_[n]] -= 1.0f / static_cast<float>(batch_);
      }
      loss_ = static_cast<float>(loss / static_cast<double>(batch_));
    });
  }

  // One pass per variable adds weight decay to the loss and the gradient, and applies the step.
  void Update() {
    AddLoop("gradient descent", [this] {
      for (const Variable& variable : variables_) {
        float* const value = Floats(variable.value);
        const float* const gradient = Floats(variable.gradient);
        const int64_t count = Count(variable.value);
        const float rate = learning_rate_, decay = variable.decay;
        float squares = 0;
#pragma omp parallel for simd reduction(+ : squares) schedule(static) if (count > 50'000)
        for (int64_t i = 0; i < count; ++i) {
          const float v = value[i];
          squares += v * v;
          value[i] = v - rate * (gradient[i] + decay * v);
        }
        loss_ += decay * squares / 2;
      }
    });
  }

  void Build() {
    variables_.reserve(10);
    images_ = memory(Nhwc({batch_, kChannels, kSide, kSide}), cpu_, nullptr);
    const Convolved conv1 = Convolve("conv1", images_, 0);
    const auto [pool1, pooled1] = Pool("pool1", conv1.y);
    const auto [lrn1, normal1] = Normalise("lrn1", pooled1);
    const Convolved conv2 = Convolve("conv2", normal1, 0.1f);
    const auto [lrn2, normal2] = Normalise("lrn2", conv2.y);
    const auto [pool2, pooled2] = Pool("pool2", normal2);
    const memory features(Matrix(batch_, 6 * 6 * 64), cpu_, pooled2.get_data_handle());
    const size_t fc3 = variables_.size(), fc4 = fc3 + 2, fc5 = fc4 + 2;
    const memory hidden3 = Dense("fc3", features, 384, 0.04f, 0.1f, kWeightDecay, true);
    const memory hidden4 = Dense("fc4", hidden3, 192, 0.04f, 0.1f, kWeightDecay, true);
    const memory logits = Dense("fc5", hidden4, kClasses, 1 / 192.0f, 0, 0, false);

    const memory dlogits = Buffer(logits.get_desc());
    CrossEntropy(logits, dlogits);

    const memory dhidden4 = DenseBackward("fc5", hidden4, fc5, dlogits);
    ReluBackward("fc4", hidden4, dhidden4);
    const memory dhidden3 = DenseBackward("fc4", hidden3, fc4, dhidden4);
    ReluBackward("fc3", hidden3, dhidden3);
    const memory dfeatures = DenseBackward("fc3", features, fc3, dhidden3);
    const memory dpooled2(pooled2.get_desc(), cpu_, dfeatures.get_data_handle());
    const memory dy2 = NormaliseBackward("lrn2", lrn2, PoolBackward("pool2", pool2, dpooled2));
    ReluBackward("conv2", conv2.y, dy2);
    const memory dnormal1 = ConvolveBackward(conv2, dy2, /*first=*/false);
    const memory dy1 = PoolBackward("pool1", pool1, NormaliseBackward("lrn1", lrn1, dnormal1));
    ReluBackward("conv1", conv1.y, dy1);
    ConvolveBackward(conv1, dy1, /*first=*/true);
    Update();
  }

  const int64_t batch_;
  std::mt19937_64 random_;
  const dnnl::engine cpu_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{cpu_};
  memory images_;
  const int32_t* labels_ = nullptr;
  float learning_rate_ = 0, loss_ = 0;
  std::vector<Variable> variables_;
  std::vector<memory> buffers_;
  std::vector<Link> chain_;
};

Cifar10Chain::Cifar10Chain(int64_t batch, uint64_t seed) : impl_(std::make_unique<Impl>(batch, seed)) {}
Cifar10Chain::~Cifar10Chain() = default;

float Cifar10Chain::Step(const float* images, const int32_t* labels, float learning_rate) {
  return impl_->Step(images, labels, learning_rate);
}

std::vector<Cifar10Chain::Part> Cifar10Chain::Profile(const float* images, const int32_t* labels, float learning_rate,
                                                      int steps) {
  return impl_->Profile(images, labels, learning_rate, steps);
}

}  // namespace belfry::benchmarks
