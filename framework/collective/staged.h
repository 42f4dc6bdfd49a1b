// Collectives of GPUs that work in host memory.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "framework/collective/collective.h"

namespace belfry {

// A collective among GPUs for which `on_hosts` makes one among as many CPU devices. Each participant copies the data
// and weights of its ranks to page-locked host memory on its stream, waits for the stream, runs the collective of the
// CPU devices, and copies the result back on its stream. So the bits are as on CPU devices. The thread of a
// participant stays in Run until its GPU has come here and the host has the result: this is for comparing bits, and for
// GPUs that NCCL cannot serve, not for speed.
//
// Even while it waits for the stream, Run ends at its deadline and after Cancel; an error of the stream's work is
// returned before any data is handed on. Unlike other collectives of GPUs, this one returns InvalidArgument if all
// weights of a mean are zero. It cannot be captured. Errors: InvalidArgument unless all participants are GPUs;
// ResourceExhausted; those of `on_hosts`, which is called once.
absl::StatusOr<std::unique_ptr<Collective>> MakeStagedCollective(CollectiveSpec spec,
                                                                 const CollectiveFactory& on_hosts);

}  // namespace belfry
