#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/reduction/reduce_pieces_impl.h"

namespace belfry::ops {
namespace {

// The offsets of all groups of one kind, with the outermost varying slowest. A single group is regular and needs only a
// stride. Several are interleaved with groups of the other kind, so their offsets go into a table of one entry per
// combination; that costs memory, but the kernel's loops stay flat.
absl::StatusOr<Offsets> Flatten(const std::vector<ReduceGroup>& groups, bool reduced) {
  Offsets offsets;
  std::vector<ReduceGroup> mine;
  for (const ReduceGroup& group : groups) {
    if (group.reduced != reduced) continue;
    mine.push_back(group);
    offsets.count *= group.extent;
  }
  if (mine.empty() || offsets.count == 0) return offsets;
  if (mine.size() == 1) {
    offsets.stride = mine[0].stride;
    return offsets;
  }
  constexpr int64_t kLongestTable = int64_t{1} << 28;  // 2 GiB
  if (offsets.count > kLongestTable) {
    return absl::UnimplementedError(absl::StrCat("axes that are interleaved with those of the other kind have ",
                                                 offsets.count, " elements together; at most ", kLongestTable,
                                                 " are supported"));
  }
  // Invariant: `table` holds the offsets of the groups so far, in row-major order.
  offsets.table = {0};
  for (const ReduceGroup& group : mine) {
    std::vector<int64_t> next;
    next.reserve(offsets.table.size() * static_cast<size_t>(group.extent));
    for (const int64_t base : offsets.table) {
      for (int64_t i = 0; i < group.extent; ++i) next.push_back(base + i * group.stride);
    }
    offsets.table = std::move(next);
  }
  return offsets;
}

// Minimum elements of a chunk, and maximum chunks of a tensor.
constexpr int64_t kMinInChunk = 16 * 1024, kMaxChunks = 64;

}  // namespace

// The size depends on the shape only, and so does the order of summation. It is a multiple of `row`, so no row is split
// between threads; doubling preserves that.
int64_t ChunkOf(int64_t elements, int64_t row) {
  // Also whole blocks of an element-wise pass that feeds the reduction, if rows are short enough to allow it.
  int64_t chunk = std::lcm(kPieceUnit, row);
  if (chunk > kMinInChunk) chunk = row;
  while (chunk < kMinInChunk || chunk * kMaxChunks < elements) chunk *= 2;
  return chunk;
}

// Chunks run in parallel, each with its own state, and `finish` joins the states in ascending order. So the result does
// not depend on the number of threads; the cost is one state per chunk, at most kMaxChunks. Without `finish` every
// output lies within one chunk.
Kernel KernelOf(Reduction reduction, int64_t elements, size_t size) {
  const int64_t chunk = reduction.chunk, chunks = (elements + chunk - 1) / chunk;
  const size_t state_bytes = reduction.state_bytes;
  const auto run = [reduction = std::move(reduction), elements, chunk, chunks, size](const KernelContext& context) {
    const auto* const x = static_cast<const std::byte*>(context.inputs[0]);
    auto* const states = static_cast<std::byte*>(context.workspace);
    void* const y = context.outputs[0];
    ParallelFor(chunks, static_cast<double>(std::min(chunk, elements)), [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; ++c) {
        const int64_t begin = c * chunk, n = std::min(chunk, elements - begin);
        reduction.add(x + static_cast<size_t>(begin) * size, begin, n,
                      states + static_cast<size_t>(c) * reduction.state_bytes, y);
      }
    });
    if (reduction.finish != nullptr) reduction.finish(states, y);
    return absl::OkStatus();
  };
  return Kernel{run, static_cast<size_t>(chunks) * state_bytes};
}

absl::StatusOr<ReducePlan> PlanOfAxes(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(spec.attrs.Ints("axes"), x.rank()));
  return PlanReduce(x, reduced);
}

absl::StatusOr<ReducePlan> PlanOfAll(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  return PlanReduce(x, std::vector<bool>(x.rank(), true));
}

// Walks the axes from the innermost outwards; `stride` is the product of the extents passed so far. In a row-major
// tensor, neighbouring axes are contiguous with each other, so axes of one kind merge into a group that keeps the
// stride of its innermost axis. Groups therefore alternate between reduced and kept.
std::vector<ReduceGroup> ReduceGroups(const Shape& shape, const std::vector<bool>& reduced) {
  std::vector<ReduceGroup> groups;
  int64_t stride = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    const int64_t extent = shape[axis];
    if (extent == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[axis]) {
      groups.back().extent *= extent;
    } else {
      groups.push_back({extent, stride, reduced[axis]});
    }
    stride *= extent;
  }
  return groups;
}

// The innermost group has stride 1, and becomes the inner loop of the kernel: `run` if it is reduced, `columns` if it
// is kept. All others become offsets.
absl::StatusOr<ReducePlan> PlanReduce(const Shape& shape, const std::vector<bool>& reduced) {
  std::vector<ReduceGroup> groups = ReduceGroups(shape, reduced);
  ReducePlan plan;
  if (!groups.empty()) {
    (groups.front().reduced ? plan.run : plan.columns) = groups.front().extent;
    groups.erase(groups.begin());
  }
  std::reverse(groups.begin(), groups.end());
  ASSIGN_OR_RETURN(plan.kept, Flatten(groups, false));
  ASSIGN_OR_RETURN(plan.reduced, Flatten(groups, true));
  return plan;
}

absl::StatusOr<std::vector<bool>> ReducedAxes(absl::Span<const int64_t> axes, int rank) {
  std::vector<bool> reduced(rank, false);
  for (const int64_t axis : axes) {
    ASSIGN_OR_RETURN(const int canonical, CanonicalAxis(axis, rank));
    if (reduced[canonical]) return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is named twice"));
    reduced[canonical] = true;
  }
  return reduced;
}

Shape KeepReduced(const Shape& shape, const std::vector<bool>& reduced) {
  Shape kept = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (reduced[axis]) kept.set_dim(axis, 1);
  }
  return kept;
}

std::vector<bool> BroadcastAxes(const Shape& shape, const Shape& like) {
  std::vector<bool> reduced(shape.rank(), false);
  const int added = shape.rank() - like.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    reduced[axis] = axis < added || (like[axis - added] == 1 && shape[axis] != 1);
  }
  return reduced;
}

absl::StatusOr<std::vector<Shape>> ReduceShape(const ShapeArgs& args) {
  const Shape& x = args.inputs[0];
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(args.attrs.Ints("axes"), x.rank()));
  const bool keep_dims = args.attrs.Bool("keep_dims");
  std::vector<int64_t> dims;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!reduced[axis]) {
      dims.push_back(x[axis]);
    } else if (keep_dims) {
      dims.push_back(1);
    }
  }
  return std::vector<Shape>{Shape(dims)};
}

Attrs ReduceAttrs(const Axes& axes, Output x, bool keep_dims) {
  std::vector<int64_t> list = axes.values();
  if (axes.all() && x.valid()) {
    for (int axis = 0; axis < x.shape().rank(); ++axis) list.push_back(axis);
  }
  return {{"axes", std::move(list)}, {"keep_dims", keep_dims}};
}

}  // namespace belfry::ops
