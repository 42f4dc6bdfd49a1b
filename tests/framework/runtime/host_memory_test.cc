// Steps whose feeds and fetches are in memory of the program.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/nn.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The address of an op's input, so that a test sees whether it was copied.
OpDef AddressOf() {
  return {.name = "AddressOf",
          .inputs = {{.name = "x"}},
          .outputs = {{.name = "address", .type = "int64"}},
          .types = {{"T", kWideFloatTypes}},
          .shape = [](const ShapeArgs&) -> absl::StatusOr<std::vector<Shape>> { return std::vector<Shape>{{}}; },
          .not_differentiable = true,
          .stateful = true,
          .kernels = Kernels<float>("CPU", [](auto) -> KernelFactory {
            return [](const KernelSpec&) -> absl::StatusOr<Kernel> {
              return Kernel{[](const KernelContext& context) {
                *context.output<int64_t>(0) = reinterpret_cast<int64_t>(context.input<float>(0));
                return absl::OkStatus();
              }};
            };
          })};
}

class HostMemory : public SessionFixture {
 protected:
  HostMemory() { registry_.Add(AddressOf()); }

  Output Feed(const Shape& shape) { return ops::Placeholder(root_, DType::kFloat32, shape); }
  // Memory of the program, and a part of it that begins `skip` elements after a multiple of 64.
  absl::Span<float> Memory(size_t elements, size_t skip = 0) {
    tensors_.emplace_back(DType::kFloat32, Shape{static_cast<int64_t>(elements + skip)});
    float* const begin = tensors_.back().data<float>();
    std::generate_n(begin, elements + skip, [&] { return static_cast<float>(TestRandom()() % 100) - 50; });
    return {begin + skip, elements};
  }

  std::vector<Tensor> tensors_;
};

TEST_F(HostMemory, IsReadAndWrittenWhereItLies) {
  const Output x = Feed({4, 3}), flat = ops::Reshape(root_, x, {12});
  const Output y = ops::MatMul(root_, x, ops::Const(root_, Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2})));
  const Output at = root_.Add("AddressOf", {x}), within = root_.Add("AddressOf", {ops::FlatSlice(root_, flat, 0, 6)});
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(const auto step, session_->Prepare({{x, {4, 3}}}, {y, at, within}));
  const absl::Span<float> in = Memory(12), other = Memory(12), out = Memory(8);
  for (const absl::Span<float> memory : {in, other}) {
    ASSERT_EQ(step->Bind<float>(0, memory), absl::OkStatus());
    ASSERT_EQ(step->BindResult<float>(0, out), absl::OkStatus());
    for (int run = 0; run < 2; ++run) {
      memory[5] += 1;
      ASSERT_EQ(step->Run(), absl::OkStatus());
      for (int64_t i = 0; i < 8; ++i) {
        const float* const row = &memory[i / 2 * 3];
        const float column = static_cast<float>(i % 2);
        EXPECT_EQ(out[i], row[0] * (1 + column) + row[1] * (3 + column) + row[2] * (5 + column));
      }
      EXPECT_EQ(step->fetched(1).scalar<int64_t>(), reinterpret_cast<int64_t>(memory.data()));
      EXPECT_EQ(step->fetched(2).scalar<int64_t>(), reinterpret_cast<int64_t>(memory.data()));
      EXPECT_EQ(step->fetched(0).raw(), out.data());
    }
  }
}

// An op that works in place does so on a copy.
TEST_F(HostMemory, IsNotChanged) {
  const Output x = Feed({1000});
  Output y = x;
  for (int i = 0; i < 3; ++i) y = ops::Add(root_, ops::Relu(root_, y), 1);
  for (const bool fuse : {false, true}) {
    Open("cpu:1", {.fuse = fuse});
    ASSERT_OK_AND_ASSIGN(const auto step, session_->Prepare({{x, {1000}}}, {y}));
    const absl::Span<float> in = Memory(1000), out = Memory(1000);
    const std::vector<float> before(in.begin(), in.end());
    ASSERT_EQ(step->Bind<float>(0, in), absl::OkStatus());
    ASSERT_EQ(step->BindResult<float>(0, out), absl::OkStatus());
    ASSERT_EQ(step->Run(), absl::OkStatus());
    EXPECT_EQ(in, absl::MakeConstSpan(before));
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(out[i], std::max(in[i], 0.0f) + 3);
  }
}

// Feeds, variables, constants, views, parts and values that are fetched twice; on two devices, and at any address.
TEST_F(HostMemory, HoldsWhateverIsFetched) {
  const Variable counter = Counter(root_, "counter", 5);
  const Output x = Feed({2, 32}), far = ops::Placeholder(root_.Device("/cpu:1"), DType::kFloat32, {2, 32});
  const Output product = ops::Mul(root_.Device("/cpu:1"), x, far);
  const Output sum = ops::Add(root_, product, x), flat = ops::Reshape(root_, sum, {64});
  const std::vector<Output> fetches = {x,
                                       counter.value(),
                                       ops::Const(root_, {1.0f, 2.0f}),
                                       product,
                                       sum,
                                       sum,
                                       flat,
                                       ops::FlatSlice(root_, flat, 16, 32),
                                       far,
                                       ops::Sub(root_, sum, product)};
  Open("cpu:2");
  Initialize();
  for (const size_t skip : {0, 1}) {
    ASSERT_OK_AND_ASSIGN(const auto step, session_->Prepare({{x, {2, 32}}, {far, {2, 32}}}, fetches));
    std::vector<absl::Span<float>> results;
    for (size_t i = 0; i < fetches.size(); ++i) {
      results.push_back(Memory(static_cast<size_t>(step->fetched(static_cast<int>(i)).elements()), skip));
      ASSERT_EQ(step->BindResult<float>(static_cast<int>(i), results.back()), absl::OkStatus());
    }
    // One of the feeds stays a tensor.
    const absl::Span<float> near = Memory(64, skip);
    ASSERT_EQ(step->Bind<float>(0, near), absl::OkStatus());
    for (int run = 0; run < 3; ++run) {
      const absl::Span<float> fed = Memory(64);
      std::generate(near.begin(), near.end(), [&] { return static_cast<float>(TestRandom()() % 100) - 50; });
      Tensor x_value(DType::kFloat32, {2, 32}), far_value(DType::kFloat32, {2, 32});
      std::copy(near.begin(), near.end(), x_value.data<float>());
      std::copy(fed.begin(), fed.end(), far_value.data<float>());
      ASSERT_EQ(step->Run({far_value}), absl::OkStatus());
      ASSERT_OK_AND_ASSIGN(const auto expected, session_->Run({{x, x_value}, {far, far_value}}, fetches));
      for (size_t i = 0; i < fetches.size(); ++i) {
        EXPECT_EQ(results[i], expected[i].span<float>()) << i;
        EXPECT_EQ(step->fetched(static_cast<int>(i)).span<float>(), expected[i].span<float>()) << i;
      }
    }
  }
}

// Memory that is aligned, then some that is not, and back.
TEST_F(HostMemory, MayBeOtherMemoryLater) {
  const Output x = Feed({16}), y = ops::Neg(root_, x), z = ops::Sum(root_, x);
  Open("cpu:1", {.recheck = 0});
  ASSERT_OK_AND_ASSIGN(const auto step, session_->Prepare({{x, {16}}}, {y, z}));
  for (const size_t skip : {0, 3, 0, 1, 2}) {
    const absl::Span<float> in = Memory(16, skip), out = Memory(16, skip);
    ASSERT_EQ(step->Bind<float>(0, in), absl::OkStatus());
    ASSERT_EQ(step->BindResult<float>(0, out), absl::OkStatus());
    ASSERT_EQ(step->Run(), absl::OkStatus());
    float sum = 0;
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(out[i], -in[i]);
      sum += in[i];
    }
    EXPECT_EQ(step->fetched(1).scalar<float>(), sum);
  }
}

// A time loop: the result of a step is the feed of the next.
TEST_F(HostMemory, MayBeThatOfAFeedAndOfAResult) {
  const Output x = Feed({3, 3}),
               y = ops::MatMul(root_, ops::Const(root_, Tensor::Of<float>({0, 1, 0, 0, 0, 1, 1, 0, 0}, {3, 3})), x);
  Open("cpu:1");
  for (const bool result_first : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto step, session_->Prepare({{x, {3, 3}}}, {y}));
    const absl::Span<float> state = Memory(9);
    const std::vector<float> before(state.begin(), state.end());
    for (const bool result : {result_first, !result_first}) {
      ASSERT_EQ(result ? step->BindResult<float>(0, state) : step->Bind<float>(0, state), absl::OkStatus());
    }
    for (int run = 1; run <= 3; ++run) {
      ASSERT_EQ(step->Run(), absl::OkStatus());
      for (int i = 0; i < 9; ++i) EXPECT_EQ(state[i], before[(i + 3 * run) % 9]) << "rows move up";
    }
  }
}

TEST_F(HostMemory, SaysWhatDoesNotFit) {
  const Output x = Feed({2, 3});
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(const auto step, session_->Prepare({{x, {2, 3}}}, {ops::Neg(root_, x)}));
  std::vector<double> doubles(6);
  const absl::Span<float> in = Memory(6);
  EXPECT_THAT(step->Bind<float>(0, in.subspan(1)).message(),
              HasSubstr("5 elements float32 was given for feed 0, which is float32 [2,3]"));
  EXPECT_THAT(step->Bind<double>(0, doubles).message(), HasSubstr("6 elements float64 was given for feed 0"));
  EXPECT_THAT(step->BindResult<double>(0, absl::MakeSpan(doubles)).message(),
              HasSubstr("float64 was given for fetch 0"));
  EXPECT_THAT(step->Bind<float>(0, absl::Span<const float>(nullptr, 6)).message(), HasSubstr("but no address"));
  EXPECT_THAT(step->Bind<float>(1, in).message(), HasSubstr("has no feed 1, but 1 of them"));
  EXPECT_THAT(step->BindResult<float>(-1, in).message(), HasSubstr("has no fetch -1"));
  ASSERT_EQ(step->Bind<float>(0, in), absl::OkStatus());
  EXPECT_THAT(step->Run({Tensor(DType::kFloat32, {2, 3})}).message(),
              HasSubstr("prepared for 0 feeds that are not bound, but was given 1"));
}

TEST_F(HostMemory, OfTwoResultsMustNotOverlap) {
  const Output x = Feed({4});
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(const auto step, session_->Prepare({{x, {4}}}, {ops::Neg(root_, x), ops::Square(root_, x)}));
  const absl::Span<float> out = Memory(8);
  ASSERT_EQ(step->BindResult<float>(0, out.subspan(0, 4)), absl::OkStatus());
  EXPECT_THAT(step->BindResult<float>(1, out.subspan(3, 4)).message(), HasSubstr("fetch 1 overlaps that of fetch 0"));
  ASSERT_EQ(step->BindResult<float>(1, out.subspan(4, 4)), absl::OkStatus());
  ASSERT_EQ(step->Run({Tensor::Of<float>({1, 2, 3, 4})}), absl::OkStatus());
  EXPECT_THAT(out, ElementsAre(-1, -2, -3, -4, 1, 4, 9, 16));
}

TEST_F(HostMemory, MayBeEmpty) {
  const Output x = Feed({0, 3});
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(const auto step, session_->Prepare({{x, {0, 3}}}, {ops::Neg(root_, x), ops::Sum(root_, x)}));
  ASSERT_EQ(step->Bind<float>(0, {}), absl::OkStatus());
  ASSERT_EQ(step->BindResult<float>(0, absl::Span<float>()), absl::OkStatus());
  ASSERT_EQ(step->Run(), absl::OkStatus());
  EXPECT_EQ(step->fetched(1).scalar<float>(), 0);
}

}  // namespace
}  // namespace belfry
