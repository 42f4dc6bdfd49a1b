#include "framework/data/subset.h"

#include <utility>

#include "framework/base/check.h"

namespace belfry::data {
namespace {

class SubsetOf final : public Dataset {
 public:
  SubsetOf(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    for (const int64_t index : indices_) BELFRY_CHECK(0 <= index && index < dataset_->size());
  }

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  absl::Span<const Field> fields() const override { return dataset_->fields(); }
  absl::Status Read(int64_t index, const Example& example) const override {
    return dataset_->Read(indices_[index], example);
  }
  bool varies() const override { return dataset_->varies(); }
  absl::Status ReadVaried(int64_t index, const Variation& variation, const Example& example) const override {
    return dataset_->ReadVaried(indices_[index], variation, example);
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<int64_t> indices_;
};

}  // namespace

std::unique_ptr<Dataset> Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices) {
  return std::make_unique<SubsetOf>(std::move(dataset), std::move(indices));
}

}  // namespace belfry::data
