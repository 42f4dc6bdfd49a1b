#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/check.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "ops/summary.h"
#include "ops/summary/summary_impl.h"

namespace belfry::ops {
namespace {

constexpr double kMaxElements = 1e15;

// A summary's node with the value fetched from it.
struct Fetched {
  const Node* node;
  Tensor value;
};

// All summaries that share a tag.
struct Entry {
  std::string tag;
  std::vector<Fetched> towers;
};

// The tag of a summary without the name scope of its tower, or of the tower whose tensor it shows: in the name scope
// "train/tower_1/" of tower 1, "train/tower_1/conv1/loss" is shown as "train/conv1/loss".
std::string WithoutTower(const Node& summary) {
  const Node& node = summary.tower() >= 0 ? summary : *summary.input(0).node;
  absl::string_view tag = summary.attrs().String(kTag), around = node.tower_scope();
  if (around.empty() || !absl::ConsumePrefix(&tag, around)) return std::string(tag);
  around.remove_suffix(1);
  return absl::StrCat(around.substr(0, around.rfind('/') + 1), tag);
}

absl::Status CheckFetched(const Output& summary, const Tensor& value) {
  if (!summary.valid() || !(IsSummary(*summary.node) || summary.node->op().name == kMergeSummary)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ReadSummaries: ", summary.valid() ? summary.name() : "an invalid Output",
                     " is not a summary; expected an output of ScalarSummary, HistogramSummary, ImageSummary or "
                     "MergeSummary"));
  }
  if (value.dtype() == summary.dtype() && value.shape().rank() == summary.shape().rank()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ReadSummaries: the value of ", summary.name(), " is ",
                                                 DTypeName(value.dtype()), " ", value.shape().ToString(),
                                                 ", but it is declared as ", DTypeName(summary.dtype()), " ",
                                                 summary.shape().ToString(), "; are the lists in the same order?"));
}

// Splits a merged vector back into the values of its summaries. An unknown extent precedes the elements it describes,
// as MergeSummary packs them, and is checked before memory is allocated for them.
class Unpacker {
 public:
  Unpacker(const Node& merged, const Tensor& packed) : merged_(merged), rest_(packed.span<float>()) {}

  absl::Status Run(std::vector<Fetched>* out) {
    for (const absl::string_view name : absl::StrSplit(merged_.attrs().String(kSummaryNodes), ' ')) {
      const Node* node = merged_.graph().FindNode(name);
      BELFRY_CHECK(node != nullptr);
      ASSIGN_OR_RETURN(Tensor value, Next(node->outputs()[0]));
      out->push_back({node, std::move(value)});
    }
    return rest_.empty() ? absl::OkStatus() : Misfit();
  }

 private:
  absl::StatusOr<Tensor> Next(const TensorSpec& spec) {
    Shape shape = spec.shape;
    double elements = 1, others = 1;  // others: the product without zero extents
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == Shape::kUnknown) {
        if (rest_.empty() || !(rest_[0] >= 0 && rest_[0] < 1e9f)) return Misfit();
        shape.set_dim(axis, static_cast<int64_t>(rest_[0]));
        rest_.remove_prefix(1);
      }
      elements *= static_cast<double>(shape[axis]);
      others *= static_cast<double>(std::max<int64_t>(shape[axis], 1));
    }
    if (elements > static_cast<double>(rest_.size()) || others > kMaxElements) return Misfit();
    const absl::Span<const float> values = rest_.subspan(0, static_cast<size_t>(elements));
    rest_.remove_prefix(values.size());
    if (spec.dtype != DType::kUInt8) return Tensor::Of(values, shape);
    Tensor bytes(DType::kUInt8, shape);
    std::transform(values.begin(), values.end(), bytes.data<uint8_t>(),
                   [](float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); });
    return bytes;
  }

  absl::Status Misfit() const {
    return absl::InvalidArgumentError(absl::StrCat("ReadSummaries: the value of ", merged_.name(),
                                                   " was not fetched from it: its parts do not match"));
  }

  const Node& merged_;
  absl::Span<const float> rest_;
};

absl::Status AddEntry(const Entry& entry, FetchedSummaries* out) {
  const Node& first = *entry.towers[0].node;
  for (const Fetched& tower : entry.towers) {
    if (tower.node->op().name == first.op().name) continue;
    return absl::InvalidArgumentError(absl::StrCat("Summaries with the same tag must be of the same kind, but for '",
                                                   entry.tag, "' there are ", first.name(), " and ",
                                                   tower.node->name()));
  }
  if (first.op().name == kScalarSummary) {
    double sum = 0;
    for (const Fetched& tower : entry.towers) sum += tower.value.ToDoubles()[0];
    const double mean = sum / static_cast<double>(entry.towers.size());
    out->summary.AddScalar(entry.tag, mean);
    out->scalars.push_back({entry.tag, mean});
  } else if (first.op().name == kHistogramSummary) {
    io::Histogram histogram;
    for (const Fetched& tower : entry.towers) histogram.Add(tower.value);
    out->summary.AddHistogram(entry.tag, histogram);
  } else {
    return out->summary.AddImages(entry.tag, entry.towers[0].value, first.attrs().Int(kMaxImages));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FetchedSummaries> ReadSummaries(absl::Span<const Output> summaries, absl::Span<const Tensor> values,
                                               TowerSummaries towers) {
  if (summaries.size() != values.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ReadSummaries: ", values.size(), " values for ", summaries.size(), " summaries"));
  }
  std::vector<Fetched> all;
  for (size_t i = 0; i < summaries.size(); ++i) {
    RETURN_IF_ERROR(CheckFetched(summaries[i], values[i]));
    if (summaries[i].node->op().name == kMergeSummary) {
      RETURN_IF_ERROR(Unpacker(*summaries[i].node, values[i]).Run(&all));
    } else {
      all.push_back({summaries[i].node, values[i]});
    }
  }

  std::vector<Entry> entries;
  HashMap<std::string, size_t> by_tag;
  for (Fetched& fetched : all) {
    const std::string& path = fetched.node->attrs().String(kTag);
    const std::string tag = towers == TowerSummaries::kMean ? WithoutTower(*fetched.node) : path;
    const auto [found, is_new] = by_tag.try_emplace(tag, entries.size());
    if (is_new) entries.push_back({.tag = tag});
    entries[found->second].towers.push_back(std::move(fetched));
  }
  FetchedSummaries out;
  for (const Entry& entry : entries) RETURN_IF_ERROR(AddEntry(entry, &out));
  return out;
}

}  // namespace belfry::ops
