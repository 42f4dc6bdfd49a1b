#include "tests/ops/onednn/harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "framework/base/half.h"
#include "tests/main/testing.h"

namespace belfry::ops::onednn {
namespace {

constexpr size_t kGuard = 128;
constexpr unsigned char kGuardByte = 0xA5;

// A buffer aligned to 64 bytes, between guard bytes.
class Buffer {
 public:
  explicit Buffer(size_t bytes, unsigned char fill = 0xFF)
      : bytes_(bytes), storage_(bytes + 2 * kGuard + 64, kGuardByte) {
    std::memset(data(), fill, bytes);
  }
  char* data() {
    const uintptr_t start = reinterpret_cast<uintptr_t>(storage_.data()) + kGuard;
    return storage_.data() + kGuard + (64 - start % 64) % 64;
  }
  size_t size() const { return bytes_; }
  bool GuardsIntact() {
    const auto intact = [](char byte) { return static_cast<unsigned char>(byte) == kGuardByte; };
    return std::all_of(storage_.data(), data(), intact) &&
           std::all_of(data() + bytes_, storage_.data() + storage_.size(), intact);
  }

 private:
  size_t bytes_;
  std::vector<char> storage_;
};

void Store(const Values& values, DType dtype, char* to) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kBFloat16) {
      reinterpret_cast<BFloat16*>(to)[i] = static_cast<BFloat16>(static_cast<float>(values[i]));
    } else {
      reinterpret_cast<float*>(to)[i] = static_cast<float>(values[i]);
    }
  }
}

Values Load(const char* from, DType dtype, int64_t size) {
  Values values(size);
  for (int64_t i = 0; i < size; ++i) {
    values[i] = dtype == DType::kBFloat16 ? static_cast<float>(reinterpret_cast<const BFloat16*>(from)[i])
                                          : reinterpret_cast<const float*>(from)[i];
  }
  return values;
}

std::vector<Buffer> RunOnce(Primitive& primitive, const std::vector<Argument>& inputs,
                            const std::vector<Result>& outputs, bool saves, const Saved* saved_in) {
  std::vector<Buffer> in, out;
  for (const Argument& input : inputs) {
    Store(input.values, input.dtype, in.emplace_back(input.values.size() * SizeOf(input.dtype)).data());
  }
  if (saved_in != nullptr) std::copy(saved_in->begin(), saved_in->end(), in.emplace_back(saved_in->size()).data());
  for (const Result& output : outputs) out.emplace_back(output.size * SizeOf(output.dtype));
  if (saves) out.emplace_back(primitive.saved_bytes(), 0);
  Buffer workspace(primitive.workspace_bytes());
  std::vector<const void*> in_pointers;
  std::vector<void*> out_pointers;
  for (Buffer& buffer : in) in_pointers.push_back(buffer.data());
  for (Buffer& buffer : out) out_pointers.push_back(buffer.data());
  const absl::Status status =
      primitive.Run(in_pointers, absl::MakeSpan(out_pointers), workspace.size() == 0 ? nullptr : workspace.data());
  EXPECT_TRUE(status.ok()) << status;
  for (Buffer& buffer : in) EXPECT_TRUE(buffer.GuardsIntact());
  for (Buffer& buffer : out) EXPECT_TRUE(buffer.GuardsIntact());
  EXPECT_TRUE(workspace.GuardsIntact());
  return out;
}

}  // namespace

Values Random(int64_t size, DType dtype) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Values values(size);
  for (double& value : values) {
    value = uniform(TestRandom());
    if (dtype == DType::kBFloat16) value = static_cast<float>(static_cast<BFloat16>(static_cast<float>(value)));
  }
  return values;
}

std::vector<Values> RunPrimitive(Primitive& primitive, const std::vector<Argument>& inputs,
                                 const std::vector<Result>& outputs, Saved* saved_out, const Saved* saved_in) {
  std::vector<Buffer> first = RunOnce(primitive, inputs, outputs, saved_out != nullptr, saved_in);
  std::vector<Buffer> second = RunOnce(primitive, inputs, outputs, saved_out != nullptr, saved_in);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(std::memcmp(first[i].data(), second[i].data(), first[i].size()), 0) << "output " << i << " differs";
  }
  std::vector<Values> values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    values.push_back(Load(second[i].data(), outputs[i].dtype, outputs[i].size));
  }
  if (saved_out != nullptr) saved_out->assign(second.back().data(), second.back().data() + second.back().size());
  return values;
}

void ExpectClose(const Values& got, const Values& want, double tolerance, double scale) {
  ASSERT_EQ(got.size(), want.size());
  for (double value : want) scale = std::max(scale, std::abs(value));
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::isnan(got[i]) ? std::numeric_limits<double>::infinity() : std::abs(got[i] - want[i]);
    if (error > worst) worst = error, at = i;
  }
  EXPECT_LE(worst, tolerance * scale) << "element " << at << " is " << got[at] << ", want " << want[at];
}

double Apply(const Epilogue& post_ops, double x) {
  switch (post_ops.activation) {
    case Activation::kNone: return x;
    case Activation::kLeakyRelu: return x > 0 ? x : post_ops.alpha * x;
    case Activation::kElu: return x > 0 ? x : post_ops.alpha * std::expm1(x);
    case Activation::kTanh: return std::tanh(x);
    default: ADD_FAILURE() << "the library does not apply it";
  }
  return x;
}

}  // namespace belfry::ops::onednn
