#include "framework/compiler/fused_elementwise.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

// The bytes of all operands of one block together: they fit into the first-level cache.
constexpr size_t kBlockBytes = 24 * 1024;
// Fewer scalar operations are not worth a second thread (base/parallel.h).
constexpr double kMinParallelWork = 64 * 1024;

// Runs the members' own kernels, one after another, on one block of elements after another.
//
// Invariant: a member's kernel sees, for each block, tensors of that block's elements with the dtypes that it was made
// for, and computes every element of them as it would within the whole tensor. That makes the result equal to the last
// bit, because
//   - an element-wise op looks at one place of its operands only (OpDef::elementwise);
//   - a block begins at a multiple of kPieceUnit, so an element keeps its place in a vector, and with it the choice
//     between a kernel's vectorised loop and its scalar end;
//   - a block is a multiple of every row that repeats, so all blocks see the same row from its beginning;
//   - reductions get their pieces in ascending order within a chunk, and a chunk belongs to one thread.
// All blocks but the last have the same size, so two sets of kernels serve: one per thread for a block, and one for the
// last block, which only one thread runs.
//
// Cost: memory is read and written once for the whole group. Each block costs one indirect call per member and one
// addition per pointer; nothing is allocated, because pointers and scratch memory lie in the workspace.
class FusedElementwise {
 public:
  static absl::StatusOr<std::shared_ptr<FusedElementwise>> Make(const Program& program, const ProgramNode& node,
                                                                Device& device) {
    auto fused = std::make_shared<FusedElementwise>();
    fused->elements_ = absl::c_find_if(node.body, IsElementwise)->outputs[0].shape.elements();
    fused->FindReductions(program, node, device);
    fused->ChooseBlock(program, node, fused->AssignScratch(node));
    fused->BindPointers(program, node);
    RETURN_IF_ERROR(fused->MakeKernels(program, node, device));
    return fused;
  }

  absl::Status Run(const KernelContext& context) {
    if (blocks_ == 1) {
      RETURN_IF_ERROR(RunPart(context, 0));
      FinishReductions(context);
      return absl::OkStatus();
    }
    const double cost = static_cast<double>(elements_) * static_cast<double>(calls_.size()) / parts_;
    ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
      const ScopedParallelThreads alone(1);
      for (int64_t part = begin; part < end; ++part) {
        absl::Status status = RunPart(context, static_cast<int>(part));
        if (!status.ok()) statuses_[part] = std::move(status);
      }
    });
    absl::Status first;
    for (absl::Status& status : statuses_) {
      if (!status.ok()) first.Update(std::exchange(status, absl::OkStatus()));
    }
    if (first.ok()) FinishReductions(context);
    return first;
  }

  bool empty() const { return elements_ == 0; }
  size_t workspace_bytes() const {
    if (empty()) return 0;
    return static_cast<size_t>(parts_) * part_bytes_ + states_bytes_;
  }
  bool uses_run() const { return uses_run_; }

 private:
  // Where an operand of a member is: at `offset` of an input, an output or the thread's scratch memory. `step` bytes on
  // is the next block's; 0 for a row that repeats and for scratch memory.
  struct Pointer {
    enum class Base : uint8_t { kNone, kInput, kOutput, kScratch };
    Base base = Base::kNone;
    int index = 0;
    size_t offset = 0, step = 0;
  };
  // Scratch memory for one block of a result that only members read.
  struct ScratchBlock {
    size_t size = 0;   // of an element
    int last_use = 0;  // member
    size_t offset = 0;
  };
  struct Call {
    int inputs = 0, output = 0;  // in pointers_
    int reduction = -1;          // in reductions_
  };
  // A member that reduces another's result. It has no kernel of its own here.
  struct ReducingMember {
    Reduction reduction;
    size_t size = 0;    // of an element that it takes
    size_t states = 0;  // offset of its states
    int output = 0;     // of the node
  };

  static bool IsElementwise(const ProgramNode& member) { return member.op->elementwise; }

  void FindReductions(const Program& program, const ProgramNode& node, Device& device) {
    reduction_of_.assign(node.body.size(), -1);
    for (size_t m = 0; m < node.body.size(); ++m) {
      const ProgramNode& member = node.body[m];
      if (IsElementwise(member)) continue;
      const KernelDef* def = member.op->FindKernel(device.type(), KernelDType(*member.op, member.attrs));
      const std::vector<TensorSpec> inputs = InputSpecs(program, node, member);
      BELFRY_CHECK(def != nullptr && def->reduce != nullptr);
      std::optional<Reduction> reduction = def->reduce({member.name, member.attrs, inputs, member.outputs, &device});
      BELFRY_CHECK(reduction.has_value() && reduction->chunk > 0);
      reduction_of_[m] = static_cast<int>(reductions_.size());
      const int64_t chunks = (elements_ + reduction->chunk - 1) / reduction->chunk;
      const size_t bytes = static_cast<size_t>(chunks) * reduction->state_bytes;
      const auto output = absl::c_find(node.results, static_cast<int>(m)) - node.results.begin();
      reductions_.push_back({*std::move(reduction), SizeOf(inputs[0].dtype), states_bytes_, static_cast<int>(output)});
      states_bytes_ += bytes;
    }
  }

  // Gives every result that is not an output of the node a slot, reusing one that is free again. Fewer slots mean
  // larger blocks. Returns the bytes of one element of all slots.
  size_t AssignScratch(const ProgramNode& node) {
    const auto size = static_cast<int>(node.body.size());
    std::vector<int> last_use(size, 0);
    for (int m = 0; m < size; ++m) {
      for (const Value& input : node.body[m].inputs) {
        if (input.node >= 0) last_use[input.node] = m;
      }
    }
    slot_of_.assign(size, -1);
    for (int m = 0; m < size; ++m) {
      const ProgramNode& member = node.body[m];
      if (absl::c_linear_search(node.results, m) || Updates(member)) continue;
      const size_t bytes = SizeOf(member.outputs[0].dtype);
      for (size_t s = 0; s < slots_.size() && slot_of_[m] < 0; ++s) {
        if (slots_[s].size != bytes || slots_[s].last_use > m) continue;
        if (slots_[s].last_use < m || MayOverwrite(node, m, static_cast<int>(s))) slot_of_[m] = static_cast<int>(s);
      }
      if (slot_of_[m] < 0) {
        slot_of_[m] = static_cast<int>(slots_.size());
        slots_.push_back({.size = bytes});
      }
      slots_[slot_of_[m]].last_use = last_use[m];
    }
    size_t sum = 0;
    for (const ScratchBlock& slot : slots_) sum += slot.size;
    return sum;
  }

  // True if member m, the last reader of the slot, may write its result there: it reads the slot through one input
  // only, of its own dtype, and its OpDef allows the two to share memory.
  bool MayOverwrite(const ProgramNode& node, int m, int slot) const {
    const ProgramNode& member = node.body[m];
    int readers = 0;
    for (int k = 0; k < static_cast<int>(member.inputs.size()); ++k) {
      const int from = member.inputs[k].node;
      if (from < 0 || slot_of_[from] != slot) continue;
      if (node.body[from].outputs[0].dtype != member.outputs[0].dtype) return false;
      if (++readers > 1 || !absl::c_linear_search(member.op->in_place, std::pair(k, 0))) return false;
    }
    return true;
  }

  // Decides how many elements a block has, and how many blocks go to a thread. Blocks are as large as the cache allows,
  // in whole units, so that every row and every reduction's piece begins at a block's beginning again.
  void ChooseBlock(const Program& program, const ProgramNode& node, size_t bytes_per_element) {
    int64_t unit = kPieceUnit;
    for (const ReducingMember& member : reductions_) unit = std::lcm(unit, member.reduction.row);
    for (const ProgramNode& member : node.body) {
      for (const TensorSpec& spec : InputSpecs(program, node, member)) {
        if (spec.shape.elements() > 1 && !Whole(spec)) unit = std::lcm(unit, spec.shape.elements());
      }
    }
    const auto units = [unit](int64_t n) { return (n + unit - 1) / unit * unit; };
    for (const Value& input : node.inputs) {
      if (Whole(program.spec(input))) bytes_per_element += SizeOf(program.spec(input).dtype);
    }
    for (const TensorSpec& output : node.outputs) {
      if (Whole(output)) bytes_per_element += SizeOf(output.dtype);
    }
    block_ = std::max(unit, static_cast<int64_t>(kBlockBytes / bytes_per_element) / unit * unit);
    const int64_t threads = ParallelThreads();
    const double work = static_cast<double>(elements_) * static_cast<double>(node.body.size());
    if (threads > 1 && work >= kMinParallelWork) block_ = std::min(block_, units((elements_ + threads - 1) / threads));
    // A thread gets whole chunks (share_ blocks). Rounding the block to a power of two of units keeps the least common
    // multiple of block and chunk small, so that there are enough shares for all threads.
    if (states_bytes_ > 0) block_ = unit * static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(block_ / unit)));
    block_ = std::min(block_, std::max<int64_t>(elements_, 1));
    blocks_ = (elements_ + block_ - 1) / block_;
    for (const ReducingMember& member : reductions_) {
      if (blocks_ == 1 || member.reduction.state_bytes == 0) continue;
      share_ = std::lcm(share_, std::lcm(block_, member.reduction.chunk) / block_);
    }
    shares_ = (blocks_ + share_ - 1) / share_;
    parts_ = static_cast<int>(std::clamp<int64_t>(threads, 1, std::max<int64_t>(shares_, 1)));
    statuses_.resize(parts_);
  }

  // Lays out a thread's part of the workspace: the pointers that RunPart moves along, the slots, and room for the
  // largest workspace of a member, which MakeKernels adds.
  void BindPointers(const Program& program, const ProgramNode& node) {
    for (size_t m = 0; m < node.body.size(); ++m) {
      const ProgramNode& member = node.body[m];
      const std::vector<TensorSpec> specs = InputSpecs(program, node, member);
      Call call{.inputs = static_cast<int>(pointers_.size()), .reduction = reduction_of_[m]};
      for (size_t k = 0; k < member.inputs.size(); ++k) {
        const Value input = member.inputs[k];
        if (input.node >= 0) {
          pointers_.push_back(OfMember(node, input.node));
        } else if (input.index >= 0) {
          const size_t step = Whole(specs[k]) ? static_cast<size_t>(block_) * SizeOf(specs[k].dtype) : 0;
          pointers_.push_back({.base = Pointer::Base::kInput, .index = input.index, .step = step});
        } else {
          pointers_.push_back({});
        }
      }
      call.output = static_cast<int>(pointers_.size());
      pointers_.push_back(Updates(member) ? pointers_[call.inputs] : OfMember(node, static_cast<int>(m)));
      calls_.push_back(call);
    }
    part_bytes_ = AlignUp(pointers_.size() * sizeof(void*));
    for (ScratchBlock& slot : slots_) {
      slot.offset = part_bytes_;
      part_bytes_ += AlignUp(slot.size * static_cast<size_t>(block_));
    }
    for (Pointer& pointer : pointers_) {
      if (pointer.base == Pointer::Base::kScratch) pointer.offset = slots_[pointer.index].offset;
    }
  }

  Pointer OfMember(const ProgramNode& node, int member) const {
    const auto result = absl::c_find(node.results, member);
    if (result == node.results.end()) return {.base = Pointer::Base::kScratch, .index = slot_of_[member]};
    return {.base = Pointer::Base::kOutput,
            .index = static_cast<int>(result - node.results.begin()),
            .step = reduction_of_[member] >= 0
                        ? 0
                        : static_cast<size_t>(block_) * SizeOf(node.body[member].outputs[0].dtype)};
  }

  // As many elements as the results: moves on with the blocks. Anything else is the same for every block.
  bool Whole(const TensorSpec& spec) const { return spec.shape.elements() == elements_; }

  // Kernels for blocks, a set for each part, because a kernel is run by one thread at a time; and a set for the last
  // block, which may be shorter and belongs to the last part.
  absl::Status MakeKernels(const Program& program, const ProgramNode& node, Device& device) {
    if (elements_ == 0) return absl::OkStatus();
    for (const ProgramNode& member : node.body) names_.push_back(Describe(member));
    kernels_.resize(parts_);
    const int64_t last = elements_ - (blocks_ - 1) * block_;
    for (int part = 0; part < parts_ && blocks_ > 1; ++part) {
      RETURN_IF_ERROR(MakeKernels(program, node, device, block_, kernels_[part]));
    }
    RETURN_IF_ERROR(MakeKernels(program, node, device, last, last_kernels_));
    member_workspace_ = part_bytes_;
    part_bytes_ += AlignUp(member_workspace_bytes_);
    return absl::OkStatus();
  }

  // One kernel per member for tensors of `elements` elements. A block has no axes, only elements: it is made a matrix
  // where a row repeats, so that broadcasting means the same, and a vector otherwise.
  absl::Status MakeKernels(const Program& program, const ProgramNode& node, Device& device, int64_t elements,
                           std::vector<Kernel>& kernels) {
    const ScopedParallelThreads threads(blocks_ == 1 ? ParallelThreads() : 1);
    for (size_t m = 0; m < node.body.size(); ++m) {
      const ProgramNode& member = node.body[m];
      if (reduction_of_[m] >= 0) {
        kernels.emplace_back();
        continue;
      }
      std::vector<TensorSpec> inputs = InputSpecs(program, node, member);
      Shape whole = {elements};
      for (TensorSpec& spec : inputs) {
        const int64_t row = spec.shape.elements();
        if (row > 1 && row < elements_) whole = {elements / row, row};
      }
      for (size_t k = 0; k < inputs.size(); ++k) {
        const int64_t size = inputs[k].shape.elements();
        const bool shape_only = member.inputs[k].node < 0 && member.inputs[k].index < 0;
        // BiasAdd takes a vector for its bias, even one of a single element.
        const Shape one = inputs[k].shape.rank() == 0 ? Shape{} : Shape{1};
        inputs[k].shape = shape_only || size == elements_ ? whole : size == 1 ? one : Shape{size};
      }
      const std::vector<TensorSpec> outputs = {{member.outputs[0].dtype, whole}};
      const KernelDef* def = member.op->FindKernel(device.type(), KernelDType(*member.op, member.attrs));
      BELFRY_CHECK(def != nullptr);
      absl::StatusOr<Kernel> kernel = def->make({member.name, member.attrs, inputs, outputs, &device});
      if (!kernel.ok()) return At(static_cast<int>(m), kernel.status());
      if (!kernel->in_place && !member.op->in_place.empty()) {
        return At(static_cast<int>(m),
                  absl::UnimplementedError("the kernel of an element-wise op must work in place if its OpDef says so "
                                           "(Kernel::in_place, OpDef::in_place)"));
      }
      member_workspace_bytes_ = std::max(member_workspace_bytes_, kernel->workspace_bytes);
      uses_run_ = uses_run_ || kernel->uses_run;
      kernels.push_back(*std::move(kernel));
    }
    return absl::OkStatus();
  }

  absl::Status At(int member, const absl::Status& status) const {
    return absl::Status(status.code(), absl::StrCat(status.message(), " [in ", names_[member], "]"));
  }

  // Runs the blocks of one part. Parts differ by at most one share, and touch disjoint ranges of every output, scratch
  // memory of their own and chunks of their own, so they need no lock.
  absl::Status RunPart(const KernelContext& context, int part) {
    auto* const memory = static_cast<std::byte*>(context.workspace) + static_cast<size_t>(part) * part_bytes_;
    auto** const pointers = reinterpret_cast<void**>(memory);
    const int64_t begin = shares_ * part / parts_ * share_;
    const int64_t end = std::min(blocks_, shares_ * (part + 1) / parts_ * share_);
    for (size_t k = 0; k < pointers_.size(); ++k) {
      const Pointer& pointer = pointers_[k];
      const std::byte* base = nullptr;
      switch (pointer.base) {
        case Pointer::Base::kNone: break;
        case Pointer::Base::kInput: base = static_cast<const std::byte*>(context.inputs[pointer.index]); break;
        case Pointer::Base::kOutput: base = static_cast<const std::byte*>(context.outputs[pointer.index]); break;
        case Pointer::Base::kScratch: base = memory + pointer.offset; break;
      }
      pointers[k] = const_cast<std::byte*>(base) + static_cast<size_t>(begin) * pointer.step;
    }
    KernelContext member{.workspace = memory + member_workspace_, .run = context.run, .stream = context.stream};
    for (int64_t block = begin; block < end; ++block) {
      const std::vector<Kernel>& kernels = block + 1 == blocks_ ? last_kernels_ : kernels_[part];
      for (size_t m = 0; m < calls_.size(); ++m) {
        if (calls_[m].reduction >= 0) {
          Reduce(context, calls_[m], pointers, block);
          continue;
        }
        member.inputs = pointers + calls_[m].inputs;
        member.outputs = pointers + calls_[m].output;
        const absl::Status status = kernels[m].run(member);
        if (!status.ok()) return At(static_cast<int>(m), status);
      }
      for (size_t k = 0; k < pointers_.size() && block + 1 < end; ++k) {
        pointers[k] = static_cast<std::byte*>(pointers[k]) + pointers_[k].step;
      }
    }
    return absl::OkStatus();
  }

  std::byte* States(const KernelContext& context, const ReducingMember& member) const {
    return static_cast<std::byte*>(context.workspace) + static_cast<size_t>(parts_) * part_bytes_ + member.states;
  }

  // Hands a reduction its piece of each chunk that the block overlaps. A block may end within a chunk, and the next
  // one, of the same part, goes on there.
  void Reduce(const KernelContext& context, const Call& call, void* const* pointers, int64_t block) const {
    const ReducingMember& member = reductions_[call.reduction];
    const auto& [chunk, state_bytes] = std::pair(member.reduction.chunk, member.reduction.state_bytes);
    const auto* x = static_cast<const std::byte*>(pointers[call.inputs]);
    const int64_t end = std::min(elements_, (block + 1) * block_);
    for (int64_t begin = block * block_; begin < end;) {
      const int64_t n = std::min(end, (begin / chunk + 1) * chunk) - begin;
      std::byte* const state = States(context, member) + static_cast<size_t>(begin / chunk) * state_bytes;
      member.reduction.add(x, begin, n, state, pointers[call.output]);
      x += static_cast<size_t>(n) * member.size;
      begin += n;
    }
  }
  void FinishReductions(const KernelContext& context) const {
    for (const ReducingMember& member : reductions_) {
      if (member.reduction.finish == nullptr) continue;
      member.reduction.finish(States(context, member), context.outputs[member.output]);
    }
  }

  int64_t elements_ = 0, block_ = 0, blocks_ = 0;
  int64_t share_ = 1, shares_ = 0;  // blocks that must go to one thread together, and the number of such shares
  int parts_ = 1;
  std::vector<ScratchBlock> slots_;
  std::vector<int> slot_of_;  // by member: its slot; -1 if it is an output
  std::vector<Pointer> pointers_;
  std::vector<Call> calls_;                   // by member
  std::vector<std::vector<Kernel>> kernels_;  // by part, by member: for a block
  std::vector<Kernel> last_kernels_;          // by member: for the last block
  std::vector<std::string> names_;            // by member, for errors
  std::vector<absl::Status> statuses_;        // by part, of the current run
  size_t part_bytes_ = 0, member_workspace_ = 0, member_workspace_bytes_ = 0;
  bool uses_run_ = false;
  std::vector<ReducingMember> reductions_;
  std::vector<int> reduction_of_;  // by member: in reductions_, or -1
  size_t states_bytes_ = 0;
};

}  // namespace

absl::StatusOr<Kernel> MakeElementwiseKernel(const Program& program, const ProgramNode& node, Device& device) {
  ASSIGN_OR_RETURN(std::shared_ptr<FusedElementwise> fused, FusedElementwise::Make(program, node, device));
  const size_t workspace_bytes = fused->workspace_bytes();
  const bool uses_run = fused->uses_run();
  if (fused->empty()) return NothingToDo();
  return Kernel{[fused = std::move(fused)](const KernelContext& context) { return fused->Run(context); },
                workspace_bytes, uses_run};
}

}  // namespace belfry
