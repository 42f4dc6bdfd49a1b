// The ops that come with Belfry.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

// A new registry with all ops and rewrites that come with Belfry, to which a program adds its own ops:
//   OpRegistry registry = ops::MakeBuiltinOps();
//   registry.Add({.name = "Mine", ...});
//   registry.AddRewrite({"mine", FuseMine});
//   Graph graph(registry);
OpRegistry MakeBuiltinOps();

// A new registry with those that a model's outputs are made of, without losses, for CPUs, and with the rewrites that
// evaluations on CPUs go through: libbelfry_inference has no others.
OpRegistry MakeInferenceOps();

}  // namespace belfry::ops

namespace belfry {

// All ops that come with Belfry, and their rewrites: `Graph graph(BuiltinOps());`. Made at the first call, and never
// destroyed. Thread-safe.
const OpRegistry& BuiltinOps();

}  // namespace belfry
