// Messages between the processes of a world.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace belfry {

// Bytes sent to and received from other processes at the same time, in fixed places. Transfers between two processes
// arrive in the order in which they stand here, and both sides must agree on their number and sizes. A size may be any:
// MPI takes no message of more than 2 GiB, so longer ones go in pieces.
struct Transfers {
  // `bytes` must stay where they are, and the first of them must not change while an exchange runs.
  void Send(int to, absl::Span<const char> bytes);
  void Receive(int from, absl::Span<char> bytes);

  // Cuts what is longer than `longest` bytes into pieces; both sides of a transfer cut alike. Once it has done so, it
  // changes nothing.
  void Cut(size_t longest);

  struct Transfer {
    int process = 0;
    char* data = nullptr;
    size_t size = 0;
    int request = -1;  // of MpiApi, while it is under way
  };
  std::vector<Transfer> sends, receives;
};

}  // namespace belfry
