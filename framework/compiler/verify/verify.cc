#include "framework/compiler/verify/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/compiler/verify/collectives_impl.h"
#include "framework/compiler/verify/history_impl.h"
#include "framework/compiler/verify/origins_impl.h"
#include "framework/compiler/verify/places_impl.h"
#include "framework/compiler/verify/versions_impl.h"

namespace belfry {
namespace {

using verify::Content;
using verify::History;
using verify::Moment;
using verify::Place;
using verify::Range;
using verify::Segment;
using verify::Source;
using verify::SourceOf;
using verify::Space;
using verify::Wrong;
using Kind = Instruction::Kind;

// Follows the plan in one of the orders in which it may run, and keeps for each stream how far it is known to be behind
// the others (a vector clock: Mattern, "Virtual time and global states of distributed systems", 1989). If no two
// accesses of the same bytes are without an order by these clocks, every other execution gives each reader the same
// bytes as this one.
class Verifier {
 public:
  explicit Verifier(const Plan& plan)
      : plan_(plan), program_(plan.program), nodes_(plan.program.nodes), versions_(plan.program) {}

  absl::StatusOr<PlanCertificate> Run() {
    RETURN_IF_ERROR(CheckSizes());
    const std::vector<verify::GraphRanks> ranks = verify::RanksOfGraph(program_);
    ASSIGN_OR_RETURN(const verify::CollectiveFacts collectives, verify::CheckCollectives(plan_, ranks));
    certificate_.collectives = collectives.collectives;
    certificate_.ranks = collectives.ranks;
    local_ = collectives.nodes;
    arrived_.resize(local_.size());
    ASSIGN_OR_RETURN(certificate_.averaged, verify::CheckOrigins(program_, ranks));
    RETURN_IF_ERROR(CheckVariables());
    WriteFeeds();
    RETURN_IF_ERROR(Follow());
    RETURN_IF_ERROR(CheckFetches());
    return certificate_;
  }

 private:
  absl::Status Flaw(int node, const std::string& text) const { return verify::Flaw(nodes_[node], text); }
  absl::Status CheckSizes() const;
  absl::Status CheckVariables() const;
  void WriteFeeds();
  absl::Status Follow();
  absl::StatusOr<bool> Advance(int stream);
  absl::Status Access(int node, Moment moment);
  absl::Status CheckOverlaps(int node) const;
  absl::Status Read(int node, Value value, bool fetch, Moment moment);
  absl::Status CheckVersion(int node, Value value, bool fetch);
  absl::Status CheckOverwritten(int node, Value value);
  absl::Status CheckContent(int node, Value value);
  absl::Status Write(int node, const Place& place, Content content, Moment moment);
  absl::Status CheckFetches();

  size_t Bytes(Value value) const { return program_.spec(value).bytes(); }
  Place PlaceOf(Value value) const { return verify::PlaceOf(plan_, value); }
  Place WorkspaceOf(int node) const { return verify::WorkspaceOf(plan_, node); }
  absl::Status CheckWithin(int node, const Place& place) const;
  bool Before(Moment earlier, Moment later) const {
    return earlier.stream < 0 || earlier.stream == later.stream ||
           clocks_[later.stream][earlier.stream] >= earlier.position;
  }

  const Plan& plan_;
  const Program& program_;
  const std::vector<ProgramNode>& nodes_;
  const verify::Versions versions_;
  PlanCertificate certificate_;
  std::map<Space, History> histories_;
  std::vector<std::vector<int>> clocks_;    // by stream: the last position of each stream that is over
  std::vector<std::vector<int>> recorded_;  // by event: the clock when it was recorded; empty before
  std::vector<size_t> next_;                // by stream: the next instruction
  std::vector<std::set<int>> arrived_;      // by collective: nodes that have reached it
  std::vector<int> local_;                  // by collective: its nodes in this plan
};

absl::Status Verifier::CheckWithin(int node, const Place& place) const {
  if (!place.known()) return absl::OkStatus();
  const auto [device, variable] = place.space;
  const size_t limit = device >= 0 ? plan_.memory.arena_bytes[device] : Bytes({variable, 0});
  if (place.range.begin <= place.range.end && place.range.end <= limit) return absl::OkStatus();
  return Flaw(node, absl::StrCat("has bytes ", place.range.begin, " to ", place.range.end, " of ", limit));
}

absl::Status Verifier::CheckSizes() const {
  const size_t count = nodes_.size();
  if (plan_.memory.outputs.size() != count || plan_.workspace_bytes.size() != count ||
      plan_.memory.workspace_offset.size() != count || plan_.in_place.size() != count) {
    return Wrong("its lists by node have other lengths than the nodes");
  }
  for (int i = 0; i < static_cast<int>(count); ++i) {
    if (plan_.memory.outputs[i].size() != nodes_[i].outputs.size()) return Flaw(i, "lacks places of outputs");
    for (const Value& input : nodes_[i].inputs) {
      if (input.node >= i) return Flaw(i, "reads a node that does not come before it");
    }
    RETURN_IF_ERROR(CheckWithin(i, WorkspaceOf(i)));
    for (int k = 0; k < static_cast<int>(nodes_[i].outputs.size()); ++k)
      RETURN_IF_ERROR(CheckWithin(i, PlaceOf({i, k})));
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckVariables() const {
  std::map<const Node*, int> storage;
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (nodes_[i].op->kind != OpKind::kVariable) continue;
    if (!storage.insert({nodes_[i].source, i}).second) return Flaw(i, "is the storage of a variable that has another");
    const bool written = !versions_.WritesOf(i).empty();
    if (written != absl::c_binary_search(plan_.written, i)) {
      return Flaw(
          i, written ? "is written, but is not in the list of those" : "is in the list of those written, but is not");
    }
  }
  return absl::OkStatus();
}

void Verifier::WriteFeeds() {
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (nodes_[i].op->kind != OpKind::kPlaceholder) continue;
    const Place place = PlaceOf({i, 0});
    if (place.known()) histories_[place.space].Write(place.range, {{i, 0}, place.range.begin}, {});
  }
}

absl::Status Verifier::Follow() {
  const int streams = static_cast<int>(plan_.streams.size());
  clocks_.assign(streams, std::vector<int>(streams, -1));
  recorded_.resize(plan_.events);
  next_.assign(streams, 0);
  certificate_.streams = streams;
  for (bool moved = true; moved;) {
    moved = false;
    for (int stream = 0; stream < streams; ++stream) {
      while (next_[stream] < plan_.streams[stream].instructions.size()) {
        ASSIGN_OR_RETURN(const bool advanced, Advance(stream));
        if (!advanced) break;
        moved = true;
      }
    }
  }
  for (int stream = 0; stream < streams; ++stream) {
    if (next_[stream] == plan_.streams[stream].instructions.size()) continue;
    const Instruction& at = plan_.streams[stream].instructions[next_[stream]];
    return at.kind == Kind::kWait
               ? Wrong(
                     absl::StrCat("stream ", stream, " waits for event ", at.index, ", which is never recorded before"))
               : Flaw(at.index, "waits for the other devices of its collective, which wait for this one");
  }
  std::vector<bool> ran(nodes_.size());
  for (const StreamProgram& stream : plan_.streams) {
    for (const Instruction& at : stream.instructions) {
      if (at.kind != Kind::kRun && at.kind != Kind::kCollective) continue;
      if (ran[at.index]) return Flaw(at.index, "runs twice");
      ran[at.index] = true;
    }
  }
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (Runs(nodes_[i]) != ran[i]) return Flaw(i, ran[i] ? "runs, and has nothing to run" : "never runs");
    certificate_.nodes += ran[i];
  }
  return absl::OkStatus();
}

// Carries out the next instruction of a stream, unless it waits. The nodes of a collective wait for one another, and no
// order by memory is taken from that.
absl::StatusOr<bool> Verifier::Advance(int stream) {
  const StreamProgram& program = plan_.streams[stream];
  const int position = static_cast<int>(next_[stream]);
  const Instruction& at = program.instructions[next_[stream]];
  std::vector<int>& clock = clocks_[stream];
  switch (at.kind) {
    case Kind::kWait:
      if (recorded_[at.index].empty()) return false;
      for (size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], recorded_[at.index][s]);
      ++certificate_.waits;
      break;
    case Kind::kRecord:
      if (!recorded_[at.index].empty()) {
        return Wrong(absl::StrCat("event ", at.index, " is recorded twice"));
      }
      clock[stream] = position;
      recorded_[at.index] = clock;
      break;
    case Kind::kCollective: {
      const int group = nodes_[at.index].collective;
      arrived_[group].insert(at.index);
      if (static_cast<int>(arrived_[group].size()) < local_[group]) return false;
      [[fallthrough]];
    }
    case Kind::kRun:
      if (nodes_[at.index].device != program.device) return Flaw(at.index, "runs on another device than its own");
      RETURN_IF_ERROR(Access(at.index, {stream, position}));
      break;
  }
  clock[stream] = position;
  ++next_[stream];
  return true;
}

absl::Status Verifier::CheckOverlaps(int node) const {
  const ProgramNode& of = nodes_[node];
  const Place workspace = WorkspaceOf(node);
  const auto meet = [](const Place& a, const Place& b) {
    return a.known() && a.space == b.space && a.range.Meets(b.range);
  };
  const std::vector<std::pair<int, int>> pairs =
      plan_.in_place[node] != 0 ? InPlace(of) : std::vector<std::pair<int, int>>();
  for (int k = 0; k < static_cast<int>(of.outputs.size()); ++k) {
    const Place output = PlaceOf({node, k});
    if (meet(workspace, output)) return Flaw(node, absl::StrCat("has its workspace on output ", k));
    for (int other = 0; other < k; ++other) {
      if (meet(output, PlaceOf({node, other}))) return Flaw(node, absl::StrCat("has output ", k, " on output ", other));
    }
    if (SourceOf(program_, {node, k}).value != Value{node, k}) continue;  // a variable's storage
    for (int input = 0; input < static_cast<int>(of.inputs.size()); ++input) {
      if (InputArg(of, input).shape_only || !meet(output, PlaceOf(of.inputs[input]))) continue;
      const bool allowed = absl::c_linear_search(pairs, std::pair(input, k));
      if (!allowed || !(output.range == PlaceOf(of.inputs[input]).range)) {
        return Flaw(node, absl::StrCat("has output ", k, " on input ", input));
      }
    }
  }
  for (int input = 0; input < static_cast<int>(of.inputs.size()); ++input) {
    if (InputArg(of, input).shape_only) continue;
    if (meet(workspace, PlaceOf(of.inputs[input])))
      return Flaw(node, absl::StrCat("has its workspace on input ", input));
  }
  return absl::OkStatus();
}

absl::Status Verifier::Access(int node, Moment moment) {
  const ProgramNode& of = nodes_[node];
  const bool collective = of.op->kind == OpKind::kAllReduce;
  if (!collective) RETURN_IF_ERROR(CheckOverlaps(node));
  for (int k = 0; k < static_cast<int>(of.inputs.size()); ++k) {
    const ArgDef& arg = InputArg(of, k);
    if (!arg.shape_only && !arg.overwrites) RETURN_IF_ERROR(Read(node, of.inputs[k], /*fetch=*/false, moment));
  }
  RETURN_IF_ERROR(Write(node, WorkspaceOf(node), {}, moment));
  for (int k = 0; k < static_cast<int>(of.inputs.size()); ++k) {
    if (!InputArg(of, k).ref) continue;
    if (InputArg(of, k).overwrites) RETURN_IF_ERROR(CheckOverwritten(node, of.inputs[k]));
    const Place place = PlaceOf(of.inputs[k]);
    RETURN_IF_ERROR(Write(node, place, {{node, 0}, place.range.begin}, moment));
  }
  for (int k = 0; k < static_cast<int>(of.outputs.size()); ++k) {
    if (SourceOf(program_, {node, k}).value != Value{node, k}) continue;
    const Place place = PlaceOf({node, k});
    RETURN_IF_ERROR(Write(node, place, {{node, k}, place.range.begin}, moment));
  }
  return absl::OkStatus();
}

absl::Status Verifier::Read(int node, Value value, bool fetch, Moment moment) {
  const Source source = SourceOf(program_, value);
  if (nodes_[source.value.node].op->kind == OpKind::kConst || Bytes(value) == 0) return absl::OkStatus();
  const Place place = PlaceOf(value);
  const std::string what = absl::StrCat("'", nodes_[value.node].name, "'");
  if (!place.known()) return Flaw(node, absl::StrCat("reads ", what, ", which has no place"));
  ++certificate_.reads;
  RETURN_IF_ERROR(source.variable ? CheckVersion(node, value, fetch) : CheckContent(node, value));
  if (fetch) return absl::OkStatus();
  absl::Status status;
  histories_[place.space].ForEach(place.range, [&](Range, Segment& segment) {
    if (!Before(segment.written, moment)) {
      status.Update(Flaw(node, absl::StrCat("reads ", what, " without waiting for what writes it")));
    }
    const auto own = absl::c_find_if(segment.reads, [&](auto& read) { return read.first.stream == moment.stream; });
    if (own == segment.reads.end()) {
      segment.reads.push_back({moment, node});
    } else {
      *own = {moment, node};
    }
  });
  return status;
}

// The bytes of a variable that `node` reads are those of the update that it is to see. What no write of the step covers
// yet was there before it.
absl::Status Verifier::CheckVersion(int node, Value value, bool fetch) {
  const Source source = SourceOf(program_, value);
  const Place place = PlaceOf(value);
  const int variable = source.value.node;
  const std::string what = absl::StrCat("'", nodes_[value.node].name, "'");
  if (place.space != Space{-1, variable} || source.begin != place.range.begin) {
    return Flaw(node, absl::StrCat("reads ", what, " elsewhere than in its variable"));
  }
  History& history = histories_[place.space];
  const auto expected = [&](Range part) {
    return fetch ? versions_.ExpectedAfter(value.node, variable, part) : versions_.Expected(node, variable, part);
  };
  size_t at = place.range.begin;
  std::vector<Range> untouched;
  history.ForEach(place.range, [&](Range part, Segment&) {
    if (at < part.begin) untouched.push_back({at, part.begin});
    at = part.end;
  });
  if (at < place.range.end) untouched.push_back({at, place.range.end});
  for (const Range& part : untouched) {
    if (expected(part) >= 0) return Flaw(node, absl::StrCat("reads ", what, " before it is updated"));
    if (!absl::c_binary_search(plan_.reads_before_writing, variable)) {
      return Flaw(node, absl::StrCat("reads ", what, ", which is not in the list of variables that the step needs"));
    }
    history.Write(part, {}, {});
  }
  absl::Status status;
  history.ForEach(place.range, [&](Range part, Segment& segment) {
    const int version = expected(part), seen = segment.content.value.node;
    if (seen == version) return;
    status.Update(Flaw(node, absl::StrCat("reads ", what, version < seen ? " after" : " before", " it is updated by '",
                                          nodes_[std::max(version, seen)].name, "'")));
  });
  return status;
}

// The bytes of a variable that `node` replaces are those of the update before it, so that its own are the last.
absl::Status Verifier::CheckOverwritten(int node, Value value) {
  const Place place = PlaceOf(value);
  const int variable = SourceOf(program_, value).value.node;
  if (place.space != Space{-1, variable}) return Flaw(node, "updates a variable elsewhere than in it");
  absl::Status status;
  size_t at = place.range.begin;
  const auto check = [&](Range part, int seen) {
    const int before = versions_.Expected(node, variable, part);
    if (part.empty() || seen == before) return;
    status.Update(
        Flaw(node, absl::StrCat("updates '", nodes_[variable].name, before < seen ? "' after '" : "' before '",
                                nodes_[std::max(before, seen)].name, "' does")));
  };
  histories_[place.space].ForEach(place.range, [&](Range part, Segment& segment) {
    check({at, part.begin}, -1);
    check(part, segment.content.value.node);
    at = part.end;
  });
  check({at, place.range.end}, -1);
  return status;
}

// The bytes that `node` reads are those of the output that the program names.
absl::Status Verifier::CheckContent(int node, Value value) {
  const Source source = SourceOf(program_, value);
  const Place place = PlaceOf(value);
  const std::string what = absl::StrCat("'", nodes_[value.node].name, "'");
  History& history = histories_[place.space];
  if (history.Known(place.range) != place.range.end - place.range.begin) {
    return Flaw(node, absl::StrCat("reads ", what, " before it is written"));
  }
  absl::Status status;
  history.ForEach(place.range, [&](Range, Segment& segment) {
    if (segment.content.value == source.value && segment.content.begin + source.begin == place.range.begin) return;
    const int other = segment.content.value.node;
    const std::string writer = other < 0 ? "a workspace" : absl::StrCat("'", nodes_[other].name, "'");
    status.Update(Flaw(node, absl::StrCat("reads ", what, " where ", writer, " has been written")));
  });
  return status;
}

absl::Status Verifier::Write(int node, const Place& place, Content content, Moment moment) {
  if (!place.known() || place.range.empty()) return absl::OkStatus();
  ++certificate_.writes;
  History& history = histories_[place.space];
  absl::Status status;
  history.ForEach(place.range, [&](Range, Segment& segment) {
    if (!Before(segment.written, moment)) {
      status.Update(Flaw(node, absl::StrCat("writes where '", nodes_[std::max(0, segment.content.value.node)].name,
                                            "' has written, without waiting for it")));
    }
    for (const auto& [read, reader] : segment.reads) {
      if (!Before(read, moment)) {
        status.Update(
            Flaw(node, absl::StrCat("writes what '", nodes_[reader].name, "' reads, without waiting for it")));
      }
    }
  });
  RETURN_IF_ERROR(status);
  history.Write(place.range, content, moment);
  return absl::OkStatus();
}

// The host reads them when all streams are done.
absl::Status Verifier::CheckFetches() {
  for (const Value& fetch : program_.fetches) {
    RETURN_IF_ERROR(Read(fetch.node, fetch, /*fetch=*/true, {}));
    ++certificate_.fetches;
  }
  return absl::OkStatus();
}

}  // namespace

std::string PlanCertificate::ToText() const {
  const auto verb = [](int64_t count, absl::string_view one, absl::string_view more) {
    return count == 1 ? one : more;
  };
  const std::string averages =
      averaged < 0 ? "averages were not checked, as a node of several outputs is fed"
                   : absl::StrCat(Counted(averaged, "update"), verb(averaged, " of a trained variable has its averages",
                                                                    " of trained variables have their averages"));
  return absl::StrCat("Verified: ", Counted(nodes, "node"), " on ", Counted(streams, "stream"), " with ",
                      Counted(waits, "wait"), "; ", Counted(reads, "read"), verb(reads, " sees", " see"),
                      " what the program says, and ", Counted(writes, "write"), verb(writes, " waits", " wait"),
                      " for what was there; ", Counted(collectives, "collective"), " of ", Counted(ranks, "rank"),
                      verb(collectives, " meets", " meet"), " in one order; ", averages, "; ",
                      Counted(fetches, "result"), verb(fetches, " stays", " stay"), " to the end.");
}

absl::StatusOr<PlanCertificate> VerifyPlan(const Plan& plan) { return Verifier(plan).Run(); }

}  // namespace belfry
