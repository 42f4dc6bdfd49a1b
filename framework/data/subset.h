// Some of the examples of a data set.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/data/dataset.h"

namespace belfry::data {

// Examples `indices` of `dataset`, in that order: example i varies as dataset's example indices[i]. REQUIRES: they are
// indices of it.
std::unique_ptr<Dataset> Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices);

}  // namespace belfry::data
