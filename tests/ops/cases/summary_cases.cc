// Cases of summaries: a summary returns its input, a merged one a vector of its inputs.
#include "ops/summary.h"
#include "tests/ops/cases/array_inputs.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

Arrays Unchanged(const Arrays& in) { return in; }

}  // namespace

std::vector<OpCase> SummaryCases() {
  return {
      {.name = "ScalarSummary",
       .inputs = {{.shape = {}, .low = 0, .high = 9}},
       .build = [](const Scope& s, const Ins& in) { return Outs{ops::ScalarSummary(s, "x", in[0])}; },
       .reference = Unchanged,
       .dtypes = kEveryType,
       .unknown_axes = {}},
      {.name = "HistogramSummary",
       .inputs = {{.shape = {3, 5}, .low = 0, .high = 9}},
       .build = [](const Scope& s, const Ins& in) { return Outs{ops::HistogramSummary(s, "x", in[0])}; },
       .reference = Unchanged,
       .dtypes = kEveryType,
       .more_shapes = {{{0, 5}}},
       .unknown_axes = {0, 1}},
      {.name = "ImageSummary",
       .inputs = {{.shape = {2, 4, 5, 3}}},
       .build = [](const Scope& s, const Ins& in) { return Outs{ops::ImageSummary(s, "x", in[0])}; },
       .reference = Unchanged,
       .more_shapes = {{{0, 4, 5, 3}}}},
      {.name = "MergeSummaryJoins",
       .inputs = {{.shape = {2, 3}}, {.shape = {}, .dtype = DType::kFloat32}},
       .build =
           [](const Scope& s, const Ins& in) {
             const Output summaries[] = {ops::HistogramSummary(s, "x", in[0]), ops::ScalarSummary(s, "y", in[1])};
             return Outs{ops::MergeSummary(s, summaries)};
           },
       .reference =
           [](const Arrays& in) {
             Array y({in[0].size() + 1});
             y.values = in[0].values;
             y.values.push_back(in[1][0]);
             return Arrays{y};
           },
       .dtypes = {DType::kFloat32, DType::kFloat16, DType::kBFloat16},
       .unknown_axes = {}},
  };
}

}  // namespace belfry::harness
