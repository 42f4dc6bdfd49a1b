#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "framework/collective/gpu_module.h"

namespace belfry {
namespace {

// A rank whose memory the participant's device cannot access.
struct FarRank {
  int rank = 0;
  std::byte* data = nullptr;  // the participant's copy of the rank's elements in its slice
  float* weight = nullptr;    // the participant's copy of the rank's weight
};

// One participant's share of the work: the table for its kernel, and the copies to make before and after.
struct Share {
  std::vector<FarRank> far;
  DeviceMemory scratch, table;

  RankEntry* entries() const { return static_cast<RankEntry*>(table.data()); }
};

std::byte* SliceOf(const CollectiveSpec& spec, const CollectivePart& part, int rank) {
  return static_cast<std::byte*>(spec.ranks[rank].data) + part.begin * SizeOf(spec.dtype);
}

absl::StatusOr<Share> MakeShare(const CollectiveSpec& spec, int participant) {
  Device& device = *spec.participants[participant];
  const CollectivePart part = PartOf(spec, participant);
  const size_t bytes = static_cast<size_t>(part.end - part.begin) * SizeOf(spec.dtype);
  const size_t piece = AlignUp(bytes) + kAlignment;
  const int ranks = static_cast<int>(spec.ranks.size());
  const GpuCollectives& gpus = CollectivesOnGpus();
  Share share;
  for (int r = 0; r < ranks && bytes > 0; ++r) {
    if (!gpus.reaches(device, *spec.participants[spec.ranks[r].participant])) share.far.push_back({.rank = r});
  }
  ASSIGN_OR_RETURN(share.scratch, DeviceMemory::Allocate(device, share.far.size() * piece));
  auto* at = static_cast<std::byte*>(share.scratch.data());
  for (FarRank& far : share.far) {
    far.data = at;
    far.weight = reinterpret_cast<float*>(at + AlignUp(bytes));
    at += piece;
  }
  ASSIGN_OR_RETURN(share.table, DeviceMemory::Allocate(device, (spec.ranks.size() + 1) * sizeof(RankEntry)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device.NewStream(StreamKind::kCollective));
  size_t next = 0;
  for (int r = 0; r < ranks; ++r) {
    const bool far = next < share.far.size() && share.far[next].rank == r;
    void* const data = far ? share.far[next].data : SliceOf(spec, part, r);
    const float* const weight = far ? share.far[next].weight : spec.ranks[r].weight;
    if (far) ++next;
    RETURN_IF_ERROR(gpus.write_entry(*stream, share.entries() + r, data, weight));
  }
  RETURN_IF_ERROR(gpus.write_entry(*stream, share.entries() + ranks, nullptr, nullptr));
  RETURN_IF_ERROR(stream->Synchronize());
  return share;
}

absl::Status RunShare(const CollectiveSpec& spec, const CollectivePart& part, const Share& share, Stream& stream) {
  const bool broadcast = spec.kind == CollectiveKind::kBroadcast;
  const Device& here = *spec.participants[part.participant];
  const size_t bytes = static_cast<size_t>(part.end - part.begin) * SizeOf(spec.dtype);
  if (bytes == 0) return absl::OkStatus();
  for (const FarRank& far : share.far) {
    const Device& there = *spec.participants[spec.ranks[far.rank].participant];
    if (broadcast && far.rank > 0) break;
    RETURN_IF_ERROR(stream.Copy(far.data, here, SliceOf(spec, part, far.rank), there, bytes));
    if (spec.kind != CollectiveKind::kMean) continue;
    RETURN_IF_ERROR(stream.Copy(far.weight, here, spec.ranks[far.rank].weight, there, sizeof(float)));
  }
  RETURN_IF_ERROR(CollectivesOnGpus().reduce_entries(stream, spec.kind, spec.dtype, share.entries(),
                                                     static_cast<int>(spec.ranks.size()), part.end - part.begin));
  for (const FarRank& far : share.far) {
    const Device& there = *spec.participants[spec.ranks[far.rank].participant];
    if (broadcast && far.rank == 0) continue;
    RETURN_IF_ERROR(stream.Copy(SliceOf(spec, part, far.rank), there, far.data, here, bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CollectiveSlice> MakeGpuSlice(const CollectiveSpec& spec) {
  auto shares = std::make_shared<std::vector<Share>>();
  for (size_t p = 0; p < spec.participants.size(); ++p) {
    ASSIGN_OR_RETURN(Share share, MakeShare(spec, static_cast<int>(p)));
    shares->push_back(std::move(share));
  }
  return [shares](const CollectiveSpec& of, const CollectivePart& part, Stream& stream) {
    return RunShare(of, part, (*shares)[part.participant], stream);
  };
}

}  // namespace belfry
