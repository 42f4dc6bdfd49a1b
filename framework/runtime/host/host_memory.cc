#include "framework/runtime/host/host_memory.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/base/alignment.h"
#include "framework/compiler/program.h"

namespace belfry {
namespace {

// The values of a plan that lie on the bytes of one of them.
class SharedBytes {
 public:
  // `value` and all that came before it or comes after it in its place.
  SharedBytes(BoundPlan& bound, Value value) : bound_(bound), nodes_(bound.plan->program.nodes), first_(First(value)) {}

  Value first() const { return first_; }

  // True if a kernel writes over what another has written, or, of a feed, the program.
  bool worked_on() const {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].op->kind != OpKind::kKernel || static_cast<int>(i) == first_.node) continue;
      for (size_t k = 0; k < nodes_[i].outputs.size(); ++k) {
        if (Has({static_cast<int>(i), static_cast<int>(k)})) return true;
      }
    }
    return false;
  }
  // True if a collective has them in a buffer of its own.
  bool in_collective() const {
    for (const ProgramNode& node : nodes_) {
      if (node.op->kind != OpKind::kAllReduce) continue;
      for (const Value& input : node.inputs) {
        if (Has(input)) return true;
      }
    }
    return false;
  }
  // True if another fetch of the step is one of them, in memory of the program.
  bool bound_by_another(int fetch) const {
    const std::vector<Value>& fetches = bound_.plan->program.fetches;
    for (size_t i = 0; i < fetches.size(); ++i) {
      if (static_cast<int>(i) != fetch && bound_.fetches[i].in_place && Has(fetches[i])) return true;
    }
    return false;
  }

  // Moves them to `elements`.
  void Move(void* elements) {
    const auto* const from = static_cast<const std::byte*>(bound_.outputs[first_.node][first_.index]);
    const auto moved = [&](const void* at) {
      return static_cast<std::byte*>(elements) + (static_cast<const std::byte*>(at) - from);
    };
    const Program& program = bound_.plan->program;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t k = 0; k < nodes_[i].inputs.size(); ++k) {
        const void*& at = bound_.inputs[i][k];
        if (at != nullptr && Has(nodes_[i].inputs[k])) at = moved(at);
      }
      for (size_t k = 0; k < nodes_[i].outputs.size(); ++k) {
        void*& at = bound_.outputs[i][k];
        if (at != nullptr && Has({static_cast<int>(i), static_cast<int>(k)})) at = moved(at);
      }
    }
    for (size_t i = 0; i < program.feeds.size(); ++i) {
      if (Has(program.feeds[i])) bound_.feeds[i].data = moved(bound_.feeds[i].data);
    }
    for (size_t i = 0; i < program.fetches.size(); ++i) {
      void*& at = bound_.fetches[i].data;
      if (at != nullptr && Has(program.fetches[i])) at = moved(at);
    }
  }

 private:
  const Storage& StorageOf(Value value) const { return bound_.plan->memory.outputs[value.node][value.index]; }

  // Invariant: an output that lies where an input of its kernel does has taken its place (MemoryPlanner::TryShare),
  // since the input is in use while the kernel runs.
  Value First(Value value) const {
    while (true) {
      value = Root(bound_.plan->program, value);
      const ProgramNode& node = nodes_[value.node];
      const Storage& here = StorageOf(value);
      if (node.op->kind != OpKind::kKernel || here.kind != Storage::Kind::kArena) return value;
      Value before = value;
      for (const auto& [input, output] : InPlace(node)) {
        if (output != value.index || input >= static_cast<int>(node.inputs.size())) continue;
        const Value taken = node.inputs[input];
        const Storage& there = StorageOf(taken);
        if (there.kind == here.kind && there.offset == here.offset && nodes_[taken.node].device == node.device) {
          before = taken;
        }
      }
      if (before == value) return value;
      value = before;
    }
  }
  bool Has(Value value) const { return First(value) == first_; }

  BoundPlan& bound_;
  const std::vector<ProgramNode>& nodes_;
  const Value first_;
};

bool IsAligned(const void* elements) { return reinterpret_cast<uintptr_t>(elements) % kAlignment == 0; }

}  // namespace

bool Overlaps(const HostCopy& copy, const void* elements, size_t bytes) {
  if (!copy.program.has_value()) return false;
  const auto* const a = static_cast<const std::byte*>(*copy.program);
  const auto* const b = static_cast<const std::byte*>(elements);
  return a < b + bytes && b < a + copy.spec.bytes();
}

void BindFeed(BoundPlan& bound, int feed, const void* elements, bool rebinds) {
  HostCopy& copy = bound.feeds[feed];
  copy.program = const_cast<void*>(elements);  // nothing of a feed that is read in place writes to it
  if (copy.data == nullptr || !rebinds) return;
  SharedBytes bytes(bound, bound.plan->program.feeds[feed]);
  bool apart = true;  // the step does not write what it reads
  for (const HostCopy& fetch : bound.fetches) {
    apart = apart && !(fetch.in_place && Overlaps(fetch, elements, copy.spec.bytes()));
  }
  copy.in_place = apart && IsAligned(elements) && !bytes.worked_on() && !bytes.in_collective();
  bytes.Move(copy.in_place ? *copy.program : copy.own);
}

void BindFetch(BoundPlan& bound, int fetch, void* elements, bool rebinds) {
  HostCopy& copy = bound.fetches[fetch];
  copy.program = elements;
  if (copy.data == nullptr || !rebinds) return;
  SharedBytes bytes(bound, bound.plan->program.fetches[fetch]);
  const Value first = bytes.first();
  const ProgramNode& maker = bound.plan->program.nodes[first.node];
  if (maker.op->kind != OpKind::kKernel || bound.outputs[first.node][first.index] != copy.data ||
      maker.outputs[first.index].bytes() != copy.spec.bytes() || bytes.in_collective() ||
      bytes.bound_by_another(fetch)) {
    return;
  }
  bool apart = true;
  for (const HostCopy& feed : bound.feeds) apart = apart && !Overlaps(feed, elements, copy.spec.bytes());
  copy.in_place = apart && IsAligned(elements);
  bytes.Move(copy.in_place ? elements : copy.own);
}

}  // namespace belfry
