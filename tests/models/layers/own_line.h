// Calls with a wrong argument, whose error must name the line of the call.
#pragma once

#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/main/testing.h"

namespace belfry {

// Arguments that are wrong: an output that was never made, a scalar of text-like integers, and tensors of rank 1.
struct Wrong {
  explicit Wrong(const Scope& scope)
      : ints(ops::Const(scope.WithLocation({"elsewhere.cc", 1}), {1, 2, 3})),
        pair(ops::Const(scope.WithLocation({"elsewhere.cc", 2}), {1.f, 2.f})),
        three(ops::Const(scope.WithLocation({"elsewhere.cc", 3}), {1.f, 2.f, 3.f})) {}
  Output bad;                // invalid
  Output ints, pair, three;  // int32 [3], float32 [2] and [3]
  Variable no_variable;      // invalid
  std::vector<Output> bads = {Output()};
};

struct Call {
  const char *text, *file;
  int line;
  std::function<void(const Scope& s, const Wrong& w)> make;
};
// A Call on a single line, so that __LINE__ is the line that its error must name.
#define CALL(call)                                                                           \
  Call {                                                                                     \
#call, __FILE__, __LINE__, [](const Scope& s, const Wrong& w) { (void)w, (void)(call); } \
  }

inline absl::string_view Basename(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

inline void ExpectOwnLines(absl::Span<const Call> calls) {
  for (const Call& call : calls) {
    Graph graph(BuiltinOps());
    const Scope scope = Scope(graph).NameScope("mine");
    call.make(scope, Wrong(scope));
    EXPECT_FALSE(graph.status().ok()) << call.text << " took a wrong argument";
    EXPECT_THAT(graph.status().message(), testing::HasSubstr(absl::StrCat(Basename(call.file), ":", call.line)))
        << call.text;
  }
}

}  // namespace belfry
