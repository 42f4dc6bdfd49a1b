// The two ops that steps of collectives need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace belfry {

inline OpRegistry CollectiveOps() {
  OpRegistry ops;
  ops.Add({.name = "Placeholder",
           .outputs = {{.name = "output", .type = "dtype"}},
           .types = {{"dtype", kAnyType}},
           .attrs = {{"shape", Shape(), true}},
           .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
             return std::vector<Shape>{args.attrs.Get<Shape>("shape")};
           },
           .not_differentiable = true,
           .kind = OpKind::kPlaceholder});
  ops.Add({.name = "AllReduce",
           .inputs = {{.name = "weight", .type = "float32"}, {.name = "values", .list = true}},
           .outputs = {{.name = "results", .list = true}},
           .types = {{"T", kFloatTypes}},
           .attrs = {{"group", std::string(), true},
                     {"rank", int64_t{0}, true},
                     {"size", int64_t{1}, true},
                     {"reduction", std::string("mean")}},
           .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
             return std::vector<Shape>(args.inputs.begin() + 1, args.inputs.end());
           },
           .not_differentiable = true,
           .stateful = true,
           .kind = OpKind::kAllReduce});
  return ops;
}

}  // namespace belfry
