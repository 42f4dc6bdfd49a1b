#include "trainers/prediction/gpu_cost.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/elementwise_codegen/kernel_source.h"
#include "framework/compiler/plan.h"
#include "framework/compiler/plan_report.h"

namespace belfry {
namespace {

// Facts about kernels that an op's definition does not state.
struct OpFacts {
  absl::string_view op;
  int launches = 1;
  // How often inputs 0 and 1 are read.
  double reads[2] = {1, 1};
  double other_reads = 1;
};
constexpr OpFacts kFacts[] = {
    {"BatchNorm", 2, {2, 1}},
    {"BatchNormAddRelu", 2, {2, 1}},
    {"BatchNormAddReluGrad", 2, {2, 2}},
    {"BatchNormAddReluGradOfSum", 2, {2, 2}},
    {"BatchNormGrad", 2, {2, 2}},
    {"BatchNormRelu", 2, {2, 1}},
    {"BatchNormReluGrad", 2, {2, 2}},
    {"BatchNormReluGradOfSum", 2, {2, 2}, 2},
    {"Conv2D", 2},
    {"Conv2DBackpropFilter", 2},
    {"Conv2DBackpropFilterBias", 3},
    {"Conv2DBackpropInput", 2},
    {"Conv2DBackpropInputAddReluGrad", 3},
    {"Conv2DBackpropInputReluGrad", 3},
    {"Conv2DTranspose", 2},
    {"CrossEntropyGrad", 1, {2, 1}},
    {"FusedConv2D", 2},
    {"Gather", 1, {0, 1}},
    {"GroupNorm", 2, {2, 1}},
    {"GroupNormGrad", 2, {2, 2}},
    {"L2Losses", 1},
    {"LayerNormAddGrad", 2, {2, 2}},
    {"LayerNormGrad", 2, {2, 2}},
    {"RmsNormAddGrad", 2, {2, 2}},
    {"RmsNormGrad", 2, {2, 2}},
    {"SparseCrossEntropyWithGradient", 1, {2, 1}},
    {"SparseSoftmaxCrossEntropyWithLogits", 1, {2, 1}},
};

const OpFacts* FactsOf(const OpDef& op) {
  const auto* const found =
      std::lower_bound(std::begin(kFacts), std::end(kFacts), op.name,
                       [](const OpFacts& facts, const std::string& name) { return facts.op < name; });
  return found != std::end(kFacts) && found->op == op.name ? found : nullptr;
}

bool IsSixteenBit(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Kernels reduce more elements than this to one in two launches.
constexpr int64_t kReducedAtOnce = int64_t{1} << 12;

// The filter comes in cuDNN's layout, so that no transposition is part of the kernel ("filter_layouts").
bool HasTurnedFilter(const ProgramNode& node) {
  const AttrValue* const turned = node.attrs.Find("filter_krsc");
  return turned != nullptr && std::get<bool>(*turned);
}

// cuBLASLt and cuDNN add a bias and apply a ReLU, and cuBLASLt the GELU with tanh; a kernel of ours follows for other
// activations.
bool IsFusedByLibraries(const ProgramNode& node) {
  const std::string& activation = node.attrs.String("activation");
  const bool gelu = activation == "gelu_tanh" && node.op->name == "FusedMatMul";
  return activation == "none" || activation == "Relu" || activation == "relu" || gelu;
}

// A memset, the sort of runs of 256 rows, merges of two runs each, and two passes of sums.
double LaunchesOfRowSums(int64_t rows) {
  double launches = 4;
  for (int64_t run = 256; run < rows; run *= 2) ++launches;
  return launches;
}

double LaunchesOf(const Program& program, const ProgramNode& node, Work work) {
  if (node.op == &UpdatesOp()) {
    const double at_once = node.body[0].op->name == "Increment" ? kCountersAtOnce : kUpdatesAtOnce;
    return std::ceil(static_cast<double>(node.body.size()) / at_once);
  }
  if (node.op == &JoinedOp()) {
    const std::vector<bool> shared = SharedInputs(node);
    const auto common = static_cast<int>(absl::c_count(shared, true));
    const auto pointers = static_cast<int>(shared.size() + node.body[0].outputs.size()) - common;
    return std::ceil(static_cast<double>(node.body.size()) / MostJoined(pointers, common));
  }
  const OpFacts* const facts = FactsOf(*node.op);
  if (node.op->name == "FusedMatMul") return IsFusedByLibraries(node) ? 1 : 2;
  if (work == Work::kConvolution && facts != nullptr) {
    return facts->launches - (HasTurnedFilter(node) ? 1 : 0) +
           (node.op->name == "FusedConv2D" && !IsFusedByLibraries(node) ? 1 : 0);
  }
  if (facts != nullptr) return facts->launches;
  if (node.op->name == "GatherGrad") return LaunchesOfRowSums(program.spec(node.inputs[1]).shape.elements());
  const bool reduces = !node.inputs.empty() && node.outputs.size() == 1 && node.outputs[0].shape.elements() == 1 &&
                       work == Work::kReduction;
  if (node.op->name == "GlobalNorm") return 1 + std::ceil(static_cast<double>(node.inputs.size()) / kNormsAtOnce);
  return reduces && program.spec(node.inputs[0]).shape.elements() > kReducedAtOnce ? 2 : 1;
}

// The bytes of input `i`, whose tensor has `size`, that a node reads.
double BytesRead(const ProgramNode& node, int i, double size) {
  // A byte of an image for each value; there may be more images than the node takes.
  if (node.op->name == "AugmentImages" && i == 0) {
    return std::min(size, static_cast<double>(node.outputs[0].shape.elements()));
  }
  return size * ReadsOf(*node.op, i);
}

// Each tensor counts once, however many inputs it is.
double BytesOf(const Program& program, const ProgramNode& node) {
  double bytes = 0;
  HashSet<Value> counted;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ArgDef& arg = InputArg(node, static_cast<int>(i));
    if (arg.shape_only || !counted.insert(node.inputs[i]).second) continue;
    const auto size = static_cast<double>(program.spec(node.inputs[i]).bytes());
    bytes += (arg.overwrites ? 0 : BytesRead(node, static_cast<int>(i), size)) + (arg.ref ? size : 0);
  }
  const bool gathers = node.op->name == "Gather";
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const bool is_ref = node.body.empty() && node.op->output_arg(static_cast<int>(i)).ref;
    if (!is_ref) bytes += (gathers ? 2.0 : 1.0) * static_cast<double>(node.outputs[i].bytes());
  }
  return bytes;
}

void SetProduct(const Program& program, const ProgramNode& node, Demand& demand) {
  const Shape& y = node.outputs[0].shape;
  if (y.rank() < 2 || y.elements() == 0) return;
  // The gradient of a turned filter is [K, R, S, C].
  demand.n = static_cast<double>(y[HasTurnedFilter(node) && absl::StrContains(node.op->name, "Filter") ? 0 : -1]);
  demand.m = static_cast<double>(y.elements()) / demand.n;
  if (demand.work == Work::kProduct) {
    demand.m = static_cast<double>(y[-2]);
    demand.batch = static_cast<double>(y.elements()) / (demand.m * demand.n);
  }
  demand.k = demand.flops / (2 * demand.batch * demand.m * demand.n);
  // Tensor cores take channels by eight, or four of float32.
  if (demand.work != Work::kConvolution) return;
  const double unit = IsSixteenBit(demand.dtype) ? 8 : 4;
  const auto channels = static_cast<double>(program.spec(node.inputs[0]).shape[-1]);
  if (channels < unit) demand.k *= unit / channels;
}

struct Tile {
  double m, n, share;  // share: of the largest tile's speed
};
constexpr Tile kTiles[] = {{256, 128, 1},  {128, 256, 1},  {128, 128, 0.95}, {128, 64, 0.8}, {64, 128, 0.8},
                           {64, 64, 0.65}, {128, 32, 0.5}, {64, 32, 0.4},    {32, 64, 0.4},  {32, 32, 0.25}};
constexpr double kIdleSteps = 64;   // along k: elements whose time a tile's start and end take
constexpr double kShortestK = 256;  // that is worth splitting off

double ProductSeconds(const Demand& demand, double flops_per_second, double multiprocessors) {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = demand.batch * std::ceil(demand.m / tile.m) * std::ceil(demand.n / tile.n);
    const double split =
        std::max(1.0, std::min(std::floor(multiprocessors / tiles), std::floor(demand.k / kShortestK)));
    const double waves = std::ceil(tiles * split / multiprocessors);
    const double flops = 2 * tile.m * tile.n * (demand.k / split + kIdleSteps);
    best = std::min(best, waves * flops * multiprocessors / (flops_per_second * tile.share));
  }
  return best;
}

}  // namespace

absl::string_view WorkName(Work work) {
  constexpr std::array<absl::string_view, kWorks> kNames = {"products",   "convolutions", "attention",
                                                            "reductions", "element-wise", "updates"};
  return kNames[static_cast<size_t>(work)];
}

Work WorkOf(const OpDef& op) {
  const absl::string_view name = op.name;
  if (absl::StrContains(name, "Conv2D")) return Work::kConvolution;
  if (absl::StrContains(name, "MatMul") || name == "Lstm" || name == "Gru" || name == "LstmGrad" || name == "GruGrad") {
    return Work::kProduct;
  }
  if (absl::StrContains(name, "Attention")) return Work::kAttention;
  if (&op == &UpdatesOp()) return Work::kUpdate;
  if (absl::c_any_of(op.inputs, [](const ArgDef& arg) { return arg.ref; })) return Work::kUpdate;
  if (op.elementwise || &op == &ElementwiseOp() || &op == &JoinedOp() || &op == &CopyOp() || &op == &TransferOp())
    return Work::kElementwise;
  constexpr absl::string_view kCopies[] = {"Cast",  "Concat",       "Gather",           "Pad",       "Slice",
                                           "Split", "StridedSlice", "StridedSliceGrad", "SliceGrad", "Transpose"};
  return absl::c_linear_search(kCopies, name) ? Work::kElementwise : Work::kReduction;
}

double ReadsOf(const OpDef& op, int index) {
  const OpFacts* const facts = FactsOf(op);
  if (facts == nullptr) return 1;
  return index > 1 ? facts->other_reads : facts->reads[index];
}

Demand DemandOf(const Program& program, const ProgramNode& node) {
  Demand demand;
  if (!Runs(node) || node.op->kind == OpKind::kAllReduce) return demand;
  const bool generated = node.op == &ElementwiseOp() || node.op == &JoinedOp();
  demand.work = generated && Updates(node) ? Work::kUpdate : WorkOf(*node.op);
  demand.launches = LaunchesOf(program, node, demand.work);
  demand.bytes = BytesOf(program, node);
  demand.flops = FlopsOf(program, node);
  if (!node.outputs.empty()) demand.dtype = node.outputs[0].dtype;
  if (demand.work == Work::kProduct || demand.work == Work::kConvolution) SetProduct(program, node, demand);
  return demand;
}

double SecondsOf(const Demand& demand, const GpuCard& card) {
  if (demand.launches == 0) return 0;
  const double speed = card.bandwidth * card.bandwidth_share * (demand.bytes <= card.cache / 2 ? card.cache_speed : 1);
  double seconds = demand.bytes / speed;
  const double peak = IsSixteenBit(demand.dtype)        ? card.flops_16bit
                      : demand.dtype == DType::kFloat32 ? card.flops_tf32
                                                        : card.flops_float32 / 2;
  if (demand.work == Work::kAttention) seconds = std::max(seconds, demand.flops / (peak * card.attention_share));
  if (demand.m > 0) {
    const double share = demand.work != Work::kConvolution ? card.product_share
                         : IsSixteenBit(demand.dtype)      ? card.conv_share
                                                           : card.conv_share_float32;
    seconds = std::max(seconds, ProductSeconds(demand, peak * share, card.multiprocessors));
  }
  return demand.launches * card.kernel + seconds;
}

}  // namespace belfry
