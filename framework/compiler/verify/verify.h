// An independent check of plans, made before they run. It shares the data types with the passes, and none of their
// code.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/compiler/plan.h"

namespace belfry {

// The result of a successful check, with counts of the facts that it proved.
struct PlanCertificate {
  int64_t nodes = 0, streams = 0, waits = 0;  // that run; that run them; between streams
  int64_t reads = 0, writes = 0;              // of operands, each ordered against all others of the same bytes
  int64_t collectives = 0, ranks = 0, fetches = 0;
  int64_t averaged = 0;  // copies of trained variables whose updates depend on averages; -1: not checked
  // A sentence for logs and dumps.
  std::string ToText() const;
};

// Proves that a plan computes its program whenever kernels do, in every execution that its waits and records allow:
//
// - All instructions of all streams are reached: no wait is for an event that is recorded behind it, and the devices
//   meet their collectives in one order.
// - Every operand that a kernel, a collective or a fetch reads has the bytes that the program says: the output of that
//   node, not yet overwritten, or the variable after the last update that the reader depends on, and before all others,
//   so that all reads of the step that do not ask for an update come before it. Updates of one variable have the order
//   of the program.
// - No two accesses of the same bytes, of which one is a write, are without an order by streams and events. Every
//   other order of execution therefore has the same results.
// - An output lies on an input of its own node only where the op and the kernel allow it, and a workspace on neither.
// - Everything lies within its arena or variable.
// - Each collective has the reduction, the values and the ranks of the graph's, each rank once, and works on the bytes
//   of its inputs, side by side as they are given.
// - Averages and updates have the graph's operands, by the feeds, the replicas of variables and the collectives that
//   these depend on: ranks have the values of their own towers, no sum lacks a tower, and gradients pass each average
//   as often as in the graph. All copies of a trained variable that the step uses have the same averages, with a rank
//   for each copy; a parameter device's and independent towers' have none. If a node of several outputs is fed, none of
//   this is checked, and the certificate says so.
// - The lists of variables that the step needs and writes are complete.
//
// It takes for granted that kernels touch nothing but their operands and workspace, and that passes before (fusing,
// folding) kept the meaning of the program otherwise. Internal: what is wrong, with the nodes, their places and the
// user's line. Takes time in proportion to operands times streams, feeds, replicas and ranks of collectives, and to
// nodes times updated variables (./dev bench compile_time). Thread-safe.
absl::StatusOr<PlanCertificate> VerifyPlan(const Plan& plan);

}  // namespace belfry
